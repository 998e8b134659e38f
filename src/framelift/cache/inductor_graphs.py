"""Graphs that Inductor has compiled, forward and backward, put together as AOTAutograd does it at run time.

Only for graphs of which AOTAutograd has little to do when they run: inputs are written to by the graph itself
or not at all, and all tensors are plain ones. Others are compiled anew, from the capture.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from framelift._guards import separate_histories
from framelift.cache.inductor_code import InductorCode, portable_code
from framelift.cache.inductor_views import Hidden, View, makers, views_of, with_views
from framelift.dispatch.capture_pickles import Portable
from framelift.dispatch.examples import giving_sizes
from framelift.dispatch.inductor_parts import InductorParts
from framelift.dispatch.object_names import NotPortableError


class TangentLayout(NamedTuple):
    """How a gradient that comes in has to lie in memory."""

    memory_format: torch.memory_format | None
    size: tuple[int, ...] | None
    stride: tuple[int, ...] | None

    def applied(self, grad: Any) -> Any:
        if not isinstance(grad, torch.Tensor):
            return grad
        if type(grad) is not torch.Tensor:
            raise RuntimeError(
                f"a gradient is a {type(grad).__qualname__}, where a plain tensor was expected"
            )
        if self.memory_format is not None:
            return grad.contiguous(memory_format=self.memory_format)
        if tuple(grad.shape) == self.size and grad.stride() == self.stride:
            return grad
        assert self.size is not None and self.stride is not None
        made = torch.empty_strided(self.size, self.stride, dtype=grad.dtype, device=grad.device)
        return made.copy_(grad)


class Running(NamedTuple):
    """What AOTAutograd does around the compiled graphs."""

    outputs: int
    written: tuple[int, ...]
    """Inputs that the graph writes to, which autograd is to know."""
    disables_autocast: bool
    separates: bool
    unchecked: int = 0
    """How many of these, the last, may be changed meanwhile."""
    without_gradient: tuple[int, ...] = ()
    """Results that are not differentiated."""
    views: tuple[int, ...] = ()
    """Results that come as they are in memory, and are given as new tensors."""
    detached: tuple[int, ...] = ()
    """Inputs that no gradient ever reaches."""
    tangents: tuple[tuple[int, TangentLayout], ...] = ()
    """The results whose gradients the backward graph takes, and how these lie in memory."""
    reused: tuple[int, ...] = ()
    """What the backward graph takes of what was saved for it, and may write to."""
    saved_numbers: int = 0
    """How many numbers the forward graph gives for the backward graph, behind the tensors."""
    sizes: tuple[tuple[int, int], ...] = ()
    """Input and dimension of the sizes that the graph takes behind the other inputs."""
    deterministic: bool | None = None
    regained: tuple[View, ...] = ()
    """Results that are made again, as views of inputs or of other results."""
    bases: int = 0
    """How many tensors the graph gives behind its results, for these to be views of."""


class InductorGraphs(Portable):
    def __init__(self, running: Running, forward: InductorCode, backward: InductorCode | None) -> None:
        self.running, self.forward, self.backward = running, forward, backward

    def __reduce__(self) -> Any:
        return load_graphs, (plain_running(self.running), self.forward, self.backward)

    def load(self) -> Callable[..., Any]:
        around = contextlib.nullcontext
        if self.running.disables_autocast:
            around = torch._C._DisableAutocast  # type: ignore[assignment]
        forward = self.forward.load()
        if self.backward is None:
            run = inference(self.running, forward, around)
        else:
            run = training(self.running, forward, self.backward.load(), around)
        if self.running.sizes:
            run = giving_sizes(run, self.running.sizes)
        return separated(run) if self.running.separates else run


def plain_running(running: Running) -> tuple[Any, ...]:
    """As a tuple of plain values."""
    tangents: Any = tuple((n, tuple(layout)) for n, layout in running.tangents)
    regained: Any = tuple([tuple(view) for view in running.regained])
    return tuple(running._replace(tangents=tangents, regained=regained))


def load_graphs(plain: tuple[Any, ...], forward: InductorCode, backward: InductorCode | None) -> Any:
    running = Running(*plain)
    tangents = tuple((n, TangentLayout(*layout)) for n, layout in running.tangents)
    regained = tuple(View(*view) for view in running.regained)
    return InductorGraphs(running._replace(tangents=tangents, regained=regained), forward, backward)


# ---- running


def inference(
    running: Running, forward: Callable[[list[Any]], Any], around: Callable[[], Any]
) -> Callable[..., Any]:
    written, views, outputs = running.written, makers(running.regained), running.outputs

    def run(*args: Any) -> Any:
        if written:
            torch.autograd.graph.increment_version([args[n] for n in written])
        enabled = torch.is_grad_enabled()
        try:
            if enabled:
                torch._C._set_grad_enabled(False)
            with around():
                found = list(forward(list(args)))
        finally:
            if enabled:
                torch._C._set_grad_enabled(True)
        return with_views(views, args, found, outputs) if views else found

    return run


def separated(run: Callable[..., Any]) -> Callable[..., Any]:
    def separating(*args: Any) -> Any:
        outputs = run(*args)
        separate_histories(outputs)
        return outputs

    return separating


def training(
    running: Running,
    compiled_forward: Callable[[list[Any]], Any],
    compiled_backward: Callable[[list[Any]], Any],
    around: Callable[[], Any],
) -> Callable[..., Any]:
    outputs, unchecked = running.outputs + running.bases, running.unchecked
    numbers, regained = running.saved_numbers, makers(running.regained)

    class CompiledFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            with around():
                made = list(compiled_forward(list(args)))
            tensors = len(made) - numbers
            ctx.numbers = made[tensors:]
            saved = [x.detach() if x._is_view() else x for x in made[outputs:tensors]]
            checked = len(saved) - unchecked
            ctx.save_for_backward(*saved[:checked])
            ctx.others = saved[checked:]
            results = made[:outputs]
            for n in running.views:
                results[n] = torch.ops.aten._unsafe_view(results[n], results[n].shape)
            for view in running.regained:
                results[view.result] = Hidden(results[view.result])
            plain = [results[n] for n in running.without_gradient if isinstance(results[n], torch.Tensor)]
            ctx.mark_non_differentiable(*plain)
            ctx._materialize_non_diff_grads = False
            return tuple(results)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            if torch._C._functorch.peek_interpreter_stack() is not None:
                raise RuntimeError("a compiled backward pass can't be run within vmap, grad or vjp")
            if running.deterministic is False and torch.are_deterministic_algorithms_enabled():
                raise RuntimeError(
                    "This backward pass was compiled without torch.use_deterministic_algorithms(True)."
                )
            tangents = [layout.applied(grads[n]) for n, layout in running.tangents]
            given = [*ctx.numbers, *ctx.saved_tensors, *ctx.others, *tangents]
            if torch.is_grad_enabled():
                marker = torch.empty(0, requires_grad=True)
                return OnceDifferentiable.apply(lambda: run_backward(ctx, given), marker)
            return run_backward(ctx, given)

    def run_backward(ctx: Any, given: list[Any]) -> Any:
        ctx.maybe_clear_saved_tensors()
        if running.reused and torch._C._autograd._get_current_graph_task_keep_graph():
            for n in running.reused:  # to be used again
                given[n] = torch.empty_strided(
                    given[n].size(), given[n].stride(), dtype=given[n].dtype, device=given[n].device
                ).copy_(given[n])
        with around():
            return tuple(compiled_backward(given))

    def run(*args: Any) -> Any:
        if running.written:
            torch.autograd.graph.increment_version([args[n] for n in running.written])
        given = list(args)
        for n in running.detached:
            given[n] = given[n].detach()
        replays = torch._C._is_view_replay_enabled()
        try:
            torch._C._set_view_replay_enabled(True)
            with torch.enable_grad():
                found = list(CompiledFunction.apply(*given))
        finally:
            torch._C._set_view_replay_enabled(replays)
        return with_views(regained, args, found, running.outputs)

    return run


class OnceDifferentiable(torch.autograd.Function):
    """Gives gradients that can't be differentiated themselves, and says so to who tries."""

    @staticmethod
    def forward(ctx: Any, compute: Callable[[], Any], marker: torch.Tensor) -> Any:
        return compute()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")


