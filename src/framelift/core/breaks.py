"""Why something can't be captured: each reason has a stable name, an explanation and a hint.

`Break` is how a trace ends early. It derives from BaseException so that no handler of the program
being traced can swallow it, and carries what a message needs: which reason, what exactly, and where
in the user's code.
"""

from __future__ import annotations

import linecache
import traceback
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from framelift.core.config import config


@dataclass(frozen=True)
class Explained:
    """What is named and explained to users: reasons for breaks, causes of recompilations."""

    name: str
    """Stable: messages, counters and the docs go by it."""
    explanation: str
    hint: str
    """What to do about it."""


class Registry(dict[str, Explained]):
    """All of one kind, by name; the tables in the docs are made from it."""

    def add(self, name: str, explanation: str, hint: str) -> Explained:
        made = self[name] = Explained(name, explanation, hint)
        return made


Reason = Explained
REASONS = Registry()
reason = REASONS.add

DATA_DEPENDENT_BRANCH = reason(
    "data-dependent branch",
    "Python has to know the value of a tensor to go on, and there are no values while a graph is captured.",
    "Use torch.where or torch.cond, or move the test out of the compiled function.",
)
DATA_DEPENDENT_VALUE = reason(
    "data-dependent value",
    "A Python number (or list, or array) was asked of a tensor whose value is not known while capturing.",
    "Keep the value in a tensor, compute it outside the compiled function, or set "
    "framelift.config.capture_scalar_outputs = True, which captures numbers.",
)
DYNAMIC_OUTPUT_SHAPE = reason(
    "data-dependent shape",
    "The shape of this operator's result depends on the values in its input.",
    "Use a form with a fixed shape (torch.where instead of a boolean mask), keep it outside, or set "
    "framelift.config.capture_dynamic_output_shape_ops = True.",
)
UNSUPPORTED_FAKE = reason(
    "operator without a fake kernel",
    "The operator can't be run on tensors without data, so its result's shape is unknown.",
    "Register a fake implementation (torch.library.register_fake) or keep the call outside.",
)
FAKE_FAILED = reason(
    "fake kernel that fails",
    "The operator's fake implementation raised an error, so its result's shape is unknown.",
    "Repair what was given to torch.library.register_fake, or keep the call outside.",
)
UNKNOWN_TENSOR = reason(
    "unknown tensor",
    "A real tensor turned up that is neither an input nor a result of the graph; its value would be frozen.",
    "Pass the tensor as an argument, or keep it in a module's buffer or a global.",
)
UNKNOWN_NATIVE = reason(
    "unknown native function",
    "A function implemented in C could look into objects, or do things, that Framelift can't see.",
    "Move the call out of the compiled function.",
)
OPAQUE_OBJECT = reason(
    "opaque object",
    "The object keeps state in C that can't be guarded, and a native operation would look at it.",
    "Read what is needed from it before the compiled function, and pass that in.",
)
EFFECT = reason(
    "run-time effect",
    "The call has an effect that must happen each time the function runs, not once while it is captured.",
    "Move it out of the compiled function, or accept that the function is not captured whole.",
)
ERROR_AFTER_EFFECT = reason(
    "error after an effect",
    "The operator may fail, and the program may handle that, after something was done that can't be undone.",
    "Have what can't be undone done behind the operator, or handle the error outside the compiled function.",
)
SKIPPED = reason(
    "skipped frame",
    "The function asks to be run as plain Python (skip_frame); what it calls is captured on its own.",
    "Remove the call of skip_frame, or call the function outside the compiled one.",
)
DISABLED = reason(
    "disabled function",
    "The function is marked to run as plain Python.",
    "Remove the marking, or call the function outside the compiled one.",
)
FORBIDDEN = reason(
    "forbidden function",
    "The function is marked as one that captured code must not call (forbid_in_graph).",
    "Call it outside the compiled function.",
)
OTHER_RANK = reason(
    "break of another rank",
    'Another rank breaks here, and the ranks are to do the same (config.rank_agreement is "agree").',
    "Look at the break that the other rank reports.",
)
ASKED_FOR = reason(
    "break that was asked for",
    "The program calls for the capture to end here.",
    "Remove the call of graph_break.",
)
IDENTITY = reason(
    "address of an abstract value",
    "id(), data_ptr() and default reprs show an address, which a captured value does not have.",
    "Use the object itself, or a stable name, instead of its address.",
)
UNREBUILDABLE = reason(
    "value that can't be rebuilt",
    "The value outlives the captured code, and no equal one can be made after the graph has run.",
    "Return or store plain containers, tensors, dataclasses or instances instead.",
)
GRAPH_ARGUMENT = reason(
    "argument that a graph can't hold",
    "A torch function was called with an object that can't be written into a graph.",
    "Pass tensors, numbers, strings, dtypes, devices or containers of them.",
)
TENSOR_KIND = reason(
    "unsupported kind of tensor",
    "Tensors of this kind are not captured.",
    "Convert the tensor before the compiled function, or keep the code that uses it outside.",
)
BACKEND_REFUSES = reason(
    "refused by the backend",
    "The backend could not compile a graph with tensors of this layout or type, or with numbers that are "
    "found in data: the operator runs as it is.",
    "Keep the code that uses such tensors or numbers outside, or use another backend.",
)
SET_ORDER = reason(
    "order of a set",
    "The order in which a set is iterated depends on its history, and a set made anew has another.",
    "Use a list or a dict, or sort the elements.",
)
RANDOM = reason(
    "generator of random numbers",
    "Random numbers and the states of their generators must be those of plain Python. A graph can only draw "
    "from torch's default generators.",
    "Draw, seed or save the state before the compiled function, or leave `generator=` out.",
)
NUMPY = reason(
    "NumPy",
    "torch has no implementation of this that equals NumPy's in types, layout and shared memory.",
    "Use the function of torch on tensors, or keep the call outside.",
)
DISTRIBUTED = reason(
    "call of torch.distributed",
    "The call sets groups up, or talks to other ranks in a way that a graph has no operator for.",
    "Make groups and meshes outside; docs/distributed.md lists the collectives that are captured.",
)
GENERATOR_FRAME = reason(
    "generator as the outermost frame",
    "A generator, coroutine or asynchronous function is captured only when a captured function drains it.",
    "Compile the function that consumes the generator.",
)
NEW_IMPORT = reason(
    "import of a new module",
    "Importing a module of the program's for the first time runs its code, which must happen at run time.",
    "Import the module before the compiled function is called.",
)
FINALISER = reason(
    "object with a finaliser",
    "The object's `__del__` must run when the program drops it, so the object must be a real one.",
    "Make the object outside, or release what it holds with a context manager.",
)
OUTSIDE_ITERATOR = reason(
    "iterator from before",
    "The iterator existed before the captured code, and does not say where it stands, stood elsewhere in "
    "earlier calls, or belongs to a loop that contains another break. It is advanced for real.",
    "Remove the other break in the loop, or pass the container instead of an iterator.",
)
OUTSIDE_EXCEPTION = reason(
    "exception from before",
    "Raising an exception that existed before changes its traceback, which must happen at run time.",
    "Raise a new exception.",
)
OPERATOR_ERROR = reason(
    "error of an operator",
    "An operator failed on fake tensors, and its error tells of these. It is run for real instead.",
    "Check the operands before the call instead of catching the error.",
)
BODIES = reason(
    "functions that an operator can't be given",
    "The functions given to an operator such as torch.cond must return results of the same structure, which "
    "share no memory with their arguments.",
    "Change the function so that its result has the structure, shape, dtype and device that it should have.",
)
TRITON = reason(
    "launch of a Triton kernel",
    "Graphs have an operator for launches of Triton kernels, and it can't do what this launch asks for.",
    "Use a kernel with a grid and, of triton.autotune, configs and key; or launch it outside.",
)
UNRESUMABLE = reason(
    "place that can't be left",
    "The capture must end here, and the function can't be resumed at this place.",
    "Move what can't be captured, or the code around it, into a function of its own.",
)
FAULT = reason(
    "bug in Framelift",
    "Framelift failed at this instruction. The program is not at fault, and it runs as plain Python.",
    "Please report it with the error message above; meanwhile the code can be kept outside.",
)
HANDLER_FAILED = reason(
    "handler that fails",
    "A handler that was registered for this call, and is no part of Framelift, raised an error.",
    "Repair the handler; the log has its traceback. A call that it can't capture it may refuse by a break.",
)
ATTRIBUTE_WRITE = reason(
    "attribute that can't be set",
    "Setting a method or special name of a class, or an attribute of a function or an object of C, changes "
    "what C code does with it, at once.",
    "Do it before the compiled function is called, or set the attribute on an instance.",
)
INTERNALS = reason(
    "internals of an object",
    "The value is a part of an object (a namespace, a closure) that can't be guarded as a whole.",
    "Read the names that are needed one by one, or pass them in.",
)
TENSOR_STATE = reason(
    "state of a tensor",
    "The program asks for what only a real tensor has: its version, history, storage or Python attributes.",
    "Ask before the compiled function, and pass the answer in; or keep such attributes on another object.",
)
TENSOR_MEMORY = reason(
    "memory of a tensor",
    "The tensor is given other memory in a way that a graph has no operator for.",
    "Assign to Tensor.data, make a new tensor, or do it outside the compiled function.",
)
GRADIENTS = reason(
    "gradients inside",
    "The graph can't compute these gradients: they lead to tensors from before the function, or to hooks.",
    "Compute the loss inside, and its gradients outside the compiled function.",
)
AUTOGRAD_FUNCTION = reason(
    "autograd function",
    "The forward or backward of a torch.autograd.Function does what a graph can't hold.",
    "Return a tuple of tensors and constants, and leave materialize_grads on where there are many tensors.",
)
CHECKPOINT = reason(
    "activation checkpoint",
    "torch.utils.checkpoint is captured with use_reentrant=False and settings that a graph can hold.",
    "Use use_reentrant=False, and leave the other settings as they are.",
)
TORCH_STATE = reason(
    "state of torch",
    "A flag, context or mode of torch is set, or left, in a way that the graph can't repeat.",
    "Set it around the compiled function, or in a `with` statement inside it.",
)
OPTIMIZER = reason(
    "optimizer over several kinds of tensors",
    "torch sorts the parameters of one group by device and dtype, in an order that is not known in advance.",
    "Give the optimizer a parameter group for each device and dtype.",
)
OPERATOR_KIND = reason(
    "operator without a body",
    "The operator runs something that was made for another runtime, or in C++, or nothing is known of what "
    "it does with its function.",
    "Call it outside the compiled function; or register how it is captured (docs/higher_order.md).",
)
UNSTABLE_VALUE = reason(
    "value that changes by itself",
    "The guards do not hold for the very call that they were made from: something changes when it is read.",
    "Read it once, before the compiled function, and pass it in.",
)


