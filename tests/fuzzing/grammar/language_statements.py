"""Statements of the whole language: assignments, containers, objects; then control flow and functions."""

from __future__ import annotations

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
