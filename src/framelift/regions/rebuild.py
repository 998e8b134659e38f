"""Writes the source that makes a trace's values again after its graph has run.

`Rebuild.expression(value)` gives a Python expression for a value and adds the statements it needs.
What came from outside is a parameter of the region; a tensor of the graph is one of its outputs;
whatever the traced program made itself is made again, as the rule of its type says. An object is made
once, so what was one object stays one object.

A cycle has to be opened somewhere: when an object is asked for while it is being made, `Cyclic` names
one on the way that can be made empty, and all is written anew with that one filled later.
"""

from __future__ import annotations

import enum
import functools
import keyword
import math
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks, policy
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING
from framelift.core.weakly import is_lasting
from framelift.graph.subclasses import as_one_of, overrides
from framelift.graph.symbols import is_symbolic, simplest
from framelift.graph.terms import expression_of, text_of
from framelift.guards.kinds import Access
from framelift.guards.sources import Source
from framelift.guards.value_texts import written
from framelift.interpreter import coroutines, generators
from framelift.interpreter.lookups import STAND_INS
from framelift.interpreter.pending import Pending
from framelift.trace.addresses import Address
from framelift.trace.runtime_calls import RuntimeCall
from framelift.trace.shadows import GETATTRIBUTE, own_dictionary, slots_of
from framelift.trace.type_rules import Rebuilder, rule_of_type
from framelift.trace.world import TraceWorld

LITERALS = frozenset({int, bool, type(None), str, bytes, type(Ellipsis)})
"""Types whose values are written as they are."""

DEEP = 30
LONG = 200
"""Texts and numbers longer than this are not written into the source."""

READS = {"number": "{0}", "size": "{0}.size({1})", "stride": "{0}.stride({1})"}


def asking_nobody(function: Any, *args: Any) -> Any:
    """What the class of a tensor, and modes, had to say of it they have said while the program was traced."""
    with torch._C.DisableTorchFunction():
        return function(*args)


class Cyclic(Exception):
    """An object contains itself; the argument is the id of one that is to be made empty and filled later."""


