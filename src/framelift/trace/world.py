"""The world of a trace: all that it knows of the outside, made of parts."""

from __future__ import annotations

from typing import Any, TypeVar

from framelift.graph.recorder import Recorder
from framelift.trace.addresses import Addresses
from framelift.trace.attribute_writes import AttributeWrites
from framelift.trace.attributes import Attributes
from framelift.trace.classes import Classes
from framelift.trace.comparisons import Comparisons
from framelift.trace.containers import Containers
from framelift.trace.context_variables import ContextVariables
from framelift.trace.derived_numbers import DerivedNumbers
from framelift.trace.errors import Errors
from framelift.trace.identity import Identity, SetOrder
from framelift.trace.inputs import Guards, Inputs
from framelift.trace.late_texts import LateTexts
from framelift.trace.lifetimes import Created, Lifetimes
from framelift.trace.loops import Loops
from framelift.trace.materialize import Materialize
from framelift.trace.native_calls import NativeCalls
from framelift.trace.operators import Operators
from framelift.trace.outside_iterators import OutsideIterators
from framelift.trace.overrides import Overrides
from framelift.trace.part import Part
from framelift.trace.plain_calls import PlainCalls
from framelift.trace.plain_getters import PlainGetters
from framelift.trace.raising_branches import RaisingBranches
from framelift.trace.replays import Replays
from framelift.trace.runtime_calls import RuntimeCalls
from framelift.trace.scopes import Functions, Scopes
from framelift.trace.tensor_attributes import TensorAttributes
from framelift.trace.traced_frame import Places, TracedFrame
from framelift.trace.type_rules import ABSTRACT, AbstractValues
from framelift.trace.writes import WrittenState

State = TypeVar("State")


class TraceWorld:
    """What the interpreter's operations mean in a trace.

    A value from outside enters through `inputs`, which adds guards; what C code looks at is opened by
    `materialize`; calls of what is not interpreted go through `calls`; what the program writes to the outside
    is collected by `writes`. The other parts do what their names say.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.machine: Any = None
        """The interpreter: where the program stands, and how the world calls its functions."""
        self.frame = TracedFrame(self)
        self.places = Places(self)
        self.guards = Guards(self)
        self.inputs = Inputs(self)
        self.created = Created(self)
        self.scopes = Scopes(self)
        self.functions = Functions(self)
        self.classes = Classes(self)
        self.attributes = Attributes(self)
        self.attribute_writes = AttributeWrites(self)
        self.tensors = TensorAttributes(self)
        self.materialize = Materialize(self)
        self.addresses = Addresses(self)
        self.identity = Identity(self)
        self.set_order = SetOrder(self)
        self.containers = Containers(self)
        self.iterators = OutsideIterators(self)
        self.loops = Loops(self)
        self.context_variables = ContextVariables(self)
        self.operators = Operators(self)
        self.comparisons = Comparisons(self)
        self.calls = NativeCalls(self)
        self.errors = Errors(self)
        self.raising_branches = RaisingBranches(self)
        self.lifetimes = Lifetimes(self)
        self.overrides = Overrides(self)
        self.runtime_calls = RuntimeCalls(self)
        self.derived_numbers = DerivedNumbers(self)
        self.late_texts = LateTexts(self)
        self.writes = WrittenState(self)
        self.plain_calls = PlainCalls(self)
        self.plain_getters = PlainGetters(self)
        self.replays = Replays(self)
        self.features: dict[type, Any] = {}
        """What features keep for this trace, by its class."""
        overrides = self.overrides
        recorder.ask_program(overrides.ask_class, overrides.ask_mode, overrides.meet_mode)

    @property
    def may_have_symbols(self) -> bool:
        """Whether there are symbols in the trace, or numbers that may turn out to be some."""
        return self.recorder.builder.symbols is not None or self.inputs.dynamism.may_vary

    def feature(self, kind: type[State]) -> State:
        """The object that a feature keeps for this trace. It is made when it is first asked for."""
        found = self.features.get(kind)
        if found is None:
            make: Any = kind
            found = self.features[kind] = make(self)
        return found

    def abstract(self, value: Any) -> AbstractValues:
        """What does with a value of an abstract type what Python would do."""
        return self.feature(ABSTRACT[type(value)])

    def release(self) -> None:
        """Lets go of the program's objects, which may have finalisers, without waiting for the collector."""
        for part in [*vars(self).values(), *vars(self).get("features", {}).values()]:
            if isinstance(part, Part):
                vars(part).clear()
        lifetimes = self.lifetimes  # what a generator that dies later asks
        vars(self).clear()
        self.lifetimes = lifetimes
