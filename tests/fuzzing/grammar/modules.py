"""Modules that are edited between calls: parameters, buffers, submodules, methods, classes, hooks."""

from __future__ import annotations

from .area import catalogue, table
from .language import LANGUAGE

HEADER = """
from torch import nn

class Block(nn.Module):
    scale = 0.5
    names = ['a']
    def __init__(self, width=3, bias=True):
        super().__init__()
        self.lin = nn.Linear(3, width, bias=bias)
        with torch.no_grad():
            self.lin.weight.copy_(torch.eye(width, 3) * 0.5)
            if bias:
                self.lin.bias.fill_(0.25)
        self.register_buffer('seen', torch.zeros(()))
        self.extra = None
        self.calls = 0
        self.act = torch.tanh

    def forward(self, x, by=1):
        self.calls += 1
        y = self.act(self.lin(x)) * self.scale * by
        if self.training:
            self.seen += 1
        if self.extra is not None:
            y = y + self.extra
        return self.finish(y)

    def finish(self, y):
        return y

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block(bias=False)])
        self.table = nn.ModuleDict({'a': Block(), 'b': nn.Identity()})
        self.drop = nn.Dropout(0.0)
        self.scale = nn.Parameter(torch.ones(3))
        self.gain = nn.ParameterList([nn.Parameter(torch.full((3,), 0.5))])
        self.mode = 'a'
        self.depth = 2

    def forward(self, x):
        for block in self.blocks[: self.depth]:
            x = block(x)
        x = self.table[self.mode](x)
        return self.drop(x) * self.scale + self.gain[0]

    @property
    def size(self):
        return sum(p.numel() for p in self.parameters())

class Lazy(nn.Module):
    def __getattr__(self, name):
        if name == 'made':
            LOG.append('made')
            return torch.ones(3)
        return super().__getattr__(name)

    def __setattr__(self, name, value):
        if name == 'noted':
            LOG.append('noted')
        super().__setattr__(name, value)

    def forward(self, x):
        return x + self.made

def hook(module, args, out):
    LOG.append(type(module).__name__)
    return out * 0.5 if torch.is_tensor(out) else out

def pre_hook(module, args):
    LOG.append(len(args))

def quieter(self, x, by=1):
    return self.lin(x) * 0.25 * by

def finish(self, y):
    return y - 1

def simple(x):
    return x * 0.5

model = Net()
block = model.blocks[0]
lazy = Lazy()
seq = nn.Sequential(Block(), nn.ReLU())
handles = []
"""

EXPRESSIONS = {
    "T": table("""
        4*  model(<T>)
        2*  block(<T>)
        block(<T>, by=<F>)
        seq(<T>)
        lazy(<T>)
        model.blocks[<I> % len(model.blocks)](<T>)
        model.table[<K>](<T>) if <K> in model.table else <T>
        model.scale * <T>
        model.blocks[0].lin.weight.sum(0)[:3]
        block.seen + <T>
        list(model.parameters())[<I> % 3].sum() + <T>
        dict(model.named_parameters())['scale'] * 0.5
        torch.stack([p.sum() for p in model.parameters()]).sum() + <T>
        block.finish(<T>)
        block.lin(<T>)
        torch.func.functional_call(block, {'lin.bias': <T>}, (<T>,))
        model.state_dict()['scale'] * 0.25
        getattr(model, 'more', lambda x: x)(<T>)
        functools.partial(block, by=2)(<T>)
        nn.functional.linear(<T>, block.lin.weight, block.lin.bias)
    """),
    "I": table("""
        len(model.blocks)
        len(list(model.modules())) % 7
        block.calls
        model.depth
        model.size % 7
        len(block._forward_hooks)
        sum(p.requires_grad for p in model.parameters()) % 5
        len(model.state_dict()) % 5
        len(vars(block)) % 5
    """),
    "B": table("""
        model.training
        block.lin.bias is None
        block.lin.weight.requires_grad
        block.extra is None
        hasattr(block, 'late')
        hasattr(model, 'more')
        'mode' in model.__dict__
        'extra' in block._parameters
        isinstance(model.table['b'], nn.Identity)
        type(block) is Block
        isinstance(block.lin.weight, nn.Parameter)
        block.lin.weight.grad is None
        any(m.training for m in model.modules())
        model.blocks[0] is block
        block in list(model.children())
        Block.scale > 0.3
        callable(block.act)
    """),
    "S": ["model.mode", "type(block).__name__", "','.join(model.table)", "repr(block.lin)"],
}

