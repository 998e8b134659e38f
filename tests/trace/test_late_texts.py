"""Texts of sizes and numbers that vary: those that nobody looks at do not fix the number.

Each program is called with several sizes; `captures` is how often that is compiled.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import framelift
from check import entries
from sameness import alike

SIZES = (5, 6, 7, 12, 30)
PROGRAMS: dict[str, tuple[Callable[..., Any], int]] = {}


def captures(count: int) -> Callable[[Any], Any]:
    def register(fn: Any) -> Any:
        PROGRAMS[fn.__name__] = fn, count
        return fn

    return register


@pytest.mark.parametrize("name", PROGRAMS)
def test_texts_are_eagers(name: str) -> None:
    program, count = PROGRAMS[name]
    compiled = framelift.compile(program, backend="eager")
    for n in SIZES:
        x, lr = torch.arange(n * 4.0).view(n, 4), n / 8
        mine, theirs = SimpleNamespace(name=""), SimpleNamespace(name="")
        alike(program(x, lr, mine), compiled(x, lr, theirs))
        alike(mine.__dict__, theirs.__dict__)
    assert entries(compiled) == count


# ---- nobody looks


@captures(2)
def message_of_an_error_that_is_not_raised(x, lr, o):
    message = f"{x.shape} is no good, nor is {x.shape[0]:>5} or {x.shape[0] * 2!r}"
    if x.shape[1] != 4:
        raise ValueError(message)
    return x * 2


@captures(2)
def given_to_a_function_that_checks(x, lr, o):
    def require(condition, message):
        if not condition:
            raise ValueError(message)

    require(x.dim() == 2, "a shape of " + str(tuple(x.shape)) + "!")
    require(x.shape[1] == 4, "%d rows of %s" % (x.shape[0], x.shape[1]))  # noqa: UP031
    require(x.shape[1] == 4, "{} rows, {n:05d}".format(x.shape[0], n=x.shape[0]))  # noqa: UP032
    require(x.shape[1] == 4, f"{lr:.3f} and {x.shape[0] / 2}, {lr * 2}" + repr(x.shape[0]))
    return x.sum()


@captures(2)
def returned(x, lr, o):
    return x.sum(), f"{x.shape[0]} rows", f"{lr}", f"{lr / 2:.2e}", [f"<{x.shape[0] + 1:3}>"], str(x.shape)


@captures(2)
def stored(x, lr, o):
    o.name = f"batch of {x.shape[0]}"
    o.all = {"text": "%s" % x.shape[0], "lr": str(lr)}  # noqa: UP031
    return x + 1


@captures(2)
def put_together(x, lr, o):
    text = f"{x.shape[0]}"
    text += " rows"
    text = "about " + text
    longer = f"[{text}] [{text!s}] [{format(text)}] {x.shape[1]}"
    return x + 1, text, longer, "%s, %5.2f" % (longer, lr)  # noqa: UP031


@captures(2)
def told_that_it_is_a_text(x, lr, o):
    text = f"{x.shape[0]}"
    return x + 1 if text and isinstance(text, str) and text is not None else x


@captures(2)
def handed_on(x, lr, o):
    def inner(text, *more, **named):
        return {"text": text, "more": more, **named}

    texts = [f"{n}" for n in x.shape]
    return inner(f"{x.shape[0]}", *texts, last=texts[-1]), x * 2


# ---- somebody looks


@captures(len(SIZES))
def compared(x, lr, o):
    return x * 2 if f"{x.shape[0]}" == "7" else x * 3


@captures(len(SIZES))
def as_a_key(x, lr, o):
    return {f"n{x.shape[0]}": x}[f"n{len(x)}"], x.sum()


@captures(len(SIZES))
def its_letters(x, lr, o):
    text = f"{x.shape[0]}"
    return x * len(text), text.rjust(4), int(text), text[0], "3" in text, "-".join([text, text])


@captures(len(SIZES))
def in_an_error_that_is_handled(x, lr, o):
    try:
        raise ValueError(f"{x.shape[0]} rows")
    except ValueError as error:
        return str(error), x + 1


@captures(len(SIZES))
def as_the_name_of_an_attribute(x, lr, o):
    setattr(o, f"n{x.shape[0]}", 1)
    return x + getattr(o, f"n{x.shape[0]}")


@captures(len(SIZES))
def how_it_is_shown(x, lr, o):
    return x + 1, repr(f"{x.shape[0]}"), f"{f'{x.shape[0]}':>6}".count(" ")


# ---- elsewhere


def test_texts_that_a_break_hands_over() -> None:
    def fn(x):
        text = f"{x.shape[0]} rows"
        y = x * 2
        framelift.graph_break()
        return y + 1, text, f"{y.shape[0]} in all"

    compiled = framelift.compile(fn, backend="eager")
    for n in SIZES:
        x = torch.randn(n, 3)
        alike(fn(x), compiled(x))
    assert [len(report.entries) for report in framelift.entries(compiled)] == [2, 2]


def test_an_error_says_what_eager_says() -> None:
    def fn(x):
        message = f"too many rows: {x.shape[0]}, {x.shape}"
        if x.shape[0] > 20:
            raise ValueError(message)
        return x * 2

    compiled = framelift.compile(fn, backend="eager")
    for n in (5, 6, 30, 7, 40):
        x = torch.randn(n, 3)
        if n <= 20:
            alike(fn(x), compiled(x))
            continue
        with pytest.raises(ValueError, match=f"too many rows: {n}, torch.Size\\(\\[{n}, 3\\]\\)"):
            compiled(x)


def test_warnings_say_what_eager_says() -> None:
    def fn(x):
        warnings.warn(f"{x.shape[0]} rows", stacklevel=1)
        return x * 2

    compiled = framelift.compile(fn, backend="eager")
    for n in SIZES:
        with pytest.warns(UserWarning, match=f"^{n} rows$"):
            compiled(torch.randn(n, 3))


def test_printed_texts_are_eagers(capsys: pytest.CaptureFixture[str]) -> None:
    def fn(x):
        y = x * 2
        print(f"{x.shape[0]} rows", str(x.shape[0]))
        return y + 1

    compiled = framelift.compile(fn, backend="eager")
    for n in SIZES:
        compiled(torch.randn(n, 3))
    assert capsys.readouterr().out == "".join(f"{n} rows {n}\n" for n in SIZES)


def test_within_the_body_of_an_operator() -> None:
    def fn(x):
        def body(y):
            assert y.shape[1] == 3, f"{y.shape[0]} rows"
            text = f"{y.shape[0]}"
            return y * 2 if text else y

        return torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False)

    compiled = framelift.compile(fn, backend="eager")
    for n in SIZES:
        x = torch.randn(n, 3, requires_grad=True)
        alike(fn(x), compiled(x))


def test_exported_programs_keep_messages_out() -> None:
    class Model(torch.nn.Module):
        def forward(self, x):
            message = f"{x.shape[0]} rows"
            if x.shape[1] != 3:
                raise ValueError(message)
            return x * 2

    x = torch.randn(5, 3)
    program = framelift.export(Model(), (x,), dynamic_shapes=({0: torch.export.Dim("rows")},))
    alike(program.module()(torch.ones(9, 3)), torch.ones(9, 3) * 2)


def test_all_sizes_from_the_first_call_on() -> None:
    program = PROGRAMS["returned"][0]
    compiled = framelift.compile(program, backend="eager", dynamic=True)
    for n in SIZES:
        x = torch.randn(n, 4)
        alike(program(x, 0.5, None), compiled(x, 0.5, None))
    assert entries(compiled) == 1


def test_texts_of_numbers_that_only_the_data_decides() -> None:
    def fn(x):
        n = x.sum().item()
        rows = x.nonzero().shape[0]
        message = f"{n:.1f} in {rows} rows" + f" of {x.shape[0]}"
        torch._check(rows >= 0, lambda: message)
        return x * 2, message, [str(n)]

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for n in SIZES:
        x = torch.randn(n).round()
        alike(fn(x), compiled(x))
    assert entries(compiled) == 2


def test_a_text_of_what_only_the_data_decides_that_is_looked_at() -> None:
    def fn(x):
        return x * 2 if f"{x.sum().item()}" == "3.0" else x * 3

    compiled = framelift.compile(fn, backend="eager")
    with framelift.config.patch(capture_scalar_outputs=True):
        for values in ([1.0, 2.0], [1.0, 3.0], [3.0]):
            x = torch.tensor(values)
            alike(fn(x), compiled(x))


# ---- of tensors


def changed_after_it_was_told(x):
    text = f"{x}"
    x.add_(5)
    return text + f" {x}"


NOBODY_LOOKS = {
    "of a number that is no result": lambda x: (f"sum {x.sum()}", x + 1)[1],
    "in what is given": lambda x: {"sum": f"{x.sum()} of {x.shape[0]}", "all": f"{x!r}"},
    "by a template": lambda x: ["a %s %d" % (x, 3), "{} {n}".format(x, n=x.sum())],  # noqa: UP031, UP032
    "of each element": lambda x: [f"{each}" for each in x],
    "before it is changed": changed_after_it_was_told,
    "with a gradient": lambda x: f"{(x.clone().requires_grad_() * 2).sum()}",
    "is true": lambda x: x + 1 if f"{x}" else x - 1,
    "with so many digits": lambda x: (
        f"{x.sum():.2f} {x.mean():>12.3e} {(x > 0).any():d} {x.long().sum():+05d}"
    ),
    "with digits by a template": lambda x: [
        "%.3f of %6.1f" % (x.sum(), x.mean()),  # noqa: UP031
        "{:.2f} {n:>8.1f}".format(x.sum(), n=x.mean()),  # noqa: UP032
        "%d %s" % (x.long().sum(), x.sum()),  # noqa: UP031
    ],
    "a loss": lambda x: (f"loss {(x.clone().requires_grad_() * 2).sum():.4f}", x + 1),
}
SOMEBODY_LOOKS = {
    "its length": lambda x: (x + 1, len(f"{x}")),
    "of what has gradients": lambda x: f"{x.clone().requires_grad_()}",
    "as a letter": lambda x: f"{x.long().sum() + 60:c}",
    "of a parameter": lambda x: f"{torch.nn.Parameter(x.sum())}",
    "digits of what has dimensions": lambda x: "%.2f" % x[:1],  # noqa: UP031
    "as a key": lambda x: {f"{x}": x + 1},
    "compared": lambda x: f"{x}" == "tensor([0., 1., 2.])",
}


@pytest.mark.parametrize("name", [*NOBODY_LOOKS, *SOMEBODY_LOOKS])
def test_texts_of_tensors_are_eagers(name: str) -> None:
    program = {**NOBODY_LOOKS, **SOMEBODY_LOOKS}[name]
    compiled = framelift.compile(program, backend="eager", fullgraph=name in NOBODY_LOOKS)
    for x in (torch.arange(3.0), torch.ones(3)):
        alike(program(x.clone()), compiled(x.clone()))


def test_a_message_with_a_tensor_keeps_no_program_from_being_exported() -> None:
    def require(condition, message):
        torch._check(condition, lambda: message)

    def program(x):
        require(x.shape[0] == 3, f"the sum is {x.sum()}, of {x}")
        return x + 1

    exported = framelift.export(program, (torch.ones(3),))
    assert torch.ops.aten.clone.default not in [node.target for node in exported.graph.nodes]
    alike(program(torch.zeros(3)), exported.module()(torch.zeros(3)))


def test_printed_numbers_are_left_out_of_artifacts_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    def program(x):
        print(f"loss {x.sum():.4f}")
        return x + 1

    with pytest.raises(framelift.exc.Unsupported, match="print"):
        framelift.export(program, (torch.ones(3),))
    exported = framelift.export(program, (torch.ones(3),), strict=False)
    alike(exported.module()(torch.zeros(3)), torch.ones(3))
    assert capsys.readouterr().out == ""


def test_formats_that_a_tensor_does_not_take_raise_what_eager_raises() -> None:
    def program(x):
        return x + 1, f"{x:.2f}"

    with pytest.raises(TypeError) as expected:
        program(torch.ones(3))
    with pytest.raises(TypeError) as found:
        framelift.compile(program, backend="eager")(torch.ones(3))
    assert str(found.value) == str(expected.value)


# ---- texts that change


def told(x, name, log):
    log.name = f"{name}: {x.sum().shape}"
    return x * 2, "run " + name, "%s!" % name, f"{name:>10}", name  # noqa: UP031


def told_of_an_attribute(x, name, log):
    log.name = name
    message = f"no good for {log.name}"
    if x.shape[0] != 3:
        raise ValueError(message)
    return x + 1, message


def looked_at_at_last(x, name, log):
    message = f"run {name}"
    return (x + 1 if message.endswith("1") else x * 2), {message: x + 3}, len(message)


def compared_first(x, name, log):
    x = x + 1 if name == "b" else x * 2
    return x, f"<{name}>"


@pytest.mark.parametrize(
    "program, count", [(told, 2), (told_of_an_attribute, 2), (looked_at_at_last, 5), (compared_first, 5)]
)
def test_texts_of_texts_that_change(program: Callable[..., Any], count: int) -> None:
    compiled, logs = framelift.compile(program, backend="eager"), (SimpleNamespace(), SimpleNamespace())
    for name in ("a", "b", "run 1", "", "ü" * 300, "a", "run 1"):
        alike(program(torch.ones(3), name, logs[0]), compiled(torch.ones(3), name, logs[1]))
    alike(logs[0].__dict__, logs[1].__dict__)
    assert entries(compiled) == count


@pytest.mark.parametrize("program", [told, told_of_an_attribute, looked_at_at_last])
def test_a_text_becomes_something_else(program: Callable[..., Any]) -> None:
    class Name(str):
        def __format__(self, how: str) -> str:
            return "a name"

    compiled = framelift.compile(program, backend="eager")
    for name in ("a", "b", Name("c"), "c", "d"):
        alike(
            program(torch.ones(3), name, SimpleNamespace()), compiled(torch.ones(3), name, SimpleNamespace())
        )