class Rebuild:
    def __init__(self, world: TraceWorld, late: frozenset[int] = frozenset()) -> None:
        self.world = world
        self.late_texts = world.late_texts.made
        self.late = late
        """Objects that are made empty, and filled when all else is there."""
        self.lines: list[str] = []
        self.inputs: dict[Source, str] = {}
        self.outputs: dict[Any, tuple[str, Any]] = {}
        """What the graph gives: id of a fake, or a symbol -> its name, and itself."""
        self.symbols: dict[str, str] = {}
        """Name of a symbol -> what it is read from."""
        self.constants: dict[str, Any] = {}
        self.constant_names: dict[int, str] = {}
        self.made: dict[int, str] = {}
        self.making: dict[int, Any] = {}
        """The objects that are being made or filled, outermost first."""
        self.to_fill: list[Callable[[], None]] = []
        self.kept: list[Any] = []
        """Whatever has an id in `made`, so that the id stays its own."""
        self.count = 0
        self.drawn: set[Source] = set()
        """The draws that are used."""
        self.drawings: list[tuple[RuntimeCall, str]] = []

    # ---- what is there already

    def input(self, source: Source) -> str:
        if source.access is Access.CONST and stays(source.key[1]):
            return self.own(source.key[1])
        if source.access is Access.DRAWN:
            self.drawn.add(source)
            return f"d{source.key}"
        if source.is_drawn:
            raise Break(breaks.UNREBUILDABLE, f"{source}")
        name = self.inputs.get(source)
        if name is None:
            name = self.inputs[source] = f"i{len(self.inputs)}"
        return name

    def constant(self, value: Any) -> str:
        """A function, a class, a constant of the program: the region gets it, and does not keep it alive."""
        if stays(value):
            return self.own(value)
        if issubclass(type(value), type) and value in self.world.created.recipes:
            return self.expression(value)
        return self.input(self.world.inputs.root.constant(value, written(value)))

    def own(self, value: Any) -> str:
        """What the region holds on to itself."""
        name = self.constant_names.get(id(value))
        if name is None:
            hint = getattr(value, "__name__", None) or type(value).__name__
            hint = hint if isinstance(hint, str) and is_name(hint) else "c"
            name = self.constant_names[id(value)] = f"{hint}_{len(self.constants)}"
            self.constants[name] = value
        return name

    def output(self, fake: FakeTensor) -> str:
        return self.outputs.setdefault(id(fake), (f"g{len(self.outputs)}", fake))[0]

    # ---- values

    def value(self, value: Any) -> str:
        """An expression for a value, which is whole when the statements so far have run."""
        text = self.expression(value)
        while self.to_fill:
            self.to_fill.pop(0)()
        return text

    def expression(self, value: Any) -> str:
        cls = type(value)
        if cls is Pending:
            return self.late_text(value) if value.source in self.late_texts else self.input(value.source)
        if cls in LITERALS:
            return repr(value) if is_short(value) else self.constant(value)
        if cls is float:
            return repr(value) if math.isfinite(value) else self.constant(value)
        if cls is FakeTensor:
            return self.tensor(value)
        if cls is types.FunctionType and value.__module__ in (generators.__name__, coroutines.__name__):
            return self.constant(builtin_of(value))
        if is_symbolic(value):
            return self.symbolic(value)
        source = self.world.inputs.source_of(value)
        if source is not None:
            return self.input(source)
        if cls is types.UnionType or (cls.__module__ == "typing" and not issubclass(cls, type)):
            self.fix_parts(value)
            return self.own(value)  # of which there is one: `typing` caches them
        if issubclass(cls, enum.Enum) and is_member(value):
            if self.world.created.has(cls):
                raise unrebuildable(value, f"a member of {cls.__qualname__}, which is made in each call")
            return self.constant(value)
        if issubclass(type(value), (type, types.FunctionType)) and not self.world.created.has(value):
            return self.constant(value)  # found on a class, and guarded there
        name = self.made.get(id(value))
        if name is not None:
            return name
        if id(value) in self.making:
            raise self.cyclic(id(value))
        return self.make(value, cls)

    def late_text(self, pending: Pending) -> str:
        """A text that nobody has looked at, or is one that all know."""
        if pending.opened is not MISSING:
            return self.expression(pending.opened)
        fn, operands, named, _ = self.late_texts[pending.source]
        given = [*map(self.expression, operands), *(f"{k}={self.expression(v)}" for k, v in named.items())]
        return f"{self.own(fn)}({', '.join(given)})"

    def fix_parts(self, value: Any) -> None:
        """What `List[...]` or a union is made of must be those very objects, if it is held as it is."""
        parts = getattr(value, "__args__", None)
        for part in parts if type(parts) is tuple else ():
            if self.world.created.has(part):
                raise unrebuildable(value, f"a {type(value).__qualname__} of what the trace has made")
            self.world.identity.guard(part)
            self.fix_parts(part)

    def tensor(self, fake: FakeTensor) -> str:
        recorder = self.world.recorder
        at = recorder.inputs.index_of.get(id(fake))
        if at is not None:
            return self.input(self.world.inputs.known[id(recorder.inputs.entries[at][1])].source)
        if id(fake) not in recorder.builder.body.nodes:
            raise Break(breaks.UNKNOWN_TENSOR, "a result of the function")
        cls, attributes = recorder.subclasses.class_of(fake), recorder.subclasses.attributes_of(fake)
        if (cls is torch.Tensor or id(fake) in recorder.wrappers.behind) and not attributes:
            return self.output(fake)
        name = self.made.get(id(fake))
        if name is None:
            made = f"{self.constant(as_one_of)}({self.output(fake)}, {self.constant(cls)}, {{}})"
            name = self.variable(made, fake)
            self.fill(fake, functools.partial(self.set_attributes, name, attributes or {}))
        return name

    def set_attributes(self, name: str, attributes: dict[str, Any]) -> None:
        for attribute, value in attributes.items():
            self.say(f"{name}.{attribute} = {self.expression(value)}")

    def symbolic(self, value: Any) -> str:
        """A number computed from the sizes and numbers that came in, or that the graph has found."""
        if type(value) is torch.Size:
            return f"{self.constant(torch.Size)}([{self.listed(value)}])"
        if value.node.expr.is_number:
            return self.expression(simplest(value))
        symbols = self.world.recorder.builder.symbols
        assert symbols is not None
        expression = expression_of(value)
        for symbol in expression.free_symbols:
            drawn = self.world.runtime_calls.symbols.get(symbol)
            if drawn is not None:
                self.symbols[str(symbol)] = self.input(drawn)
                continue
            read = symbols.reads.get(symbol)
            if read is None:
                self.outputs.setdefault(symbol, (str(symbol), symbol))
                continue
            entry = symbols.inputs[read.input]
            name = self.input(self.world.inputs.graph_input_source(entry.node, entry.real))
            text = READS[read.kind].format(name, read.dim)
            if read.kind != "number" and self.is_asked_about(entry.node):
                method = f"{self.constant(torch.Tensor)}.{read.kind}"
                text = f"{self.constant(asking_nobody)}({method}, {name}, {read.dim})"
            self.symbols[str(symbol)] = text
        text = text_of(expression)
        for module in (math, torch):
            if f"{module.__name__}." in text:
                self.constants[module.__name__] = module
        return f"({text})" if " " in text or "*" in text else text

    def is_asked_about(self, node: torch.fx.Node) -> bool:
        """Whether the class of an input, or a mode, is asked by torch what its methods do."""
        recorder = self.world.recorder
        known = recorder.subclasses.class_of(node.meta["example_value"])
        return recorder.modes.may_ask or overrides(known)

    def make(self, value: Any, cls: type) -> str:
        if cls is Address:
            return self.address(value)
        recipes = self.world.created.recipes
        if issubclass(cls, type) and value in recipes:
            return self.made_class(value, *recipes[value])
        rebuild = rule_of_type(cls).rebuild
        if rebuild is None or (self.world.created.has(cls) and cls not in recipes):
            raise unrebuildable(value, f"a {cls.__module__}.{cls.__qualname__}")
        self.kept.append(value)
        self.making[id(value)] = value
        name = rebuild(self, value)
        self.made[id(value)] = name
        del self.making[id(value)]
        return name

    def address(self, value: Address) -> str:
        """Of an object that is there when the region has run."""
        if value.asked is None:
            raise Break(breaks.IDENTITY, "the value of id()", culprit=value)
        return self.variable(f"{self.own(value.asked)}({self.expression(value.of)})", value)

    def made_class(self, cls: type, maker: Any, args: tuple[Any, ...], options: dict[str, Any]) -> str:
        given = [self.expression(value) for value in args]
        given += [f"{name}={self.expression(value)}" for name, value in options.items()]
        return self.variable(f"{self.own(maker)}({', '.join(given)})", cls)

    def cyclic(self, at: int) -> Cyclic | Break:
        """What to do about an object that is needed before it is there."""
        path = list(self.making)
        for step in path[path.index(at) :]:
            if step not in self.late and (
                step in self.made or rule_of_type(type(self.making[step])).fillable
            ):
                return Cyclic(step)
        return Break(breaks.UNREBUILDABLE, "a cycle of immutable objects")

    def result(self, called: str, args: Iterable[Any], value: Any) -> str:
        """A statement that calls something, which gives the value. The arguments may refer to it."""
        self.making[id(value)] = value
        name = self.variable(f"{called}({self.listed(args)})", value)
        del self.making[id(value)]
        while self.to_fill:
            self.to_fill.pop(0)()
        return name

    # ---- draws

    def draws(self, late: bool) -> list[str]:
        """The statements that draw, before the graph or after it; what is pure only if it is used."""
        statements = []
        for draw, text in self.drawings:
            if draw.late is late and (draw.source in self.drawn or not draw.pure):
                drawn = f"d{draw.source.key}"
                symbols = [name for name, read in self.symbols.items() if read == drawn]
                statements.append(" = ".join((*symbols, drawn, text)))
        return statements

    def reads(self) -> list[str]:
        """The statements that read the symbols' values of what came in."""
        drawn = {f"d{draw.source.key}" for draw, _ in self.drawings}
        return [f"{name} = {read}" for name, read in self.symbols.items() if read not in drawn]

    def write_draws(self) -> None:
        """While all that came in is still an input."""
        self.drawings = [(draw, self.drawing(draw)) for draw in self.world.runtime_calls.made]

    def drawing(self, draw: RuntimeCall) -> str:
        given = [self.drawn_argument(value) for value in draw.args]
        given += [f"{name}={self.drawn_argument(value)}" for name, value in draw.kwargs.items()]
        return f"{self.own(draw.fn)}({', '.join(given)})"

    def drawn_argument(self, value: Any) -> str:
        if type(value) is Source:
            return self.input(value)
        if type(value) is list:
            return f"[{', '.join(map(self.drawn_argument, value))}]"
        if type(value) is tuple:
            return f"({''.join(f'{self.drawn_argument(item)}, ' for item in value)})"
        return self.expression(value)

    # ---- statements

    def variable(self, expression: str, value: Any = None) -> str:
        """A statement that names an expression; `value`, which is being made, has that name from now on."""
        name = f"v{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {expression}")
        if value is not None:
            self.made[id(value)] = name
        return name

    def say(self, statement: str) -> None:
        self.lines.append(statement)

    def is_late(self, value: Any) -> bool:
        """Whether to make it empty: it closes a cycle, or is so far down that recursion might not end."""
        return id(value) in self.late or len(self.making) > DEEP

    def fill(self, value: Any, filler: Callable[[], None]) -> None:
        if self.is_late(value):
            self.to_fill.append(filler)
        else:
            filler()

    # ---- displays

    def listed(self, values: Iterable[Any]) -> str:
        return ", ".join([self.expression(value) for value in values])

    def tuple_of(self, values: Iterable[Any]) -> str:
        items = tuple(values)
        return f"({self.listed(items)},)" if len(items) == 1 else f"({self.listed(items)})"

    def dict_of(self, items: Iterable[tuple[Any, Any]]) -> str:
        return "{" + ", ".join([f"{self.expression(k)}: {self.expression(v)}" for k, v in items]) + "}"


