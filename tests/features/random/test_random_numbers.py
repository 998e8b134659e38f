"""Random numbers: those of eager's streams on every call, and every generator left as eager leaves it."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import framelift
from check import Comparison, reasons, recompiles
from framelift.core import breaks

BACKENDS = ["eager", "aot_eager"]
BODIES = breaks.BODIES.name
RANDOM = breaks.RANDOM.name
EFFECT = breaks.EFFECT.name
VALUE = breaks.DATA_DEPENDENT_VALUE.name
NATIVE = breaks.UNKNOWN_NATIVE.name

G = torch.Generator()
STREAM = random.Random(1)
RNG = np.random.default_rng(3)
LEGACY = np.random.RandomState(5)


class Holder:
    def __init__(self) -> None:
        self.generator = torch.Generator()


HOLDER = Holder()


class Loaded(random.Random):
    def random(self) -> float:
        return 0.5 + super().random() / 2


LOADED = Loaded(3)


def seed() -> None:
    torch.manual_seed(1)
    G.manual_seed(2)
    HOLDER.generator.manual_seed(7)
    random.seed(3)
    np.random.seed(4)
    STREAM.seed(5)
    LOADED.seed(6)
    RNG.bit_generator.state = np.random.default_rng(3).bit_generator.state
    LEGACY.seed(5)


def states() -> list[Any]:
    numpy = [np.random.get_state(), RNG.bit_generator.state, LEGACY.get_state()]
    return [
        *(torch.get_rng_state(), torch.initial_seed(), G.get_state(), HOLDER.generator.get_state()),
        *(G.initial_seed(), random.getstate(), STREAM.getstate(), LOADED.getstate()),
        *map(repr, numpy),
    ]


PROGRAMS: dict[str, tuple[Callable[..., Any], set[str]]] = {}


def program(*broken_by: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A program to be captured whole, or broken for these reasons."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[fn.__name__] = (fn, set(broken_by))
        return fn

    return register


# ---- torch's default generator


@program()
def rand(x):
    return x + torch.rand(3), torch.randn(2), torch.randint(9, (2,)), torch.randperm(4)


@program()
def dropout(x):
    return F.dropout(x, 0.5, True) + F.dropout(x, 0.1, True)


@program()
def in_place(x):
    return x.clone().uniform_() + torch.empty(3).normal_(1, 2) + torch.bernoulli(torch.full((3,), 0.5))


@program()
def drawn_for_nothing(x):
    torch.rand(3), torch.randperm(4), torch.randint(9, (2,)), F.dropout(x, 0.5, True)
    torch.empty(3).normal_(), torch.multinomial(x.abs() + 1, 2), F.gumbel_softmax(x)
    x.clone().bernoulli_(0.5).exponential_()
    return x + torch.rand(3)


@program()
def only_the_shape_of_what_is_drawn(x):
    return torch.zeros_like(torch.rand_like(x)) + torch.rand(3).numel() + torch.empty(3).uniform_().zero_()


@program()
def drawn_in_one_branch_for_nothing(x):
    noise = torch.rand(3)
    return x + noise if x.dim() > 1 else x + 1


@program()
def drawn_without_gradients_for_nothing(x):
    y = x.clone().requires_grad_()
    with torch.no_grad():
        F.dropout(y, 0.5, True)
    return F.rrelu(y, training=True).shape, x + 1


@program(BODIES)
def drawn_in_a_body_for_nothing(x):
    return torch.vmap(lambda row: (torch.rand(2), row + 1)[1], randomness="different")(x)


@program()
def seeded_first(x):
    torch.manual_seed(5)
    return x + torch.rand(3)


@program()
def seeded_last(x):
    y = x + torch.rand(3)
    assert torch.manual_seed(5) is torch.default_generator
    return y


@program(RANDOM)
def seeded_in_the_middle(x):
    a = torch.rand(3)
    torch.manual_seed(5)
    return x + torch.rand(3) + a


@program()
def seeded_twice(x):
    torch.manual_seed(5)
    torch.manual_seed(6)
    y = torch.rand(3)
    torch.manual_seed(7)
    torch.manual_seed(8)
    return x + y


@program(RANDOM)
def seeded_anyhow(x):
    torch.seed()
    torch.manual_seed(2)
    return x + torch.rand(3)


@program(RANDOM)
def asked_for_its_seed(x):
    return x + torch.initial_seed()


@program()
def state_saved(x):
    state = torch.get_rng_state()
    return x + torch.rand(3), state


@program(RANDOM)
def state_saved_and_restored(x):
    state = torch.get_rng_state()
    a = torch.rand(3)
    torch.set_rng_state(state)
    return a + x, torch.rand(3)


@program()
def state_restored_at_the_end(x):
    state = torch.get_rng_state()
    a = torch.rand(3)
    torch.set_rng_state(state)
    state.zero_()
    return a + x, state


@program(RANDOM)
def state_saved_late(x):
    a = torch.rand(3)
    return x + a, torch.get_rng_state()


@program()
def forked(x):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        a = torch.rand(3)
    return x + a


@program(RANDOM)
def forked_and_drawn(x):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        a = torch.rand(3)
    return x + a + torch.rand(3)


@program()
def forked_not_at_all(x):
    with torch.random.fork_rng(enabled=False):
        a = torch.rand(3)
    return x + a + torch.rand(3)


@program(EFFECT, breaks.OUTSIDE_ITERATOR.name)
def forked_with_a_break(x):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        a = torch.rand(3)
        print("here")
        b = torch.rand(3)
    return x + a + b


@program()
def by_its_name(x):
    torch.default_generator.manual_seed(9)
    return x + torch.rand(3, generator=torch.default_generator), torch.default_generator.get_state is None


# ---- generators of the program's


@program()
def global_generator(x):
    return x + torch.rand(3, generator=G) + torch.randn(3, generator=G) + torch.rand(3)


@program()
def attribute_generator(x):
    return x + torch.normal(0.0, 1.0, (3,), generator=HOLDER.generator)


@program()
def generators_in_turn(x):
    a = torch.rand(3, generator=G)
    b = torch.rand(3)
    c = torch.randint(0, 9, (3,), generator=HOLDER.generator)
    d = torch.rand(3)
    return x + a + b + c + d + torch.rand(3, generator=G, dtype=torch.float64)


@program()
def generator_seeded(x):
    G.manual_seed(4)
    a = torch.rand(3, generator=G)
    assert G.manual_seed(4) is G
    return x + a, torch.rand(3, generator=G)


@program()
def generator_made(x):
    g = torch.Generator()
    g.manual_seed(3)
    h = torch.Generator(device="cpu").manual_seed(4)
    return x + torch.rand(3, generator=g) + torch.randperm(3, generator=h), g.device


@program()
def generator_given_away(x):
    g = torch.Generator().manual_seed(3)
    y = x + torch.rand(3, generator=g)
    return y, g.get_state(), type(g)


@program()
def generator_state(x):
    state = G.get_state()
    a = torch.rand(3, generator=G)
    G.set_state(state)
    return a + x, torch.rand(3, generator=G), state


@program(RANDOM)
def generator_asked_for_its_seed(x):
    return x + G.initial_seed()


@program(RANDOM)
def generator_and_tensors(x):
    y = x.clone().uniform_(generator=G)
    return y, torch.bernoulli(y, generator=G), torch.multinomial(torch.ones(3), 1, generator=G)


@program(EFFECT)
def generator_across_a_break(x):
    g = torch.Generator().manual_seed(3)
    a = torch.rand(3, generator=g)
    print("here")
    return x + a + torch.rand(3, generator=g)


# ---- Python's


@program()
def number(x):
    return x * random.random()


@program()
def numbers(x):
    y = x * random.uniform(1, 2) + random.gauss(0, 1) - random.triangular(0, 1, 0.5)
    return y + random.normalvariate(0, 1) + random.expovariate(2.0)


@program()
def whole_numbers(x):
    return x * random.randint(1, 20) + random.randrange(5) + random.randrange(2, 9, 3) + random.getrandbits(8)


@program()
def number_as_result(x):
    return x + 1, random.random(), [random.randint(1, 6)]


@program()
def number_left_alone(x):
    random.random()
    random.randint(1, 6)
    return x + 1


@program()
def number_computed_with(x):
    scale = -(random.random() * 2 - 1) / 3 + 0.5
    return x * scale, scale


@program()
def whole_number_computed_with(x):
    n = random.randint(1, 6)
    return x * (2 * n + 1), n + 1


@program()
def sizes(x):
    y = x[: random.randint(1, 9)], x[-random.randint(1, 5) :], torch.zeros(random.randint(1, 5))
    return y, x.expand(random.randint(1, 4), 3), torch.arange(random.randint(1, 5))


@program(VALUE)
def index(x):
    return x[random.randint(0, 2)]


@program(VALUE)
def rounds(x):
    for n in range(random.randint(1, 3)):
        x = x + n
    return x


@program()
def seed_drawn(x):
    torch.manual_seed(random.randint(1, 100))
    g = torch.Generator().manual_seed(random.randint(1, 100))
    return x + torch.rand(3) + torch.rand(3, generator=g)


@program()
def chosen(x):
    return x * random.choice([1, 2, 3]) + random.choice((0.5, 0.25))


@program()
def in_a_loop(x):
    for _ in range(3):
        x = x * random.random()
    return x


@program(VALUE)
def branch(x):
    return x + 1 if random.random() < 0.5 else x - 1


@program(VALUE)
def probability(x):
    return F.dropout(x, random.random(), True)


@program()
def text(x):
    return x + 1, f"{random.random():.3f}"


@program(EFFECT)
def shuffled(x):
    items = [1, 2, 3]
    random.shuffle(items)
    return x * items[0]


@program(EFFECT)
def chosen_of_anything(x):
    return x, random.choice(["a", 1, None])


@program()
def other_stream(x):
    return x * STREAM.random() + STREAM.gauss(0, 1) + random.random() + STREAM.random()


@program(EFFECT)
def stream_of_a_class_of_its_own(x):
    return x * LOADED.uniform(0, 1)


@program()
def stream_made(x):
    stream = random.Random(3)
    return x * stream.random() + stream.randint(1, 6)


@program()
def stream_seeded(x):
    a = random.random()
    random.seed(4)
    return x * random.random() + a


@program(EFFECT)
def stream_saved(x):
    state = random.getstate()
    a = random.random()
    random.setstate(state)
    return x * random.random() + a


@program(EFFECT)
def across_a_break(x):
    a, b = random.random(), torch.rand(3, generator=G)
    print("here")
    return x * a + b + random.random()


# ---- NumPy's


@program()
def of_numpy(x):
    return x * np.random.rand() + np.random.uniform(1, 2) + np.random.randint(1, 6), np.random.randn()


@program()
def arrays_of_numpy(x):
    a = np.random.rand(3) * 2 + np.random.normal(size=(2, 3))
    return x + torch.from_numpy(a), a, np.random.randint(0, 9, 4)


@program()
def generator_of_numpy(x):
    return x * RNG.random() + torch.as_tensor(RNG.normal(size=3)), RNG.integers(5), RNG.uniform(0, 1)


@program()
def legacy_generator(x):
    return x * LEGACY.randn(), LEGACY.rand(2)


@program()
def permuted(x):
    return x[np.random.permutation(3)], x[RNG.permutation(3)]


@program()
def numpy_seeded(x):
    a = np.random.rand()
    np.random.seed(3)
    return x * np.random.rand() + a


@program()
def generator_of_numpy_made(x):
    return x * np.random.default_rng(3).random() + np.random.RandomState(4).rand()


@program(VALUE)
def branch_by_numpy(x):
    return x + 1 if np.random.rand() < 0.5 else x - 1


@program(RANDOM)
def shuffled_by_numpy(x):
    items = [1, 2, 3]
    np.random.shuffle(items)
    return x * items[0]


WRITTEN = np.ones(3, dtype=np.float32)


@program()
def after_a_write_to_an_array(x):
    WRITTEN[0] = 3.0
    return x * random.random(), STREAM.randint(1, 6)


@program()
def by_numpy_after_a_write_to_an_array(x):
    WRITTEN[1] = 2.0
    return x * np.random.rand()


@program()
def all_at_once(x):
    a, b = torch.rand(3), random.random() + np.random.rand()
    c, d = torch.rand(3, generator=G), STREAM.randint(1, 6)
    return x * a * b + torch.rand(3) * c * d


def outcomes(fn: Callable[..., Any], monkeypatch: Any = None) -> list[Any]:
    seed()
    found = []
    for n in range(4):
        found.append((copy.deepcopy(fn(torch.arange(3.0) + n)), states()))
    return found


class SameNumbers(Comparison):
    """AOTAutograd's results have marks of its own."""

    def tensors(self, a: torch.Tensor, b: torch.Tensor, at: str) -> None:
        assert a.dtype is b.dtype and torch.equal(a, b), f"{at}: values differ"

    def parts(self, a: Any, b: Any, at: str) -> None:
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and a.strides == b.strides and np.array_equal(a, b), f"{at}: {b}"
        else:
            super().parts(a, b, at)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_and_states_are_eagers(name: str, backend: str) -> None:
    fn, broken_by = PROGRAMS[name]
    compiled = framelift.compile(fn, backend=backend, fullgraph=not broken_by)
    SameNumbers().same(outcomes(fn), outcomes(compiled), name)
    assert set(reasons(compiled)) == broken_by
    if not broken_by:
        assert recompiles(compiled) == 0


