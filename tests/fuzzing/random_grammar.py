"""What random programs are made of: classes and functions, and a grammar of statements and expressions.

`random_programs.Writer` fills the holes of an entry: `<T>` with an expression of kind T (see KINDS), `<t>`
with a variable of that kind, `<+T>` with a new one, `<=T>` with one that may be assigned, `<:T>` with one
that a walrus may assign, `<*T>` with a parameter or the target of a comprehension. `<t1>` is the same
variable wherever it stands in an entry; `...` is a block. So programs are well typed and mostly run to their
end: tensors have three elements and stay tame, lists are never empty, ints stay small, loops count down.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

KINDS = {
    "T": "tensor of three floats",
    "M": "one that may be changed in place",
    "I": "int",
    "F": "float",
    "B": "bool",
    "C": "condition, maybe on data",
    "L": "list of tensors",
    "N": "list of ints",
    "D": "dict with a tensor at 'a'",
    "K": "key of such a dict",
    "U": "pair of tensor and int",
    "O": "Box, or something like it",
    "G": "function from tensor to tensor",
    "P": "function to int",
    "Q": "function from tensor to float",
    "J": "iterator of tensors",
    "Y": "generator function over a list",
    "S": "str",
    "E": "exception caught",
    "H": "helper function",
    "V": "something that may raise",
    "X": "anything",
    "R": "result",
    "Z": "loop's counter",
}

# ---- classes that programs use; functions with state are in HEADER, for each side has its own


class Box:
    def __init__(self, value: Any, count: int = 0) -> None:
        self.value = value
        self.count = count
        self.items = [value]
        self.link: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.count}, {len(self.items)})"

    def bump(self, by: Any) -> Any:
        self.count += 1
        self.value = torch.tanh(self.value + by)
        return self.value

    @property
    def double(self) -> Any:
        return self.value * 2

    @double.setter
    def double(self, value: Any) -> None:
        self.value = value * 0.5
        self.count -= 1

    @property
    def noisy(self) -> Any:
        self.count += 1
        print("noisy", self.count)
        return self.value - self.count

    def __call__(self, x: Any) -> Any:
        kept = x * 0.5
        print("called", self.count)
        self.items[0] = kept
        return kept + self.value

    def __getitem__(self, key: int) -> Any:
        return self.items[key]

    def __iter__(self) -> Iterator[Any]:
        for n, item in enumerate(self.items[:3]):
            self.count += n
            yield item + n

    def __lt__(self, other: Any) -> bool:
        print("less", self.count, other.count)
        return self.count < other.count

    def __enter__(self) -> Any:
        self.count += 2
        return self

    def __exit__(self, kind: Any, error: Any, where: Any) -> bool:
        print("left", kind and kind.__name__, self.count)
        self.value = self.value + 1
        return False


class Sub(Box):
    def __init__(self, value: Any, count: int = 1) -> None:
        super().__init__(value + 1, count)
        self.extra = count

    def bump(self, by: Any) -> Any:
        before = self.value.sum()
        print("sub", self.count)
        return super().bump(by + before.tanh())


class Slim:
    __slots__ = ("count", "extra", "items", "link", "value")
    __init__, __repr__, bump, double, noisy = Box.__init__, Box.__repr__, Box.bump, Box.double, Box.noisy
    __call__, __getitem__, __iter__, __lt__ = Box.__call__, Box.__getitem__, Box.__iter__, Box.__lt__
    __enter__, __exit__ = Box.__enter__, Box.__exit__


class Pair(NamedTuple):
    value: Any
    count: int


class Carrier(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__("carried")
        self.value = value


class Recorder:
    """A manager that writes down what it sees, and may swallow it."""

    def __init__(self, log: list[Any], name: str, swallow: bool = False) -> None:
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self) -> Any:
        self.log.append(("in", self.name, torch.is_grad_enabled()))
        return self

    def __exit__(self, kind: Any, error: Any, where: Any) -> bool:
        self.log.append(("out", self.name, kind, torch.is_grad_enabled()))
        return self.swallow


HEADER = """
import contextlib, copy, functools, math, random, sys
import torch
import framelift