# ---- taking apart


def portable_graphs(parts: InductorParts) -> InductorGraphs:
    """Raises NotPortableError if more is done at run time than is known here."""
    known = parts.metadata
    if known is None or parts.forward is None or parts.graph_inputs != parts.inputs or parts.is_wrapped:
        raise NotPortableError("AOTAutograd gives the graph other inputs")
    for reason, found in refusals(known):
        if found:
            raise NotPortableError(f"AOTAutograd has something to do at run time: {reason}")
    backward = None
    running = Running(
        known.num_outputs,
        tuple(known.mutated_graph_handled_indices_seen_by_autograd) if known.keep_input_mutations else (),
        parts.disables_autocast,
        parts.separates,
        sizes=parts.sizes,
        regained=views_of(parts),
        bases=known.num_intermediate_bases,
    )
    if not parts.is_inference:
        if parts.backward is None:
            raise NotPortableError("its backward graph was never compiled")
        backward = portable_code(parts.backward)
        running = with_gradients(running, known, parts.has_gradient)
    return InductorGraphs(running, portable_code(parts.forward), backward)


def refusals(known: Any) -> list[tuple[str, Any]]:
    """(why, whether that is so)"""
    every = [*known.subclass_inp_meta, *known.subclass_fw_graph_out_meta, *known.subclass_tangent_meta]
    return [
        ("inputs are written to", known.num_mutated_inp_runtime_indices),
        ("tensors that wrap others", any(type(each).__name__ != "PlainTensorMeta" for each in every)),
        ("tokens", known.tokens or known.num_backward_tokens),
        ("the grad mode", known.grad_enabled_mutation is not None),
        ("random numbers", known.num_graphsafe_rng_states or known.is_rng_op_functionalized),
        ("collectives", known.act_input_indices),
        ("objects", known.num_opaque_objects_saved_for_bw),
        ("writes in backward", known.indices_of_inputs_that_requires_grad_with_mutations_in_bw),
        ("numbers", any(not issubclass(each.raw_type, torch.Tensor) for each in known.output_info)),
    ]


