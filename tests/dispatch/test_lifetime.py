"""What was compiled goes with what it was compiled from, and keeps nothing of the program alive.

Entries, their guards and regions know the objects of the program by weak references. The caches are kept by
the context, which the compiled function keeps; code objects know their caches weakly, since the collector
does not look into code objects.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from memory_rounds import Census, a_round_of_a_function, a_round_of_a_model
from torch import nn

import framelift
from framelift import _frame, _guards
from framelift.bytecode import resume
from framelift.graph import op_memory

X = torch.arange(4.0)


def compiled(fn: Any, **settings: Any) -> Any:
    return framelift.compile(fn, **{"backend": "eager", **settings})


def defined(source: str, **names: Any) -> dict[str, Any]:
    """What a module with that source has; nothing else knows of it."""
    namespace = {"torch": torch, "nn": nn, "framelift": framelift, "__name__": "made_up", **names}
    exec(source, namespace)
    return namespace


class Watched:
    """Objects that are to die."""

    def __init__(self) -> None:
        self.names: dict[str, weakref.ref[Any]] = {}

    def __call__(self, **objects: Any) -> None:
        self.names |= {name: weakref.ref(value) for name, value in objects.items()}

    def alive(self) -> list[str]:
        gc.collect()
        gc.collect()  # what was compiled goes when its code has gone, and graphs lead to themselves
        return [name for name, found in self.names.items() if found() is not None]


def watch_entries(watched: Watched, fn: Any) -> None:
    """All that there is of a compiled function."""
    context = fn._framelift_context
    watched(context=context)
    for n, record in enumerate(context.code_states.values()):
        watched(**{f"record{n}": record, f"code{n}": record.code, f"cache{n}": record.cache})
        for m, one in enumerate(record.entries):
            found = {"region": one.native.region, "compiled": one, "guards": one.capture.program}
            if one.capture.graph is not None:
                found["graph"] = one.capture.graph
            watched(**{f"{name}{n}.{m}": value for name, value in found.items()})


# ---- entries go with their code

FUNCTIONS = {
    "plain": "def f(x): return x.sin() + 1",
    "recursive": "def f(x, n=2): return f(x + 1, n - 1) if n else x",
    "calls another": "def g(x): return x * 2\ndef f(x): return g(x) + 1",
    "uses a class": """
class C:
    limit = [1]
    def __init__(self, x): self.x = x
    @property
    def twice(self): return self.x * 2
    def more(self): return C(self.x + len(self.limit))
def f(x): return C(x).more().twice
""",
    "returns an instance": """
class C:
    pass
def f(x):
    made = C()
    made.x, made.of = x + 1, f
    return made.x
""",
    "writes to a global": "count = 0\ndef f(x):\n    global count\n    count += 1\n    return x + count",
    "makes a function": "def f(x):\n    def g(y): return x + y\n    return g(x), g",
    "breaks": "def f(x):\n    y = x + 1\n    print(end='')\n    return y * 2",
    "breaks in a loop": """
def f(x):
    for n in range(3):
        x = x + n
        print(end='')
    return x
""",
    "breaks deep down": """
class Base:
    def go(self, x):
        x = x + 1
        print(end='')
        return x * 2
class C(Base):
    def go(self, x): return super().go(x) + 1
def f(x): return C().go(x) - 1
""",
    "breaks and handles": """
def g(x):
    y = x + 1
    int('no')
    return y
def f(x):
    try:
        return g(x)
    except ValueError as error:
        return x * 2
""",
    "goes through a generator": """
def g(x):
    yield x
def f(x):
    for y in g(x): x = x + y
    return x
""",
    "raises": "def f(x):\n    x = x + 1\n    return x.nothing_like_it if x.dim() else x",
    "a generator left in the middle": """
def g(x):
    yield x + 1
    yield x + 2
def f(x):
    made = g(x)
    return next(made), made
