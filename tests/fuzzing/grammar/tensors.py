"""Operators over tensors of many shapes, types and layouts, with views, writes, gradients; all backends."""

from __future__ import annotations

from .area import Area, catalogue, table

HEADER = """
import math
import torch
import torch.nn.functional as F

LOG = []
SIZES = [3, 3, 4, 5]
weight = torch.linspace(-1.0, 1.0, 9).reshape(3, 3).requires_grad_()
bias = torch.tensor([0.5, -0.5, 0.25], requires_grad=True)
buffer = torch.zeros(4, 3)
store = {}

def noisy(x):
    print(tuple(x.shape))
    return x
"""
ARGUMENTS = {
    "t": "torch.linspace(-1.0, 1.0, SIZES[call] * 3).reshape(SIZES[call], 3)",
    "u": "torch.linspace(2.0, -1.0, SIZES[call] * 3).reshape(SIZES[call], 3)",
    "k": "torch.arange(SIZES[call]) % 3",
    "n": "SIZES[call] - 1",
    "x": "[0.5, 0.25, 0.5, 2.0][call]",
    "flag": "call % 2 == 0",
}
EXPRESSIONS = {
    "T": table("""
        4*  <t>
        2*  <T> + <T>
        <T> * <F>
        <T> - <I>
        <T> / 2
        torch.tanh(<T>)
        <T>.relu()
        <T> @ weight
        F.linear(<T>, weight, bias)
        <T> + bias
        <T> * <T>.sum()
        <T> - <T>.mean(0, keepdim=True)
        F.softmax(<T>, dim=-1)
        F.layer_norm(<T>, (3,), None, bias)
        F.gelu(<T>)
        torch.where(<T> > 0, <T>, <F>)
        <T>.clamp(min=-<F>)
        <T>.t().t()
        <T>.contiguous()
        <T>.clone()
        <T>.detach()
        <T>.double().float()
        torch.cat([<T>, <T>])[:<t1>.shape[0]] if <t1>.shape == <T>.shape else <t1>
        torch.stack([<T>, <T>]).sum(0)
        <T>.flip(0)
        <T>.roll(1, 0)
        <T>.cumsum(0)
        <T>.sort(0)[0]
        <T>.masked_fill(<T> > 0.5, 0)
        <T>.index_select(1, torch.tensor([2, 1, 0]))
        <T>[:, [2, 0, 1]]
        <T>.gather(1, k[:, None].expand(-1, 3))
        <T>.expand_as(<T>)
        torch.einsum('ij,jk->ik', <T>, weight)
        <T>.view(-1).view(-1, 3)
        <T>.reshape(3, -1).reshape(-1, 3)
        <T>.unflatten(1, (3, 1)).flatten(1)
        <T>.unsqueeze(1).squeeze(1)
        <T>.abs().sqrt()
        <T>.exp().log1p()
        torch.addmm(bias, <T>, weight)
        torch.lerp(<T>, <T>, <F>)
        F.dropout(<T>, 0.5, training=<B>)
        torch.rand_like(<T>) * <T>
        noisy(<T>)
        <T>.to(torch.bfloat16).float()
        torch.complex(<T>, <T>).real
        torch.view_as_real(torch.complex(<T>, <T>))[..., 1]
        torch.cumprod(<T>, 1)
        <T>.T.contiguous().T
        torch.full_like(<T>, <F>) + <T>
        torch.arange(<t1>.shape[0])[:, None] * <t1>
        torch.nan_to_num(<T> / <T>)
        torch.var_mean(<T>, 0)[0] + <T>
        <T>.bool().float()
        (<T> > <F>).to(<T>.dtype)
        torch.maximum(<T>, <T>)
        <T>.pow(2)
        <T> ** <I>
    """),
    "I": table("""
        3*  <i>
        <t>.shape[0]
        <t>.numel()
        <t>.dim()
        len(<t>)
        <t>.stride(0)
        <t>.storage_offset()
        <I> + 1
        int(k.max())
        <t>.ndim
    """),
    "F": ["<f>", "<F> * 0.5", "float(<I>)", "math.sqrt(abs(<I>))", "<T>.sum().item()"],
    "B": table("""
        <b>
        <t>.is_contiguous()
        <t>.requires_grad
        <t>.shape[0] > 3
        <t>.shape[0] % 2 == 0
        bool(<T>.sum() > 0)
        <t>.is_leaf
        <t>._is_view()
        <t> is <t>
        <t>.dtype == torch.float32
        torch.equal(<T>, <T>)
    """),
    "R": table("""
        3*  <T>
        <t>[1:]
        <t>[:, 1]
        <t>.t()
        <t>.view(-1)
        <t>[0]
        <t>[k > 0]
        <T>.sum()
        <T>.argmax(1)
        <T>.topk(2)[0]
        <T>.max(0)
        <T>.split(2)
        <T>.unbind(1)
        <T>.chunk(2)
        (<t1>, <t1>)
        (<t1>, <t1>[:1])
        {'a': <T>, 'n': <I>}
        <T>.shape
        <T>.half()
        <T> > 0
        torch.nonzero(<T>)
        <T>.unique()
        <T>.to_sparse()
        <T>.std(0)
        F.one_hot(k, 3)
        F.embedding(k, weight)
        F.cross_entropy(<T>, k)
        <T>.tolist()
        <T>.as_strided((2, 2), (1, 1))
        <T>.unfold(1, 2, 1)
        <T>.norm()
        <T>.numpy(force=True)
        <T>.tril()
        torch.meshgrid(<T>[0], <T>[0], indexing='ij')
        torch.conj(torch.complex(<T>, <T>))
        <T>.new_zeros(2)
        torch.linalg.svdvals(<T>)
        torch.empty(0, 3)
        <T>[<I> % 3 :: 2]
        <T>[None, ..., :2]
        <T>.broadcast_to(2, *<T>.shape[:0], 3) if False else <T>
    """),
}
STATEMENTS = """
## 5 assignment
<+T> = <T>
## 2 in place
<+M1> = <T> + 0
<m1>.add_(<F>)
## in place on an argument
t.mul_(<F>)
## in place on a view
u[1:].add_(1)
## in place through two names
<+X1> = u[:, :2]
u.add_(1)
LOG.append(<x1>.sum())
## item
t[0] = <F>
## item of a mask
t[t > <F>] = 0
## index put
u[k % u.shape[0]] = <F>
## copy_
buffer[:3].copy_(weight.detach())
## buffer
buffer.add_(<F>)
## out
torch.add(t, u, out=t)
## fresh out
<+T1> = torch.empty(0)
torch.mul(<T>, 2, out=<t1>)
## branch on a size
if <B>:
    ...
## else
if <B>:
    <+T1> = <T>
else:
    <t1> = <T>
<+T> = <t1> * 2
## loop
for <+I> in range(2):
    ...
## loop over rows
for <+X1> in <t>[:2]:
    LOG.append(<x1>.sum())
## backward
if torch.is_grad_enabled() and bias.requires_grad:
    (<T> * bias).sum().backward()
## grad
if weight.requires_grad and torch.is_grad_enabled():
    LOG.append(torch.autograd.grad((weight * <F>).sum(), weight))
## no_grad
with torch.no_grad():
    ...
## log
LOG.append(<R>)
## store
store['last'] = <T>
## grads gone
weight.grad = None
## requires_grad
<+T1> = <T>.detach().requires_grad_()
(<t1> * 2).sum().backward()
LOG.append(<t1>.grad)
## data
t.data = <T>.detach()
## set_
<+M1> = <T>.detach() + 0
<m1>.set_(u)
## resize
<+X1> = torch.zeros(2)
<x1>.resize_(4).zero_()
LOG.append(<x1>)
## transpose in place
<+X1> = <T> + 1
<x1>.t_()
LOG.append(<x1>)
## unused
<T>
"""
EDITS = """
## sizes
SIZES[:] = [2, 3, 4, 5]
## sizes with one
SIZES[:] = [3, 1, 2, 3]
## empty
SIZES[:] = [3, 0, 3, 2]
## requires no grad
weight.requires_grad_(False)
## requires grad
weight.requires_grad_(True)
## another weight
weight = torch.eye(3, requires_grad=True)
## transposed
weight = torch.eye(3).t().requires_grad_()
## other buffer
buffer = torch.ones(4, 3)
## written
buffer.add_(1)
## grads gone
bias.grad = None
## double
bias = bias.detach().clone().requires_grad_(False)
"""
LEAVES = {kind: [f"<{kind.lower()}>"] for kind in "TMIFB"} | {"R": ["<t>"], "C": ["<b>"]}

TENSORS = Area(
    "tensors",
    HEADER,
    ARGUMENTS,
    {"T": ["t", "u", "t[:]", "u.clone()"], "M": [], "I": ["n"], "F": ["x"], "B": ["flag"]},
    EXPRESSIONS,
    catalogue(STATEMENTS),
    LEAVES,
    {"I": ["2", "1"], "F": ["0.5", "2.0"], "B": ["True"]},
    globals=("weight", "buffer", "bias"),
    edits=catalogue(EDITS),
    options=[
        *[{"calls": 4}, {"calls": 4, "dynamic": True}] * 3,
        {"calls": 4, "dynamic": False},
        *[
            {"calls": 4, "backend": backend, "dynamic": dynamic}
            for backend in ("aot_eager", "aot")
            for dynamic in (None, True)
        ],
        {"calls": 4, "backend": "aot_eager_decomp_partition"},
        {"calls": 3, "fullgraph": True},
    ],
    size=(2, 5),
)
