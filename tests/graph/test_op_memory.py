"""The op memory can't be told from running on fakes: every fact about every tensor is the same, whether an
operator was run, remembered in the same trace, or remembered from another one."""

from __future__ import annotations

import operator
import random
import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

pytest.importorskip("expecttest", reason="torch's database of operators needs it")

from torch.utils import _pytree as pytree  # noqa: E402

from check import FACTS  # noqa: E402
from framelift.core.breaks import Break  # noqa: E402
from framelift.graph import op_memory  # noqa: E402
from framelift.graph.fakes import Fakes, nbytes  # noqa: E402
from framelift.graph.input_fakes import add_input  # noqa: E402
from framelift.graph.recorder import Recorder  # noqa: E402
from torch_databases.sweep_operators import OpInfo, cases, name_of, op_db  # noqa: E402

Tensor = torch.Tensor
Program = Callable[..., Any]


def facts(tensors: list[Any]) -> list[Any]:
    """All that can be known of each tensor and of how they relate."""
    ids, storages = [id(t) for t in tensors], [storage(t) for t in tensors]
    return [
        {
            **{name: known(fact, tensor) for name, fact in FACTS.items()},
            "same as": ids.index(id(tensor)),
            "shares memory with": storages.index(storage(tensor)),
            "bytes": nbytes(tensor) if tensor.layout is torch.strided else None,
            "view of": view_of(tensor, ids),
        }
        for tensor in tensors
    ]


def known(fact: Callable[[Any], Any], tensor: Any) -> Any:
    try:
        return fact(tensor)
    except RuntimeError:  # a view that autograd no longer vouches for
        return RuntimeError


def storage(tensor: Any) -> int:
    return op_memory.storage(tensor) if tensor.layout is torch.strided else id(tensor)


def view_of(tensor: Any, ids: list[int]) -> Any:
    if not tensor._is_view():
        return None
    base = tensor._base
    creation = torch._C._autograd._get_creation_meta(tensor)
    return (ids.index(id(base)) if id(base) in ids else "something else", int(creation))


def run(program: Program, arguments: Any, times: int = 1) -> list[Any]:
    """The facts about a program's tensors, for each time it was run in one trace."""
    recorder = Recorder(lambda: None)
    found = []
    with recorder.fakes, recorder:
        for _ in range(times):
            # nothing of one run may be an argument of the next
            given = pytree.tree_map_only(Tensor, partial(add_input, recorder), arguments)
            try:
                result = program(*given)
            except Break as ended:
                found.append(ended.reason.name)
                continue
            except Exception as error:
                found.append((type(error), re.sub(r"of \w+ is a view", "is a view", str(error))))
                continue
            with torch._C.DisableTorchFunction():
                tensors = [t for t in pytree.tree_leaves((given, result)) if isinstance(t, Tensor)]
                found.append((facts(tensors), versions(tensors)))
    return found


def versions(tensors: list[Any]) -> list[list[int]]:
    """Which tensors' versions go up together."""
    counted = [t for t in tensors if not t.is_inference() and t.layout is torch.strided]
    together = []
    for tensor in counted:
        before = [t._version for t in counted]
        torch.autograd.graph.increment_version(tensor)
        together.append([n for n, t in enumerate(counted) if t._version != before[n]])
    return together


def check(program: Program, *arguments: Any) -> Any:
    """Runs a program with the memory and without."""
    op_memory._memory.clear()
    with op_memory.bypassed():
        (expected,) = run(program, arguments)
    assert not op_memory._memory
    for found in [*run(program, arguments, times=2), *run(program, arguments)]:
        assert found == expected, unlike(expected, found)
    return expected


def unlike(expected: Any, found: Any) -> Any:
    """The facts that differ, tensor by tensor."""
    if not isinstance(expected[0], list) or not isinstance(found[0], list):
        return expected, found
    pairs = enumerate(zip(expected[0], found[0], strict=False))
    return [(n, name, a[name], b[name]) for n, (a, b) in pairs for name in a if a[name] != b[name]]


