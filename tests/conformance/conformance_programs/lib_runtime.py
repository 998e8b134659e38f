"""Library: copy, enum, contextlib, typing, abc, types, inspect, warnings, logging, dataclasses' neighbours."""

from __future__ import annotations

import abc
import contextlib
import copy
import enum
import inspect
import io
import logging
import sys
import types
import typing
import warnings

import torch

from conformance_programs import add_source, error_of, program

# Enumerations


class _Colour(enum.Enum):
    RED = 1
    GREEN = 2
    ROUGE = 1

    @property
    def shade(self):
        return self.value * 10

    @classmethod
    def default(cls):
        return cls.GREEN


class _Size(enum.IntEnum):
    SMALL = 1
    LARGE = 3


class _Name(enum.StrEnum):
    FIRST = enum.auto()
    SECOND = enum.auto()


class _Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE


class _Bits(enum.IntFlag):
    A = 1
    B = 2


class _Planet(enum.Enum):
    EARTH = (1.0, 2.0)
    MARS = (3.0, 4.0)

    def __init__(self, mass, radius):
        self.mass, self.radius = mass, radius


@enum.unique
class _Unique(enum.Enum):
    ONE = "one"
    _ignore_ = ["n"]

    @classmethod
    def _missing_(cls, value):
        return cls.ONE if value == 1 else None


ENUMS = {
    "members": "[c.name for c in _Colour], len(_Colour), list(_Colour), _Colour.__members__['ROUGE'].name",
    "lookup": "_Colour(2), _Colour['RED'], error_of(_Colour, 9), error_of(lambda: _Colour['NONE'])",
    "identity": "_Colour.RED is _Colour.ROUGE, _Colour.RED == 1, _Colour(1) is _Colour.RED, _Colour.RED in _Colour",
    "text": "str(_Colour.RED), repr(_Colour.RED), f'{_Colour.RED}', f'{_Size.SMALL}', str(_Name.FIRST), format(_Name.FIRST, '>8')",
    "attributes": "_Colour.RED.shade, _Colour.default().name, _Colour.RED.value, _Planet.MARS.mass, _Planet((1.0, 2.0)).radius",
    "int_enum": "_Size.LARGE + 1, _Size.SMALL < _Size.LARGE, sorted([_Size.LARGE, _Size.SMALL]), int(_Size.LARGE), [1, 2][_Size.SMALL]",
    "str_enum": "_Name.FIRST + '!', _Name.FIRST == 'first', _Name('second'), _Name.FIRST.upper()",
    "flag": "_Access.READ | _Access.WRITE, _Access.BOTH & _Access.READ, ~_Access.READ, _Access.READ in _Access.BOTH, _Access(0), bool(_Access(0))",
    "flag_iteration": "list(_Access.BOTH), len(_Access.BOTH), _Access.READ ^ _Access.BOTH, (_Access.READ | _Access.WRITE).name",
    "int_flag": "_Bits.A | _Bits.B, _Bits.A | 8, _Bits(3) & 1, int(_Bits.B), ~_Bits.A",
    "missing": "_Unique(1), error_of(_Unique, 2)",
    "hash": "{_Colour.RED: x}[_Colour.ROUGE], len({_Colour.RED, _Colour.ROUGE})",
    "immutable": "error_of(setattr, _Colour, 'RED', 3), error_of(delattr, _Colour, 'RED')[0], error_of(setattr, _Colour.RED, 'value', 3)[0]",
    "functional": "enum.Enum('Made', 'A B').B.value, enum.IntEnum('Made', {'Q': 5}).Q + 1",
    "order": "error_of(lambda: _Colour.RED < _Colour.GREEN)[0], _Colour.RED != _Colour.GREEN",
    "reversed": "[c.name for c in reversed(_Colour)], isinstance(_Colour.RED, _Colour), type(_Colour).__name__",
    "copies": "copy.copy(_Colour.RED) is _Colour.RED, copy.deepcopy([_Colour.RED])[0] is _Colour.RED",
}
for _name, _use in ENUMS.items():
    add_source(
        f"lib_runtime::enum_{_name}",
        f"import copy, enum\nfrom conformance_programs import error_of\ndef f(x):\n    return x + 1, ({_use})\n",
        **{k: v for k, v in globals().items() if isinstance(v, enum.EnumMeta)},
    )


@program(given=lambda: (_Colour.RED, {_Colour.GREEN: torch.ones(3)}))
def given_members(x, colour, table):
    match colour:
        case _Colour.GREEN:
            return x
        case _Colour.RED:
            return x * colour.value + table[_Colour.GREEN], colour is _Colour.RED


