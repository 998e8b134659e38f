"""Calls of modules that do what others of their class did are replayed: the same is captured as if they had
been traced. Whatever makes one module another, or a call one that does more than torch calls, is traced."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from framelift.trace.replays import Replays
from replay_sameness import check_sameness


@pytest.fixture(autouse=True)
def replaying() -> Iterator[None]:
    with framelift.config.patch(replay_modules=True):
        yield


WIDTH = 8


class Feed(nn.Module):
    def __init__(self, width: int = WIDTH, bias: bool = True, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width, bias=bias)
        self.down = nn.Linear(2 * width, width, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
        return x + self.dropout(y) * self.scale


class Normed(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.conv(x)) + x)


class Pair(nn.Module):
    """Several arguments, and a result with a structure."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(
        self, x: torch.Tensor, states: tuple[torch.Tensor, ...], mask: Any = None, scale: float = 1.0
    ) -> Any:
        y = self.mix(x) * scale + states[0]
        if mask is not None:
            y = y.masked_fill(mask, 0.0)
        return y, (states[0] + 1, None), {"x": x, "n": 3}


class Chain(nn.Module):
    def __init__(self, layers: list[Any]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def run(model: Any, args: tuple[Any, ...]) -> Any:
    return model(*args)


def feeds(count: int = 4) -> Chain:
    torch.manual_seed(0)
    return Chain([Feed() for _ in range(count)])


X = (3, WIDTH)


def check(model: Any, *args: Any) -> int:
    """How many calls are replayed; the results of compiled calls, and the state afterwards, are eager's."""
    count = check_sameness(run, model, args)
    twin = copy_of(model)
    torch.manual_seed(1)
    expected = twin(*args)
    torch.manual_seed(1)
    found = framelift.compile(model, backend="eager")(*args)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=0, atol=0)
    return count


def copy_of(model: Any) -> Any:
    import copy

    return copy.deepcopy(model)


# ---- what is replayed


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_layers_of_one_class_are_replayed(training: bool, grad: bool) -> None:
    with torch.set_grad_enabled(grad):
        assert check(feeds().train(training), torch.randn(X)) >= 2


@pytest.mark.parametrize("training", [False, True])
def test_writes_to_buffers_and_operators_in_place_are_replayed(training: bool) -> None:
    model = nn.Sequential(*[Normed() for _ in range(4)]).train(training)
    assert check(model, torch.randn(2, WIDTH, 4, 4)) >= 2


def test_arguments_and_results_with_structure_are_replayed() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Pair() for _ in range(4)])

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
            states: Any = (x, None)
            found = []
            for layer in self.layers:
                x, states, others = layer(x + 1, (states[0], x), mask=mask > 0, scale=2.0)
                found.append(others["n"])
            return x, states, found

    assert check(Model(), torch.randn(X), torch.randn(X)) >= 2


def test_a_model_in_a_closure_or_a_global_is_replayed() -> None:
    model = feeds()

    def closed(x: torch.Tensor) -> Any:
        return model(x)

    assert check_sameness(closed, torch.randn(X)) >= 2


def test_gradients_are_eagers() -> None:
    model, x = feeds(), torch.randn(X)
    model.eval()(x).sum().backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    framelift.compile(model, backend="aot_eager")(x).sum().backward()
    torch.testing.assert_close({n: p.grad for n, p in model.named_parameters()}, expected)