def remembered() -> int:
    return len(op_memory._memory)


# ---- all operators


@pytest.mark.parametrize("start", range(1, 16, 2))
def test_an_operator_remembered_is_the_operator_run(start: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_db[start::16]:
            check_operator(op)


def check_operator(op: OpInfo) -> None:
    for case in list(cases(op, count=1))[:1]:
        sample = case.arguments()
        if all(t.layout is torch.strided for t in pytree.tree_leaves(sample) if isinstance(t, Tensor)):
            with torch.random.fork_rng():
                check(case.fn, *sample)


def test_nearly_every_operator_is_remembered() -> None:
    """Bypassing is exact, but slow."""
    common = (
        "add mul matmul softmax view transpose cat nn.functional.linear nn.functional.gelu sum max".split()
    )
    for op in op_db:
        if op.name in common:
            check_operator(op)
            assert remembered(), name_of(op)


# ---- random programs

VIEWS: list[Program] = [
    lambda t: t.view(-1) if t.is_contiguous() else t.reshape(-1),
    lambda t: t.transpose(0, -1) if t.dim() else t.unsqueeze(0),
    lambda t: t[0] if t.dim() and t.shape[0] else t,
    lambda t: t[..., ::2] if t.dim() else t[None],
    lambda t: t.unsqueeze(1) if t.dim() else t.view(1),
    lambda t: t.expand(2, *t.shape) if t.dim() < 3 else t.flatten(),
    lambda t: t.detach(),
    lambda t: t.chunk(2, 0)[-1] if t.dim() else t,
    lambda t: t.unbind(0)[0] if t.dim() and t.shape[0] else t,
    lambda t: t.diagonal() if t.dim() > 1 else t,
]
FRESH: list[Program] = [
    lambda t: t * 2,
    lambda t: t.sin() + t,
    lambda t: torch.cat([t, t]) if t.dim() else torch.stack([t, t]),
    lambda t: t.contiguous(),
    lambda t: t.to(torch.float64),
    lambda t: torch.where(t > 0, t, torch.zeros_like(t)),
    lambda t: t.sum(-1, keepdim=True) if t.dim() else t.clone(),
    lambda t: t.max(0) if t.dim() and t.shape[0] else t,
]
IN_PLACE: list[Program] = [
    lambda t: t.add_(1),
    lambda t: t.mul_(t.detach()),
    lambda t: operator.setitem(t, ..., 0),
    lambda t: t.requires_grad and t.relu_(),
]
TWO: list[Program] = [
    lambda a, b: a.copy_(b),
    lambda a, b: a + b,
    lambda a, b: a.mul_(b),
    lambda a, b: a.view_as(b) if a.is_contiguous() else b,
]


def random_program(seed: int) -> Program:
    def program(*inputs: Any) -> Any:
        chooser = random.Random(seed)
        made: list[Any] = list(inputs)
        for _ in range(25):
            kind = chooser.choices((VIEWS, FRESH, IN_PLACE, TWO), (5, 3, 2, 2))[0]
            step = chooser.choice(kind)
            operands = [chooser.choice(made) for _ in range(2 if kind is TWO else 1)]
            grad = chooser.random() < 0.8
            try:
                with torch.set_grad_enabled(grad):
                    out = step(*operands)
            except RuntimeError:
                made.append(made[0])  # the errors are to be the same ones too
                continue
            made += [t for t in pytree.tree_leaves(out) if isinstance(t, Tensor)]
        return made

    return program


@pytest.mark.parametrize("seed", range(40))
def test_random_chains_of_views_and_in_place_operators(seed: int) -> None:
    leaf = torch.randn(2, 4, requires_grad=True)
    check(random_program(seed), torch.randn(4, 4), leaf, leaf * 2, torch.randn(3, 1).expand(3, 2))
    assert remembered()


# ---- the key

STATES: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast to half": lambda: torch.autocast("cpu", torch.float16),
    "autocast off": lambda: torch.autocast("cpu", enabled=False),
    "default dtype": lambda: default_dtype(torch.float64),
    "math attention": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
}