""",
}


@pytest.mark.parametrize("decorated", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_was_compiled_goes_with_the_function(name: str, decorated: bool) -> None:
    watched = Watched()
    namespace = defined(FUNCTIONS[name])
    fn = namespace["f"]
    made = compiled(fn)
    if decorated:  # now what is compiled leads to itself
        namespace["f"] = made
    for _ in range(3):
        try:
            made(X)
        except AttributeError:
            assert name == "raises"
    watch_entries(watched, made)
    watched(function=fn, code=fn.__code__)
    assert len(watched.names) > 4
    del namespace, fn, made
    assert watched.alive() == []


def test_two_functions_of_equal_code_are_two() -> None:
    one, other = (defined("def f(x): return x + 1")["f"] for _ in range(2))
    assert one.__code__ == other.__code__ and one.__code__ is not other.__code__
    outer = compiled(lambda f, x: (print(end=""), f(x)))
    for fn in (one, other):
        assert torch.equal(outer(fn, X)[1], X + 1)
    context = outer._framelift_context
    assert context.state_of(one.__code__) is not context.state_of(other.__code__)


def test_a_context_outlives_the_functions_that_were_called_in_it() -> None:
    watched = Watched()
    outer = compiled(lambda f, x: (print(end=""), f(x)))

    def call(source: str) -> None:
        namespace = defined(source)
        outer(namespace["f"], X)
        outer(namespace["f"], X)
        watched(**{f"function of {source!r}": namespace["f"], f"code of {source!r}": namespace["f"].__code__})

    for name in ("plain", "recursive", "calls another", "uses a class", "writes to a global"):
        call(FUNCTIONS[name])
    assert watched.alive() == []
    gone = [record for record in outer._framelift_context.code_states.values() if record.code is None]
    assert gone == []


def test_resume_functions_go_with_the_original() -> None:
    gc.collect()
    before = len(resume._origins), len(resume._bodies)
    namespace = defined(FUNCTIONS["breaks in a loop"])
    made = compiled(namespace["f"])
    made(X)
    assert len(resume._origins) > before[0] and len(resume._bodies) > before[1]
    del namespace, made
    gc.collect()
    gc.collect()
    assert (len(resume._origins), len(resume._bodies)) == before


def test_reset_frees_everything() -> None:
    watched = Watched()
    made = compiled(lambda x: (x + 1, print(end=""), x * 2))
    made(X)
    watch_entries(watched, made)
    kept = {"context", "code0"}
    framelift.reset()
    assert set(watched.alive()) <= kept
    assert torch.equal(made(X)[0], X + 1)


def test_a_reset_in_the_middle_of_a_call() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        framelift.reset()
        gc.collect()
        return y * 2

    def outer(x: torch.Tensor) -> torch.Tensor:
        y = inner(x) + 1
        framelift.reset()
        gc.collect()
        return y * 3

    made = compiled(outer)
    for _ in range(3):
        assert torch.equal(made(X), ((X + 1) * 2 + 1) * 3)


def test_a_function_compiled_again_and_again_keeps_no_old_contexts() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    watched = Watched()
    for n in range(5):
        made = compiled(fn, isolate_recompiles=True)
        made(X)
        watched(**{f"context{n}": made._framelift_context})
    assert watched.alive() == ["context4"]
    assert _frame.get_cache(fn.__code__, made._framelift_context) is not None


def test_explanations_keep_nothing_alive() -> None:
    watched = Watched()

    def explained() -> Any:
        model = Net()
        watched(model=model, weight=model.inner.weight)
        return framelift.explain(model)(torch.ones(2, 4))

    report = explained()
    assert "guards:" in str(report)
    report.result = None
    assert watched.alive() == []
    assert "guards:" in str(report)


@pytest.mark.parametrize("wrong", [False, True])
def test_verifying_keeps_nothing_alive(wrong: bool) -> None:
    watched = Watched()

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return lambda *given: [t + wrong for t in graph(*given)]

    def verified() -> Any:
        model, x = Net(), torch.ones(2, 4)
        watched(model=model, weight=model.inner.weight, x=x)
        return framelift.verify(model, backend=backend)(x)

    report = verified()
    assert report.ok is not wrong
    report.result = None
    assert watched.alive() == []
    assert "compiled" in str(report)


def test_profiling_records_and_counters_keep_nothing_alive(tmp_path: Any) -> None:
    watched = Watched()
    profiler = framelift.CompileProfiler()

    def profiled() -> None:
        model, x = Net(), torch.ones(2, 4)
        made = framelift.compile(model, backend=profiler, name="net", guard_fail_fn=lambda failed: None)
        with framelift.config.patch(debug_dir=str(tmp_path), replay_record_enabled=True):
            made(x), made(torch.ones(3, 4))
        watched(model=model, weight=model.inner.weight, x=x, context=made._framelift_context)

    profiled()
    assert watched.alive() == []
    # two sizes of x
    assert profiler.frame_count == 2 and "graph(s)" in profiler.report() and framelift.compile_records()
    assert len(list(tmp_path.glob("run_*/*/replay.pt"))) == 2


def test_a_failed_compilation_that_was_recorded_keeps_nothing_alive(tmp_path: Any) -> None:
    watched = Watched()

    def failing(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        raise ValueError("no")

    def failed() -> None:
        model, x = Net(), torch.ones(2, 4)
        watched(model=model, weight=model.inner.weight, x=x)
        with framelift.config.patch(debug_dir=str(tmp_path)), pytest.raises(Exception, match="no"):
            framelift.compile(model, backend=failing)(x)
        with framelift.config.patch(suppress_errors=True):
            framelift.compile(model, backend=failing)(x)

    failed()
    assert watched.alive() == [] and list(tmp_path.glob("run_*/*/replay.pt"))


# ---- models and inputs


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("offset", torch.ones(4))
        self.scales = [1.0, 2.0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight * self.scales[0] + self.offset


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])
        self.table = {"a": nn.Identity()}
        self.by_module = {self.inner: 2.0}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inner(x) * self.by_module[self.inner]
        for layer in self.layers:
            x = layer(x)
        return self.table["a"](x)


def watch_model(watched: Watched, model: nn.Module, n: int = 0) -> None:
    watched(**{f"{n} module {name}": module for name, module in model.named_modules()})
    watched(**{f"{n} {name}": tensor for name, tensor in model.state_dict(keep_vars=True).items()})


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model_goes(backend: str, dynamic: bool | None) -> None:
    watched = Watched()
    model = Net()
    made = compiled(model, backend=backend, isolate_recompiles=True, dynamic=dynamic)
    made(torch.ones(2, 4)).sum().backward()
    watch_model(watched, model)
    watch_entries(watched, made)
    del model, made
    # the class's code stays
    assert [name for name in watched.alive() if not name.startswith("code")] == []


def with_model(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x) + 1


def with_break(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    x = model(x)
    print(end="")
    return model(x) + 1


def with_identity(model: Any, x: torch.Tensor) -> torch.Tensor:
    seen = {model.inner, model.layers[0]}
    return model(x) + len(seen) + (model in seen)


def with_parameters(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    return [p * 2 for p in model.parameters()] + [x + len(list(model.modules()))]


def with_state(model: Any, x: torch.Tensor) -> Any:
    model.last = x + 1
    return {"model": model, "type": type(model)}, [model.inner.weight, model.last]


def with_method(model: Any, x: torch.Tensor) -> Any:
    call = model.inner.forward
    return call(x), call


def with_function(model: Any, x: torch.Tensor) -> Any:
    return (lambda y: model(y) + y)(x)


@pytest.mark.parametrize(
    "fn",
    [with_model, with_break, with_identity, with_parameters, with_state, with_method, with_function],
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_function_keeps_no_model_alive(fn: Callable[..., Any], dynamic: bool | None) -> None:
    watched = Watched()
    made = compiled(fn, dynamic=dynamic)

    def call(n: int) -> None:
        torch.manual_seed(0)
        model, x = Net(), torch.ones(2, 4)
        watch_model(watched, model, n)
        watched(**{f"{n} input": x})
        made(model, x)
        made(model, x)

    for n in range(3):
        call(n)
        assert watched.alive() == []


def test_a_class_made_for_each_model() -> None:
    watched = Watched()
    made = compiled(with_model)

    def call() -> None:
        class Local(Net):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return super().forward(x) * 2

        model = Local()
        watch_model(watched, model)
        watched(cls=Local, forward=Local.forward)
        made(model, torch.ones(2, 4))

    for _ in range(12):  # more often than a function may be compiled for what is still there
        call()
        assert watched.alive() == []
    record = made._framelift_context.state_of(with_model.__code__)
    assert record.skipped is None and len(record.entries) <= 1


def test_an_exception_while_tracing_keeps_nothing() -> None:
    watched = Watched()

    def fn(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = model(x)
        return y @ torch.ones(7)

    def breaking(model: Any, x: torch.Tensor) -> Any:
        y = model(x)
        return memoryview(model.data)[0] + y

    def call(made: Any) -> None:
        model: Any = Net()
        model.data = bytearray(b"a")
        x = torch.ones(2, 4)
        watch_model(watched, model)
        watched(x=x)
        try:
            made(model, x)
        except (RuntimeError, framelift.exc.Unsupported):
            pass

    kept = [compiled(fn), compiled(breaking), compiled(breaking, fullgraph=True)]
    for made in kept:
        call(made)
    assert watched.alive() == []


def test_reasons_to_recompile_keep_nothing() -> None:
    watched = Watched()
    made = compiled(lambda x, thing: x + (1 if thing is None else 2))

    class Thing:
        pass

    made(X, None)
    thing = Thing()
    made(X, thing)
    assert made._framelift_context.state_of(made.__wrapped__.__code__).recompile_reasons
    watched(thing=thing)
    del thing
    assert watched.alive() == []


def test_closures_made_for_each_call() -> None:
    watched = Watched()

    def apply(fn: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
        return fn(x) * 2

    def breaking(fn: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
        y = fn(x)
        print(end="")
        return fn(y)

    for outer in (apply, breaking):
        made = compiled(outer)

        def call(n: int, made: Any = made) -> None:
            held = torch.full((4,), float(n))

            def closure(x: torch.Tensor) -> torch.Tensor:
                return x + held

            watched(**{f"closure{n}": closure, f"held{n}": held})
            made(closure, X)

        for n in range(1000 if outer is apply else 50):
            call(n)
        assert watched.alive() == []
        assert len(made._framelift_context.state_of(outer.__code__).entries) == 1


def test_a_closure_that_breaks_is_not_kept() -> None:
    watched = Watched()

    def outer(fn: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
        return fn(x) * 2

    made = compiled(outer)

    def call(n: int) -> torch.Tensor:
        held = torch.full((4,), float(n))

        def closure(x: torch.Tensor) -> torch.Tensor:
            y = x + held
            print(end="")
            return y * held

        watched(**{f"closure{n}": closure, f"held{n}": held})
        return made(closure, X)

    for n in range(5):
        assert torch.equal(call(n), (X + n) * n * 2)
    assert watched.alive() == []


# ---- a dead object's guard never holds


class Token:
    """Is freed as soon as it is dropped, so the next one comes to lie in its place."""


def test_an_address_that_is_used_again_is_no_identity() -> None:
    def fn(x: torch.Tensor, token: Any, table: dict[Any, float]) -> torch.Tensor:
        return x + table.get(token, 100.0)

    made = compiled(fn)
    addresses = set()
    for n in range(200):
        token, other = Token(), Token()
        table = {token: float(n)}
        addresses.add(id(token))
        assert torch.equal(made(X, token, table), X + n)
        assert torch.equal(made(X, other, table), X + 100)
        del token, other, table
    assert len(addresses) < 200, "no address was used twice: the test shows nothing"
    record = made._framelift_context.state_of(fn.__code__)
    assert record.skipped is None, "entries of the dead count for the limit"


@pytest.mark.parametrize(
    "check", ["CHECK_IS", "CHECK_TYPE", "CHECK_CODE", "CHECK_KEYS", "CHECK_ELEMENTS_IN_ORDER"]
)
def test_natively_an_address_is_no_identity(check: str) -> None:
    def thing() -> tuple[Any, Any]:
        """What is checked, and what is expected of it."""
        if check == "CHECK_TYPE":
            cls = type("C", (), {})
            return cls(), cls
        if check == "CHECK_CODE":
            fn = defined("def f(): pass")["f"]
            return fn, fn.__code__
        found = Token()
        if check == "CHECK_IS":
            return found, found
        return {found: 1} if check == "CHECK_KEYS" else {found}, (found,)

    programs: list[Any] = []
    addresses = set()
    for _ in range(100):
        value, expected = thing()
        assert all(old.collect(None, (value,)) is None for old in programs)
        addresses.add(id(expected[0] if type(expected) is tuple else expected))
        nodes = [(-1, _guards.ACCESS_ARG, 0, [(getattr(_guards, check), expected)], -1)]
        program = _guards.Program(nodes, 0)
        del nodes
        assert program.collect(None, (value,)) == [] and not program.is_invalidated
        programs.append(program)
        del value, expected
        gc.collect(0)
    assert len(addresses) < 100, "no address was used twice: the test shows nothing"
    gc.collect()
    assert all(program.collect(None, (None,)) is None and program.is_invalidated for program in programs)


def test_an_entry_that_never_holds_again_leaves_the_cache() -> None:
    token = Token()
    nodes = [(-1, _guards.ACCESS_ARG, 0, [(_guards.CHECK_IS, token)], 0)]
    cache = _guards.Cache()
    cache.add(_guards.Entry(_guards.Program(nodes, 1), lambda value: "first"))
    del nodes
    always = _guards.Program([(-1, _guards.ACCESS_ARG, 0, [], 0)], 1)
    cache.add(_guards.Entry(always, lambda value: "second"))
    assert cache.dispatch(None, (token,)) == "second" and len(cache.entries()) == 2
    del token
    assert cache.dispatch(None, (1,)) == "second" and len(cache) == 1


def test_class_lookups_know_what_they_found_weakly() -> None:
    class C:
        def method(self) -> None:
            pass

    found = weakref.ref(C.method)
    program = _guards.Program([], 0, None, [(C, [("method", C.method), ("other", _guards.MISSING)])])
    assert program.collect(None, ()) == []
    C.method = lambda self: None  # type: ignore[method-assign]
    assert found() is None
    assert program.collect(None, ()) is None and program.is_invalidated
    for _ in range(100):
        C.method = lambda self: None  # type: ignore[method-assign]
        assert program.collect(None, ()) is None
    gone = weakref.ref(C)
    del C
    gc.collect()
    assert gone() is None
    assert program.collect(None, ()) is None


# ---- nothing adds up


def test_memory_stays_flat() -> None:
    for n in range(30):
        a_round_of_a_function(n)
    a_round_of_a_model("eager")
    before = Census()
    for n in range(300):
        a_round_of_a_function(n)
    for _ in range(3):
        a_round_of_a_model("eager")
    assert Census().growth(before) == {}


def test_a_leak_would_be_seen() -> None:
    before = Census()
    kept = [a_round_of_a_function(n) for n in range(20)]
    assert {"Context", "CodeState", "Entry", "Cache", "code"} <= Census().growth(before).keys()
    del kept


def test_tables_do_not_grow_with_the_classes_of_the_program() -> None:
    watched = Watched()

    def call() -> None:
        class Local:
            def __init__(self) -> None:
                self.x = torch.ones(4)

        watched(**{f"class{len(watched.names)}": Local})
        compiled(lambda thing: (thing.x + 1, Local(), isinstance(thing, Local)))(Local())

    for _ in range(5):
        call()
    assert watched.alive() == []


def test_the_op_memory_holds_metadata_and_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_memory, "_memory", {})
    monkeypatch.setattr(op_memory, "LIMIT", 10)
    made = compiled(lambda x: x.reshape(-1).sin().cos()[1:].sum())
    for n in range(2, 9):
        made(torch.ones(n))
        assert 0 < len(op_memory._memory) <= 10
    seen: list[Any] = [*op_memory._memory.items()]
    while seen:
        found = seen.pop()
        assert not isinstance(found, torch.Tensor)
        if isinstance(found, (tuple, list)):
            seen += found