def test_each_replayed_module_is_guarded() -> None:
    """Whatever is changed in any layer afterwards is noticed."""

    def changes() -> list[Callable[[Feed], Any]]:
        return [
            lambda layer: setattr(layer, "scale", 3.0),
            lambda layer: layer.dropout.train(),
            lambda layer: setattr(layer, "dropout", nn.Identity()),
            lambda layer: setattr(layer.norm, "eps", 0.5),
            lambda layer: setattr(layer.up, "bias", None),
            lambda layer: layer.down.register_forward_hook(lambda module, args, out: out + 1),
            lambda layer: setattr(layer.up, "forward", lambda x: torch.zeros(3, 2 * WIDTH)),
            lambda layer: setattr(layer.up, "weight", nn.Parameter(torch.ones(2 * WIDTH, WIDTH))),
            lambda layer: layer.up.weight.requires_grad_(False),
            lambda layer: layer.double(),
        ]

    for number in range(len(changes())):
        for at in (0, 1, 3):
            model, x = feeds().eval(), torch.randn(X)
            compiled = framelift.compile(model, backend="eager")
            compiled(x)
            changes()[number](model.layers[at])  # type: ignore[arg-type]
            torch.manual_seed(2)
            try:
                expected = model(x)
            except RuntimeError as error:
                with pytest.raises(type(error)):
                    compiled(x)
                continue
            torch.manual_seed(2)
            found = compiled(x)
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
            assert found.requires_grad == expected.requires_grad


# ---- modules that differ


def differing() -> dict[str, Callable[[Feed], Any]]:
    """What makes the last of the layers another one."""
    shared = nn.Linear(WIDTH, 2 * WIDTH)
    return {
        "a number": lambda layer: setattr(layer, "scale", 2.0),
        "the sign of zero": lambda layer: setattr(layer, "scale", -0.0),
        "a number of another type": lambda layer: setattr(layer, "scale", 1),
        "dropout": lambda layer: setattr(layer.dropout, "p", 0.5),
        "training": lambda layer: layer.dropout.train(not layer.dropout.training),
        "epsilon": lambda layer: setattr(layer.norm, "eps", 0.5),
        "no bias": lambda layer: setattr(layer.up, "bias", None),
        "a hook": lambda layer: layer.up.register_forward_hook(lambda module, args, out: out * 2),
        "a hook of all": lambda layer: layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
        "forward of its own": lambda layer: setattr(layer.norm, "forward", lambda x: x * 2),
        "another class": lambda layer: setattr(layer, "norm", nn.Identity()),
        "another width": lambda layer: (
            setattr(layer, "up", nn.Linear(WIDTH, 5)),
            setattr(layer, "down", nn.Linear(5, WIDTH)),
        ),
        "no gradient": lambda layer: layer.up.weight.requires_grad_(False),
        "a buffer for a parameter": lambda layer: (
            layer.up.__dict__["_parameters"].pop("bias"),
            layer.up.register_buffer("bias", torch.ones(2 * WIDTH)),
        ),
        "other strides": lambda layer: setattr(
            layer.up, "weight", nn.Parameter(torch.randn(WIDTH, 2 * WIDTH).t())
        ),
        "tied parameters": lambda layer: setattr(layer.norm, "bias", layer.norm.weight),
        "a module of another's": lambda layer: setattr(layer, "up", shared),
        "a parameter in its dictionary": lambda layer: layer.up.__dict__.__setitem__(
            "weight", layer.up._parameters.pop("weight")
        ),
    }


@pytest.mark.parametrize("what", differing())
@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_module_that_differs_does_what_it_does(what: str, at: int) -> None:
    model = feeds()
    differing()[what](model.layers[at])  # type: ignore[arg-type]
    check(model, torch.randn(X))


def test_a_parameter_that_two_layers_share() -> None:
    model = feeds()
    model.layers[2].up.weight = model.layers[1].up.weight  # type: ignore[union-attr]
    check(model, torch.randn(X))
    model.layers[3] = model.layers[0]
    check(model, torch.randn(X))


def test_a_subclass_and_an_attribute_of_a_class() -> None:
    class Other(Feed):
        pass

    class Quiet(Feed):
        def __getattr__(self, name: str) -> Any:
            return super().__getattr__(name) if name != "dropout" else nn.Identity()

    check(Chain([Feed(), Other(), Feed(), Quiet(), Quiet(), Quiet()]), torch.randn(X))


# ---- calls that do more, or look at more