# ---- guards


def drawn_from(x: torch.Tensor, generator: Any) -> torch.Tensor:
    return x + torch.rand(3, generator=generator) + torch.rand(3)


def test_which_generator_it_is_does_not_matter_unless_it_is_torchs() -> None:
    compiled = framelift.compile(drawn_from, backend="eager", fullgraph=True)
    kinds = [G, HOLDER.generator, torch.default_generator, G, None, torch.default_generator]
    for fn in (drawn_from, compiled):
        seed()
        found = [fn(torch.ones(3), generator) for generator in kinds]
        if fn is drawn_from:
            expected = found
    assert all(map(torch.equal, expected, found))
    assert recompiles(compiled) == 2  # one's own, torch's, None


def test_another_function_in_its_place_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = framelift.compile(number, backend="eager")
    compiled(torch.ones(3))
    monkeypatch.setattr(random, "random", lambda: 3.0)
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))


def test_another_stream_in_its_place_is_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = framelift.compile(lambda x: x * STREAM.random(), backend="eager", fullgraph=True)
    compiled(torch.ones(3))
    monkeypatch.setitem(globals(), "STREAM", random.Random(99))
    assert compiled(torch.ones(3, dtype=torch.float64))[0].item() == random.Random(99).random()


# ---- gradients, bodies, errors


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_through_drawn_numbers(backend: str) -> None:
    def fn(x):
        return (x * random.random() * torch.rand(3, generator=G)).sin() * random.randint(1, 6)

    gradients = []
    for called in (fn, framelift.compile(fn, backend=backend, fullgraph=True)):
        seed()
        for _ in range(3):
            x = torch.arange(3.0, requires_grad=True)
            called(x).sum().backward()
            gradients.append(x.grad)
    for expected, found in zip(gradients[:3], gradients[3:], strict=True):
        assert torch.allclose(expected, found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_unused_dropout_draws_where_gradients_are_needed(backend: str) -> None:
    def fn(x):
        F.dropout(x * 2, training=True)
        return F.dropout(x.sin(), training=True)

    found = []
    for called in (fn, framelift.compile(fn, backend=backend, fullgraph=True)):
        seed()
        x = torch.arange(3.0, requires_grad=True)
        y = called(x)
        y.sum().backward()
        found.append((y.detach(), x.grad, states()))
    SameNumbers().same(*found, "fn")


class NoisyGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * random.random()


def test_what_runs_at_another_time_draws_then() -> None:
    def fn(x):
        return NoisyGradient.apply(x) * random.random()

    found = []
    for called in (fn, framelift.compile(fn, backend="eager")):
        seed()
        for _ in range(3):
            x = torch.ones(3, requires_grad=True)
            y = called(x)
            found.append((y.detach(), random.getstate()))
            y.sum().backward()
            found.append((x.grad, random.getstate()))
    SameNumbers().same(found[:6], found[6:], "fn")


def test_errors_are_eagers() -> None:
    def fn(x):
        try:
            return x * random.randint(6, 1)
        except ValueError as error:
            return x, str(error)

    compiled = framelift.compile(fn, backend="eager")
    SameNumbers().same(fn(torch.ones(3)), compiled(torch.ones(3)), "fn")


class Seen(torch.overrides.TorchFunctionMode):
    """Notes what is called within."""

    def __init__(self, calls: list[str]) -> None:
        super().__init__()
        self.calls = calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func.__name__)
        return func(*args, **(kwargs or {}))


