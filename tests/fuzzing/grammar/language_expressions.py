"""Expressions of the whole language, by the kind of their value."""

from __future__ import annotations

from .area import table

EXPRESSIONS = {
    "T": table("""
        6*  <t>
        3*  <T> + <T>
        2*  (<T> * <T>).tanh()
        <T> - <F>
        torch.tanh(<T> * <I>)
        <T>.clamp(-2, 2)
        torch.where(<T> > 0, <T>, <T>)
        torch.stack([<T>, <T>]).mean(0)
        torch.stack(<l>[:3]).sum(0).tanh()
        torch.cat([<T>, <T>])[:3]
        2*  <T> if <C> else <T>
        2*  <g>(<T>)
        4*  <h>(<T>, <I>, items=<l>, box=<o>)
        <h>(*[<T>], **{'items': <l>, 'box': <o>})
        <l>[0]
        <l1>[<I> % len(<l1>)]
        <d>['a']
        <d>.get(<K>, <T>)
        {'x': <T>, **<d>}['x']
        <O>.value
        <o>.double
        <o>.noisy
        <o>.bump(<T>)
        <o>(<T>)
        <o>[0]
        <U>[0]
        next(<j>, <T>)
        next(<J>)
        (<G>)(<T>)
        sum([<T> for <*T> in <l>[:3]]).tanh()
        sum(<J>, <T>).tanh()
        max(<l>[:3], key=<Q>)
        functools.reduce(lambda <*T1>, <*T2>: <t1> - <T> * 0.5 + <t2>, <l>[:3])
        functools.partial(double, by=<I>)(<T>)
        (<:T> := <T>)
        call(<g>, <T>)
        call(lambda: <T>)
        stir(<m>)
        <m>.add_(<F>)
        torch.full((3,), <F>)
        torch.tensor([<F>, 1.0, <F>])
        torch.rand(3)
        -<T>
        BIAS * <T>.tanh()
        [<T>, <T>][<I> % 2]
        (<T>, <T>)[<B>]
        choose(<T>, *<l>[:2], at=<I>)
        choose(<T>, <T>, **{'at': <I>, 'k': <S>})
        <T>.detach()
        <T> * <T>.sum().tanh()
        <e1>.value if isinstance(<e1>, Carrier) else <T>
    """),
    "I": table("""
        4*  <i>
        2*  (<I> + <I>) % 7
        <I> * 2 % 5
        len(<l>)
        <o>.count
        <U>[1]
        2*  int(<T>.sum().item()) % 5
        int(<T>[0]) % 3
        <n1>[<I> % len(<n1>)]
        2*  <p>()
        <I> if <C> else <I>
        min(<I>, <I>)
        sum(<N>) % 7
        abs(<I> - <I>) % 6
        (<:I> := <I>)
        round(<F>) % 5
        len([<i1> for <*I1> in <n> if <C>])
        int(bool(<C>))
        <I> and <I>
        <I> or <I>
        max(<n>[:3], key=lambda <*I>: <I>)
        len(<S>)
        len(LOG) % 5
        len(locals()) % 4
    """),
    "F": table("""
        3*  <f>
        <T>.sum().item()
        <T>.mean().item()
        float(<T>[1])
        <T>.tolist()[0]
        float(<I>)
        <F> * 0.5
        random.random()
        min(<F>, 2.0)
        round(<F>, 2)
        (<F> + <F>) / 2
        math.tanh(<F>)
        <F> if <C> else <F>
        <F> / (<I> % 3 + 1)
    """),
    "B": table("""
        2*  <b>
        3*  <I> > <I>
        <I> < <I> <= <I>
        <I> == <I> != <I>
        <F> < <F>
        not <C>
        <K> in <d>
        len(<l>) > 2
        <o> is <o>
        <o>.link is None
        isinstance(<O>, Sub)
        bool(<T>.sum() > 0)
        <I> in {1, 2, <I>}
        <I> in <n>
        hasattr(<o>, 'extra')
        torch.is_grad_enabled()
        <T>.requires_grad
        <S> == <S>
        any(<C> for <*T> in <l>[:3])
        all([<C> for <*I> in <n>[:3]])
    """),
    "C": table("""
        4*  <B>
        3*  <T>.sum() > <F>
        <T>.mean() < <T>.sum()
        (<T> > 0).any()
        torch.equal(<T>, <T>)
        <B> and <C>
        <B> or <C>
        <C> and <C>
        not <T>.sum() > 0
        <F> < <T>.sum() < <F>
        <N>
        <I>
    """),
    "L": table("""
        3*  <l>
        2*  [<T>, <T>]
        [<T> for <*T> in <l>[:3]]
        [<t1> for <*T1> in <l>[:4] if <C>] + [<T>]
        [<T> for <*T>, <*I> in zip(<l>[:3], <n>[:3])]
        [<T> for <*I> in range(2) for <*T> in <l>[:2] if <C>] + [<T>]
        list(<d>.values())
        <l>[:2]
        sorted(<l>[:4], key=<Q>)
        <o>.items
        [*<l>[:2], <T>]
        list(<J>) + [<T>]
        list(map(<g>, <l>[:2]))
        [<T>] + [<T> for _ in range(2)]
        list(<l>[:3])[::-1]
    """),
    "N": table("""
        3*  <n>
        [<I>, <I>]
        sorted(<n>)[:4]
        [<I> for <*I> in range(3)]
        [<I> for <*I> in <n>[:3]]
        [len(<S>), *<n>[:2]]
        [<i1> for <*I1> in <n>[:4] if <C>] or [<I>]
    """),
    "D": table("""
        2*  <d>
        {'a': <T>, 'b': <T>}
        dict(<d>, b=<T>)
        {**<d>, <K>: <T>}
        {<*S1>: <T> for <*S1>, <*T> in <d>.items()}
        <d> | {<K>: <T>}
    """),
    "K": ["'a'", "'b'", "'c'", "'d'"],
    "U": table("""
        2*  (<T>, <I>)
        <u>
        Pair(<T>, <I>)
        (lambda *args: args)(<T>, <I>)
    """),
    "O": table("""
        3*  <o>
        Box(<T>, <I>)
        Sub(<T>)
        Slim(<T>, count=<I>)
        peek(<o>)
        poke(<o>)
        <o1>.link or <o1>
        copy.copy(<o>)
        min(<o>, <O>)
        sorted([<o>, <o>, <o>])[1]
    """),
    "G": table("""
        2*  <g>
        2*  lambda <*T>: <T>
        lambda <*T>, <*F>=0.5: <T>
        lambda *args: args[0] + <T>
        <o>.bump
        loud(<g>)
    """),
    "P": ["<p>", "lambda: <I>"],
    "Q": ["lambda <*T>: <F>", "lambda <*T1>: <t1>.sum().item()", "lambda <*T>: len(LOG)"],
    "J": table("""
        iter(<L>[:3])
        2*  (<T> for <*T> in <l>[:3])
        map(<g>, <l>[:2])
        <y>(<l>)
        iter(<o>)
        (<T> for <*T>, <*I> in zip(<l>[:2], <n>[:2]))
    """),
    "S": table("""
        <s>
        str(<I>)
        f"{<i>}-{<f>:.3f}"
        f"{<s>}{note(<i>)}"[-8:]
        f"{say(<i>)!r:>4}"
        f"{<t>.sum():.2f}"
        '%s/%d' % (<S>[-4:], <I>)
        ','.join([str(<I>), <S>[-4:]])
        <s>.upper()
    """),
    "V": table("""
        3*  risky(<I>)
        2*  raise ValueError(<S>, <I>)
        raise KeyError(<I>)
        raise Carrier(<T>)
        <d>['zz']
        <I> // (<I> % 2)
        <l>[99]
        if <C>: raise ValueError('data')
        raise LookupError from ValueError(<I>)
        pass
        call(risky, <I>)
    """),
    "X": ["<T>", "<I>", "<F>", "<S>", "<L>", "<U>", "<O>", "<D>", "None", "<T>"],
    "R": ["<T>", "<I>", "<F>", "<L>", "<N>", "<D>", "<O>", "<U>", "<g>", "<J>", "(<T>, <l>)", "[<X>, <X>]"],
}
CONSTANTS = {"I": ["1", "0", "2", "3"], "F": ["0.5", "1.5"], "B": ["True"], "S": ["'s'"]}
LEAVES = {
    **{kind: [f"<{kind.lower()}>"] for kind in "TMIFBLNDUOGPSE"},
    "C": ["<b>", "<i> > <i>", "<t>.sum() > 0"],
    "K": EXPRESSIONS["K"],
    "Q": ["lambda _: 0.5"],
    "X": ["<t>", "<i>", "<o>"],
    "J": ["iter(<l>[:3])"],
    "V": ["risky(<i>)"],
    "R": ["<t>"],
}
WRAPPERS = ["note(%s)", "say(%s)", "deep(%s)", "calm(%s)"]
