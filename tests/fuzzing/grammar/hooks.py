"""Hooks on tensors, modules and gradients, put there inside and outside; backward passes in both places."""

from __future__ import annotations

from .area import catalogue, table
from .language import LANGUAGE

HEADER = """
from torch import nn

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.5, 1.0, 1.5]))

    def forward(self, x, *more):
        return (x * self.weight).tanh()

def seen(grad):
    LOG.append(('grad', None if grad is None else grad.tolist()))

def half(grad):
    print('half')
    return grad * 0.5

def after(module, args, out):
    LOG.append(('after', type(module).__name__, len(args)))

def after_half(module, args, out):
    return out * 0.5

def before(module, args):
    print('before', len(args))
    return (args[0] + 1, *args[1:])

def before_with(module, args, kwargs):
    LOG.append(sorted(kwargs))

def back(module, grad_in, grad_out):
    LOG.append(('back', [g is None for g in grad_in], [g is None for g in grad_out]))

def back_half(module, grad_in, grad_out):
    return tuple(None if g is None else g * 0.5 for g in grad_in)

def back_before(module, grad_out):
    LOG.append(('back before', len(grad_out)))

def accumulated(param):
    LOG.append(('accumulated', param.grad.tolist()))

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        LOG.append('forward')
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return grad * 2 + x * 0

layer, second = Layer(), Layer()
handles = []
leaf = torch.tensor([1.0, -1.0, 0.5], requires_grad=True)
"""
EXPRESSIONS = {
    "T": table("""
        3*  layer(<T>)
        second(<T>)
        second(layer(<T>))
        2*  leaf * <T>
        layer(<T>, <I>)
        Double.apply(<T>)
        w * <T>
        (layer.weight * <T>).detach()
    """),
    "G": ["layer", "Double.apply"],
}
HANDLERS = table("""
    seen
    half
    lambda g: g * 2
    lambda g: LOG.append(g.shape)
""")
STATEMENTS = """
## 3 call
<+T> = <T>
## hook on a result
<+T1> = leaf * <T>
<t1>.register_hook(<Y>)
## hook on a leaf
handles.append(leaf.register_hook(<Y>))
## hook on a parameter
handles.append(layer.weight.register_hook(<Y>))
## hook on an argument
if t.requires_grad:
    t.register_hook(<Y>)
## retain
<+T1> = leaf * <T>
<t1>.retain_grad()
LOG.append(<t1>)
## 3 backward
if torch.is_grad_enabled():
    (leaf * <T>).sum().backward()
## backward of a layer
if torch.is_grad_enabled():
    layer(<T>).sum().backward()
## grad
if torch.is_grad_enabled():
    <+T> = torch.autograd.grad((leaf * <T>).sum(), leaf)[0]
## grad of a grad
if torch.is_grad_enabled():
    <+T1>, = torch.autograd.grad((leaf ** 3).sum(), leaf, create_graph=True)
    <t1>.sum().backward()
## accumulate hook
handles.append(layer.weight.register_post_accumulate_grad_hook(accumulated))
## module hook inside
handles.append(layer.register_forward_hook(after_half))
## pre hook inside
handles.append(second.register_forward_pre_hook(before))
## backward hook inside
handles.append(layer.register_full_backward_hook(back))
## hook removed
if handles:
    handles.pop().remove()
## hook for a while
<+X1> = layer.register_forward_hook(after)
<+T> = layer(<T>)
<x1>.remove()
## saved tensors
with torch.autograd.graph.saved_tensors_hooks(lambda x: x * 1, lambda x: x):
    <+T> = (leaf * <T>) ** 2
## node hook
<+T1> = leaf * <T>
if <t1>.grad_fn is not None:
    <t1>.grad_fn.register_hook(lambda a, b: LOG.append('node'))
## grads
LOG.append(leaf.grad)
## grads gone
leaf.grad = None
## grad set
layer.weight.grad = <T>.detach()
"""
EDITS = """
## backward outside
(layer(torch.ones(3)) * leaf).sum().backward()
## forward hook
handles.append(layer.register_forward_hook(after))
## hook that changes
handles.append(layer.register_forward_hook(after_half))
## pre hook
handles.append(layer.register_forward_pre_hook(before))
## pre hook with keywords
handles.append(layer.register_forward_pre_hook(before_with, with_kwargs=True))
## always
handles.append(layer.register_forward_hook(after, always_call=True))
## prepended
handles.append(layer.register_forward_hook(after, prepend=True))
## backward hook
handles.append(layer.register_full_backward_hook(back))
## backward hook that changes
handles.append(layer.register_full_backward_hook(back_half))
## backward pre hook
handles.append(layer.register_full_backward_pre_hook(back_before))
## tensor hook
handles.append(leaf.register_hook(half))
## parameter hook
handles.append(layer.weight.register_hook(seen))
## accumulate hook
handles.append(layer.weight.register_post_accumulate_grad_hook(accumulated))
## hooks gone
while handles: handles.pop().remove()
## grads gone
leaf.grad = None
## requires no grad
layer.weight.requires_grad_(False)
## requires grad
layer.weight.requires_grad_(True)
"""
HOOKS = LANGUAGE.extended(
    "hooks",
    header=HEADER,
    arguments={"t": LANGUAGE.arguments["t"] + ".requires_grad_(call % 2 == 1)"},
    statements=catalogue(STATEMENTS),
    expressions=EXPRESSIONS | {"Y": HANDLERS},
    leaves={"Y": HANDLERS},
    edits=catalogue(EDITS),
    options=[{"calls": 4}, {"calls": 4}, {"calls": 4}, {"backend": "aot_eager"}, {"fullgraph": True}],
)
