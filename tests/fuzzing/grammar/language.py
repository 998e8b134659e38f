"""The whole language, with calls in the middle of it that can't be captured: what other areas build on."""

from __future__ import annotations

from .area import Area, catalogue
from .language_expressions import CONSTANTS, EXPRESSIONS, LEAVES, WRAPPERS
from .language_statements import STATEMENTS

HEADER = """
import contextlib, copy, functools, math, random, sys, typing
import torch

class Box:
    def __init__(self, value, count=0):
        self.value = value
        self.count = count
        self.items = [value]
        self.link = None

    def __repr__(self):
        return f'{type(self).__name__}({self.count}, {len(self.items)})'

    def bump(self, by):
        self.count += 1
        self.value = torch.tanh(self.value + by)
        return self.value

    @property
    def double(self):
        return self.value * 2

    @double.setter
    def double(self, value):
        self.value = value * 0.5
        self.count -= 1

    @property
    def noisy(self):
        self.count += 1
        print('noisy', self.count)
        return self.value - self.count

    def __call__(self, x):
        kept = x * 0.5
        print('called', self.count)
        self.items[0] = kept
        return kept + self.value

    def __getitem__(self, key):
        return self.items[key]

    def __iter__(self):
        for n, item in enumerate(self.items[:3]):
            self.count += n
            yield item + n

    def __lt__(self, other):
        print('less', self.count, other.count)
        return self.count < other.count

    def __enter__(self):
        self.count += 2
        return self

    def __exit__(self, kind, error, where):
        print('left', kind and kind.__name__, self.count)
        self.value = self.value + 1
        return False

class Sub(Box):
    def __init__(self, value, count=1):
        super().__init__(value + 1, count)
        self.extra = count

    def bump(self, by):
        before = self.value.sum()
        print('sub', self.count)
        return super().bump(by + before.tanh())

class Slim:
    __slots__ = ('count', 'extra', 'items', 'link', 'value')
    __init__, __repr__, bump, double, noisy = Box.__init__, Box.__repr__, Box.bump, Box.double, Box.noisy
    __call__, __getitem__, __iter__, __lt__ = Box.__call__, Box.__getitem__, Box.__iter__, Box.__lt__
    __enter__, __exit__ = Box.__enter__, Box.__exit__

class Pair(typing.NamedTuple):
    value: object
    count: int

class Carrier(Exception):
    def __init__(self, value):
        super().__init__('carried')
        self.value = value

class Recorder:
    'A manager that writes down what it sees, and may swallow it.'

    def __init__(self, log, name, swallow=False):
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self):
        self.log.append(('in', self.name, torch.is_grad_enabled()))
        return self

    def __exit__(self, kind, error, where):
        self.log.append(('out', self.name, kind, torch.is_grad_enabled()))
        return self.swallow

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

items = [torch.tensor([1.0, -2.0, 0.5]), torch.tensor([0.1, 0.2, 0.3])]
nums = [2, 5, 1]
table = {'a': torch.tensor([-1.0, 0.0, 1.0]), 'b': items[0]}
box, other = Box(torch.tensor([0.3, 0.6, -0.9]), 2), Slim(torch.ones(3))
fn = make_fn()
w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
"""

ARGUMENTS = {
    "t": "torch.tensor([[0.5, -1.0, 1.5], [-0.5, -1.0, 0.2], [2.0, 1.0, -0.5]][call % 3])",
    "u": "torch.tensor([[-1.0, 0.5, 0.1], [1.0, 2.0, -0.3], [-0.2, 0.4, 0.8]][call % 3])",
    "w": "w",
    "n": "[2, 2, 3][call % 3]",
    "x": "[0.25, 0.75, 0.25][call % 3]",
    "flag": "call % 3 != 1",
    "word": "'word'",
    "items": "items",
    "nums": "nums",
    "table": "table",
    "pair": "(u, n)",
    "box": "box",
    "other": "other",
    "fn": "fn",
}

# Kind -> the variables that there are at the start.
VARIABLES = {
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
HELPER_VARIABLES = {
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

EDITS = """
## things that were apart are one
box.items = items
## a tensor of the program in a table
table['a'] = items[0]
## another number
box.count = 3
## another tensor
BIAS = torch.tensor([0.25, 0.25, 0.5])
## a list of numbers
NUMS.append(4)
"""

LANGUAGE = Area(
    "language",
    HEADER,
    ARGUMENTS,
    VARIABLES,
    EXPRESSIONS,
    catalogue(STATEMENTS),
    LEAVES,
    CONSTANTS,
    WRAPPERS,
    globals=("TOTAL", "BIAS"),
    edits=catalogue(EDITS),
    size=(3, 8),
    helpers=3,
    helper_variables=HELPER_VARIABLES,
)
