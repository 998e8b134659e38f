"""Programs that look at themselves: signatures, sources, frames, types at run time, namespaces."""

from __future__ import annotations

import builtins
import dataclasses
import functools
import inspect
import operator
import sys
import types
import typing

import torch

from conformance_programs import error_of, program

LIMIT = 3


def _documented(a, b: int = 2, *rest, c, d: str = "d", **more) -> torch.Tensor:
    """Says what it does."""
    return a


class _Shape:
    """A class to look at."""

    sides: typing.ClassVar[int] = 0
    name: str
    area: float = 1.0

    def __init__(self, name="s"):
        self.name = name

    def method(self, a, b=1):
        return a

    @classmethod
    def made(cls):
        return cls("made")

    @staticmethod
    def plain(a):
        return a

    @property
    def text(self):
        return self.name * 2


class _Square(_Shape):
    sides = 4


T = typing.TypeVar("T")
U = typing.TypeVar("U", bound=int)


class _Pile(typing.Generic[T]):
    def __init__(self, items: list[T]) -> None:
        self.items = items

    def top(self) -> T:
        return self.items[-1]


class _Typed(typing.TypedDict, total=False):
    a: int
    b: typing.Required[str]


@typing.runtime_checkable
class _Closes(typing.Protocol):
    def close(self) -> None: ...


class _Door:
    def close(self) -> None:
        pass


@typing.overload
def _loaded(a: int) -> int: ...
@typing.overload
def _loaded(a: str) -> str: ...
def _loaded(a):
    return a


@typing.final
class _Last:
    pass


_Identity = typing.NewType("_Identity", int)


# Signatures


@program
def the_signature_of_a_function(x):
    signature = inspect.signature(_documented)
    return (
        list(signature.parameters),
        signature.parameters["b"].default,
        str(signature.parameters["c"].kind),
        x + 1,
    )


@program
def parameters_with_defaults(x):
    found = inspect.signature(_documented).parameters.values()
    return [p.name for p in found if p.default is not inspect.Parameter.empty], x + 1


@program
def whether_a_function_takes_a_name(x):
    return (
        "c" in inspect.signature(_documented).parameters,
        "z" in inspect.signature(_documented).parameters,
        x + 1,
    )


@program
def the_signature_of_a_method(x):
    return list(inspect.signature(_Shape().method).parameters), x + 1


@program
def the_signature_of_an_inside_function(x):
    def inner(a, b=1, *, c=2):
        return a

    return list(inspect.signature(inner).parameters), x + 1


@program
def arguments_are_bound(x):
    bound = inspect.signature(_documented).bind(1, c=3)
    bound.apply_defaults()
    return bound.arguments, x + 1


@program(given=lambda: (torch.nn.LayerNorm(3),))
def the_signature_of_a_module(x, module):
    return list(inspect.signature(module.forward).parameters), x + 1


@program
def the_argument_names_by_code(x):
    code = _documented.__code__
    return (
        code.co_varnames[: code.co_argcount],
        code.co_kwonlyargcount,
        code.co_flags & inspect.CO_VARARGS,
        x + 1,
    )


@program
def the_full_argument_specification(x):
    spec = inspect.getfullargspec(_documented)
    return spec.args, spec.varargs, spec.kwonlyargs, spec.defaults, x + 1


# What kind of thing it is


@program
def questions_of_inspect(x):
    return (
        inspect.isfunction(_documented),
        inspect.ismethod(_Shape().method),
        inspect.isclass(_Shape),
        inspect.ismodule(sys),
        inspect.isbuiltin(len),
        inspect.isgeneratorfunction(_documented),
        inspect.iscoroutinefunction(_documented),
        inspect.isroutine(len),
        x + 1,
    )


@program
def documentation(x):
    return inspect.getdoc(_documented), _Shape.__doc__, inspect.cleandoc("  a\n    b"), x + 1


@program(breaks="unknown native function")
def source_lines(x):
    y = x + 1
    return inspect.getsource(_documented).startswith("def _documented"), y


@program
def the_module_of_a_function(x):
    return inspect.getmodule(_documented) is sys.modules[__name__], _documented.__module__, x + 1


@program
def members_of_a_class(x):
    names = [name for name, _ in inspect.getmembers(_Shape) if not name.startswith("_")]
    return names, inspect.getmro(_Square) == _Square.__mro__, x + 1