class default_dtype:
    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def __enter__(self) -> None:
        self.before = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)

    def __exit__(self, *_: Any) -> None:
        torch.set_default_dtype(self.before)


def with_everything(x: Any, q: Any) -> Any:
    attended = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    return x @ x, torch.ones(2), x + 1, x.view(-1), torch.full((2,), 0.5), x.softmax(0), attended


@pytest.mark.parametrize("name", STATES)
def test_the_state_of_torch_is_part_of_the_key(name: str) -> None:
    x, q = torch.randn(3, 3, requires_grad=True), torch.randn(1, 2, 8, 4)
    op_memory._memory.clear()
    (before,) = run(with_everything, (x, q))
    with STATES[name]():
        with op_memory.bypassed():
            (expected,) = run(with_everything, (x, q))
        assert run(with_everything, (x, q), times=2) == [expected, expected]
    assert run(with_everything, (x, q)) == [before]


def test_types_of_constants_are_part_of_the_key() -> None:
    for constant in (1, 1.0, True, 1 + 0j):
        check(lambda x, c=constant: (x + c, x * c), torch.arange(3))
    op_memory._memory.clear()
    results = [run(lambda x, c=c: x + c, (torch.arange(3),)) for c in (1, 1.0, True, 1 + 0j)]
    assert [r[0][0][1]["dtype"] for r in results] == [
        torch.int64,
        torch.float32,
        torch.int64,
        torch.complex64,
    ]


def test_keyword_arguments_are_part_of_the_key() -> None:
    op_memory._memory.clear()
    x = torch.randn(2, 3)
    shapes = [
        run(lambda x: x.sum(dim=d, keepdim=k), (x,))[0][0][1]["shape"] for d in (0, 1) for k in (False, True)
    ]
    assert shapes == [(3,), (1, 3), (2,), (2, 1)]


# ---- arguments

ARGUMENTS: dict[str, Callable[[], Any]] = {
    "0-dim": lambda: torch.tensor(2.0),
    "empty": lambda: torch.empty(0, 3),
    "expanded": lambda: torch.randn(3, 1).expand(3, 4),
    "overlapping": lambda: torch.randn(10).as_strided((4, 4), (2, 1)),
    "inside a storage": lambda: torch.randn(4, 4)[1:, 1:],
    "start of a storage": lambda: torch.randn(4, 4)[:2],
    "channels last": lambda: torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "complex": lambda: torch.randn(3, dtype=torch.complex64),
    "conjugated": lambda: torch.randn(3, dtype=torch.complex64).conj(),
    "negated": lambda: torch.randn(3, dtype=torch.complex64).conj().imag,
    "leaf with gradient": lambda: torch.randn(3, 3, requires_grad=True),
    "result with gradient": lambda: torch.randn(3, 3, requires_grad=True) * 2,
    "view with gradient": lambda: (torch.randn(3, 3, requires_grad=True) * 2)[1:],
    "parameter": lambda: torch.nn.Parameter(torch.randn(3, 3)),
    "integer": lambda: torch.arange(6).view(2, 3),
    "boolean": lambda: torch.tensor([True, False]),
    "half": lambda: torch.randn(3).half(),
    "made in inference mode": lambda: torch.inference_mode()(torch.ones)(3),
}