TOTAL = 1
BIAS = torch.tensor([0.5, -0.25, 1.0])
NUMS = [3, 1, 2]
TABLE = {'a': torch.ones(3), 'b': torch.zeros(3)}
LOG = []

@framelift.disable
def note(x):
    LOG.append(x)
    return x

@framelift.disable
def peek(box):
    LOG.append((box.count, len(box.items), box.value.tolist()))
    return box

@framelift.disable
def poke(box):
    box.count += 1
    box.value = (box.value + 1).tanh()
    box.items.append(box.value)
    return box

@framelift.disable
def stir(x):
    LOG.append(x.tolist())
    return x.mul_(0.5)

@framelift.disable
def call(fn, *args):
    result = fn(*args)
    LOG.append(result)
    return result

@framelift.disable
def risky(n):
    if n % 2:
        raise ValueError('odd', n)
    return n

def say(x):
    print('say', x if isinstance(x, (int, float, str)) else type(x).__name__)
    return x

def calm(x):
    return x

def deep(x):
    global TOTAL
    TOTAL = (TOTAL + 1) % 5
    kept = [x]
    result = deeper(x, TOTAL % 3)
    return kept[0] if TOTAL else result

def deeper(x, depth):
    try:
        return deeper(x, depth - 1) if depth > 0 else note(x)
    finally:
        LOG.append(depth)

def tick():
    global TOTAL
    TOTAL = (TOTAL + 2) % 9
    return TOTAL

def double(x, by=2):
    return torch.tanh(x * by)

def make_fn():
    calls = 0
    def fn(x):
        nonlocal calls
        calls += 1
        return x.tanh() + calls % 3
    return fn

