"""Arguments: their types and values."""

from mutation_programs.catalogue import program

PROGRAMS = [
    program(
        "an int",
        """
        args = [torch.arange(4.0), 2]
        def f(x, n):
            return x + n
        """,
        read=[
            "args[1] = 3",
            "args[1] = -2",
            "args[1] = 2.0",
            "args[1] = True",
            "args[1] = None",
            "args[1] = 2 ** 70",
            "args[1] = torch.tensor(2)",
        ],
        unread=["args[1] = 1 + 1", "args[0] = torch.ones(4)"],
    ),
    program(
        "an argument that is passed on",
        """
        args = [torch.arange(4.0), 2]
        def f(x, n):
            return x + 1, n
        """,
        read=["args[0] = torch.arange(5.0)"],
        unread=["args[1] = 3", "args[1] = 'text'", "args[1] = None", "args[1] = [1, 2]"],
    ),
    program(
        "a float",
        """
        args = [torch.arange(4.0), 0.0]
        def f(x, n):
            return x / n, str(n)
        """,
        read=["args[1] = -0.0", "args[1] = 1.0", "args[1] = float('nan')", "args[1] = 0", "args[1] = 0j"],
        unread=["args[1] = float('0')"],
    ),
    program(
        "nan",
        """
        args = [torch.arange(4.0), float('nan')]
        def f(x, n):
            return x + 1 if n != n else x - 1
        """,
        read=["args[1] = 1.0"],
        unread=["args[1] = float('nan')"],
    ),
    program(
        "a text",
        """
        args = [torch.arange(4.0), "sum"]
        def f(x, how):
            return x.sum() if how == "sum" else x.mean() if how == "mean" else x
        """,
        read=["args[1] = 'mean'", "args[1] = 'sums'", "args[1] = b'sum'", "args[1] = None"],
        unread=["args[1] = ''.join(['s', 'um'])"],
    ),
    program(
        "whether an argument is None",
        """
        args = [torch.arange(4.0), 3]
        def f(x, n=None):
            return x if n is None else x + 1
        """,
        read=["args[1] = None", "del args[1]"],
        unread=["args[1] = 4", "args[1] = 'a'", "args[1] = []", "args[1] = torch.ones(2)"],
    ),
    program(
        "the type of an argument",
        """
        args = [torch.arange(4.0), 3]
        def f(x, n):
            return x + 1 if isinstance(n, int) else x - 1
        """,
        read=["args[1] = 3.0", "args[1] = 'a'", "args[1] = None", "args[1] = torch.ones(2)"],
        unread=["args[1] = 4"],
    ),
    program(
        "a type asked for by name",
        """
        args = [torch.arange(4.0), 3]
        def f(x, n):
            return x + 1, type(n).__name__
        """,
        read=["args[1] = 3.0", "args[1] = True", "args[1] = [3]"],
        unread=["args[1] = 4"],
    ),
    program(
        "truth",
        """
        args = [torch.arange(4.0), [1]]
        def f(x, xs):
            return x + 1 if xs else x - 1
        """,
        read=["args[1] = []", "args[1] = ()", "args[1].clear()", "args[1] = 0", "args[1] = None"],
        unread=["args[1] = [2]", "args[1].append(3)", "args[1][0] = 'a'"],
    ),
    program(
        "keywords",
        """
        args = [torch.arange(4.0)]
        kwargs = {"n": 2}
        def f(x, n=1, **rest):
            return x * n + len(rest)
        """,
        read=[
            "kwargs['n'] = 3",
            "del kwargs['n']",
            "kwargs['m'] = 3",
            "kwargs['x'] = args.pop()\nkwargs['n'] = 5",
        ],
        unread=["kwargs['n'] = 1 + 1", "f.__defaults__ = (5,)"],
    ),
    program(
        "any number of arguments",
        """
        args = [torch.arange(4.0), 1, 2]
        def f(x, *ns):
            return x + sum(ns)
        """,
        read=[
            "args.append(3)",
            "args.pop()",
            "args[1] = 5",
            "args[1:] = [2, 2]",
            "args[1:] = [torch.ones(4), 1]",
        ],
        unread=["args[1:] = [1, 2]"],
    ),
    program(
        "a slice, a range, a size",
        """
        args = [torch.arange(4.0), slice(0, 2), range(3), torch.Size([4])]
        def f(x, part, numbers, size):
            return x[part], x.reshape(size) + sum(numbers)
        """,
        read=[
            "args[1] = slice(1, 2)",
            "args[1] = slice(0, 2, 2)",
            "args[2] = range(0, 4)",
            "args[2] = range(0, 3, 2)",
            "args[3] = torch.Size([2, 2])",
            "args[3] = (4,)",
        ],
        unread=["args[1] = slice(0, 2)", "args[2] = range(0, 3)", "args[3] = torch.ones(4).shape"],
    ),
    program(
        "dtype, device, layout",
        """
        args = [torch.arange(4.0), torch.float64, torch.device("cpu")]
        def f(x, dtype, device):
            return x.to(dtype), torch.ones(2, device=device)
        """,
        read=["args[1] = torch.int32", "args[2] = torch.device('meta')", "args[2] = 'cpu'", "args[1] = None"],
        unread=["args[2] = torch.device('cpu')"],
    ),
    program(
        "identity of two arguments",
        """
        args = [torch.arange(4.0), [1], [1]]
        def f(x, a, b):
            return x + 1 if a is b else x - 1
        """,
        read=["args[2] = args[1]"],
        unread=["args[2] = [1]", "args[1], args[2] = args[2], args[1]"],
    ),
    program(
        "an iterator",
        """
        args = [torch.arange(4.0), (1, 2)]
        def f(x, xs):
            for n in xs:
                x = x * n
            return x
        """,
        read=[
            "args[1] = (1, 3)",
            "args[1] = (2, 1)",
            "args[1] = [1, 2]",
            "args[1] = iter([1, 2])",
            "args[1] = range(1, 3)",
        ],
        unread=["args[1] = tuple([1, 2])"],
    ),
    program(
        "a function as an argument",
        """
        def double(x, n=2): return x * n
        def triple(x): return x * 3
        args = [torch.arange(4.0), double]
        def f(x, g):
            return g(x)
        """,
        read=[
            "args[1] = triple",
            "args[1] = torch.sin",
            "double.__code__ = triple.__code__",
            "double.__defaults__ = (5,)",
            "double.__defaults__ = None",
            "args[1] = lambda x: x - 1",
            "args[1] = double.__get__(torch.ones(4))",
        ],
        unread=["double.__doc__ = 'text'", "double.tag = 5", "double.__name__ = 'twice'"],
    ),
    program(
        "a function made by a function",
        """
        def scaled(by, offset=0):
            def g(x, *, extra=1):
                return x * by + offset + extra
            return g
        args = [torch.arange(4.0), scaled(2)]
        def f(x, g):
            return g(x)
        """,
        read=[
            "args[1] = scaled(3)",
            "args[1] = scaled(2, 1)",
            "args[1].__kwdefaults__['extra'] = 5",
            "args[1].__kwdefaults__ = {'extra': 7}",
            "args[1].__closure__[0].cell_contents = 9",
        ],
        unread=["args[1] = scaled(2)"],
    ),
    program(
        "a partial and a bound method",
        """
        import functools
        class Scale:
            def __init__(self, by): self.by, self.unread = by, 1
            def apply(self, x, n): return x * self.by + n
        def add(x, n): return x + n
        args = [torch.arange(4.0), functools.partial(add, n=1), Scale(2).apply]
        def f(x, g, h):
            return g(x), h(x, 1)
        """,
        read=[
            "args[1] = functools.partial(add, n=2)",
            "args[1] = functools.partial(torch.sub, other=1)",
            "args[1] = functools.partial(add, args[0], 5); args[1] = lambda x: x",
            "args[1].keywords['n'] = 5",
            "args[2] = Scale(3).apply",
            "args[2].__self__.by = 5",
            "Scale.apply.__code__ = (lambda self, x, n: x - n).__code__",
        ],
        unread=[
            "args[1] = functools.partial(add, n=1)",
            "args[2] = Scale(2).apply",
            "args[2].__self__.unread = 5",
            "Scale.apply = None",
        ],
    ),
]
