"""Data model: operators of user classes (3.3.1, 3.3.8), in each way that Python and C come to them."""

from __future__ import annotations

from conformance_programs import add_source, program

BINARY = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "matmul": "{} @ {}",
    "truediv": "{} / {}",
    "floordiv": "{} // {}",
    "mod": "{} % {}",
    "divmod": "divmod({}, {})",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and": "{} & {}",
    "xor": "{} ^ {}",
    "or": "{} | {}",
}
COMPARED = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="}
MIRRORED = {"lt": "gt", "le": "ge", "eq": "eq", "ne": "ne", "gt": "lt", "ge": "le"}
UNARY = {"neg": "-{}", "pos": "+{}", "invert": "~{}", "abs": "abs({})"}


def _function_of(name: str) -> str:
    return {"divmod": "divmod", "and": "operator.and_", "or": "operator.or_"}.get(name, f"operator.{name}")


OPERAND = """
import functools, operator
import torch

class Operand:
    def __init__(self, value):
        self.value = value
    def __NAME__(self, other):
        return Operand(self.value * 2 + getattr(other, "value", other))
"""

REFLECTED = """
import torch

class Left:
    def __NAME__(self, other):
        return NotImplemented
class Right:
    def __init__(self, value):
        self.value = value
    def __rNAME__(self, other):
        return type(other).__name__, self.value * 3
"""

BINARY_CASES = {
    "made_inside": OPERAND
    + """
def f(x):
    return USE(Operand(x), Operand(x + 1)).value
""",
    "given": OPERAND
    + """
def given():
    return Operand(torch.ones(3)), Operand(torch.ones(3) * 2)
def f(x, a, b):
    b.value = USE(a, b).value + x
    return USE(b, x).value
""",
    "reflected": REFLECTED
    + """
def f(x):
    return USE(Left(), Right(x))
""",
    "reflected_of_a_given": REFLECTED
    + """
def given():
    return Left(), Right(torch.ones(3))
def f(x, left, right):
    return x, USE(left, right)
""",
    "reflected_by_a_number": REFLECTED
    + """
def f(x):
    return USE(2, Right(x)), USE(None, Right(x + 1))
""",
    "reflected_by_a_tensor": REFLECTED
    + """
def f(x):
    return USE(x, Right(x * 2))
""",
    "reflected_of_a_subclass_is_asked_first": """
class Base:
    def __init__(self, value):
        self.value = value
    def __NAME__(self, other):
        return "forward", self.value + other.value
    def __rNAME__(self, other):
        return "never", self.value
class Derived(Base):
    def __rNAME__(self, other):
        return "reflected", self.value - other.value
def f(x):
    return USE(Base(x), Derived(x + 1)), USE(Derived(x), Base(x)), USE(Base(x), Base(x))
""",
    "not_implemented_by_either": REFLECTED.replace("type(other).__name__, self.value * 3", "NotImplemented")
    + """
def f(x):
    try:
        return x, USE(Left(), Right(x))
    except TypeError as error:
        return x + 1, str(error)
""",
    "inherited_and_of_a_local_class": OPERAND
    + """
def f(x):
    class Derived(Operand):
        def __NAME__(self, other):
            return super().__NAME__(other).value - 1
    return USE(Derived(x), Derived(x + 1))
""",
    "of_a_subclass_of_a_builtin": """
class Text(str):
    def __NAME__(self, other):
        return other * len(self)
    def __rNAME__(self, other):
        return other + len(self)
def f(x):
    return USE(Text("ab"), x), USE(2, Text("abc")), USE("a", Text("b"), ) if False else x
""",
    "called_by_c": OPERAND
    + """
def f(x):
    a, b, c = Operand(x), Operand(x + 1), Operand(x * 2)
    called = FUNCTION(a, b).value, functools.reduce(FUNCTION, [a, b, c]).value
    return called, [each.value for each in map(FUNCTION, [a, b], [b, c])]
""",
    "called_by_c_on_given": OPERAND
    + """
def given():
    return ([Operand(torch.ones(3) * n) for n in range(3)],)
def f(x, operands):
    return x + functools.reduce(FUNCTION, operands).value
""",
}

for _name, _symbol in BINARY.items():
    for _case, _source in BINARY_CASES.items():
        _text = _source.replace("NAME", _name).replace("FUNCTION", _function_of(_name))
        _text = f"USE = lambda a, b: {_symbol.format('a', 'b')}\n{_text}"
        add_source(f"model_operators::{_name}_{_case}", _text)