INSIDE = """
## 3 call
<+T> = <T>
## attribute set inside
block.late = <I>
## tensor attribute set inside
block.extra = <T>.detach()
## buffer written
model.blocks[0].seen.add_(1)
## buffer replaced
block.seen = block.seen + 1
## mode inside
model.eval()
## train inside
model.train(<B>)
## parameter replaced inside
block.lin.bias = nn.Parameter(<T>.detach())
## requires_grad inside
block.lin.weight.requires_grad_(<B>)
## module set inside
model.more = nn.Identity()
## hook inside
handles.append(block.register_forward_hook(hook))
## noted
lazy.noted = <I>
## backward [program]
if torch.is_grad_enabled():
    model(<T>.detach()).sum().backward()
    LOG.append(block.lin.weight.grad is None)
## zero_grad
model.zero_grad(set_to_none=<B>)
## data
block.lin.weight.data.mul_(0.5)
## copy_
with torch.no_grad():
    model.scale.copy_(<T>)
## apply
model.apply(lambda m: LOG.append(type(m).__name__))
## loop over modules
for name, module in model.named_modules():
    if isinstance(module, Block):
        module.calls += 1
## a new module
<+T> = Block()(<T>)
## bound method kept
<+G1> = block.finish
<+T> = <g1>(<T>)
## deepcopy
<+T> = copy.deepcopy(block)(<T>)
"""

EDITS = """
## eval
model.eval()
## train
model.train()
## block eval
block.eval()
## weight replaced
block.lin.weight = nn.Parameter(torch.eye(3))
## bias gone
block.lin.bias = None
## bias there
block.lin.bias = nn.Parameter(torch.ones(3))
## weight frozen
block.lin.weight.requires_grad_(False)
## class attribute
Block.scale = 0.25
## attribute over the class's
block.scale = 2.0
## attribute gone
block.__dict__.pop('scale', None)
## method of the class
Block.finish = finish
## method of the instance
block.finish = simple
## forward of the class
Block.forward = quieter
## forward of the instance
block.forward = simple
## forward of the instance gone
block.__dict__.pop('forward', None)
## extra
block.extra = torch.ones(3)
## extra as a parameter
block.extra = None; del block.extra; block.extra = nn.Parameter(torch.ones(3))
## number
model.depth = 1
## mode
model.mode = 'b'
## module replaced
model.table['b'] = Block()
## module added
model.blocks.append(Block())
## module removed
del model.blocks[-1]
if len(model.blocks) == 0: model.blocks.append(block)
## module replaced by another
model.blocks[0] = Block()
## swap
model.blocks = nn.ModuleList(list(model.blocks)[::-1])
## forward hook
handles.append(block.register_forward_hook(hook))
## pre hook
handles.append(block.register_forward_pre_hook(pre_hook))
## hook removed
if handles: handles.pop().remove()
## all hooks gone
while handles: handles.pop().remove()
## double
model.double().float()
## state dict
model.load_state_dict(model.state_dict())
## state dict assigned
model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)
## grads gone
model.zero_grad()
## activation
block.act = torch.sigmoid
## activation of Python
block.act = simple
## class changed
class Other(Block):
    scale = 0.125
block.__class__ = Other
## late
block.late = 3
## late gone
block.__dict__.pop('late', None)
## buffer replaced
block.seen = torch.ones(())
## dropout
model.drop.p = 0.5
## no hooks of the class
Block.__call__ = nn.Module.__call__
## more
model.more = nn.Tanh()
## parametrized
if not torch.nn.utils.parametrize.is_parametrized(block.lin):
    torch.nn.utils.parametrizations.weight_norm(block.lin)
## share
model.blocks[-1].lin = block.lin
## another
lazy = Lazy()
## parameters data
block.lin.weight.data = block.lin.weight.data * 2
"""

MODULES = LANGUAGE.extended(
    "modules",
    header=HEADER,
    statements=catalogue(INSIDE),
    expressions=EXPRESSIONS,
    edits=catalogue(EDITS),
    globals=(*LANGUAGE.globals, "lazy", "block"),
    options=[
        {"calls": 4},
        {"calls": 4},
        {"calls": 4},
        {"backend": "aot_eager"},
        {"dynamic": True},
        {"fullgraph": True},
    ],
)