def with_gradients(running: Running, known: Any, has_gradient: list[bool]) -> Running:
    info, inputs = known.output_info, known.input_info
    if len(has_gradient) != len(inputs):
        raise NotPortableError("the backward graph gives something else than gradients")
    views = {view.result for view in running.regained}
    tangents = [n for n, each in enumerate(info) if each.requires_grad_for_backward and n not in views]
    tangents += range(len(info), len(info) + running.bases)
    layouts = [each.memory_format for each in known.subclass_tangent_meta]
    if len(tangents) != len(layouts) or any(layout is None for layout in layouts):
        raise NotPortableError("the backward graph takes something else than gradients")
    return running._replace(
        unchecked=known.num_tensors_saved_with_no_vc_check or 0,
        without_gradient=tuple([n for n, each in enumerate(info) if not each.requires_grad]),
        views=tuple(known.unsafe_view_out_indices),
        detached=tuple(
            [
                n
                for n, each in enumerate(inputs)
                if each.requires_grad and not each.is_leaf and not has_gradient[n]
            ]
        ),
        tangents=tuple(
            (n, TangentLayout(layout.memory_format, plain(layout.size), plain(layout.stride)))
            for n, layout in zip(tangents, layouts, strict=True)
        ),
        reused=tuple(known.bw_donated_idxs or ()),
        deterministic=known.deterministic,
        saved_numbers=known.num_symints_saved_for_bw or 0,
    )


def plain(numbers: Any) -> tuple[int, ...] | None:
    if numbers is None:
        return None
    if not all(type(number) is int for number in numbers):
        raise NotPortableError("a gradient has sizes that vary")
    return tuple(numbers)