class Named(Protocol):
    """What a place has of the code object that it is in, or of what stands for that."""

    @property
    def co_filename(self) -> str: ...
    @property
    def co_qualname(self) -> str: ...


@dataclass(frozen=True)
class CodeName:
    """Which code it is, without keeping it alive."""

    co_filename: str
    co_qualname: str

    @classmethod
    def of(cls, code: Named) -> CodeName:
        return cls(code.co_filename, code.co_qualname)


@dataclass(frozen=True)
class Place:
    """Where in the user's code, down to the columns. It is kept with entries: so not with the code itself."""

    code: CodeName
    line: int | None
    columns: tuple[int | None, int | None] = (None, None)
    end_line: int | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """The same for the same place, whichever copy of the code it is in."""
        return (self.code.co_filename, self.code.co_qualname, self.line, self.columns)

    @property
    def expression(self) -> str:
        """The source text that stands there, empty if it can't be found."""
        if self.line is None:
            return ""
        text = linecache.getline(self.code.co_filename, self.line).rstrip("\n")
        start, end = self.columns
        if start is None or end is None or self.end_line != self.line:
            return text.strip()
        return text.encode()[start:end].decode(errors="replace")

    @property
    def where(self) -> str:
        """`file:line: expression`, without the expression where that is not known."""
        return ": ".join(filter(None, (f"{self.code.co_filename}:{self.line}", self.expression)))

    def __str__(self) -> str:
        return f'File "{self.code.co_filename}", line {self.line}, in {self.code.co_qualname}'