IN_PLACE_CASES = {
    "in_place": """
import operator
class Operand:
    def __init__(self, value):
        self.value, self.uses = value, 0
    def __iNAME__(self, other):
        self.value, self.uses = self.value + other, self.uses + 1
        return self
def f(x):
    a = b = Operand(x)
    a SYMBOL x
    c = operator.iNAME(a, 2)
    return a is b, a is c, a.value, a.uses
""",
    "in_place_on_a_given": """
import torch
class Operand:
    def __init__(self, value):
        self.value, self.uses = value, 0
    def __iNAME__(self, other):
        self.value, self.uses = self.value + other, self.uses + 1
        return self
class Holder:
    pass
def given():
    holder = Holder()
    holder.of = Operand(torch.ones(3))
    return holder, [holder.of]
def f(x, holder, listed):
    holder.of SYMBOL x
    listed[0] SYMBOL 1
    return holder.of is listed[0], x + 1
""",
    "in_place_falls_back": """
import operator
class Operand:
    def __init__(self, value):
        self.value = value
    def __iNAME__(self, other):
        return NotImplemented
    def __NAME__(self, other):
        return Operand(self.value * other)
class Reflected:
    def __rNAME__(self, other):
        return "reflected", other.value
class Bare:
    def __init__(self, value):
        self.value = value
def f(x):
    a = b = Operand(x)
    a SYMBOL 2
    c = Bare(x)
    c SYMBOL Reflected()
    d = operator.iNAME(Operand(x), x)
    return a is b, a.value, b.value, c, d.value
""",
}

for _name, _symbol in BINARY.items():
    if _name != "divmod":
        for _case, _source in IN_PLACE_CASES.items():
            _text = _source.replace("NAME", _name).replace("SYMBOL", _symbol.format("", "").strip() + "=")
            _text = _text.replace("operator.iand", "operator.iand").replace("operator.ior", "operator.ior")
            add_source(f"model_operators::{_name}_{_case}", _text)


COMPARISON_CASES = {
    "made_inside": """
class Operand:
    def __init__(self, value):
        self.value = value
    def __NAME__(self, other):
        return self.value SYMBOL other.value
def f(x):
    return Operand(x) SYMBOL Operand(x * 2)
""",
    "by_rank_given_and_from_c": """
import operator, torch
class Operand:
    def __init__(self, rank):
        self.rank = rank
    def __NAME__(self, other):
        return self.rank SYMBOL getattr(other, "rank", other)
    __hash__ = None
def given():
    return Operand(1), Operand(2)
def f(x, a, b):
    said = [a SYMBOL b, b SYMBOL a, a SYMBOL a, a SYMBOL 1, operator.NAME(a, b), (a, 1) SYMBOL (b, 1)]
    said += [[a] SYMBOL [a, b], list(map(operator.NAME, [a, b], [b, a]))]
    return x + 1, said
""",
    "falls_back": """
class Left:
    def __NAME__(self, other):
        return NotImplemented
class Right:
    def __init__(self, value):
        self.value = value
    def __MIRRORED__(self, other):
        return "mirrored", self.value + 1
def f(x):
    try:
        bare = Left() SYMBOL Left()
    except TypeError as error:
        bare = str(error)
    return Left() SYMBOL Right(x), bare, 1 SYMBOL Right(x), "a" SYMBOL Right(x)
""",
    "of_a_subclass_is_asked_first": """
class Base:
    def __init__(self, value):
        self.value = value
    def __NAME__(self, other):
        return "base", self.value
    def __MIRRORED__(self, other):
        return "base mirrored", self.value
class Derived(Base):
    def __MIRRORED__(self, other):
        return "derived", self.value
def f(x):
    return Base(x) SYMBOL Derived(x + 1), Derived(x) SYMBOL Base(x)
""",
    "of_a_subclass_of_a_builtin": """
class Tuple(tuple):
    def __NAME__(self, other):
        return "own", tuple.__NAME__(self, other)
class Number(int):
    def __NAME__(self, other):
        return "own", int.__NAME__(self, other)
def f(x):
    a, b = Tuple((1, 2)), Tuple((1, 3))
    return x * 2, a SYMBOL b, a SYMBOL (1, 2), (1, 2) SYMBOL b, Number(3) SYMBOL 4, 4 SYMBOL Number(4)
""",
    "of_a_local_class_with_tensor_work": """
def f(x):
    class Operand:
        def __init__(self, value):
            self.value = value
            self.log = []
        def __NAME__(self, other):
            self.log.append(self.value + other.value)
            return len(self.log) > 1
    a, b = Operand(x), Operand(x * 2)
    return a SYMBOL b, a SYMBOL b, a.log, sum(b.log, x)
""",
}