def builtin_of(method: types.FunctionType) -> Any:
    """What a method of something that stands for a generator, or a coroutine, stands for itself."""
    name = method.__name__
    return next(vars(builtin)[name] for builtin in STAND_INS.values() if name in vars(builtin))


def stays(value: Any) -> bool:
    """Whether a region may hold on to it: it can only be held so, or is there for good."""
    if is_lasting(value) or type(value) is types.CodeType:
        return True
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or policy.is_user_code(module):
        return False
    return getattr(sys.modules.get(module), name, None) is value


def is_member(value: enum.Enum) -> bool:
    """Whether its class has it: one that a class is still making is like any other object."""
    cls = type(value)
    of_values = cls._value2member_map_.values()
    return cls._member_map_.get(vars(value).get("_name_", "")) is value or any(m is value for m in of_values)


def unrebuildable(value: Any, what: str) -> Break:
    return Break(breaks.UNREBUILDABLE, what, culprit=value)


def is_short(value: Any) -> bool:
    if type(value) is int:
        return value.bit_length() < LONG
    return not isinstance(value, (str, bytes)) or len(value) < LONG


def write_state(r: Rebuilder, name: str, value: Any) -> None:
    """Instance attributes and slots."""
    cls = type(value)
    own = own_dictionary(value)
    if own:
        if all(is_plain_attribute(cls, key) for key in own):
            for key, item in own.items():
                r.say(f"{name}.{key} = {r.expression(item)}")
        else:
            r.say(f"{dictionary_of(name, cls, r)}.update({r.dict_of(own.items())})")
    for slot in slots_of(cls):
        try:
            held = slot.__get__(value)
        except AttributeError:
            continue
        r.say(f"{r.constant(slot)}.__set__({name}, {r.expression(held)})")


def dictionary_of(name: str, cls: type, r: Rebuilder) -> str:
    """What an instance holds, past a `__getattribute__` of the program's."""
    if cls.__getattribute__ is GETATTRIBUTE:
        return f"{name}.__dict__"
    return f"{r.constant(object)}.__getattribute__({name}, '__dict__')"


def is_plain_attribute(cls: type, name: Any) -> bool:
    """Whether `instance.name = value` does nothing but set that key of the instance's dictionary."""
    setter: Any = cls.__setattr__
    if setter is not object.__setattr__ or not isinstance(name, str) or not is_name(name):
        return False
    found = [base.__dict__[name] for base in cls.__mro__ if name in base.__dict__]
    return not any(hasattr(type(member), "__set__") for member in found)


def is_name(text: str) -> bool:
    # the parser would normalise other letters, and find another name than was meant
    return text.isascii() and text.isidentifier() and not keyword.iskeyword(text)