class Counting(nn.Module):
    """Each layer does something beside torch calls."""

    def __init__(self, number: int, does: Callable[[Any, torch.Tensor], Any], about: dict[str, Any]) -> None:
        super().__init__()
        self.number, self.does = number, does
        self.lin = nn.Linear(WIDTH, WIDTH)
        self.about = about
        self.seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.does(self, x)
        return self.lin(x) if found is None else self.lin(x) * found


TABLE: dict[str, Any] = {"calls": 0}
NAMES: list[str] = []


def write_global(layer: Any, x: torch.Tensor) -> None:
    TABLE["calls"] += 1


def write_self(layer: Any, x: torch.Tensor) -> None:
    layer.seen += 1


def write_shared(layer: Any, x: torch.Tensor) -> None:
    layer.about["outs"].append(x)


def write_shared_and_read(layer: Any, x: torch.Tensor) -> Any:
    layer.about["outs"].append(x)
    return len(layer.about["outs"])


def read_number(layer: Any, x: torch.Tensor) -> Any:
    return layer.number


def write_by_number(layer: Any, x: torch.Tensor) -> None:
    layer.about.setdefault("by number", {})[layer.number] = x


def ask_identity(layer: Any, x: torch.Tensor) -> Any:
    return 2.0 if x is layer.about["x"] else 3.0


def keep_tensor(layer: Any, x: torch.Tensor) -> None:
    layer.last = x * 2


def fail_and_go_on(layer: Any, x: torch.Tensor) -> Any:
    try:
        return layer.missing
    except AttributeError:
        return layer.number + 1


def look_at_parent(layer: Any, x: torch.Tensor) -> Any:
    return layer.about["parent"].layers[0].lin.bias


def draw(layer: Any, x: torch.Tensor) -> Any:
    return torch.rand(WIDTH)


def enter_context(layer: Any, x: torch.Tensor) -> Any:
    with torch.no_grad():
        return x.sum()


def detach(layer: Any, x: torch.Tensor) -> Any:
    return x.detach()


def change_argument(layer: Any, x: torch.Tensor) -> None:
    x.mul_(2)


def ask_whether_leaf(layer: Any, x: torch.Tensor) -> Any:
    return 2.0 if x.is_leaf else 3.0


def ask_attribute(layer: Any, x: torch.Tensor) -> Any:
    return getattr(x, "mark", 2.0)


def count_in_default(layer: Any, x: torch.Tensor, held: list[int] = [0]) -> Any:  # noqa: B006
    held[0] += 1
    return float(held[0] % 3)


DOES = [write_global, write_self, write_shared, write_shared_and_read, read_number, write_by_number, draw]
DOES += [ask_identity, keep_tensor, fail_and_go_on, look_at_parent, enter_context, detach, change_argument]
DOES += [ask_whether_leaf, ask_attribute, count_in_default]


@pytest.mark.parametrize("does", DOES)
@pytest.mark.parametrize("same_number", [False, True])
def test_a_call_that_does_more_is_eagers(does: Any, same_number: bool) -> None:
    x = torch.randn(X)

    def made() -> tuple[Any, dict[str, Any]]:
        torch.manual_seed(0)
        about: dict[str, Any] = {"outs": [], "x": x}
        model = Chain([Counting(0 if same_number else n, does, about) for n in range(4)])
        about["parent"] = model
        return model, about

    states = []
    for compiled in (False, True):
        TABLE["calls"] = 0
        count_in_default.__defaults__[0][0] = 0  # type: ignore[index]
        model, about = made()
        torch.manual_seed(1)
        call = framelift.compile(model, backend="eager") if compiled else model
        given = [x.clone() for _ in range(3)]
        for one in given:
            one.mark = 5.0  # type: ignore[attr-defined]
        outs = [call(one) for one in given]
        del about["parent"], about["x"]
        seen = [(layer.seen, getattr(layer, "last", None)) for layer in model.layers]
        states.append((outs, given, about, seen, dict(TABLE)))
    torch.testing.assert_close(states[1], states[0], rtol=0, atol=0)


