"""Operators over functions (cond, while_loop, vmap, grad, checkpoint), and trees of values through them."""

from __future__ import annotations

from .area import catalogue, table
from .language import LANGUAGE

HEADER = """
import collections, dataclasses
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

@dataclasses.dataclass
class Data:
    value: object
    count: int = 0
    more: list = dataclasses.field(default_factory=list)

@dataclasses.dataclass(frozen=True)
class Frozen:
    value: object
    count: int = 0

Point = collections.namedtuple('Point', 'a b')

def plain_cond(pred, true_fn, false_fn, operands):
    return (true_fn if pred else false_fn)(*operands)

def plain_while(cond_fn, body_fn, carried):
    for _ in range(100):  # a program that is made small may have lost its end
        if not cond_fn(*carried):
            return carried
        carried = body_fn(*carried)
    raise RecursionError

# eagerly torch would compile them with another compiler
cond = plain_cond if PLAINLY else torch.cond
while_loop = plain_while if PLAINLY else torch._higher_order_ops.while_loop

def step(d):
    return ({'i': d['i'] + 1, 'x': d['x'] * 0.5},)

def square(x):
    return x * x

def scalar(x):
    return (x * x).sum()

def block(x, y):
    LOG.append('block')
    return torch.sin(x) * y

def fn_true(x):
    return x + 1

def fn_false(x):
    return x - 1

data = Data(torch.ones(3), 1)
tree = {'a': torch.ones(3), 'b': [torch.zeros(3), (torch.full((3,), 2.0), 3)]}
ordered = collections.OrderedDict(a=torch.ones(3), b=torch.zeros(3))
queue = collections.deque([torch.ones(3), torch.zeros(3)], maxlen=3)
defaults = collections.defaultdict(list, a=[torch.ones(3)])
"""
EXPRESSIONS = {
    "T": table("""
        2*  cond(<T>.sum() > 0, fn_true, fn_false, (<T>,))
        cond(<B>, fn_true, fn_false, (<T>,))
        cond(<T>.sum() > <F>, lambda x: x * 2, lambda x: x - 1, (<T>,))
        torch.vmap(square)(<T>)
        torch.vmap(lambda x: x * <I>)(<T>)
        torch.vmap(scalar)(torch.stack([<T>, <T>])).sum() + <T>
        torch.func.grad(scalar)(<T>.detach())
        torch.func.vjp(square, <T>.detach())[0]
        torch.func.jacrev(square)(<T>.detach()).sum(0)
        torch.func.jvp(square, (<T>.detach(),), (torch.ones(3),))[1]
        checkpoint(block, <T>, <T>, use_reentrant=False)
        checkpoint(lambda a: a.tanh() * <I>, <T>, use_reentrant=False)
        pytree.tree_map(lambda x: x * 2 if torch.is_tensor(x) else x, tree)['a'] + <T>
        pytree.tree_leaves(tree)[0] * <T>
        data.value + <T>
        Point(<T>, <I>).a
        Point(a=<T>, b=<T>)._replace(a=<T>).a
        dataclasses.replace(data, value=<T>).value
        Frozen(<T>).value
        ordered['a'] * <T>
        queue[0] + <T>
        next(iter(ordered.values()))
        defaults['a'][0] + <T>
        torch.stack(list(queue)[:2]).sum(0)
        {**ordered, 'a': <T>}['a']
    """),
    "I": ["len(queue)", "len(ordered)", "data.count", "len(defaults)", "len(pytree.tree_leaves(tree))"],
    "B": [
        "'zz' in defaults",
        "Frozen(<i>) == Frozen(<i>)",
        "data == data",
        "list(ordered) == ['a', 'b']",
        "isinstance(Point(1, 2), tuple)",
    ],
    "X": [
        "Point(<T>, <I>)",
        "Data(<T>, <I>)",
        "Frozen(<T>)",
        "collections.OrderedDict(a=<T>)",
        "dict(ordered)",
        "data",
    ],
    "R": [
        "Point(<T>, <I>)",
        "Data(<T>, <I>, [<T>])",
        "Frozen(<T>, <I>)",
        "collections.OrderedDict(b=<T>, a=<I>)",
        "collections.deque([<T>], maxlen=2)",
        "collections.defaultdict(list, {'a': [<T>]})",
        "pytree.tree_map(lambda x: x, tree)",
        "collections.Counter('abca')",
        "frozenset([<I>, <I>])",
        "{<I>, <I>}",
        "dataclasses.astuple(data)",
        "cond(<T>.sum() > 0, lambda x: {'a': x + 1}, lambda x: {'a': x - 1}, (<T>,))",
        "cond(<T>.sum() > 0, lambda x: (x.clone(), x * 2), lambda x: (x + 1, x * 3), (<T>,))",
        "while_loop(lambda d: d['i'] < 3, step, ({'i': torch.tensor(0), 'x': <T>},))",
        "while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 0.5), (torch.tensor(0), <T>))",
        "while_loop(lambda a: a[0] < 2, lambda a: ((a[0] + 1, a[1] - 1),), ((torch.tensor(0), <T>),))",
        "torch.func.grad_and_value(scalar)(<T>.detach())",
        "torch.vmap(lambda x: (x, {'a': x * 2}))(<T>)",
    ],
}
STATEMENTS = """
## 4 assignment
<+T> = <T>
## log
LOG.append(<X>)
## 3 log a result
LOG.append(<R>)
## queue
queue.append(<T>)
## queue from the left
queue.appendleft(<T>)
## rotation
queue.rotate(<I>)
## ordered
ordered.move_to_end('a')
## ordered key
ordered[<K>] = <T>
## default
defaults[<K>].append(<T>)
## data
data.value = <T>
## data count
data.count += <I>
## more
data.more.append(<I>)
## frozen
try:
    Frozen(<T>).value = 1
except dataclasses.FrozenInstanceError as <+E1>:
    LOG.append(<e1>.args)
## tree
tree['b'][0] = <T>
## tree key
tree[<K>] = <T>
## unpack
<+T>, *rest = Point(<T>, <I>)
## match
match Point(<T>, <I>):
    case Point(a=<+T>, b=0):
        ...
    case Point(b=<+I>):
        ...
## match data
match Data(<T>, <I>):
    case Data(value=<+T>, count=1 | 2):
        ...
    case _:
        ...
## note
note(<X>)
"""
EDITS = """
## tree
tree['c'] = torch.ones(3)
## tree without
tree.pop('b', None)
## queue
queue.append(torch.ones(3))
## order
ordered['a'] = ordered.pop('a')
## defaults
defaults['d'] = [torch.zeros(3)]
## data
data.count += 1
## another data
data = Data(torch.zeros(3), 5)
## another branch
fn_true.__code__ = (lambda x: x * 3).__code__
## counts
queue.clear(); queue.append(torch.ones(3))
"""
STRUCTURES = LANGUAGE.extended(
    "structures",
    header=HEADER,
    statements=catalogue(STATEMENTS),
    expressions=EXPRESSIONS,
    edits=catalogue(EDITS),
    globals=(*LANGUAGE.globals, "data"),
    options=[{}, {}, {}, {"backend": "aot_eager"}, {"dynamic": True}, {"fullgraph": True}],
)
