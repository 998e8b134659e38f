"""Compiled functions within compiled functions, `compile` in the middle of a program, disabled parts."""

from __future__ import annotations

import dataclasses

from .area import catalogue, table
from .language import LANGUAGE

HEADER = """
def inner(x, by=1):
    return torch.tanh(x * by)

def chatty(x):
    print('chatty')
    return x + 1

def counting(x):
    box.count += 1
    return x * 0.5

def failing(x):
    if x.sum() > 0:
        raise ValueError('positive')
    return x

class Layer(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.weight = torch.nn.Parameter(torch.full((3,), 0.5))

    def forward(self, x):
        return (x * self.weight).tanh() * self.scale

    def method(self, x):
        return x - self.scale

class Late(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Layer(2)

    def forward(self, x):
        return framelift.compile(self.inner, backend='eager')(x) + 1

ready = framelift.compile(inner, backend='eager')
ready_chatty = framelift.compile(chatty, backend='eager')
whole = framelift.compile(inner, backend='eager', fullgraph=True)
traced = framelift.compile(counting, backend='aot_eager')
layer = Layer(0.5)
ready_layer = framelift.compile(Layer(0.25), backend='eager')
layers = torch.nn.ModuleList([framelift.compile(Layer(0.5), backend='eager') for _ in range(3)])
late = Late()

@framelift.compile(backend='eager')
def decorated(x):
    return x.clamp(-1, 1) + layer.scale

@framelift.disable
def plain(x):
    return ready(x) * 2

@framelift.disable(recursive=False)
def plain_here(x):
    return inner(x) * 2
"""
EXPRESSIONS = {
    "T": table("""
        2*  ready(<T>)
        ready(<T>, by=<I>)
        ready(<T>, <F>)
        ready_chatty(<T>)
        whole(<T>)
        traced(<T>)
        2*  framelift.compile(inner, backend='eager')(<T>)
        framelift.compile(chatty, backend='eager')(<T>)
        framelift.compile(lambda x: x * <I>, backend='eager')(<T>)
        framelift.compile(layer, backend='eager')(<T>)
        framelift.compile(layer.method, backend='eager')(<T>)
        layer(<T>)
        ready_layer(<T>)
        late(<T>)
        decorated(<T>)
        plain(<T>)
        plain_here(<T>)
        layers[<I> % 3](<T>)
        functools.reduce(lambda a, f: f(a), layers, <T>)
        framelift.disable(inner)(<T>)
        framelift.disable(lambda x: x + 1)(<T>)
        framelift.compile(functools.partial(inner, by=2), backend='eager')(<T>)
        call(ready, <T>)
        framelift.compile(inner, backend='eager', dynamic=True)(<T>)
    """),
    "G": [
        "ready",
        "ready_chatty",
        "decorated",
        "framelift.compile(inner, backend='eager')",
        "plain",
        "layer",
    ],
    "B": ["framelift.is_compiling() and False", "callable(ready)", "hasattr(ready, '__wrapped__') or True"],
}
STATEMENTS = """
## 4 assignment
<+T> = <T>
## compile kept
<+G> = framelift.compile(inner, backend='eager')
## compile in a loop
for <+I> in range(3):
    <+T1> = framelift.compile(inner, backend='eager')(<T>)
    LOG.append(<t1>)
## local function
def local(value, by=<I>):
    return value * by
<+T> = framelift.compile(local, backend='eager')(<T>)
## decorator
@framelift.compile(backend='eager')
def within(value):
    LOG.append(<I>)
    return value + 1
<+T> = within(<T>)
## layers
<+T1> = <T>
for <+G1> in layers:
    <t1> = <g1>(<t1>)
LOG.append(<t1>)
## failing
try:
    <+T> = framelift.compile(failing, backend='eager')(<T>)
except ValueError as <+E1>:
    LOG.append(<e1>.args)
## break
framelift.graph_break()
## disabled for a while
with framelift.set_stance('force_eager'):
    <+T> = <T>
## backward
if torch.is_grad_enabled():
    ready_layer(<T>.detach()).sum().backward()
## note
note(<T>)
"""
EDITS = """
## scale
layer.scale = 2.0
## another function
inner.__defaults__ = (2,)
## another layer
layer = Layer(0.125)
## call plainly
LOG.append(ready(torch.ones(3)))
## call of a layer
LOG.append(ready_layer(torch.ones(3)).detach())
## reset
framelift.reset()
## another code
inner.__code__ = (lambda x, by=1: x - by).__code__
"""
NESTED = LANGUAGE.extended(
    "nested",
    header=HEADER,
    statements=catalogue(STATEMENTS),
    expressions=EXPRESSIONS,
    edits=catalogue(EDITS),
    globals=(*LANGUAGE.globals, "layer"),
    options=[{}, {}, {}, {"backend": "aot_eager"}, {"dynamic": True}],
)

REPEATED = dataclasses.replace(
    NESTED,
    name="repeated",
    arguments=LANGUAGE.arguments
    | {"n": "2", "x": "0.5", "flag": "True", "t": "torch.full((3,), 0.5 + call)"},
    statements=[
        entry for entry in NESTED.statements if entry.name not in ("failing", "note", "disabled for a while")
    ],
    expressions={
        "T": [
            one
            for one in EXPRESSIONS["T"]
            if "lambda" not in one and "traced" not in one and "call(" not in one
        ]
        + ["t", "u", "<T> + <T>", "<T> * 0.5"],
        "I": ["1", "2", "<i>"],
        "F": ["0.5", "<f>"],
        "G": ["ready", "decorated"],
    },
    variables={"T": ["t", "u"], "I": ["n"], "F": ["x"], "G": ["ready", "double"]},
    leaves=NESTED.leaves | {"R": ["<T>"], "C": ["flag"]},
    wrappers=[],
    edits=[],
    background=[],
    options=[{"calls": 14, "steady": True}],
)
"""Calls that are all alike, many times."""