USES: dict[str, Program] = {
    "pointwise": lambda t: (t + t, t * 2, t.clone(), torch.zeros_like(t)),
    "views": lambda t: (
        t.unsqueeze(0),
        t.reshape(-1),
        t.expand(2, *t.shape),
        t[...],
        t.detach(),
        t.view_as(t),
    ),
    "views of views": lambda t: t.unsqueeze(0).transpose(0, -1).squeeze().flatten(),
    "itself": lambda t: (t.contiguous(), t.to(t.dtype), t.to("cpu"), t.requires_grad_() if False else t),
    "twice": lambda t: (torch.cat([t.unsqueeze(0), t.unsqueeze(0)]), torch.broadcast_tensors(t, t)),
    "in place on a copy": lambda t: (lambda c: (c, c.unsqueeze(0), c.add_(1), c.view_as(c)))(t.clone()),
    "in place on a view of a copy": lambda t: (lambda c: (c, c.unsqueeze(0).add_(1), c[...]))(t.clone()),
    "in place": lambda t: t.mul_(1),
    "in place on a view": lambda t: (t.unsqueeze(0).mul_(1), t.unsqueeze(0)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", ARGUMENTS)
def test_kinds_of_arguments(kind: str, use: str) -> None:
    check(USES[use], ARGUMENTS[kind]())


def test_one_tensor_twice_is_not_two_tensors() -> None:
    """The result is a view of the first argument, or of the second."""
    x, y = torch.randn(4), torch.randn(4)
    check(lambda a, b: torch.broadcast_tensors(a, b), x, y)
    op_memory._memory.clear()
    twice = run(lambda a: torch.broadcast_tensors(a, a), (x,))[0]
    apart = run(lambda a, b: torch.broadcast_tensors(a, b), (x, y))[0]
    assert [f["shares memory with"] for f in twice[0]] != [f["shares memory with"] for f in apart[0]]


def test_a_view_of_one_of_two_tensors_that_share_memory() -> None:
    def program(x: Any, y: Any) -> Any:
        first = y.view_as(x)
        part = x.detach()
        return first, part, part.view_as(x), x.view_as(part)

    check(program, torch.randn(4), torch.randn(4))


def test_gradient_spreads_through_views_that_were_remembered() -> None:
    def program(x: Any, weight: Any) -> Any:
        base = x * 2
        view, apart = base.view(-1), base.detach()
        base.mul_(weight)
        assert view.requires_grad and not apart.requires_grad
        other = x * 2
        part = other[0]
        part.mul_(weight[0])
        assert other.requires_grad
        return base, view, apart, other, part

    check(program, torch.randn(2, 2), torch.randn(2, 2, requires_grad=True))


@pytest.mark.parametrize("view", [lambda t: t.view(-1), lambda t: t.unbind(0)[0], lambda t: t.detach()])
@pytest.mark.parametrize("grad", [True, False])
def test_what_autograd_forbids_of_a_view_it_forbids_of_a_remembered_one(view: Program, grad: bool) -> None:
    def program(leaf: Any) -> Any:
        with torch.set_grad_enabled(grad):
            part = view(leaf)
        return part.add_(1), part

    check(program, torch.randn(2, 2, requires_grad=True))
    check(program, torch.randn(2, 2, requires_grad=True) * 2)


def test_statistics_that_an_operator_updates_are_noticed() -> None:
    def program(x: Any, mean: Any, var: Any, training: bool) -> Any:
        return torch.nn.functional.batch_norm(x, mean, var, training=training)

    arguments = torch.randn(4, 3), torch.zeros(3), torch.ones(3)
    for training, inputs in ((True, (1, 2)), (False, ())):
        check(program, *arguments, training)
        assert remembered()
        assert written_inputs(program, *arguments, training) == inputs


def written_inputs(program: Program, *arguments: Any) -> tuple[int, ...]:
    """Which inputs a trace knows that the program writes to."""
    recorder = Recorder(lambda: None)
    with recorder.fakes, recorder:
        program(*pytree.tree_map_only(Tensor, partial(add_input, recorder), arguments))
        return recorder.mutations.written_inputs()


WRITING: dict[str, Program] = {
    "number": lambda t: t.add_(1),
    "activation": lambda t: torch.nn.functional.relu(t, inplace=True),
    "copy": lambda t: t.copy_(t * 2),
    "item": lambda t: t.__setitem__(0, 1.0),
    "result": lambda t: torch.mul(t, 2, out=t),
}


@pytest.mark.parametrize("name", WRITING)
def test_writes_are_remembered_as_writes(name: str) -> None:
    def program(t: Any) -> Any:
        view, made = t.view(-1), t * 1
        WRITING[name](t)
        WRITING[name](made)
        return view, made, view.sum() + made.sum()

    op_memory._memory.clear()
    for _ in range(3):
        assert written_inputs(program, torch.randn(3)) == (0,)
    check(program, torch.randn(3))


def test_writes_to_views_may_be_errors_where_others_are_not() -> None:
    def plain(t: Any) -> Any:
        return (t[0] * 1).relu_()

    def of_several(t: Any) -> Any:
        first, _ = (t * 1).unbind(0)
        return first.relu_()

    argument = torch.randn(2, 3, requires_grad=True)
    with op_memory.bypassed():
        expected = run(of_several, (argument,))
    op_memory._memory.clear()
    run(plain, (argument,))
    assert run(of_several, (argument,)) == expected
    assert expected[0][0] is RuntimeError


def test_empty_lists_are_remembered_as_tensors_with_nothing_in_them() -> None:
    def program(t: Any) -> Any:
        kept = torch.tensor([], dtype=t.dtype)
        return kept, torch.cat([kept, t], dim=-1), kept.numel()

    check(program, torch.randn(2, 3))
    assert remembered()


def test_what_a_write_concerns_does_not_grow_with_the_writes_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgotten_in(writes: int) -> int:
        count = 0
        forget = op_memory.Keys.forget

        def counted(self: Any, fake: Any) -> None:
            nonlocal count
            count += 1
            forget(self, fake)

        def program(x: Tensor) -> Tensor:
            y = x.clone()
            for n in range(writes):
                y.add_(1)
                y[0] = n
                y.view(-1)
            return y

        with monkeypatch.context() as patched:
            patched.setattr(op_memory.Keys, "forget", counted)
            run(program, (torch.ones(4),))
        return count

    forgotten_in(4)
    assert forgotten_in(64) < 5 * forgotten_in(16)


def test_a_view_that_was_used_before_is_known_anew_after_each_write() -> None:
    def program(x: Tensor, w: Tensor) -> Any:
        base = x.clone()
        view, other = base[0], base.view(-1)
        seen = []
        for _ in range(3):
            seen.append((view * 2, other + 1, view.requires_grad))
            base.mul_(w)
            seen.append((view * 2, other + 1, view.requires_grad))
        return seen

    expected = check(program, torch.ones(2, 2), torch.ones(2, 2, requires_grad=True))
    assert isinstance(expected, tuple)


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_memory, "LIMIT", 5)
    op_memory._memory.clear()
    for size in range(1, 20):
        run(lambda x: x + 1, (torch.randn(size),))
        assert remembered() <= 5


def test_random_operators_are_marked_when_remembered() -> None:
    op_memory._memory.clear()
    for _ in range(2):
        recorder = Recorder(lambda: None)
        with recorder.fakes, recorder:
            torch.rand(3)
            torch.zeros(3)
            recorder.finish([])
        assert [node.target for node in recorder.builder.body.graph.nodes if node.op == "call_function"] == [
            torch.rand
        ]


def test_fakes_have_the_facts_of_the_real_tensors() -> None:
    for name, make in ARGUMENTS.items():
        real = make()
        with torch._C.DisableTorchFunction():
            fake = Fakes().of(real)
        for fact in (
            "shape",
            "dtype",
            "device",
            "requires_grad",
            "is_leaf",
            "strides",
            "offset",
            "conj",
            "neg",
        ):
            assert FACTS[fact](fake) == FACTS[fact](real), (name, fact)