@pytest.mark.parametrize("does", DOES)
def test_what_is_captured_is_the_same_with_replays(does: Any) -> None:
    about: dict[str, Any] = {"outs": [], "x": torch.randn(X)}
    model = Chain([Counting(0, does, about) for _ in range(4)])
    about["parent"] = model
    check_sameness(run, model, (torch.randn(X),))


def test_what_the_caller_has_changed_between_calls_is_seen() -> None:
    class Reading(nn.Module):
        def __init__(self, shared: Any) -> None:
            super().__init__()
            self.lin = nn.Linear(WIDTH, WIDTH)
            self.shared = shared

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.lin(x) * self.shared["scale"] + len(self.shared["list"])

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared: dict[str, Any] = {"scale": 1.0, "list": []}
            self.layers = nn.ModuleList([Reading(self.shared) for _ in range(4)])

        def forward(self, x: torch.Tensor, scale: bool) -> torch.Tensor:
            for n, layer in enumerate(self.layers):
                x = layer(x)
                if scale:
                    self.shared["scale"] = float(n)
                else:
                    self.shared["list"].append(n)
            return x

    for scale in (True, False):
        torch.manual_seed(0)
        eager, x = Model(), torch.randn(X)
        torch.manual_seed(0)
        model = Model()
        compiled = framelift.compile(model, backend="eager")
        for _ in range(3):
            torch.testing.assert_close(compiled(x, scale), eager(x, scale), rtol=0, atol=0)
            assert model.shared == eager.shared


def test_a_global_model_that_its_layers_know_by_name() -> None:
    class Naming(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first: Any = GLOBAL["model"].layers[0]
            return self.lin(x) + first.lin.bias

    GLOBAL["model"] = model = Chain([Naming() for _ in range(4)])
    x = torch.randn(X)
    expected = model(x)

    def call(x: torch.Tensor) -> Any:
        return GLOBAL["model"](x)

    torch.testing.assert_close(framelift.compile(call, backend="eager")(x), expected, rtol=0, atol=0)
    torch.testing.assert_close(framelift.compile(model, backend="eager")(x), expected, rtol=0, atol=0)


GLOBAL: dict[str, Any] = {}


def test_a_break_after_replays_goes_on_as_eagerly(capsys: pytest.CaptureFixture[str]) -> None:
    class Telling(Feed):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = super().forward(x)
            if self.scale > 1:
                print("told")
            return x

    model = Chain([Telling() for _ in range(5)]).eval()
    model.layers[3].scale = 2.0  # type: ignore[assignment]
    x = torch.randn(X)
    expected, told = model(x), capsys.readouterr().out
    compiled = framelift.compile(model, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(x), expected, rtol=0, atol=0)
        assert capsys.readouterr().out == told


def test_modules_in_containers_of_many_kinds() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.by_name = nn.ModuleDict({f"n{n}": Feed() for n in range(3)})
            self.nested = nn.Sequential(nn.Sequential(Feed(), Feed()), nn.Sequential(Feed(), Feed()))
            self.plain = [Feed(), Feed(), Feed()]
            self.ordered = collections.OrderedDict((n, Feed()) for n in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in (*self.by_name.values(), *self.plain, *self.ordered.values()):
                x = layer(x)
            return self.nested(x)

    assert check_sameness(run, Model(), (torch.randn(X),)) >= 3


def test_an_option_turns_replays_off() -> None:
    calls: list[Any] = []
    replay = Replays.replay
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Replays, "replay", lambda self, *args: (calls.append(args), replay(self, *args))[1])
        for wanted in (True, False):
            calls.clear()
            with framelift.config.patch(replay_modules=wanted):
                framelift.compile(feeds(), backend="eager")(torch.zeros(X))
            assert bool(calls) is wanted