@program
def attributes_read_statically(x):
    return (
        type(inspect.getattr_static(_Shape(), "text")).__name__,
        inspect.getattr_static(_Square, "sides"),
        x + 1,
    )


@program
def a_function_is_unwrapped(x):
    @functools.wraps(_documented)
    def wrapper(*args, **kwargs):
        return _documented(*args, **kwargs)

    return wrapper.__name__, wrapper.__wrapped__ is _documented, inspect.unwrap(wrapper) is _documented, x + 1


# Frames


@program
def the_name_of_the_current_function(x):
    return sys._getframe().f_code.co_name, inspect.currentframe().f_code.co_name, x + 1


@program
def the_name_of_the_caller(x):
    def inner():
        return sys._getframe(1).f_code.co_name

    return inner(), x + 1


@program
def the_line_of_the_current_frame(x):
    return sys._getframe().f_lineno > 0, x + 1


@program
def the_variables_of_the_caller(x):
    def inner():
        return sorted(sys._getframe(1).f_locals)

    here = 1
    return inner(), here, x + 1


@program(breaks="unknown native function")
def the_whole_stack(x):
    y = x + 1
    return inspect.stack()[0].function, y


# Types at run time


@program
def origins_and_arguments(x):
    return (
        typing.get_origin(list[int]) is list,
        typing.get_args(dict[str, int]),
        typing.get_args(typing.Optional[int]),
        typing.get_origin(typing.Union[int, str]) is typing.Union,
        typing.get_args(typing.Callable[[int], str]),
        x + 1,
    )


@program
def annotated_types(x):
    kind = typing.Annotated[int, "unit", 3]
    return kind.__metadata__, typing.get_args(kind), kind.__origin__, x + 1


@program
def annotations_of_a_function(x):
    return _documented.__annotations__, _loaded.__annotations__, x + 1


@program
def annotations_of_a_class(x):
    return list(_Shape.__annotations__), x + 1


@program
def type_hints(x):
    y = x + 1
    return sorted(typing.get_type_hints(_Pile.top)), y


@program
def a_generic_class_is_made(x):
    pile = _Pile[int]([1, 2])
    return pile.top(), _Pile([x]).top() + 1, type(pile) is _Pile, _Pile.__parameters__, x + 1


@program
def a_generic_class_is_subscribed(x):
    return _Pile[int].__args__, _Pile[int] == _Pile[int], x + 1


@program
def type_variables(x):
    return T.__name__, U.__bound__, repr(T), x + 1


@program
def new_types_and_casts(x):
    return _Identity(5), typing.cast(int, "text"), _Identity.__name__, x + 1


@program
def typed_dictionaries(x):
    made = _Typed(b="text", a=1)
    return made, type(made) is dict, _Typed.__required_keys__, x + 1


@program
def protocols(x):
    return isinstance(_Door(), _Closes), isinstance(3, _Closes), x + 1


@program
def a_checking_flag(x):
    if typing.TYPE_CHECKING:
        return x
    return x + 1


@program
def never_and_reveal(x):
    return error_of(lambda: typing.assert_never(3))[0], typing.assert_type(x, torch.Tensor) + 1


@program(breaks="run-time effect")
def marks_of_typing(x):
    return _Last.__final__, typing.no_type_check(lambda: 1)(), x + 1


@program
def unions_are_asked(x):
    return isinstance(3, int | str), isinstance(x, int | None), isinstance(x, torch.Tensor | int), x + 1


# Namespaces


@program
def local_names(x):
    a, b = 1, [2]
    found = locals()
    return sorted(found), found["a"], found["b"] is b, x + 1


@program
def locals_by_format(x):
    name, number = "n", 3
    return "{name}-{number}".format(**locals()), x + 1


@program(breaks="internals of an object")
def global_names(x):
    y = x + 1
    return globals()["LIMIT"], "no such" in globals(), y


@program
def the_namespace_of_an_instance(x):
    shape = _Shape("q")
    vars(shape)["extra"] = 1
    return vars(shape), shape.extra, shape.__dict__ is vars(shape), x + 1


@program(given=lambda: (_Shape("g"),))
def the_namespace_of_a_given_instance(x, shape):
    vars(shape)["count"] = vars(shape).get("count", 0) + 1
    return vars(shape)["count"] * x, shape.count, list(vars(shape)), "name" in shape.__dict__