def loud(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        print('loud', fn.__name__)
        return fn(*args, **kwargs) * 0.5
    return wrapper

def trickle(items):
    for n, item in enumerate(items[:3]):
        print('trickle', n)
        yield item.tanh() + n
    LOG.append('trickled')

def opened(x):
    try:
        yield x
    finally:
        LOG.append('closed')

@contextlib.contextmanager
def recording(name):
    before = TOTAL
    print('enter', name)
    try:
        yield before
    except KeyError as error:
        LOG.append(error.args)
    finally:
        print('exit', name, TOTAL)

def choose(first, *rest, at=0, **options):
    return (first, *rest)[at % (len(rest) + 1)] + len(options)
"""
GLOBALS = ("TOTAL", "BIAS", "NUMS", "TABLE", "LOG")
PARAMETERS = "t, u, w, n, x, flag, word, items, nums, table, pair, box, other, fn"

# Kind -> the variables that there are at the start.
IN_PROGRAM = {
    "T": ["t", "u", "w", "box.value", "table['a']", "items[0]", "BIAS"],
    "M": ["t", "u", "BIAS"],
    "I": ["n", "box.count", "nums[0]", "TOTAL"],
    "F": ["x"],
    "B": ["flag"],
    "S": ["word"],
    "L": ["items", "box.items"],
    "N": ["nums", "NUMS"],
    "D": ["table", "TABLE"],
    "U": ["pair"],
    "O": ["box", "other"],
    "G": ["fn", "double"],
    "P": ["tick"],
    "Y": ["trickle"],
}
IN_HELPER = {
    "T": ["t", "box.value", "BIAS"],
    "M": ["t", "BIAS"],
    "I": ["n", "box.count", "TOTAL"],
    "L": ["items", "box.items"],
    "N": ["NUMS"],
    "D": ["TABLE"],
    "U": ["(t, n)"],
    "O": ["box"],
    "G": ["double"],
    "P": ["tick"],
    "Y": ["trickle"],
}

# ---- the grammar


def table(text: str) -> list[str]:
    """One entry a line; `3 * entry` counts three times."""
    entries: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        weight, _, entry = line.rpartition("*  ")
        entries += [entry] * int(weight or 1)
    return entries


EXPRESSIONS = {
    "T": table("""
        6*  <t>
        3*  <T> + <T>
        2*  (<T> * <T>).tanh()
        <T> - <F>
        torch.tanh(<T> * <I>)
        <T>.clamp(-2, 2)
        torch.where(<T> > 0, <T>, <T>)
        torch.stack([<T>, <T>]).mean(0)
        torch.stack(<l>[:3]).sum(0).tanh()
        torch.cat([<T>, <T>])[:3]
        2*  <T> if <C> else <T>
        2*  <g>(<T>)
        4*  <h>(<T>, <I>, items=<l>, box=<o>)
        <h>(*[<T>], **{'items': <l>, 'box': <o>})
        <l>[0]
        <l1>[<I> % len(<l1>)]
        <d>['a']
        <d>.get(<K>, <T>)
        {'x': <T>, **<d>}['x']
        <O>.value
        <o>.double
        <o>.noisy
        <o>.bump(<T>)
        <o>(<T>)
        <o>[0]
        <U>[0]
        next(<j>, <T>)
        next(<J>)
        (<G>)(<T>)
        sum([<T> for <*T> in <l>[:3]]).tanh()
        sum(<J>, <T>).tanh()
        max(<l>[:3], key=<Q>)
        functools.reduce(lambda <*T1>, <*T2>: <t1> - <T> * 0.5 + <t2>, <l>[:3])
        functools.partial(double, by=<I>)(<T>)
        (<:T> := <T>)
        call(<g>, <T>)
        call(lambda: <T>)
        stir(<m>)
        <m>.add_(<F>)
        torch.full((3,), <F>)
        torch.tensor([<F>, 1.0, <F>])
        torch.rand(3)
        -<T>
        BIAS * <T>.tanh()
        [<T>, <T>][<I> % 2]
        (<T>, <T>)[<B>]
        choose(<T>, *<l>[:2], at=<I>)
        choose(<T>, <T>, **{'at': <I>, 'k': <S>})
        <T>.detach()
        <T> * <T>.sum().tanh()
        <e1>.value if isinstance(<e1>, Carrier) else <T>
    """),
    "I": table("""
        4*  <i>
        2*  (<I> + <I>) % 7
        <I> * 2 % 5
        len(<l>)
        <o>.count
        <U>[1]
        2*  int(<T>.sum().item()) % 5
        int(<T>[0]) % 3
        <n1>[<I> % len(<n1>)]
        2*  <p>()
        <I> if <C> else <I>
        min(<I>, <I>)
        sum(<N>) % 7
        abs(<I> - <I>) % 6
        (<:I> := <I>)
        round(<F>) % 5
        len([<i1> for <*I1> in <n> if <C>])
        int(bool(<C>))
        <I> and <I>
        <I> or <I>
        max(<n>[:3], key=lambda <*I>: <I>)
        len(<S>)
        len(LOG) % 5
        len(locals()) % 4
    """),
    "F": table("""
        3*  <f>
        <T>.sum().item()
        <T>.mean().item()
        float(<T>[1])
        <T>.tolist()[0]
        float(<I>)
        <F> * 0.5
        random.random()
        min(<F>, 2.0)
        round(<F>, 2)
        (<F> + <F>) / 2
        math.tanh(<F>)
        <F> if <C> else <F>
        <F> / (<I> % 3 + 1)
    """),
    "B": table("""
        2*  <b>
        3*  <I> > <I>
        <I> < <I> <= <I>
        <I> == <I> != <I>
        <F> < <F>
        not <C>
        <K> in <d>
        len(<l>) > 2
        <o> is <o>
        <o>.link is None
        isinstance(<O>, Sub)
        bool(<T>.sum() > 0)
        <I> in {1, 2, <I>}
        <I> in <n>
        hasattr(<o>, 'extra')
        torch.is_grad_enabled()
        <T>.requires_grad
        <S> == <S>
        any(<C> for <*T> in <l>[:3])
        all([<C> for <*I> in <n>[:3]])
    """),
    "C": table("""
        4*  <B>
        3*  <T>.sum() > <F>
        <T>.mean() < <T>.sum()
        (<T> > 0).any()
        torch.equal(<T>, <T>)
        <B> and <C>
        <B> or <C>
        <C> and <C>
        not <T>.sum() > 0
        <F> < <T>.sum() < <F>
        <N>
        <I>
    """),
    "L": table("""
        3*  <l>
        2*  [<T>, <T>]
        [<T> for <*T> in <l>[:3]]
        [<t1> for <*T1> in <l>[:4] if <C>] + [<T>]
        [<T> for <*T>, <*I> in zip(<l>[:3], <n>[:3])]
        [<T> for <*I> in range(2) for <*T> in <l>[:2] if <C>] + [<T>]
        list(<d>.values())
        <l>[:2]
        sorted(<l>[:4], key=<Q>)
        <o>.items
        [*<l>[:2], <T>]
        list(<J>) + [<T>]
        list(map(<g>, <l>[:2]))
        [<T>] + [<T> for _ in range(2)]
        list(<l>[:3])[::-1]
    """),
    "N": table("""
        3*  <n>
        [<I>, <I>]
        sorted(<n>)[:4]
        [<I> for <*I> in range(3)]
        [<I> for <*I> in <n>[:3]]
        [len(<S>), *<n>[:2]]
        [<i1> for <*I1> in <n>[:4] if <C>] or [<I>]
    """),
    "D": table("""
        2*  <d>
        {'a': <T>, 'b': <T>}
        dict(<d>, b=<T>)
        {**<d>, <K>: <T>}
        {<*S1>: <T> for <*S1>, <*T> in <d>.items()}
        <d> | {<K>: <T>}
    """),
    "K": ["'a'", "'b'", "'c'", "'d'"],
    "U": table("""
        2*  (<T>, <I>)
        <u>
        Pair(<T>, <I>)
        (lambda *args: args)(<T>, <I>)
    """),
    "O": table("""
        3*  <o>
        Box(<T>, <I>)
        Sub(<T>)
        Slim(<T>, count=<I>)
        peek(<o>)
        poke(<o>)
        <o1>.link or <o1>
        copy.copy(<o>)
        min(<o>, <O>)
        sorted([<o>, <o>, <o>])[1]
    """),
    "G": table("""
        2*  <g>
        2*  lambda <*T>: <T>
        lambda <*T>, <*F>=0.5: <T>
        lambda *args: args[0] + <T>
        <o>.bump
        loud(<g>)
    """),
    "P": ["<p>", "lambda: <I>"],
    "Q": ["lambda <*T>: <F>", "lambda <*T1>: <t1>.sum().item()", "lambda <*T>: len(LOG)"],
    "J": table("""
        iter(<L>[:3])
        2*  (<T> for <*T> in <l>[:3])
        map(<g>, <l>[:2])
        <y>(<l>)
        iter(<o>)
        (<T> for <*T>, <*I> in zip(<l>[:2], <n>[:2]))
    """),
    "S": table("""
        <s>
        str(<I>)
        f"{<i>}-{<f>:.3f}"
        f"{<s>}{note(<i>)}"[-8:]
        f"{say(<i>)!r:>4}"
        f"{<t>.sum():.2f}"
        '%s/%d' % (<S>[-4:], <I>)
        ','.join([str(<I>), <S>[-4:]])
        <s>.upper()
    """),
    "V": table("""
        3*  risky(<I>)
        2*  raise ValueError(<S>, <I>)
        raise KeyError(<I>)
        raise Carrier(<T>)
        <d>['zz']
        <I> // (<I> % 2)
        <l>[99]
        if <C>: raise ValueError('data')
        raise LookupError from ValueError(<I>)
        pass
        call(risky, <I>)
    """),
    "X": ["<T>", "<I>", "<F>", "<S>", "<L>", "<U>", "<O>", "<D>", "None", "<T>"],
    "R": ["<T>", "<I>", "<F>", "<L>", "<N>", "<D>", "<O>", "<U>", "<g>", "<J>", "(<T>, <l>)", "[<X>, <X>]"],
}
CONSTANTS = {"I": ["1", "0", "2", "3"], "F": ["0.5", "1.5"], "B": ["True"], "S": ["'s'"]}
LEAVES = {
    **{kind: [f"<{kind.lower()}>"] for kind in "TMIFBLNDUOGPSE"},
    "C": ["<b>", "<i> > <i>", "<t>.sum() > 0"],
    "K": EXPRESSIONS["K"],
    "Q": ["lambda _: 0.5"],
    "X": ["<t>", "<i>", "<o>"],
    "J": ["iter(<l>[:3])"],
    "V": ["risky(<i>)"],
    "R": ["<t>"],
}
WRAPPERS = ["note(%s)", "say(%s)", "deep(%s)", "calm(%s)"]

STATEMENTS = """
## 4 assignment
<+T> = <T>
## 2 assignment of a number
<+I> = <I>
## assignment of a float
<+F> = <F>
## assignment of a bool
<+B> = <B>
## assignment of a string
<+S> = <S>
## fresh tensor
<+M> = <T> + <F>
## 3 rebinding
<=T> = <T>
## rebinding of a number
<=I> = <I>
## rebinding of a fresh tensor
<=M> = <T> - <F>
## 2 augmented assignment
<=I1> += <I>
<i1> %= 9
## augmented assignment in place
<=M> += <T>
## augmented subscript
<n1>[<I> % len(<n1>)] += <I>
<n1>[0] %= 9
## augmented attribute
<o>.count += len(<S>)
## alias
<+O> = <o>
## list
<+L> = <L>
## list of ints
<+N> = <N>
## dict
<+D> = <D>
## pair
<+U> = <U>
## 2 object
<+O> = <O>
## iterator
<+J> = <J>
## 2 unpacking
<+T>, <+I> = <U>
## swap
<=T1>, <=T2> = <t2>, <t1>
## starred unpacking
<+T>, *<+L> = [<T>, <T>, *<l>[:2]]
## nested unpacking
(<+T>, <+I>), <+F> = <U>, <F>
## chained assignment
<+T> = <o>.value = <T>
## in place
<m>.add_(<T>)
## in place twice
<m>.mul_(0.5).sub_(<F>)
## in place item
<m>[<I> % 3] = <F>
## in place slice
<m>[1:] = (<T> * 0.5)[:2]
## in place through a view
<+M> = <m>[:]
## in place where nobody looks
stir(<m>)
## append
<l>.append(<T>)
## extend
<l>.extend([<T>, <T>])
## extend by an iterator
<l>.extend(<j>)
## insert
<l>.insert(<I> % 2, <T>)
## pop
if len(<l1>) > 2:
    <=T> = <l1>.pop(<I> % 2)
## slice assignment
<l>[:1] = [<T>, <T>]
## slice assignment of ints
<n>[1:3] = [<I>, <I>]
## shorten
del <l>[4:]
## item assignment
<l1>[<I> % len(<l1>)] = <T>
## sort
<l>.sort(key=<Q>)
## sort of ints
<n>.sort(key=lambda n: -n)
## reverse
<l>.reverse()
## dict item
<d>[<K>] = <T>
## dict setdefault
<+T> = <d>.setdefault(<K>, <T>)
## dict update
<d>.update(b=<T>, c=<T>)
## dict pop
<d1>['b'] = <d1>.pop('c', <T>)
## dict del
if 'c' in <d1>:
    del <d1>['c']
## dict union
<=D> |= {<K>: <T>}
## attribute
<o>.value = <T>
## attribute of a list
<o>.items = <L>
## link
<o>.link = <o>
## property
<o>.double = <T>
## extra attribute
setattr(<o>, 'extra', <X>)
## del attribute
if hasattr(<o1>, 'extra'):
    note(<o1>.extra)
    del <o1>.extra
## method
<o>.bump(<T>)
## poke
<+O> = poke(<O>)
## peek
peek(<O>)
## 2 print
print(<S>, <I>)
## print a tensor
print(<T>.tolist())
## note
note(<X>)
## note twice in one expression
<+T> = note(<T>) + say(<T>) * deep(<I>)
## call back
call(<g>, <T>)
## call back for effect
<p>()
## random
<+F> = random.random()
## backward [program]
if torch.is_grad_enabled():
    (w * <T>.detach()).sum().backward()
## global
TOTAL = (TOTAL + <I>) % 9
## global tensor
BIAS = (BIAS + <T>).detach()
## assert
assert <C> or <I> >= 0, <S>
## failing assert
assert <C> or <C>, f"{<i>} failed"
## del
<+T1> = <T>
...
del <t1>
## unbound
<+T1> = <T>
...
del <t1>
try:
    note(<t1>)
except NameError as <+E1>:
    note(<e1>.args)
## maybe unbound
if <C>:
    maybe = <T>
...
try:
    <=T> = maybe
except UnboundLocalError as <+E1>:
    note(<e1>.args)
## 4 if
if <C>:
    ...
## 3 if else
if <C>:
    ...
else:
    ...
## elif
if <B>:
    ...
elif <C>:
    ...
else:
    ...
## either assigns
if <C>:
    <+T1> = <T>
    ...
else:
    <t1> = <T>
    ...
<=T> = <t1> - <T>
## raise
if <C>:
    raise ValueError(<S>, <I>)
## early return
if <C>:
    return <R>
## while
<+Z1> = 3
while <z1> and <C>:
    <z1> -= 1
    ...
## while true
<+Z1> = 0
while True:
    if (<z1> := <z1> + 1) > 3:
        break
    ...
## while else
<+Z1> = <I> % 4
while <z1> > 0:
    <z1> -= 1
    ...
    if <C>:
        break
else:
    ...
## for over a list
for <+T> in <L>[:3]:
    ...
## for over a list that changes
for <+Z1>, <+T> in enumerate(<l>):
    if <z1> > 2:
        break
    ...
## for over enumerate
for <+I>, <+T> in enumerate(<L>[:3], <I>):
    ...
## for over zip
for <+T>, <+I> in zip(<L>, <N>[:3]):
    ...
## for over range
for <+I> in range(<I> % 4):
    ...
## for over items
for <+S>, <+T> in list(<d>.items())[:3]:
    ...
## for over live items
for <+S>, <+T> in <d>.items():
    ...
## for over an iterator
for <+T> in <J>:
    ...
## for over an object
for <+T> in <o>:
    ...
## for with an attribute as target
for <o>.count in range(3):
    ...
## for else
for <+T> in <L>[:3]:
    ...
    if <C>:
        break
else:
    ...
## iterator shared by two loops
<+J1> = <J>
for <+T> in <j1>:
    ...
    break
for <+T> in <j1>:
    ...
## break [loop]
if <C>:
    break
## continue [loop]
if <C>:
    continue
## break out of try [loop]
try:
    if <C>:
        break
    ...
finally:
    ...
## continue out of with [loop]
with recording(<S>) as <+I>:
    if <C>:
        continue
    ...
## 2 try
try:
    ...
    <V>
except Exception as <+E>:
    ...
## try with kinds
try:
    <V>
    ...
except (ValueError, Carrier) as <+E>:
    ...
except LookupError:
    ...
except ArithmeticError:
    ...
## try else
try:
    <V>
except Exception:
    ...
else:
    ...
## try finally
try:
    ...
finally:
    ...
## try except else finally
try:
    <V>
except Exception as <+E>:
    ...
else:
    ...
finally:
    ...
## error through finally
try:
    try:
        ...
        <V>
    finally:
        ...
except Exception as <+E1>:
    note(<e1>.args)
## raise from
try:
    try:
        <V>
    except Exception as <+E1>:
        ...
        raise RuntimeError(<S>) from <e1>
except RuntimeError as <+E2>:
    note((repr(<e2>.__cause__.args[:1]), <e2>.__context__ is <e2>.__cause__))
    ...
## raise in a handler
try:
    try:
        <V>
    except Exception:
        ...
        raise KeyError(<I>)
except KeyError as <+E1>:
    note(type(<e1>.__context__))
## raise again
try:
    try:
        <V>
    except Exception:
        ...
        raise
except Exception as <+E1>:
    note(<e1>.args)
## handled error [handler]
note(sys.exc_info()[0])
## caught error
note((type(<e>), <e>.args))
## return through finally
try:
    if <C>:
        return <R>
    ...
finally:
    ...
## return from a handler
try:
    <V>
except Exception:
    if <C>:
        return <R>
    ...
## return through with
with Recorder(LOG, <S>):
    ...
    if <C>:
        return <R>
## exception group
try:
    raise ExceptionGroup(<S>, [ValueError(<I>), KeyError(<I>)])
except* ValueError as <+E1>:
    note(<e1>.exceptions[0].args)
except* LookupError:
    <=I> = <I>
## 2 no_grad
with torch.no_grad():
    ...
## enable_grad
with torch.enable_grad():
    ...
## set_grad_enabled
with torch.set_grad_enabled(<B>):
    ...
## with a recorder
with Recorder(LOG, <S>):
    ...
## with a recorder that swallows
with Recorder(LOG, <S>, swallow=True):
    ...
    <V>
    ...
## with a generator
with recording(<S>) as <+I>:
    ...
## with suppress
with contextlib.suppress(ValueError, LookupError, ArithmeticError):
    ...
    <V>
    ...
## with an object
with <O> as <+O>:
    ...
## with two
with torch.no_grad(), recording(<S>) as <+I>:
    ...
## with an exit stack
with contextlib.ExitStack() as stack:
    stack.callback(note, <I>)
    stack.enter_context(torch.no_grad())
    ...
## 3 closure
def <+G>(<*T>, <*F>=note(0.5)):
    ...
    return <T>
## closure with a star
def <+G>(*args, **options):
    <+L> = list(args)
    ...
    return args[0] + <T>
## decorated closure
@loud
def <+G>(<*T>):
    ...
    return <T>
## counter
<+I1> = <I>
def <+P>():
    nonlocal <i1>
    <i1> = (<i1> + <I>) % 9
    ...
    return <i1>
## recursive closure
def <+G1>(<*T1>, depth=2):
    ...
    return <g1>(<t1> * 0.5, depth - 1) if depth > 0 else <T>
## lambda
<+G> = <G>
## import
import math as maths
<+F> = maths.tanh(<F>)
## function to int
<+P> = lambda: <I>
## generator function
def <+Y>(<*L1>):
    ...
    for <+T> in <l1>[:3]:
        ...
        yield <T>
## generator function with try
def <+Y>(<*L1>):
    try:
        for <+T> in <l1>[:3]:
            yield <T>
            ...
    except Exception as <+E1>:
        note(<e1>.args)
        yield <T>
    else:
        note(<I>)
## delegating generator function
def <+Y>(<*L>):
    yield <T>
    yield from <y>(<L>)
    ...
## loop left early
for <+T> in <y>(<l>):
    if <C>:
        break
    ...
## local class
class Local:
    scale = <I>
    def apply(self, <*T>):
        self.scale += 1
        ...
        return <T> * 0.5
<+T> = Local().apply(<T>) + Local.scale
## match a number
match <I>:
    case 0:
        ...
    case 1 | 2:
        ...
    case <+I> if <C>:
        ...
    case _:
        ...
## match a pair
match <U>:
    case (<+T>, 0):
        ...
    case (_, <+I>) if <C>:
        ...
    case _:
        ...
## match a dict
match <D>:
    case {'c': <+T>}:
        ...
    case {'a': <+T>, 'b': <+T>, **rest}:
        ...
## match an object
match <O>:
    case Sub(value=<+T>):
        ...
    case Box(count=0 | 1) | Slim():
        ...
    case _:
        ...
"""