@program
def enums_made_inside(x):
    class Local(enum.Enum):
        A = enum.auto()
        B = enum.auto()

        def scaled(self, value):
            return value * self.value

    class Flags(enum.IntFlag):
        P = enum.auto()
        Q = enum.auto()

    return Local.B.scaled(x), [m.name for m in Local], int(Flags.P | Flags.Q), Local(1).name


@program
def enum_generates_values(x):
    class Lower(enum.Enum):
        @staticmethod
        def _generate_next_value_(name, start, count, last):
            return name.lower()

        ONE = enum.auto()
        nothing = enum.nonmember(5)

    return x + 1, Lower.ONE.value, Lower.nothing, Lower("one").name


@program
def enum_unique_and_verify(x):
    def twice():
        @enum.unique
        class Twice(enum.Enum):
            A = 1
            B = 1

    return x + 1, error_of(twice)


# Contexts


@contextlib.contextmanager
def _managed(log, value):
    log.append("in")
    try:
        yield value * 2
    except ValueError as error:
        log.append(str(error))
    finally:
        log.append("out")


@program
def contextmanager_inside(x):
    log = []
    with _managed(log, x) as y:
        z = y + 1
    with _managed(log, x):
        raise ValueError("swallowed")
    return z, log


@program
def contextmanager_that_raises(x):
    log = []

    def run():
        with _managed(log, x):
            raise KeyError("through")

    return x + 1, error_of(run), log


@program
def contextmanager_as_decorator(x):
    log = []

    @contextlib.contextmanager
    def logged(name):
        log.append(name)
        yield
        log.append("after " + name)

    @logged("a")
    def run(value):
        log.append("running")
        return value + 1

    return run(x), run(x), log


@program
def contextmanager_that_is_wrong(x):
    @contextlib.contextmanager
    def never():
        return
        yield

    @contextlib.contextmanager
    def twice():
        yield 1
        yield 2

    def enter(manager):
        with manager():
            pass

    return x + 1, error_of(enter, never), error_of(enter, twice)


@program
def context_decorator(x):
    class Doubled(contextlib.ContextDecorator):
        entered = 0

        def __enter__(self):
            Doubled.entered += 1
            return self

        def __exit__(self, *exc):
            return False

    @Doubled()
    def run(value):
        return value * 2

    return run(x), run(x + 1), Doubled.entered


@program
def exit_stack_in_order(x):
    log = []
    with contextlib.ExitStack() as stack:
        values = [stack.enter_context(_managed(log, x + n)) for n in range(2)]
        stack.callback(log.append, "called")
        stack.push(lambda *exc: log.append(exc[0]))
    return values, log


@program
def exit_stack_suppresses(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(KeyError))
        stack.callback(log.append, 1)
        raise KeyError
    return x + 1, log


@program
def exit_stack_pop_all(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, "late")
        kept = stack.pop_all()
    before = list(log)
    kept.close()
    return x + 1, before, log


@program
def suppress(x):
    y = x
    with contextlib.suppress(ZeroDivisionError, KeyError):
        y = x + 1
        1 / 0  # noqa: B018
        y = x + 100
    return y


@program
def closing_and_nullcontext(x):
    closed = []

    class Thing:
        def close(self):
            closed.append(True)

    with contextlib.closing(Thing()) as thing, contextlib.nullcontext(x) as y:
        z = y * 2
    return z, closed, type(thing).__name__


@program
def redirect_stdout_is_pure_when_nothing_is_printed(x):
    with contextlib.redirect_stdout(None):
        y = x + 1
    return y


@program(breaks=("run-time effect", "opaque object"))
def redirect_stdout_catches_printing(x):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print("caught")
    return x + 1, out.getvalue()


@program
def redirect_stderr_and_chdir_exist(x):
    return x + 1, contextlib.redirect_stderr.__name__, contextlib.chdir.__name__


@program
def abstract_context_managers(x):
    class Manager(contextlib.AbstractContextManager):
        def __exit__(self, *exc):
            return None

    class Asynchronous:
        async def __aenter__(self):
            return 1

        async def __aexit__(self, *exc):
            return None

    with Manager() as manager:
        y = x + 1
    return (
        y,
        isinstance(manager, contextlib.AbstractContextManager),
        isinstance(Asynchronous(), contextlib.AbstractAsyncContextManager),
    )


