"""NumPy: arrays, numbers, errors and warnings, random streams of NumPy's, Python's and torch's."""

from __future__ import annotations

from .area import catalogue, table
from .language import LANGUAGE

HEADER = """
import warnings
import numpy as np

A = np.array([0.5, -1.0, 2.0], dtype=np.float32)
INTS = np.array([3, 1, 2])
MATRIX = np.arange(6.0).reshape(2, 3)
rng = np.random.default_rng(3)
generator = torch.Generator().manual_seed(5)
own = random.Random(7)

@framelift.disable
def opaque(a):
    LOG.append(a.tolist())
    return a
"""
EXPRESSIONS = {
    "A": table("""
        3*  A
        2*  <T>.detach().numpy()
        <A> + <A>
        <A> * <F>
        <A> * <I>
        np.tanh(<A>)
        np.where(<A> > 0, <A>, -<A>)
        np.stack([<A>, <A>]).mean(0)
        <A>.astype(np.float64).clip(-1, 1)
        np.maximum(<A>, 0)
        <A>[::-1]
        <A>.copy()
        np.sort(<A>)
        np.zeros(3)
        np.array([<F>, 1.0, <I>])
        np.linspace(0, 1, 3)
        <A> / (<A> + 10)
        np.abs(<A>).cumsum()
        MATRIX[<I> % 2]
        MATRIX.sum(0)
        (<A> > 0).astype(np.float32)
        opaque(<A>)
        np.log(<A>)
        <A> / np.zeros(3)
        np.random.rand(3)
        rng.random(3)
        np.broadcast_to(np.float32(<F>), (3,)) + <A>
    """),
    "T": table("""
        4*  torch.from_numpy(<A>.astype(np.float32))
        torch.as_tensor(<A>).float()
        torch.tensor(<A>).float()
        <T> + float(<A>[0])
        torch.rand(3, generator=generator)
        torch.randn(3)
        torch.empty(3).uniform_()
        torch.nn.functional.dropout(<T>, 0.5)
        torch.randperm(3).float()
        torch.bernoulli(torch.full((3,), 0.5))
        torch.randint(0, 5, (3,)).float()
        torch.as_tensor(<T>.numpy(force=True) + 1)
    """),
    "F": table("""
        float(<A>.sum())
        <A>.mean().item()
        float(np.float32(<F>) + np.float64(<F>))
        <A>.tolist()[0]
        np.random.rand()
        random.random()
        random.uniform(0, <F>)
        own.random()
        random.gauss(0, 1)
        float(rng.integers(0, 5))
        np.float64(<F>) * 0.5
        float(np.nan_to_num(<A>)[0])
        torch.rand(()).item()
    """),
    "I": table("""
        int(INTS[<I> % 3])
        int(<A>.argmax())
        <A>.shape[0]
        <A>.ndim
        random.randint(0, 5)
        random.choice([1, 2, 3])
        int(np.random.randint(0, 5))
        random.randrange(4)
        len(random.sample([1, 2, 3], 2))
        int(np.int64(<I>) + np.int32(<I>)) % 9
        own.randint(0, 3)
        int(np.count_nonzero(<A>))
        int(torch.initial_seed() % 5)
    """),
    "B": table("""
        bool((<A> > 0).all())
        <A>.dtype == np.float32
        isinstance(<A>, np.ndarray)
        isinstance(np.float32(<F>), float)
        np.isnan(<A>).any() == True
        np.allclose(<A>, <A>)
        <A>.flags.writeable
        np.shares_memory(A, <A>)
        type(<A>.sum()) is np.float32
        <I> in INTS
    """),
    "X": ["<A>", "np.float32(<F>)", "<A>.sum()", "INTS", "np.int64(<I>)", "<A>.mean()"],
    "R": ["<A>", "<A>", "<A>.sum()", "(<A>, <A>)", "np.float64(<F>)", "INTS * <I>", "<A> > 0", "MATRIX.T"],
    "S": ["str(<A>.dtype)", "repr(np.float32(<F>))", "str(<A>.shape)", "np.array2string(INTS)"],
}
STATEMENTS = """
## 3 array
<+A> = <A>
## 2 tensor
<+T> = <T>
## log
LOG.append(<X>)
## in place
A[<I> % 3] = <F>
## in place augmented
A[:] += <F>
## in place through a tensor
torch.from_numpy(A).mul_(0.5)
## ufunc with out
np.add(A, 1, out=A)
## random number
<+F> = <F>
## seeds
random.seed(<I>)
## NumPy's seed
np.random.seed(<I>)
## torch's seed
torch.manual_seed(<I>)
## shuffle
random.shuffle(nums)
## NumPy's shuffle
np.random.shuffle(INTS)
## state
<+X1> = random.getstate()
LOG.append(random.random())
random.setstate(<x1>)
## torch's state
<+X1> = torch.get_rng_state()
LOG.append(torch.rand(()))
torch.set_rng_state(<x1>)
## forked
with torch.random.fork_rng(devices=[]):
    LOG.append(torch.rand(2))
## errors
with np.errstate(all='raise'):
    try:
        LOG.append(<A> / np.zeros(3))
    except FloatingPointError as <+E1>:
        LOG.append(<e1>.args)
## warnings
with np.errstate(divide='ignore'):
    LOG.append(np.log(np.zeros(2)))
## branch
if <B>:
    ...
## loop over an array
for value in <A>:
    LOG.append(value)
## note
note(<A>)
## index
INTS[<I> % 3] = <I>
## sizes
<+A> = np.concatenate([<A>, <A>])[:3]
## fail
try:
    LOG.append(<A>.reshape(<I>, 2))
except ValueError as <+E1>:
    LOG.append(<e1>.args)
"""
EDITS = """
## another array
A = np.array([1.0, 2.0, 3.0], dtype=np.float32)
## another type
A = np.array([1.0, 2.0, 3.0])
## another layout
A = np.arange(6, dtype=np.float32)[::2]
## written
A[0] = 9.0
## errors
np.seterr(divide='raise')
## errors back
np.seterr(divide='warn')
## generator
generator.manual_seed(1)
## stream
rng = np.random.default_rng(9)
## read only
A.flags.writeable = False
## ints
INTS = np.array([5, 5, 5], dtype=np.int32)
"""
ARRAYS = LANGUAGE.extended(
    "arrays",
    header=HEADER,
    statements=catalogue(STATEMENTS),
    expressions=EXPRESSIONS,
    leaves={"A": ["A"]},
    edits=catalogue(EDITS),
    globals=(*LANGUAGE.globals, "A", "INTS", "rng"),
    options=[
        {"rounding": True, **each} for each in ({}, {}, {}, {"backend": "aot_eager"}, {"dynamic": True})
    ],
)
