"""Programs in files, each with one change between two processes: what another process must notice.

A program is a set of files; its `main` module has `run(compiled)`, which is given `framelift.compile` with
options, or what leaves functions as they are. The change is a piece of text in one of the files, and another
in its place.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    main: str
    change: tuple[str, str, str]
    """(file, text, text in its place)"""
    helper: str = ""
    noticed: bool = True
    """Whether what was kept is of no use after the change."""


HEAD = "import torch\nimport {helper} as helper\n"


def program(main: str, change: tuple[str, str, str], helper: str = "", noticed: bool = True) -> Program:
    return Program(main, change, helper, noticed)


ONE = """
def f(x):
    return helper.scale(x) + 1

def run(compiled):
    return compiled(f)(torch.arange(3.0))
"""

PROGRAMS: dict[str, Program] = {
    "nothing": program(ONE, ("unused", "", ""), "def scale(x):\n    return x * 2\n", noticed=False),
    "a constant of an inlined function": program(
        ONE, ("helper", "x * 2", "x * 3"), "def scale(x):\n    return x * 2\n"
    ),
    "a function that an inlined one calls": program(
        ONE,
        ("helper", "y - 1", "y - 2"),
        "def scale(x):\n    return inner(x)\n\ndef inner(y):\n    return y - 1\n",
    ),
    "the function itself": program(ONE, ("main", "+ 1", "- 1"), "def scale(x):\n    return x * 2\n"),
    "a global of another module": program(
        ONE, ("helper", "FACTOR = 2", "FACTOR = 3"), "FACTOR = 2\ndef scale(x):\n    return x * FACTOR\n"
    ),
    "a default": program(
        ONE, ("helper", "factor=2", "factor=3"), "def scale(x, factor=2):\n    return x * factor\n"
    ),
    "a keyword default": program(
        ONE, ("helper", "factor=2", "factor=3"), "def scale(x, *, factor=2):\n    return x * factor\n"
    ),
    "a variable of an enclosing function": program(
        ONE,
        ("helper", "made(2)", "made(3)"),
        "def made(n):\n    def scale(x):\n        return x * n\n    return scale\n\nscale = made(2)\n",
    ),
    "a function that a decorator has wrapped": program(
        ONE,
        ("helper", "x * 2", "x * 3"),
        "import functools\n\ndef passing(fn):\n    @functools.wraps(fn)\n    def wrapper(*args):\n"
        "        return fn(*args)\n    return wrapper\n\n@passing\ndef scale(x):\n    return x * 2\n",
    ),
    "an item of a table": program(
        ONE,
        ("helper", '"k": 2', '"k": 3'),
        'TABLE = {"k": 2}\ndef scale(x):\n    return x * TABLE["k"]\n',
    ),
    "an attribute of a class": program(
        ONE,
        ("helper", "factor = 2", "factor = 3"),
        "class Options:\n    factor = 2\n\noptions = Options()\n\n"
        "def scale(x):\n    return x * options.factor\n",
    ),
    "a base class": program(
        ONE,
        ("helper", "class Sub(Two)", "class Sub(Three)"),
        "class Two:\n    factor = 2\n\nclass Three:\n    factor = 3\n\nclass Sub(Two):\n    pass\n\n"
        "def scale(x):\n    return x * Sub().factor\n",
    ),
    "what isinstance says": program(
        ONE,
        ("helper", "class Sub(Two)", "class Sub"),
        "class Two:\n    pass\n\nclass Sub(Two):\n    pass\n\none = Sub()\n\n"
        "def scale(x):\n    return x * 2 if isinstance(one, Two) else x\n",
    ),
    "a class that is registered no more": program(
        ONE,
        ("helper", "Shape.register(Square)", "pass"),
        "import abc\n\nclass Shape(abc.ABC):\n    pass\n\nclass Square:\n    pass\n\n"
        "Shape.register(Square)\none = Square()\n\n"
        "def scale(x):\n    return x * 2 if isinstance(one, Shape) else x\n",
    ),
    "which class is registered, of as many": program(
        ONE,
        ("helper", "Shape.register(Other)", "Shape.register(Square)"),
        "import abc\n\nclass Shape(abc.ABC):\n    pass\n\nclass Square:\n    pass\n\n"
        "class Other:\n    pass\n\nShape.register(Other)\n\n"
        "def scale(x):\n    return x * 2 if issubclass(Square, Shape) else x\n",
    ),
    "a property": program(
        ONE,
        ("helper", "return 2", "return 3"),
        "class Options:\n    @property\n    def factor(self):\n        return 2\n\noptions = Options()\n\n"
        "def scale(x):\n    return x * options.factor\n",
    ),
    "a list that a class has": program(
        ONE,
        ("helper", "factors = [2]", "factors = [3]"),
        "class Options:\n    factors = [2]\n\ndef scale(x):\n    return x * Options.factors[0]\n",
    ),
    "a list within a tuple that a class has": program(
        ONE,
        ("helper", "([2], 1)", "([3], 1)"),
        "class Options:\n    factors = ([2], 1)\n\ndef scale(x):\n    return x * Options.factors[0][0]\n",
    ),
    "nothing, where a list that a class has is added to": program(
        """
def f(x):
    helper.Log.seen.append(5)
    return x * 2, helper.Log.seen

def run(compiled):
    helper.Log.seen.clear()
    result, seen = compiled(f)(torch.arange(3.0))
    return result + sum(helper.Log.seen) + (seen is helper.Log.seen)