for _name, _symbol in COMPARED.items():
    for _case, _source in COMPARISON_CASES.items():
        _text = _source.replace("NAME", _name).replace("MIRRORED", MIRRORED[_name]).replace("SYMBOL", _symbol)
        add_source(f"model_operators::{_name}_{_case}", _text)


UNARY_CASES = {
    "made_inside": OPERAND.replace("(self, other)", "(self)").replace('getattr(other, "value", other)', "1")
    + """
def f(x):
    return USE(Operand(x)).value, USE(USE(Operand(x))).value, FUNCTION(Operand(x)).value
""",
    "given_and_mapped": OPERAND.replace("(self, other)", "(self)").replace(
        'getattr(other, "value", other)', "1"
    )
    + """
def given():
    return Operand(torch.ones(3)), [Operand(torch.ones(3))]
def f(x, a, several):
    return x + USE(a).value, [each.value for each in map(FUNCTION, several)]
""",
    "missing": """
class Operand:
    pass
def f(x):
    try:
        return USE(Operand())
    except TypeError as error:
        return x + 1, str(error)
""",
    "of_subclasses": """
class Number(int):
    def __NAME__(self):
        return ("own", int.__NAME__(self))
def f(x):
    class Local(Number):
        def __NAME__(self):
            return super().__NAME__(), x * 2
    return USE(Number(3)), USE(Local(-3))
""",
}

for _name, _symbol in UNARY.items():
    for _case, _source in UNARY_CASES.items():
        _text = _source.replace("NAME", _name).replace("FUNCTION", _function_of(_name))
        add_source(f"model_operators::{_name}_{_case}", f"USE = lambda a: {_symbol.format('a')}\n{_text}")


class _Power:
    def __init__(self, value):
        self.value = value

    def __pow__(self, exponent, modulus=None):
        if modulus is None:
            return self.value**exponent
        return ("modulus", self.value**exponent + modulus) if modulus else NotImplemented

    def __rpow__(self, base, modulus=None):
        return "reflected", base, modulus, self.value


@program
def pow_takes_a_modulus(x):
    try:
        refused = pow(_Power(x), 2, 0)
    except TypeError as error:
        refused = str(error)
    return pow(_Power(x), 2), pow(_Power(x), 2, 5), pow(2, _Power(x)), refused


@program(given=lambda: (_Power(2.0),))
def pow_of_a_given(x, power):
    return pow(power, x), pow(power, 3, 4), x ** _Power(3)


@program
def pow_has_no_reflected_form_with_a_modulus(x):
    try:
        return pow(2, _Power(x), 5)
    except TypeError as error:
        return x + 1, str(error)


@program
def chained_comparison_asks_each_pair_once(x):
    class Ranked:
        asked = []

        def __init__(self, rank):
            self.rank = rank

        def __lt__(self, other):
            self.asked.append((self.rank, other.rank))
            return self.rank < other.rank

    a, b, c = Ranked(1), Ranked(2), Ranked(3)
    return a < b < c, b < a < c, Ranked.asked, x * len(Ranked.asked)


class _Bare:
    pass


@program(breaks=("error of an operator", "opaque object"))
def an_error_names_the_class_of_a_tensor(x):
    y = x + 1
    try:
        return _Bare() + y
    except TypeError as error:
        return y * 2, str(error)


@program
def special_methods_are_not_looked_up_on_the_instance(x):
    class Plain:
        pass

    plain = Plain()
    plain.__add__ = lambda other: other
    plain.__len__ = lambda: 3
    errors = []
    for use in (lambda: plain + 1, lambda: len(plain)):
        try:
            use()
        except TypeError as error:
            errors.append(str(error))
    return plain.__add__(x) * 2, plain.__len__(), errors


@program
def a_special_method_may_be_any_callable(x):
    class Adder:
        def __call__(self, *args):
            return "called", len(args), args[-1] * 2

    class Operand:
        __add__ = Adder()
        __sub__ = staticmethod(lambda other: other - 1)
        __mul__ = classmethod(lambda cls, other: (cls.__name__, other))
        __neg__ = property(lambda self: lambda: x + 5)

    o = Operand()
    return o + x, o - x, o * x, -o


@program
def setting_a_special_method_to_none_blocks_it(x):
    class Base:
        def __add__(self, other):
            return other

        def __iter__(self):
            return iter([1])

        def __contains__(self, item):
            return True

    class Blocked(Base):
        __add__ = None
        __iter__ = None
        __contains__ = None

    found = []
    for use in (lambda b: b + x, lambda b: list(b), lambda b: 1 in b):
        try:
            found.append(use(Blocked()))
        except TypeError as error:
            found.append(str(error))
    return found, Base() + x * 2
