"""Tensor subclasses: with `__torch_function__`, with attributes, and wrappers with `__torch_dispatch__`."""

from __future__ import annotations

from .area import catalogue, table
from .language import LANGUAGE

HEADER = """
class Tagged(torch.Tensor):
    tag = 'plain'

class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(getattr(func, '__name__', str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})

class Doubling(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        if func is torch.Tensor.add:
            return out * 2
        return out

class Refusing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.tanh:
            return NotImplemented
        return super().__torch_function__(func, types, args, kwargs or {})

class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, note='w'):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=inner.device, requires_grad=inner.requires_grad)

    def __init__(self, inner, note='w'):
        self.inner, self.note = inner, note

    def __repr__(self):
        return f'Wrapper({self.note})'

    def __tensor_flatten__(self):
        return ['inner'], self.note

    @staticmethod
    def __tensor_unflatten__(inner, note, size, stride):
        return Wrapper(inner['inner'], note)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        un = lambda x: x.inner if isinstance(x, Wrapper) else x
        wrap = lambda x: Wrapper(x) if isinstance(x, torch.Tensor) else x
        out = func(*torch.utils._pytree.tree_map(un, args), **torch.utils._pytree.tree_map(un, kwargs or {}))
        return torch.utils._pytree.tree_map(wrap, out)

class Like:
    'No tensor, but functions of torch take it for one.'
    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        un = lambda x: x.value if isinstance(x, Like) else x
        return Like(func(*map(un, args), **(kwargs or {})))

def as_kind(x, cls):
    return x.detach().as_subclass(cls)

tagged = torch.tensor([1.0, 2.0, 3.0]).as_subclass(Tagged)
tagged.tag = 'own'
logged = torch.tensor([0.5, 0.5, -0.5]).as_subclass(Logged)
doubling = torch.tensor([0.25, 1.0, -0.5]).as_subclass(Doubling)
wrapped = Wrapper(torch.tensor([1.0, 0.5, -1.0]), 'first')
like = Like(torch.ones(3))
param = torch.nn.Parameter(torch.tensor([1.0, 2.0, 0.5]))
"""
EXPRESSIONS = {
    "T": table("""
        2*  tagged + u
        2*  logged * t
        2*  doubling + t
        2*  wrapped + u
        tagged * <T>
        wrapped + <T>
        wrapped.inner
        as_kind(u + <F>, Tagged)
        as_kind(t, Logged)
        as_kind(t * <I>, Refusing)
        Wrapper(t + <F>) * 2
        like.value
        torch.add(like, u).value
        tagged.clone()
        torch.stack([doubling, u]).sum(0)
        tagged[:]
        param * t
        torch.nn.functional.relu(logged)
        torch.where(wrapped > 0, wrapped, t)
        wrapped.detach()
        wrapped.sum() + t
        wrapped.view(3)
        logged.detach().as_subclass(torch.Tensor)
        t
        u * 2
    """),
    "B": table("""
        type(<T>) is torch.Tensor
        isinstance(<T>, Tagged)
        isinstance(<T>, Wrapper)
        isinstance(tagged, torch.Tensor)
        isinstance(param, torch.nn.Parameter)
        issubclass(type(<T>), Logged)
        hasattr(<T>, 'tag')
        torch.is_tensor(wrapped)
        torch.overrides.is_tensor_like(like)
        torch._C._is_torch_function_enabled()
        type(tagged + 1) is Tagged
    """),
    "S": ["tagged.tag", "type(<T>).__name__", "wrapped.note", "getattr(<T>, 'tag', 'none')"],
    "I": ["len(LOG) % 5", "wrapped.dim()", "tagged.shape[0]", "len(type(<T>).__mro__)"],
}
STATEMENTS = """
## 4 assignment
<+T> = <T>
## tag
tagged.tag = <S>
## tag of a result
<+T1> = tagged * 2
<t1>.tag = <I>
LOG.append(getattr(<t1>, 'tag', None))
## note of a wrapper
wrapped.note = <S>
## in place
tagged.add_(1)
## in place on a wrapper
wrapped.mul_(0.5)
## in place on a logged one
logged.add_(<F>)
## without functions
with torch._C.DisableTorchFunctionSubclass():
    <+T> = doubling + u
## mode
with Quiet():
    <+T> = torch.add(t, <T>)
## type
LOG.append(type(<T>).__name__)
## branch
if <B>:
    ...
## refused
try:
    torch.tanh(as_kind(u, Refusing))
except TypeError:
    LOG.append('refused')
## attribute of the class
Tagged.tag = <S>
## break
note(tagged)
## result of a wrapper
<+T> = (wrapped * t).sum() + u
"""
EDITS = """
## another tag
tagged.tag = 'other'
## another wrapper
wrapped = Wrapper(torch.tensor([0.5, 0.5, 0.5]), 'second')
## no subclass
tagged = torch.tensor([1.0, 2.0, 3.0])
## a wrapper for a tagged one
tagged = Wrapper(torch.tensor([1.0, 2.0, 3.0]), 'tagged')
## class attribute
Tagged.tag = 'class'
## inner replaced
wrapped.inner = torch.tensor([2.0, 2.0, 2.0])
## a parameter that is a subclass
param = torch.nn.Parameter(torch.tensor([1.0, 1.0, 1.0]).as_subclass(Tagged))
## a parameter that is a wrapper
param = torch.nn.Parameter(Wrapper(torch.tensor([1.0, 1.0, 1.0])))
## another function
Doubling.__torch_function__ = Logged.__torch_function__
"""
SUBCLASSES = LANGUAGE.extended(
    "subclasses",
    header=HEADER
    + """
class Quiet(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        LOG.append('mode')
        return func(*args, **(kwargs or {}))
""",
    statements=catalogue(STATEMENTS),
    expressions=EXPRESSIONS,
    edits=catalogue(EDITS),
    globals=(*LANGUAGE.globals, "tagged", "wrapped", "param"),
    options=[{}, {}, {}, {"backend": "aot_eager"}, {"dynamic": True}],
)
