"""Training steps: optimizers of all kinds with schedulers, inside and outside; few compilations."""

from __future__ import annotations

from .area import Area, catalogue, table

HEADER = """
import math
import torch
from torch import nn

def make_net():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    with torch.no_grad():
        for n, p in enumerate(net.parameters()):
            p.copy_(torch.linspace(-0.5, 0.5, p.numel()).reshape(p.shape) + 0.1 * n)
    return net

LOG = []
STEP = 0
net = make_net()
params = list(net.parameters())
free = nn.Parameter(torch.tensor([0.5, -0.5, 0.25]))
make = {
    'sgd': lambda: torch.optim.SGD(net.parameters(), lr=0.1),
    'momentum': lambda: torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True),
    'adam': lambda: torch.optim.Adam(net.parameters(), lr=0.01),
    'adamw': lambda: torch.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.1),
    'amsgrad': lambda: torch.optim.Adam(net.parameters(), lr=0.01, amsgrad=True, foreach=False),
    'tensor lr': lambda: torch.optim.Adam(net.parameters(), lr=torch.tensor(0.01), foreach=False),
    'rmsprop': lambda: torch.optim.RMSprop(net.parameters(), lr=0.01),
    'adagrad': lambda: torch.optim.Adagrad(net.parameters(), lr=0.1),
    'adadelta': lambda: torch.optim.Adadelta(net.parameters()),
    'adamax': lambda: torch.optim.Adamax(net.parameters(), lr=0.01),
    'nadam': lambda: torch.optim.NAdam(net.parameters(), lr=0.01),
    'radam': lambda: torch.optim.RAdam(net.parameters(), lr=0.01),
    'groups': lambda: torch.optim.SGD([{'params': params[:2]}, {'params': params[2:], 'lr': 0.5}], lr=0.1),
    'maximize': lambda: torch.optim.SGD(net.parameters(), lr=0.1, maximize=True),
}
schedule = {
    'step': lambda: torch.optim.lr_scheduler.StepLR(opt, 2),
    'exponential': lambda: torch.optim.lr_scheduler.ExponentialLR(opt, 0.9),
    'cosine': lambda: torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10),
    'one cycle': lambda: torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=60),
    'linear': lambda: torch.optim.lr_scheduler.LinearLR(opt, total_iters=5),
    'lambda': lambda: torch.optim.lr_scheduler.LambdaLR(opt, lambda n: 0.95 ** n),
}
opt = make['sgd']()
sched = None
other = torch.optim.SGD([free], lr=0.1)

def loss_of(x, y):
    return nn.functional.mse_loss(net(x), y)
"""
ARGUMENTS = {
    "t": "torch.linspace(-1.0, 1.0, 6).reshape(2, 3) + call * 0.1",
    "y": "torch.tensor([[0.5], [-0.5]])",
    "n": "call",
    "flag": "call % 2 == 0",
}
LOSSES = table("""
    loss_of(t, y)
    2*  net(t).pow(2).mean()
    loss_of(t, y) + free.sum() * 0.1
    loss_of(t, y) * 0.0
    nn.functional.l1_loss(net(t), y)
    loss_of(t[:1], y[:1]) + loss_of(t[1:], y[1:])
    torch.stack([p.pow(2).sum() for p in net.parameters()]).sum()
""")
STEPS = """
## 4 step
opt.zero_grad()
<+T1> = <T>
<t1>.backward()
opt.step()
## step that keeps zeros
opt.zero_grad(set_to_none=False)
<T>.backward()
opt.step()
## accumulation
<T>.backward()
if n % 2 == 1:
    opt.step()
    opt.zero_grad()
## clipping
opt.zero_grad()
<T>.backward()
<+T> = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
opt.step()
## clipping of values
opt.zero_grad()
<T>.backward()
torch.nn.utils.clip_grad_value_(params, 0.1)
opt.step()
## closure
def closure():
    opt.zero_grad()
    loss = <T>
    loss.backward()
    return loss
<+T> = opt.step(closure)
## another optimizer
other.zero_grad()
(free * <T>.detach()).sum().backward()
other.step()
## grads by hand
for p, g in zip(params, torch.autograd.grad(<T>, params, allow_unused=True)):
    p.grad = g
opt.step()
## update by hand
with torch.no_grad():
    for p in params:
        p.sub_(0.01 * p)
## average
with torch.no_grad():
    free.lerp_(torch.ones(3), 0.1)
## look at a rate
LOG.append(opt.param_groups[0]['lr'])
## look at the state
LOG.append(len(opt.state))
## frozen for a while
params[0].requires_grad_(False)
<+T> = <T>
params[0].requires_grad_(True)
## schedule inside
if sched is not None:
    sched.step()
## rate inside
for group in opt.param_groups:
    group['lr'] = group['lr'] * 0.9
## evaluation
net.eval()
with torch.no_grad():
    <+T> = <T>
net.train()
## loop
for _ in range(2):
    opt.zero_grad()
    <T>.backward()
    opt.step()
"""
EDITS = """
## schedule step
if sched is not None: sched.step()
## rate
opt.param_groups[0]['lr'] = 0.05
## decay
opt.param_groups[0]['weight_decay'] = 0.01
## state dict
opt.load_state_dict(opt.state_dict())
## another optimizer
opt = make['adam']()
## fresh group
if len(opt.param_groups) == 1: opt.add_param_group({'params': [nn.Parameter(torch.ones(1))]})
## grads gone
opt.zero_grad()
"""
STARTS = """
## adam
opt = make['adam']()
## adamw
opt = make['adamw']()
## momentum
opt = make['momentum']()
## any
opt = make[<S>]()
## scheduled
opt = make[<S>](); sched = schedule[<K>]()
"""
SCHEDULES = ["'step'", "'exponential'", "'cosine'", "'one cycle'", "'linear'", "'lambda'"]
NAMES = table("""
    'sgd'
    'momentum'
    'adam'
    'adamw'
    'amsgrad'
    'tensor lr'
    'rmsprop'
    'adagrad'
    'adadelta'
    'adamax'
    'nadam'
    'radam'
    'groups'
    'maximize'
""")

OPTIMIZERS = Area(
    "optimizers",
    HEADER,
    ARGUMENTS,
    {},
    {"T": LOSSES, "S": NAMES, "K": SCHEDULES},
    catalogue(STEPS),
    {"T": LOSSES, "R": ["<T>", "net(t)", "opt.param_groups[0]['lr']"], "S": NAMES, "K": SCHEDULES},
    globals=("STEP", "opt", "sched"),
    edits=catalogue(EDITS),
    starts=catalogue(STARTS),
    options=[{"calls": 4, "rounding": True}, {"calls": 4, "rounding": True, "backend": "aot_eager"}],
    size=(1, 3),
)

TRAINING = Area(
    "training",
    HEADER,
    ARGUMENTS | {"flag": "True", "n": "1"},
    {},
    {"T": LOSSES, "S": NAMES, "K": SCHEDULES},
    [entry for entry in catalogue(STEPS) if entry.name not in ("accumulation", "look at the state")],
    {"T": LOSSES, "R": ["<T>", "net(t)", "opt.param_groups[0]['lr']"], "S": NAMES, "K": SCHEDULES},
    globals=("STEP", "opt", "sched"),
    always=catalogue("\n## schedule step\nif sched is not None: sched.step()\n"),
    starts=catalogue(STARTS),
    options=[{"calls": 20, "steady": True, "rounding": True}],
    size=(1, 2),
)
