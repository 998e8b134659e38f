"""Operators that fail on their data, with effects before and handlers around them; unused results."""

from __future__ import annotations

from .area import catalogue, table
from .language import LANGUAGE

FAILING = table("""
    t[torch.tensor([<I> + 1])]
    <T>[torch.tensor([0, <I>])]
    torch.linalg.cholesky(torch.diag(<T>))
    torch.linalg.inv(torch.zeros(2, 2) + <I> * torch.eye(2))
    torch.nn.functional.embedding(torch.tensor([<I>, 0]), torch.ones(3, 3))
    torch.gather(<T>, 0, torch.tensor([<I>]))
    torch.nn.functional.one_hot(torch.tensor([<I> - 1]), 3)
    torch.nn.functional.cross_entropy(<T>.reshape(1, 3), torch.tensor([<I> + 1]))
    torch.nn.functional.nll_loss(<T>.reshape(1, 3), torch.tensor([<I>]))
    torch.tensor([7]) // torch.tensor([<I>])
    torch.tensor([7, 8]) % torch.tensor([1, <I>])
    torch.multinomial(<T>, 1)
    torch.bernoulli(<T>)
    torch.index_select(<T>, 0, torch.tensor([<I>]))
    torch.scatter(torch.zeros(3), 0, torch.tensor([<I>]), 1.0)
    torch.zeros(3).index_add(0, torch.tensor([<I>]), torch.ones(1))
    torch.take(<T>, torch.tensor([<I>]))
    torch.bincount(torch.tensor([<I> - 1]))
    torch.normal(<T>, <T>)
    torch.linalg.solve(torch.eye(2) * <I>, torch.ones(2))
    torch.linalg.eigh(torch.diag(<T>) / <I>)
    torch.repeat_interleave(<T>, torch.tensor([1, <I> - 1, 0]))
    torch.nn.functional.embedding_bag(torch.tensor([[<I>]]), torch.ones(3, 3))
    torch.ones(3).index_put((torch.tensor([<I>]),), torch.ones(1))
    torch.index_fill(<T>, 0, torch.tensor([<I>]), 0.5)
    torch._assert_async(<T>.sum() > 0)
    torch._assert(bool(<T>.sum() > 0), 'not positive')
    torch.cat([<T>, torch.ones(<I>, 2)])
    <T> + torch.ones(<I> + 2)
    <T>.view(2, <I>)
    <T>.reshape(<I>, 1)
    torch.ones(2, 3) @ torch.ones(<I>)
    <T>.add(1).to(torch.int64) // torch.zeros(3, dtype=torch.int64)
    torch.stack([<T>, torch.ones(<I>)])
    torch.full((3,), <F>).log().to(torch.int64).item() // <I>
    w.add_(<F>)
    <T>.sum().backward()
    torch.unique(<T>)[<I>]
    <T>.nonzero()[<I>]
    <T>[<I>]
    torch.ones(3).masked_scatter(torch.tensor([True, True, False]), torch.ones(<I>))
    torch.histc(<T>, bins=<I>)
    torch.quantile(<T>, <F> * 2)
    torch.searchsorted(<T>.reshape(1, 3), torch.ones(<I>, 1))
    torch.kthvalue(<T>, <I>)
    torch.cholesky_solve(torch.ones(3, 1), torch.diag(<T>)).sum()
    torch.tensor([<I>], dtype=torch.uint8).item() // <I>
    torch.ops.aten._local_scalar_dense(<T>)
    torch.autograd.grad(<T>.sum(), w)[0]
""")

EFFECTS = """
## in place
<m>.add_(<F>)
## random
<+T> = torch.rand(3)
## attribute
<o>.value = <T>
## append
<l>.append(<T>)
## log
LOG.append(<I>)
## print
print(<S>, <I>)
## note
note(<X>)
## global
TOTAL = (TOTAL + <I>) % 9
## assignment
<+T> = <T>
## backward [program]
if torch.is_grad_enabled():
    (w * <T>.detach()).sum().backward()
"""

STATEMENTS = (
    EFFECTS
    + """
## 3 unused
<V>
## unused result in try
try:
    <V>
except (RuntimeError, IndexError) as <+E1>:
    LOG.append(type(<e1>))
    ...
## 3 try with effects
try:
    ...
    <V>
    ...
except (RuntimeError, IndexError, ZeroDivisionError):
    ...
## try with effects and message
try:
    ...
    <V>
except Exception as <+E1>:
    LOG.append((type(<e1>), len(str(<e1>)) > 0))
    ...
else:
    ...
finally:
    ...
## finally
try:
    ...
    <V>
finally:
    ...
## finally that returns
try:
    <V>
finally:
    if <C>:
        return <R>
## with suppress
with contextlib.suppress(RuntimeError, IndexError):
    ...
    <V>
    ...
## with a recorder that swallows
with Recorder(LOG, <S>, swallow=True):
    ...
    <V>
    ...
## with a recorder
with Recorder(LOG, <S>):
    <V>
    ...
## with a generator
with recording(<S>) as <+I>:
    ...
    <V>
## loop of tries
for <+I> in range(3):
    try:
        <V>
    except (RuntimeError, IndexError):
        <=T> = <T>
        continue
    ...
## raise again
try:
    <V>
except RuntimeError as <+E1>:
    raise ValueError(<S>) from <e1>
## used result
try:
    <+X1> = <W>
    LOG.append(<x1>)
except Exception as <+E1>:
    LOG.append((type(<e1>).__name__, str(<e1>)[:40]))
"""
)

FAILURES = LANGUAGE.extended(
    "failures",
    statements=catalogue(STATEMENTS),
    expressions={"V": FAILING, "W": FAILING},
    leaves={"V": FAILING[:5], "W": FAILING[5:10]},
    options=[{}, {}, {}, {"dynamic": True}, {"backend": "aot_eager"}, {"backend": "aot"}],
)
