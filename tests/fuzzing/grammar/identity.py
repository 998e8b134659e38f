"""Which object is which: `id`, `is`, sets and dicts of tensors, partials, weak references, finalizers."""

from __future__ import annotations

from .area import catalogue, table
from .language import LANGUAGE

HEADER = """
import collections, enum, weakref

class Node:
    def __init__(self, name, value=None):
        self.name, self.value = name, value

class Ending:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        LOG.append(('end', self.name))

class Equal:
    def __init__(self, n):
        self.n = n
    def __eq__(self, other):
        return isinstance(other, Equal) and self.n == other.n
    def __hash__(self):
        return hash(self.n % 2)

class Index:
    def __init__(self, n):
        self.n = n
    def __index__(self):
        return self.n
    def __len__(self):
        return 2
    def __getitem__(self, k):
        return [self.n, 0][k]

class Color(enum.Enum):
    RED = 1
    BLUE = 2

class Bits(enum.IntFlag):
    A = 1
    B = 2

def scaled(x, by=1, *, plus=0):
    return x * by + plus

nodes = [Node('a'), Node('b'), Node('c')]
chosen = nodes[0]
known = {id(nodes[0]): 'first', id(nodes[1]): 'second'}
tensors = [torch.ones(3), torch.zeros(3), torch.full((3,), 0.5)]
table2 = {tensors[0]: 1, tensors[1]: 2}
members = {tensors[0], tensors[1]}
part = functools.partial(scaled, by=2)
part.note = 'part'
nan = float('nan')
numbers = {nan: 1, 0.0: 2, 1: 3, True: 4, (1, 2): 5, Equal(1): 6, Color.RED: 7}
ref = weakref.ref(nodes[0])
cache = weakref.WeakKeyDictionary({nodes[0]: 1})
memo = {}
z = complex(0.0, -0.0)
"""
EXPRESSIONS = {
    "I": table("""
        table2.get(<t>, 7)
        len(members | {<t>})
        len({id(<t>), id(<t>)})
        len({<t>, <t>})
        numbers.get(<I>, 0)
        numbers.get(nan)
        len({Equal(<I>), Equal(<I>), 1})
        [1, 2, 3][Index(<I> % 3)]
        chosen.value or 0
        tensors.index(tensors[0]) if tensors[0] is tensors[0] else 9
        next((n for n, x in enumerate(tensors) if x is <t>), 5)
        len(part.args) + len(part.keywords)
        list(numbers).index(1)
        Bits(<I> % 4).value
        len(cache)
        sum(x is chosen for x in nodes)
        memo.get(id(<t>), 0)
        hash(Equal(<I>)) % 3
        hash((1, <S>)) == hash((1, <S>))
    """),
    "B": table("""
        2*  <t> is <t>
        <t> in members
        any(<t> is x for x in tensors)
        <t> in table2
        id(<t>) == id(<t>)
        id(chosen) in known
        known.get(id(chosen)) == 'first'
        chosen in nodes
        chosen is nodes[0]
        nodes[0] == nodes[0]
        ref() is chosen
        ref() is None
        nan in [nan]
        nan == nan
        float('nan') in [nan]
        Color.RED is Color(1)
        Color(<I> % 2 + 1) in {Color.RED}
        Bits.A in Bits(<I> % 4)
        part.func is scaled
        hasattr(part, 'note')
        z == 0
        str(z) == '-0j'
        math.copysign(1, z.imag) < 0
        <t>.data_ptr() == <t>.data_ptr()
        <t> is not None and <t> is not <t>
        [] is []
        () is ()
        (<t>,) == (<t>,)
        [<i>, <t>][0] == <i>
        isinstance(chosen, Node)
        chosen in cache
        <t>._base is None
        <t>.untyped_storage().data_ptr() == <t>.untyped_storage().data_ptr()
    """),
    "T": table("""
        part(<T>)
        functools.partial(part, plus=<I>)(<T>)
        functools.partial(scaled, <T>)()
        tensors[<I> % 3]
        max(table2, key=table2.get)
        next(iter(table2))
        <T>.detach()
        <T>.view(3)
        <T>[:]
        torch.tensor([<F>, Index(2).__index__(), 1.0])
        z.real + <T>
        (z * <T>.to(torch.complex64)).real
    """),
    "S": [
        "known.get(id(chosen), 'unknown')",
        "chosen.name",
        "getattr(part, 'note', 'none')",
        "str(z)",
        "Color(<I> % 2 + 1).name",
    ],
}
STATEMENTS = """
## 3 assignment of a bool
LOG.append(<B>)
## 2 assignment of a number
LOG.append(<I>)
## assignment
<+T> = <T>
## alias
<+T1> = <t>
LOG.append(<t1> is <t>)
## set grows
members.add(<t>)
LOG.append(len(members) > 2)
## key
table2[<t>] = <I>
## memo
memo[id(<t>)] = <I>
## seen
<+X1> = set()
for <+T2> in [<t>, <t>, <t>]:
    if <t2> in <x1>:
        LOG.append('again')
    <x1>.add(<t2>)
## seen by id
<+X1> = set()
for <+T2> in [<t>, <t>, *tensors]:
    LOG.append(id(<t2>) in <x1>)
    <x1>.add(id(<t2>))
## choice
chosen = nodes[<I> % 3]
## node
<+X1> = Node(<S>, <I>)
LOG.append((<x1> in nodes, <x1> is chosen, id(<x1>) == id(chosen)))
## finalizer
<+X1> = Ending(<S>)
del <x1>
LOG.append(<I>)
## finalizers
<+X1>, <+X2> = Ending('one'), Ending('two')
<x1> = None
...
## finalizer in a list
<+X1> = [Ending(<I>), Ending('b')]
<x1>.pop(0)
<x1>.clear()
LOG.append('cleared')
## finalizer of a temporary
Ending(<S>)
## weak reference
<+X1> = Node(<S>)
<+X2> = weakref.ref(<x1>)
LOG.append(<x2>() is <x1>)
del <x1>
LOG.append(<x2>() is None)
## weak reference to a tensor
<+T1> = <T> + 1
<+X2> = weakref.ref(<t1>)
LOG.append(<x2>() is <t1>)
## partial attribute
part.note = <S>
LOG.append(part.note)
## new partial
<+X1> = functools.partial(scaled, by=<I>)
<x1>.tag = <S>
LOG.append((<x1>.tag, <x1>.keywords))
## note
note(<t>)
## branch
if <B>:
    ...
## equal keys
numbers[Equal(<I>)] = <I>
LOG.append(len(numbers))
## popped
LOG.append(numbers.pop(<I>, None))
## set of pairs
LOG.append(len({(<S>, <I>), (<S>, <I>)}))
## counter
LOG.append(sorted(collections.Counter([<I>, <I>, <I>]).items()))
## identity of results
<+T1>, <+T2> = <T>, <T>
LOG.append((<t1> is <t2>, <t1> is t, <t2> is u))
"""
EDITS = """
## another node
chosen = nodes[1]
## a new node
chosen = Node('new')
## nodes replaced
nodes[0] = Node('other')
## known grows
known[id(chosen)] = 'chosen'
## known emptied
known.clear()
## another partial
part = functools.partial(scaled, by=3)
## partial's attribute
part.note = 'changed'
## partial's attribute gone
part.__dict__.pop('note', None)
## another zero
z = complex(-0.0, 0.0)
## another tensor
tensors[0] = torch.ones(3)
## swapped
tensors[0], tensors[1] = tensors[1], tensors[0]
## members
members.clear()
## value
chosen.value = 3
## nan
nan = float('nan')
## t in the set
members.add(tensors[2])
## an argument in the set
items[0] = tensors[0]
"""
IDENTITY = LANGUAGE.extended(
    "identity",
    header=HEADER,
    statements=catalogue(STATEMENTS),
    expressions=EXPRESSIONS,
    variables={"T": ["tensors[0]", "tensors[1]"]},
    edits=catalogue(EDITS),
    globals=(*LANGUAGE.globals, "chosen", "part", "z", "nan"),
    options=[{"calls": 4}, {"calls": 4}, {"fullgraph": True}],
)
