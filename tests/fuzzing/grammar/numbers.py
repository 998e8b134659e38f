"""Sizes and numbers that vary from call to call, with the corner cases: zeros, infinities, large ints."""

from __future__ import annotations

from .area import Area, catalogue, table

HEADER = """
import math, operator
import torch

LOG = []
WEIGHT = 0.0
LIMIT = 4
SIZES = [3, 5, 4, 1, 2]
INTS = [2, 3, 0, -1, 7]
FLOATS = [0.5, -0.0, 1.5, 0.0, -2.0]
"""
ARGUMENTS = {
    "t": "torch.linspace(-1.0, 2.0, SIZES[call])",
    "k": "torch.arange(SIZES[call])",
    "v": "torch.linspace(-1.0, 2.0, SIZES[call] * 2).reshape(SIZES[call], 2)",
    "n": "INTS[call]",
    "m": "INTS[call] + 2",
    "x": "FLOATS[call]",
    "y": "FLOATS[call - 1]",
    "flag": "call % 2 == 0",
}
VARIABLES = {
    "T": ["t", "k"],
    "I": ["n", "m", "LIMIT"],
    "F": ["x", "y", "WEIGHT"],
    "B": ["flag"],
    "N": ["INTS"],
}
EXPRESSIONS = {
    "I": table("""
        4*  <i>
        4*  t.shape[0]
        2*  len(t)
        2*  v.size(0)
        v.numel()
        v.stride(0)
        2*  <I> + <I>
        <I> - <I>
        2*  <I> * <I>
        <I> // <I>
        2*  <I> // (<I> % 5 + 1)
        <I> % <I>
        2*  <I> % (<I> % 4 + 2)
        9007199254740993
        9223372036854775807
        10**20
        <I> ** (<I> % 3)
        <I> << (<I> % 4)
        <I> >> (<I> % 4)
        <I> & <I>
        <I> | <I>
        <I> ^ <I>
        ~<I>
        -<I>
        +<I>
        abs(<I>)
        min(<I>, <I>)
        max(<I>, <I>, <I>)
        int(<f>)
        round(<f>)
        math.floor(<f>)
        math.ceil(min(<f>, 9.0))
        math.trunc(<f>)
        int(<I> / 2)
        int(<B>)
        <B> + <I>
        <B> * <I>
        divmod(<I>, 3)[1]
        math.gcd(<I>, <I>)
        math.isqrt(abs(<I>))
        math.prod([<I>, <I>])
        sum([<I>, <I>])
        sum(<T>.shape)
        len(range(<I> % 9))
        <I> if <B> else <I>
        <I> and <I>
        <I> or <I>
        operator.index(<I>)
        (<I>).bit_length()
        round(<I>, -1)
        pow(<I>, <I> % 3)
        hash(<I>)
        [<I>, <I>][<I> % 2]
        {<I>: <I>}.get(<I>, <I>)
        int(str(<I>))
        (<I>).__mul__(<I>)
        int.__add__(<I>, <I>)
    """),
    "F": table("""
        3*  <f>
        2*  <F> + <F>
        <F> - <F>
        3*  <F> * <F>
        3*  <I> * <F>
        <F> * <I>
        <I> / (<I> % 3 + 1)
        <F> / <F>
        <F> / 2
        <F> // 0.75
        <F> % 1.25
        1e308
        float('inf')
        float('-inf')
        float('nan')
        5e-324
        <F> ** 2
        (<I> % 3 + 1) ** -1
        -<F>
        abs(<F>)
        float(<I>)
        float(<B>)
        <B> * <F>
        min(<F>, <F>)
        max(<F>, <I>)
        round(<F>, 1)
        math.sqrt(abs(<F>))
        math.sqrt(abs(<I>))
        math.exp(-abs(<F>))
        math.log(<I> % 7 + 1)
        math.log2(<I> % 9 + 1)
        math.sin(<f>)
        math.tanh(<F>)
        math.atan2(<F>, <F>)
        math.copysign(<F>, <F>)
        math.fmod(<F>, 1.5)
        math.hypot(<F>, <F>)
        math.pow(<F>, <I> % 3)
        math.fabs(<F>)
        sum([<F>, <F>])
        math.fsum([<F>, <F>])
        <F> if <B> else <F>
        <F> or <F>
        <F> and <F>
        divmod(<F>, 0.75)[0]
        (<F>).real
        float(str(<F>))
        complex(<F>, <F>).imag
        (<F>).__neg__()
        math.degrees(<F>)
        math.pi * <F>
        math.ldexp(<F>, <I> % 5)
        math.modf(<F>)[0]
    """),
    "B": table("""
        2*  <b>
        <I> == <I>
        <I> < <I>
        <I> <= <I> < <I>
        <F> == <F>
        <F> < <F>
        <F> != <F>
        <I> == <F>
        <I> > <F>
        not <I>
        not <F>
        bool(<F>)
        math.isnan(<F>)
        math.isinf(<F>)
        math.isclose(<F>, <F>)
        isinstance(<X>, int)
        isinstance(<X>, float)
        type(<X>) is int
        type(<X>) is float
        type(<X>) is bool
        <I> in (0, 1, <I>)
        <F> in [0.0, <F>]
        (<F>).is_integer()
        <B> and <B>
        <B> or <B>
        <B> ^ <B>
        <B> is True
    """),
    "T": table("""
        3*  <t>
        2*  <T> * <F>
        2*  <T> + <I>
        <T> - <F>
        <T> / <I>
        <I> - <T>
        <F> * <T>
        <T> * <B>
        torch.full_like(t, <F>)
        torch.tensor(<F>)
        torch.tensor(<I>)
        torch.tensor(<B>)
        torch.clamp(<T>, <I>, <I>)
        torch.where(<T> > <F>, <T>, <F>)
        torch.where(<T> > 0, <I>, <T>)
        <T>.sum() * <F>
        t.new_full(t.shape, <F>)
        torch.add(<T>, <T>, alpha=<I>)
        torch.add(t, t, alpha=<F>)
        t ** (<I> % 4)
        <T>.pow(<F>)
        torch.lerp(t, t, <F>)
        torch.nn.functional.leaky_relu(t, <F>)
    """),
    "X": table("""
        <I>
        <F>
        <B>
        <I> * <F>
        <I> / <I>
        <B> + <B>
    """),
    "R": table("""
        3*  <I>
        3*  <F>
        2*  <B>
        3*  <T>
        <X>
        (type(<X>).__name__, <X>)
        repr(<X>)
        '{:.3f}|{:+d}'.format(<F>, <I>)
        str(<I>)
        '%d %.2f' % (<I>, <F>)
        [<I>, <F>]
        {<I>: <T>}
        {<F>: <I>}
        torch.zeros(<I> % 4, <I> % 3)
        torch.full((<I> % 4,), <F>)
        torch.full((2,), <X>)
        torch.arange(<I> % 5)
        torch.arange(0, <I> % 5, 0.5)
        t[: <I>]
        t[<I> :]
        t[::<I> % 3 + 1]
        t[t.shape[0] - 1 - <I> % t.shape[0]]
        v.view(-1)
        v.reshape(v.shape[1], <I> * 0 + v.shape[0])
        v.t()
        v.expand(<I> % 3 + 1, *v.shape)
        v.contiguous(memory_format=torch.contiguous_format).stride()
        t.repeat(<I> % 3)
        torch.cat([t] * (<I> % 3 + 1))
        t.narrow(0, 0, <I> % (t.shape[0] + 1))
        t.split(<I> % 3 + 1)
        torch.Size([<I> % 3, *t.shape])
        t.unfold(0, 1, <I> % 2 + 1)
        torch.nn.functional.pad(t, (<I> % 3, <I> % 2))
        range(<I>, <I>)
        range(<I> % 5)[-1:]
        slice(<I>, <I>)
        list(range(<I> % 4))
        'ab' * (<I> % 4)
        [0] * (<I> % 4)
        complex(<F>, <F>)
    """),
}
LEAVES = {
    **{kind: [f"<{kind.lower()}>"] for kind in "TIFBN"},
    "X": ["<i>", "<f>"],
    "R": ["<t>", "<i>", "<f>"],
    "C": ["<b>"],
}
CONSTANTS = {
    "I": ["0", "1", "2", "-3", "True"],
    "F": ["0.0", "-0.0", "0.5", "3.0"],
    "B": ["True", "False"],
}
STATEMENTS = """
## 3 assignment of an int
<+I> = <I>
## 3 assignment of a float
<+F> = <F>
## assignment of a bool
<+B> = <B>
## 2 assignment of a tensor
<+T> = <T>
## augmented
<=I> += <I>
## augmented product
<=F> *= <I>
## 3 guarded float
<+F1> = 0.25
try:
    <f1> = <F>
except (ArithmeticError, ValueError) as error:
    LOG.append((type(error).__name__, str(error)))
## 3 guarded int
<+I1> = 1
try:
    <i1> = <I>
except (ArithmeticError, ValueError) as error:
    LOG.append((type(error).__name__, str(error)))
## 2 log
LOG.append(<X>)
## log text
LOG.append('{!r}'.format(<X>))
## if
if <B>:
    ...
## if else
if <B>:
    <+F1> = <F>
else:
    <f1> = <I>
LOG.append(<f1>)
## for
for <+I> in range(<I> % 3):
    ...
## size decided later
<+T> = t * (t.shape[0] * <F>)
if t.shape[0] == <I>:
    LOG.append('equal')
## global
WEIGHT = <F>
## assertion
assert <B> or <B>, <X>
## check
torch._check(t.shape[0] >= 0)
## print
print(<X>, <X>)
## match
match <I>:
    case 0 | 1:
        LOG.append('small')
    case <+I1> if <B>:
        LOG.append(<i1>)
"""
EDITS = """
## sizes the same
SIZES[:] = [3, 3, 3, 4, 5]
## sizes with zero
SIZES[:] = [2, 0, 3, 1, 5]
## ones
SIZES[:] = [1, 2, 1, 3, 2]
## floats with infinities
FLOATS[:] = [0.5, float('inf'), float('nan'), -0.0, 0.0]
## zeros
FLOATS[:] = [0.0, -0.0, 0.0, 1.0, -0.0]
## zeros in the end
FLOATS[:] = [1.0, 2.0, 0.0, -0.0, 3.0]
## floats that are whole
FLOATS[:] = [1.0, 2.0, 3.0, 4.0, 5.0]
## large ints
INTS[:] = [1, 2, 2**31, 2**62, 3]
## beyond 64 bits
INTS[:] = [1, 5, 10**19, 2, -(2**63)]
## bools for ints
INTS[:] = [1, True, 2, False, 0]
## ints for floats
FLOATS[:] = [0.5, 1, 2.0, 3, 0]
## weight
WEIGHT = -0.0
## limit
LIMIT += 1
"""

NUMBERS = Area(
    "numbers",
    HEADER,
    ARGUMENTS,
    VARIABLES,
    EXPRESSIONS,
    catalogue(STATEMENTS),
    LEAVES,
    CONSTANTS,
    globals=("WEIGHT", "LIMIT"),
    edits=catalogue(EDITS),
    options=[
        *[{"calls": 5}, {"calls": 5, "dynamic": True}] * 4,
        {"calls": 5, "dynamic": False},
        {"calls": 4, "backend": "aot"},
        {"calls": 4, "backend": "aot_eager", "dynamic": True},
        {"calls": 5, "fullgraph": True},
    ],
    size=(1, 4),
)