def _driven(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stopped:
        return stopped.value
    raise AssertionError("it waits")


@program
def asynccontextmanager_and_stack(x):
    log = []

    @contextlib.asynccontextmanager
    async def managed(value):
        log.append("in")
        yield value * 2
        log.append("out")

    async def run():
        async with managed(x) as y, contextlib.AsyncExitStack() as stack:
            z = await stack.enter_async_context(managed(y))
            stack.callback(log.append, "called")
            async with contextlib.nullcontext(z) as w:
                return w + 1

    return _driven(run()), log


@program
def async_context_decorator_and_aclosing(x):
    class Manager(contextlib.AsyncContextDecorator):
        async def __aenter__(self):
            return self

        async def __aexit__(self, *exc):
            return False

    @Manager()
    async def run(value):
        return value * 2

    async def numbers():
        yield x
        yield x + 1

    async def all_of():
        async with contextlib.aclosing(numbers()) as source:
            return [value async for value in source]

    return _driven(run(x)), _driven(all_of())


# typing


_T = typing.TypeVar("_T")


class _Box(typing.Generic[_T]):
    def __init__(self, value: _T):
        self.value = value


class _Row(typing.NamedTuple):
    a: object
    b: int = 2


class _Options(typing.TypedDict, total=False):
    scale: int


@typing.runtime_checkable
class _HasArea(typing.Protocol):
    def area(self) -> int: ...


TYPING = {
    "cast": "typing.cast(int, x), typing.cast('str', 3)",
    "aliases": "typing.List[int], typing.Optional[int], typing.Union[int, str], typing.Callable[[int], str], dict[str, int], int | None",
    "get_origin": "typing.get_origin(list[int]), typing.get_args(dict[str, int]), typing.get_origin(typing.Union[int, str])",
    "literal": "typing.get_args(typing.Literal['a', 'b']), typing.Literal[1] == typing.Literal[1]",
    "annotated": "typing.get_args(typing.Annotated[int, 'm']), typing.Annotated[int, 1].__metadata__",
    "union_checks": "isinstance(1, int | str), issubclass(int, int | str), (int | str) == (str | int)",
    "type_checking": "typing.TYPE_CHECKING",
    "any_and_never": "typing.Any, typing.NoReturn, typing.ClassVar[int], typing.Final[int]",
    "is_typeddict": "typing.is_typeddict(dict)",
    "assert_type": "typing.assert_type(3, int), typing.assert_type(x, 'anything').dim()",
}
for _name, _use in TYPING.items():
    add_source(f"lib_runtime::typing_{_name}", f"import typing\ndef f(x):\n    return x + 1, ({_use})\n")


@program
def type_variables_are_named_after_their_module(x):
    y = x + 1
    return y * 2, typing.TypeVar("T").__name__, typing.NewType("UserId", int)(5)


@program
def generic_classes(x):
    return _Box(x).value + 1, _Box[int](x).value, _Box[int].__origin__ is _Box, typing.get_args(_Box[str])


@program(given=lambda: (_Box(torch.ones(3)), _Row(torch.ones(3)), _Options(scale=3)))
def given_typed_values(x, box, row, options):
    return x * options["scale"] + box.value * row.b, row._asdict(), options.get("other")


@program
def typed_values_made_inside(x):
    row, options = _Row(x), _Options(scale=2)
    return row.a * options["scale"], row, options, row._replace(b=4)


@program
def typing_classes_made_inside(x):
    class Row(typing.NamedTuple):
        a: object
        b: int = 2

        def scaled(self):
            return self.a * self.b

    return Row(x).scaled(), Row._fields


@program
def runtime_protocols(x):
    class Square:
        def area(self):
            return 4

    return x + 1, isinstance(Square(), _HasArea), isinstance(3, _HasArea), issubclass(Square, _HasArea)


@program(breaks="run-time effect")
def overloads_are_registered(x):
    y = x + 1

    @typing.overload
    def f(a: int) -> int: ...
    @typing.overload
    def f(a: str) -> str: ...
    def f(a):
        return a

    return f(y)


@program(breaks="run-time effect")
def finals_are_marked(x):
    y = x + 1
    return y * 2, typing.final(_Box) is _Box


# abc and types


@program
def abstract_classes_and_registration(x):
    class Drawable(abc.ABC):
        @abc.abstractmethod
        def draw(self): ...

        @classmethod
        def __subclasshook__(cls, other):
            return True if hasattr(other, "paint") else NotImplemented

    class Painted:
        def paint(self):
            return x

    @Drawable.register
    class Other:
        pass

    return x + 1, isinstance(Painted(), Drawable), isinstance(Other(), Drawable), isinstance(3, Drawable)


@program
def abc_functions(x):
    class Base(metaclass=abc.ABCMeta):
        @property
        @abc.abstractmethod
        def v(self): ...

        @staticmethod
        @abc.abstractmethod
        def s(): ...

    return (
        x + 1,
        error_of(Base)[0],
        abc.get_cache_token() == abc.get_cache_token(),
        Base.v.__isabstractmethod__,
    )


TYPES = {
    "FunctionType": "isinstance(lambda: 1, types.FunctionType), types.FunctionType is types.LambdaType",
    "MethodType": "types.MethodType(lambda self, a: self + a, x)(1)",
    "SimpleNamespace": "types.SimpleNamespace(a=x).a * 2, types.SimpleNamespace(a=1) == types.SimpleNamespace(a=1)",
    "MappingProxyType": "types.MappingProxyType({'a': x})['a'], list(types.MappingProxyType({'b': 1})), len(types.MappingProxyType({}))",
    "GeneratorType": "isinstance((n for n in ()), types.GeneratorType), isinstance([], types.GeneratorType)",
    "NoneType": "isinstance(None, types.NoneType), types.EllipsisType, types.NotImplementedType",
    "GenericAlias": "types.GenericAlias(list, (int,)), isinstance(list[int], types.GenericAlias), list[int](['a'])",
    "UnionType": "isinstance(int | str, types.UnionType), (int | str).__args__",
    "CellType": "types.CellType(x).cell_contents, isinstance(len, types.BuiltinFunctionType)",
    "ModuleType": "types.ModuleType('m', 'doc').__doc__, isinstance(types, types.ModuleType)",
    "CodeType": "isinstance((lambda: 1).__code__, types.CodeType), (lambda a: 1).__code__.co_varnames",
    "get_original_bases": "types.resolve_bases((int,)), types.coroutine.__name__",
    "DynamicClassAttribute": "types.DynamicClassAttribute(lambda self: 1).fget(None)",
}
for _name, _use in TYPES.items():
    add_source(f"lib_runtime::types_{_name}", f"import types\ndef f(x):\n    return x + 1, ({_use})\n")


@program
def a_function_made_from_code(x):
    def template(a, b=1):
        return a * b + scale  # noqa: F821

    made = types.FunctionType(template.__code__, {"scale": 3}, "made", (2,))
    return made(x), made.__name__, made.__defaults__


# inspect


def _signed(a, /, b: int, *args, c=3, **kwargs) -> str:
    "Documentation."
    return a


INSPECT = {
    "signature": "str(inspect.signature(_signed)), list(inspect.signature(_signed).parameters)",
    "parameters": "[(p.name, p.kind.name, p.default is inspect.Parameter.empty) for p in inspect.signature(_signed).parameters.values()]",
    "bind": "inspect.signature(_signed).bind(1, 2, 3, c=4).arguments, inspect.signature(_signed).bind_partial(1).args",
    "bind_defaults": "(lambda b: (b.apply_defaults(), b.arguments)[1])(inspect.signature(_signed).bind(1, 2))",
    "kinds": "inspect.isfunction(_signed), inspect.isclass(int), inspect.ismethod(_signed), inspect.isbuiltin(len), inspect.ismodule(inspect)",
    "generators": "inspect.isgeneratorfunction(_signed), inspect.iscoroutinefunction(_signed), inspect.isgenerator((n for n in ()))",
    "getdoc": "inspect.getdoc(_signed), inspect.cleandoc('  a\\n    b')",
    "getfullargspec": "inspect.getfullargspec(_signed).args, inspect.getfullargspec(_signed).kwonlydefaults",
    "getmro": "inspect.getmro(bool), inspect.isabstract(int)",
    "unwrap": "inspect.unwrap(_signed) is _signed",
    "getattr_static": "inspect.getattr_static(3, 'real').__name__",
}
for _name, _use in INSPECT.items():
    add_source(
        f"lib_runtime::inspect_{_name}",
        f"import inspect\ndef f(x):\n    return x + 1, ({_use})\n",
        _signed=_signed,
    )


@program
def signature_of_a_local_function(x):
    def local(a, *, b=x):
        return a

    signature = inspect.signature(local)
    return x + 1, list(signature.parameters), signature.parameters["b"].default


# warnings and logging


@program
def warnings_are_shown_each_time(x):
    y = x + 1
    warnings.warn("careful", stacklevel=1)
    return y * 2


@program
def logging_is_done_each_time(x):
    y = x + 1
    logging.getLogger("conformance").debug("seen %s", 1)
    return y * 2


@program
def loggers_that_are_asked_only(x):
    return x * logging.DEBUG, logging.INFO < logging.ERROR


# copy


@program
def copy_module_by_kind(x):
    values = [1, "a", (1, 2), [1, [2]], {"a": [1]}, {1}, None, int, len]
    copied, deep = [copy.copy(v) for v in values], [copy.deepcopy(v) for v in values]
    return x + 1, copied, deep, deep[3][1] is values[3][1], copy.error is copy.Error


if sys.version_info >= (3, 13):

    @program
    def copies_with_other_values(x):
        held = types.SimpleNamespace(a=1, b=x)
        return copy.replace(held, b=x + 1), copy.replace(inspect.Parameter("a", 1), name="b").name, held


@program
def python_itself(x):
    return (
        x + sys.version_info.major,
        sys.maxsize,
        sys.byteorder,
        sys.float_info.epsilon,
    )