""",
        ("unused", "", ""),
        "class Log:\n    seen = []\n",
        noticed=False,
    ),
    "whether two classes have one list": program(
        ONE,
        ("helper", "factors = One.factors", "factors = [2]"),
        "class One:\n    factors = [2]\n\nclass Other:\n    factors = One.factors\n\n"
        "def scale(x):\n    return x * (2 if One.factors is Other.factors else 3)\n",
    ),
    "whether two classes have one function": program(
        ONE,
        ("helper", "scaled = One.scaled", "scaled = made()"),
        "def made():\n    def scaled(self, x):\n        return x\n    return scaled\n\n"
        "class One:\n    scaled = made()\n\nclass Other:\n    scaled = One.scaled\n\n"
        "def scale(x):\n    return x * (2 if One.scaled is Other.scaled else 3)\n",
    ),
    "the state of a descriptor": program(
        ONE,
        ("helper", "Factor(2)", "Factor(3)"),
        "class Factor:\n    def __init__(self, n):\n        self.n = n\n\n"
        "    def __get__(self, obj, owner):\n        return self.n\n\n"
        "class Options:\n    factor = Factor(2)\n\ndef scale(x):\n    return x * Options().factor\n",
    ),
    "a function of C in the place of another": program(
        ONE,
        ("helper", "math.cbrt = math.cbrt", "math.cbrt = math.exp2"),
        "import math\n\nmath.cbrt = math.cbrt\n\ndef scale(x):\n    return x * math.cbrt(8.0)\n",
    ),
    "a member of an enumeration": program(
        ONE,
        ("helper", "A = 2", "A = 3"),
        "import enum\n\nclass E(enum.Enum):\n    A = 2\n\ndef scale(x):\n    return x * E.A.value\n",
    ),
    "a default of a dataclass": program(
        ONE,
        ("helper", "factor: int = 2", "factor: int = 3"),
        "from dataclasses import dataclass\n\n@dataclass\nclass Options:\n    factor: int = 2\n\n"
        "def scale(x):\n    return x * Options().factor\n",
    ),
    "a named tuple": program(
        ONE,
        ("helper", "P(2, 5)", "P(3, 5)"),
        "from typing import NamedTuple\n\nclass P(NamedTuple):\n    a: int\n    b: int\n\npair = P(2, 5)\n\n"
        "def scale(x):\n    return x * pair.a\n",
    ),
    "an attribute of a module": program(
        """
class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 2.0
        self.line = torch.nn.Linear(3, 3)
        with torch.no_grad():
            self.line.weight.fill_(0.5)

    def forward(self, x):
        return self.line(x) * self.factor

def run(compiled):
    torch.manual_seed(0)
    return compiled(Scale())(torch.arange(3.0)).detach()
""",
        ("main", "self.factor = 2.0", "self.factor = 3.0"),
    ),
    "the layers of a module": program(
        """
class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(2)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

def run(compiled):
    torch.manual_seed(0)
    return compiled(Layers())(torch.arange(3.0)).detach()
""",
        ("main", "range(2)", "range(3)"),
    ),
    "a dtype": program(
        ONE, ("main", "torch.arange(3.0)", "torch.arange(3)"), "def scale(x):\n    return x * 2\n"
    ),
    "a shape": program(
        ONE, ("main", "torch.arange(3.0)", "torch.arange(4.0)"), "def scale(x):\n    return x * 2\n"
    ),
    "strides": program(
        """
def f(x):
    return (x * 2).contiguous().view(-1) + x.stride(0)

def run(compiled):
    return compiled(f)(torch.arange(9.0).view(3, 3))
""",
        ("main", "view(3, 3))", "view(3, 3).t())"),
    ),
    "a number": program(
        """
def f(x, n):
    return x * n

def run(compiled):
    return compiled(f)(torch.arange(3.0), 2)
""",
        ("main", "(3.0), 2)", "(3.0), 3)"),
    ),
    "whether gradients are computed": program(
        """
def f(x):
    return x * 2 if torch.is_grad_enabled() else x * 3

def run(compiled):
    with torch.set_grad_enabled(True):
        return compiled(f)(torch.arange(3.0))
""",
        ("main", "set_grad_enabled(True)", "set_grad_enabled(False)"),
    ),
    "the default dtype": program(
        """
def f(x):
    return x + torch.ones(3)

def run(compiled):
    torch.set_default_dtype(torch.float32)
    try:
        return compiled(f)(torch.arange(3))
    finally:
        torch.set_default_dtype(torch.float32)
""",
        (
            "main",
            "dtype(torch.float32)\n    try",
            "dtype(torch.float64)\n    try",
        ),
    ),
    "which objects are one": program(
        """
def f(x):
    return x * 2 if helper.one is helper.other else x * 3

def run(compiled):
    return compiled(f)(torch.arange(3.0))
""",
        ("helper", "other = Thing()", "other = one"),
        "class Thing:\n    pass\n\none = Thing()\nother = Thing()\n",
    ),
    "an option of compile": program(
        """
def f(x):
    return x * 2

def run(compiled):
    return compiled(f, dynamic=None)(torch.arange(3.0))
""",
        ("main", "dynamic=None", "dynamic=True"),
    ),
    "what comes after a break": program(
        """
def f(x):
    y = x * 2
    print(end="")
    return helper.scale(y) + 1

def run(compiled):
    return compiled(f)(torch.arange(3.0))
""",
        ("helper", "x * 2", "x * 3"),
        "def scale(x):\n    return x * 2\n",
    ),
    "another file": program(ONE, ("unused", "1", "2"), "def scale(x):\n    return x * 2\n", noticed=False),
    "the order of a set of texts": program(
        """
def f(x):
    names = {"a", "b", "c", "d", "e"}
    return x * list(names).index("a")

def run(compiled):
    return compiled(f)(torch.arange(3.0))
""",
        ("unused", "", ""),
    ),
}