OF_OPERATORS = (
    "  Explanation: The operator may run the function later, or never, or more than once.",
    "  Hint: Have the function compute new values and give these back.",
)


@dataclass
class Break(BaseException):
    """The end of a trace. `stack` is where, outermost first."""

    reason: Reason
    context: str = ""
    stack: list[Place] = field(default_factory=list)
    culprit: object = field(default=None, repr=False)
    """The value that is in the way, if one is."""
    is_error: bool = field(default=False, repr=False)
    """Whether the program wants no break here (`error_on_graph_break`)."""
    operator: str = field(default="", repr=False)
    """The operator that takes no such function, and raises an error when it is called plainly, too."""
    body_of: str = field(default="", repr=False)
    """The operator that was given the function in which it came up, if it was given one."""
    watches_gradients: bool = field(default=False, repr=False)
    """Whether the program is about to look at the gradients of a tensor of the graph."""
    of_differentiated_operator: bool = field(default=False, repr=False)
    """Whether it is about an operator that is given functions, and may be differentiated."""
    gives_data: tuple[str, int, int] | None = field(default=None, repr=False)
    """The instruction at which it is, by function, line and number, if that gives what the data decides."""
    found_at: str = field(default="", repr=False)
    """Where in Framelift, with `config.verbose`."""

    def __post_init__(self) -> None:
        super().__init__(self.reason.name, self.context)

    def let_go(self) -> None:
        """A break is kept, for people to look at; what it came through must not be."""
        if config.verbose and self.__traceback__ is not None:
            self.found_at = "".join(traceback.format_tb(self.__traceback__))
        self.__traceback__ = self.__context__ = self.__cause__ = None
        self.culprit = None

    @property
    def one_line(self) -> str:
        return f"{self.reason.name}: {self.context}" if self.context else self.reason.name

    @property
    def headline(self) -> str:
        """Where in the user's code, in the words that people look for in logs."""
        at = f" at {self.stack[-1].code.co_filename}:{self.stack[-1].line}" if self.stack else ""
        return f"Graph break in user code{at}"

    def describe(self) -> str:
        lines = [self.one_line, f"  Explanation: {self.reason.explanation}", f"  Hint: {self.reason.hint}"]
        if self.operator:
            lines[1:] = [f"  Higher Order Operator: {self.operator}", *OF_OPERATORS]
        elif self.body_of:
            lines.append(f"  Higher Order Operator: {self.body_of}")
        if self.stack:
            lines.append("  from user code:")
            for place in self.stack:
                lines.append(f"    {place}")
                if place.expression:
                    lines.append(f"      {place.expression}")
        if self.found_at:
            lines += ["  Where in Framelift:", *(f"    {line}" for line in self.found_at.splitlines())]
        return "\n".join(lines)

    __str__ = describe
    __hash__ = BaseException.__hash__


def refuse(reason: Reason, context: str) -> NoReturn:
    """Ends the trace."""
    raise Break(reason, context)


class OnBreak:
    """Whether a break is an error: what `framelift.error_on_graph_break` has said last. A plain object: a
    trace knows of a change as of any other from outside, and makes it when the captured code has run."""

    def __init__(self) -> None:
        self.error = False


ON_BREAK = OnBreak()
