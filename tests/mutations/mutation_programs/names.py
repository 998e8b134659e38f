"""Globals, builtins, closures, defaults, functions, imported modules."""

from mutation_programs.catalogue import program

PROGRAMS = [
    program(
        "a global",
        """
        n, unread = 2, 3
        def f(x):
            return x + n
        """,
        read=["n = 3", "n = 2.0", "del n", "n = torch.ones(4)", "globals().pop('n')"],
        unread=["unread = 4", "new = 5", "del unread", "n = 1 + 1", "globals().update(other=1)"],
    ),
    program(
        "a builtin",
        """
        import builtins
        patch(builtins, "mutated_builtin", 2)
        args = [torch.arange(4.0), [1, 2]]
        def f(x, xs):
            return x + len(xs) + max(xs) + mutated_builtin
        """,
        read=[
            "len = lambda xs: 9",
            "patch(builtins, 'mutated_builtin', 3)",
            "del builtins.mutated_builtin; stack.callback(setattr, builtins, 'mutated_builtin', 2)",
            "mutated_builtin = 5",
            "max = min",
        ],
        unread=["sum = None", "patch(builtins, 'anything', 1)", "length = len"],
    ),
    program(
        "a global that is written",
        """
        count = 0
        watch = [0]
        def f(x):
            global last
            last = x.shape[0]
            watch[0] = last
            return x + 1
        """,
        read=["args[0] = torch.ones(3)", "watch = [0, 1]"],
        unread=["last = 7", "count = 5", "del last"],
    ),
    program(
        "a function that is called",
        """
        k = 2
        def inner(x, n=1, *, m=2):
            return x * n + m + k
        def other(x, n=1, *, m=2):
            return x
        def f(x):
            return inner(x)
        """,
        read=[
            "inner = other",
            "inner.__code__ = other.__code__",
            "inner.__defaults__ = (5,)",
            "inner.__defaults__ = None",
            "inner.__kwdefaults__ = {'m': 7}",
            "inner.__kwdefaults__['m'] = 9",
            "k = 11",
            "inner = torch.sin",
            "del inner",
        ],
        unread=[
            "inner.tag = 1",
            "inner.__doc__ = 'doc'",
            "inner.__annotations__ = {'x': int}",
            "other.__defaults__ = (9,)",
        ],
    ),
    program(
        "how many defaults there are",
        """
        def inner(x, a, b=5):
            return x * a + b
        def f(x):
            return inner(x, 2)
        """,
        read=[
            "inner.__defaults__ = (5, 7)",
            "inner.__defaults__ = (7,)",
            "inner.__defaults__ = ()",
            "inner.__defaults__ = None",
        ],
        unread=[],
    ),
    program(
        "defaults that are not used",
        """
        def inner(x, a=1, *, b=2):
            return x * a + b
        def f(x):
            return inner(x, 3, b=4)
        """,
        read=["inner.__code__ = (lambda x, a, *, b: x).__code__"],
        unread=[
            "inner.__defaults__ = (9,)",
            "inner.__kwdefaults__['b'] = 9",
            "inner.__defaults__ = None",
            "inner.__kwdefaults__ = None",
        ],
    ),
    program(
        "a default that is a list",
        """
        def inner(x, xs=[1, 2], *, d={"a": 1}):
            return x * xs[0] + d["a"]
        def f(x, ys=[5]):
            return inner(x) + ys[0]
        """,
        read=[
            "inner.__defaults__[0][0] = 5",
            "inner.__defaults__[0].append(1)",
            "inner.__kwdefaults__['d']['a'] = 7",
            "f.__defaults__[0][0] = 9",
            "f.__defaults__ = ([11],)",
        ],
        unread=["inner.__defaults__[0][1] = 5", "inner.__kwdefaults__['d']['b'] = 7"],
    ),
    program(
        "defaults of the function itself",
        """
        def f(x, n=1, *, m=2, unread=3):
            return x * n + m
        def other(x, n=1, *, m=2, unread=3):
            return x - n
        """,
        read=[
            "f.__defaults__ = (5,)",
            "f.__kwdefaults__['m'] = 7",
            "args.append(9)",
            "f.__code__ = other.__code__",
        ],
        unread=["f.__kwdefaults__['unread'] = 9", "f.tag = 1", "f.__name__ = 'g'", "f.__defaults__ = (1,)"],
    ),
    program(
        "cells",
        """
        def make():
            n, unread = 2, 3
            def inner(x): return x * n
            def f(x): return inner(x) + n
            def set_n(value):
                nonlocal n
                n = value
            def set_unread(value):
                nonlocal unread
                unread = value
            def drop():
                nonlocal n
                del n
            return f, set_n, set_unread, drop
        f, set_n, set_unread, drop = make()
        """,
        read=["set_n(3)", "set_n(2.0)", "set_n(torch.ones(4))", "drop()"],
        unread=["set_unread(5)", "set_n(1 + 1)"],
    ),
    program(
        "a decorated function",
        """
        import functools
        def twice(fn):
            @functools.wraps(fn)
            def wrapper(*args, **kwargs):
                return fn(*args, **kwargs) * wrapper.factor
            wrapper.factor = 2
            return wrapper
        @twice
        def inner(x): return x + 1
        def f(x): return inner(x)
        """,
        read=[
            "inner.factor = 3",
            "del inner.factor",
            "inner.__wrapped__.__code__ = (lambda x: x).__code__",
            "inner.__closure__[0].cell_contents = torch.cos if callable(inner.__closure__[0].cell_contents) else None",
            "inner = lambda x: x",
        ],
        unread=["inner.unread = 5", "inner.__wrapped__ = None"],
    ),
    program(
        "facts about a function",
        """
        def inner(x):
            "text"
            return x
        inner.rate = 3
        def f(x):
            return x + len(inner.__name__) + len(inner.__doc__) + inner.rate + len(inner.__qualname__) + len(inner.__module__)
        """,
        read=[
            "inner.__name__ = 'other'",
            "inner.__doc__ = 'longer text'",
            "inner.rate = 5",
            "inner.__qualname__ = 'a.b.c.d'",
            "inner.__module__ = 'elsewhere'",
            "del inner.rate",
        ],
        unread=["inner.unread = 5"],
    ),
    program(
        "an imported module",
        """
        import sys, types
        lib = types.ModuleType("mutated_lib")
        lib.n, lib.unread = 2, 3
        lib.sub = types.ModuleType("mutated_lib.sub")
        lib.sub.m = 4
        def f(x):
            return x * lib.n + lib.sub.m
        """,
        read=[
            "lib.n = 5",
            "lib.sub.m = 7",
            "lib.sub = types.SimpleNamespace(m=9)",
            "lib = types.SimpleNamespace(n=1, sub=lib.sub)",
            "del lib.n",
            "del lib.n; lib.__getattr__ = lambda name: 11",
            "lib.__class__ = type('Lazy', (types.ModuleType,), {'n': property(lambda self: 13)})",
        ],
        unread=["lib.unread = 5", "lib.new = 5", "lib.sub.unread = 1", "lib.__getattr__ = lambda name: 1"],
    ),
    program(
        "an import in the function",
        """
        import sys, types
        lib = types.ModuleType("mutated_lib")
        lib.n = 2
        put(sys.modules, "mutated_lib", lib)
        other = types.ModuleType("mutated_lib")
        other.n = 5
        def f(x):
            import mutated_lib
            from mutated_lib import n
            return x * n + mutated_lib.n
        """,
        read=[
            "lib.n = 7",
            "sys.modules['mutated_lib'] = other",
            "del sys.modules['mutated_lib']",
            "del lib.n",
            "import builtins; imports = builtins.__import__\npatch(builtins, '__import__', lambda name, *a, **k: other if name == 'mutated_lib' else imports(name, *a, **k))",
        ],
        unread=["lib.m = 7", "sys.modules['another'] = other; del sys.modules['another']", "lib = other"],
    ),
    program(
        "a module's function that is replaced",
        """
        import math
        import torch.nn.functional as F
        def f(x):
            return F.relu(x - 1) + math.floor(2.5) + torch.sin(x)
        """,
        read=[
            "patch(F, 'relu', F.gelu)",
            "patch(math, 'floor', math.ceil)",
            "patch(torch, 'sin', torch.cos)",
            "F = math",
            "patch(torch.nn.functional, 'relu', lambda x: x)",
        ],
        unread=["patch(F, 'gelu', F.relu)", "patch(math, 'pi', 3)", "patch(torch, 'cos', torch.sin)"],
    ),
    program(
        "the environment",
        """
        import os
        put(os.environ, "MUTATED", "2")
        def f(x):
            return x + int(os.environ["MUTATED"]) + len(os.environ.get("MUTATED_NOT", ""))
        """,
        read=[
            "os.environ['MUTATED'] = '3'",
            "put(os.environ, 'MUTATED_NOT', 'a')",
            "del os.environ['MUTATED']",
        ],
        unread=["put(os.environ, 'MUTATED_UNREAD', '1')"],
    ),
    program(
        "a generator over globals",
        """
        table = {"a": 1, "b": 2}
        def numbers():
            for name in sorted(table):
                yield table[name] * weight
        weight = 2
        def f(x):
            return x + sum(numbers()) + sum(n * weight for n in [1, 2])
        """,
        read=["table['a'] = 5", "table['c'] = 5", "weight = 3", "numbers = lambda: [1]", "del table['a']"],
        unread=["new = 1", "table = dict(table)"],
    ),
    program(
        "names through type and module objects",
        """
        import sys
        def f(x):
            this = sys.modules[__name__]
            return x + this.n + getattr(this, "absent", 1)
        n = 2
        """,
        read=["n = 3", "absent = 5", "del n"],
        unread=["other = 1"],
    ),
    program(
        "an operator of the registry",
        """
        class Holder: pass
        holder = Holder()
        holder.packet, holder.overload = torch.ops.aten.sin, torch.ops.aten.mul.Tensor
        def f(x):
            return holder.overload(holder.packet(x), x)
        """,
        read=[
            "holder.packet = torch.ops.aten.cos",
            "holder.overload = torch.ops.aten.add.Tensor",
            "holder.packet = torch.ops.aten.cos.default",
        ],
        unread=["holder.unread = torch.ops.aten.cos", "torch.ops.aten.cosh.default"],
    ),
]