@program(given=lambda: (_Shape("g"),))
def an_instance_is_updated_by_its_namespace(x, shape):
    shape.__dict__.update(left=1, right=x)
    return shape.left, shape.right + 1


@program
def the_namespace_of_a_class(x):
    return "method" in vars(_Shape), sorted(name for name in vars(_Square) if not name.startswith("_")), x + 1


@program
def the_namespace_of_a_module(x):
    return hasattr(sys.modules[__name__], "LIMIT"), getattr(sys.modules[__name__], "LIMIT"), x + 1


@program
def names_of_an_instance(x):
    return [name for name in dir(_Shape("d")) if not name.startswith("_")], "text" in dir(_Shape), x + 1


@program
def names_of_here(x):
    here = 1
    return dir(), x + here


@program(given=lambda: (_Shape("g"),))
def names_of_a_given_instance(x, shape):
    return [name for name in dir(shape) if not name.startswith("_")], x + 1


@program
def attributes_by_name(x):
    shape = _Shape("n")
    setattr(shape, "left", 2)
    delattr(shape, "name")
    return getattr(shape, "left"), hasattr(shape, "name"), getattr(shape, "none", "d"), x + 1


@program
def attributes_by_path(x):
    return (
        operator.attrgetter("shape", "ndim")(x),
        functools.reduce(getattr, ["__class__", "__name__"], x),
        x + 1,
    )


@program
def classes_and_bases(x):
    square = _Square()
    return square.__class__.__name__, _Square.__bases__, issubclass(_Square, _Shape), square.sides, x + 1


@program
def the_class_is_changed(x):
    shape = _Shape("c")
    shape.__class__ = _Square
    return shape.sides, isinstance(shape, _Square), x + 1


@program
def functions_have_attributes(x):
    def inner():
        return inner.count

    inner.count = 3
    return inner(), inner.__name__, inner.__qualname__, x + 1


@program
def a_function_is_made_of_code(x):
    def inner(a, b=2):
        return a * b

    made = types.FunctionType(inner.__code__, {}, "other", (5,))
    return made(x), made.__name__, made.__defaults__


@program
def a_class_is_made_by_a_call(x):
    made = type("Made", (_Shape,), {"sides": 7, "twice": lambda self: self.sides * 2})
    return made("m").twice(), made.__name__, issubclass(made, _Shape), x + 1


@program(breaks="unknown native function")
def builtins_by_name(x):
    return getattr(builtins, "len")([1]), "len" in dir(builtins), builtins.max(1, 2), x + 1


# Code from text


@program(breaks="run-time effect")
def an_expression_from_text(x):
    y = x + 1
    return eval("y * 2", {"y": y})


@program(breaks="run-time effect")
def a_statement_from_text(x):
    scope = {"y": x + 1}
    exec("z = y * 2", scope)
    return scope["z"] + 1


@program(breaks=("run-time effect", "internals of an object"))
def compiled_text(x):
    y = x + 1
    return eval(compile("1 + 2", "text", "eval")), y


@program
def literal_text(x):
    return int("12"), float("1.5"), "1,2".split(","), x + 1


# Dataclasses


@dataclasses.dataclass
class _Point:
    a: int = 1
    b: list = dataclasses.field(default_factory=list, repr=False, metadata={"unit": "m"})
    c: dataclasses.InitVar[int] = 0

    def __post_init__(self, c):
        self.sum = self.a + c


@program
def fields_of_a_dataclass(x):
    found = dataclasses.fields(_Point)
    return [field.name for field in found], found[1].metadata["unit"], found[0].default, x + 1


@program
def a_dataclass_is_made_and_changed(x):
    point = _Point(2, c=3)
    return (
        point,
        dataclasses.replace(point, a=5, c=1),
        dataclasses.asdict(point),
        dataclasses.is_dataclass(point),
        x + 1,
    )


@program(given=lambda: (_Point(1, [2]),))
def a_given_dataclass_as_a_dictionary(x, point):
    return dataclasses.asdict(point), dataclasses.astuple(point), x + point.a


@program
def a_dataclass_made_inside(x):
    @dataclasses.dataclass
    class Pair:
        left: object
        right: int = 1

    return Pair(x + 1).right, Pair(1) == Pair(1), x + 1