@framelift.disable
def plain() -> None:
    pass


def test_a_mode_of_the_programs_does_not_see_how_numbers_are_given_to_the_graph() -> None:
    def fn(x: torch.Tensor, calls: list[str]) -> torch.Tensor:
        with Seen(calls):
            plain()
            y = x * random.random()
        return y

    found = []
    for run in (fn, framelift.compile(fn, backend="eager")):
        seed()
        calls: list[str] = []
        found.append([*(run(torch.ones(2), calls).tolist() for _ in range(3)), calls])
    assert found[0] == found[1]


def draws_in_its_own_way(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    """As Inductor does: the numbers are not eager's, and the same for the same state of the generator."""

    def run(*args: Any) -> Any:
        torch.rand(7)
        return graph(*args)

    return run


def same_seed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    a = torch.rand(2)
    torch.manual_seed(1)
    b = torch.rand(2)
    torch.manual_seed(1)
    return a, b, torch.rand(2) + x * 0


def same_state(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    state = torch.get_rng_state()
    a = torch.rand(2)
    torch.set_rng_state(state)
    b = torch.nn.functional.dropout(x) * 0 + 1
    torch.set_rng_state(state)
    return a, torch.rand(2) * b


@pytest.mark.parametrize("program", [same_seed, same_state])
def test_what_is_drawn_again_from_the_same_state_is_the_same_to_every_backend(program: Any) -> None:
    compiled = framelift.compile(program, backend=draws_in_its_own_way)
    for _ in range(2):
        first, *others = compiled(torch.ones(2))
        assert all(torch.equal(first, other) for other in others)
