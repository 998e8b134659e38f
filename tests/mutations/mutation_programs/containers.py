"""What is in lists, dictionaries, sets and their kin."""

from mutation_programs.catalogue import program

PROGRAMS = [
    program(
        "elements of a list",
        """
        args = [torch.arange(4.0), [1, 2, 3]]
        def f(x, xs):
            return x + xs[0] * xs[-1]
        """,
        read=[
            "args[1][0] = 5",
            "args[1][-1] = 5",
            "args[1].append(4)",
            "args[1].pop()",
            "args[1].reverse()",
            "args[1] = (1, 2, 3)",
            "args[1][0] = 1.0",
            "args[1][0] = torch.ones(4)",
        ],
        unread=["args[1][1] = 'a'", "args[1] = [1, 7, 3]"],
    ),
    program(
        "a nest of containers",
        """
        args = [torch.arange(4.0), {"a": [(1, {"b": 2})], "unread": 1}]
        def f(x, d):
            return x + d["a"][0][1]["b"]
        """,
        read=[
            "args[1]['a'][0][1]['b'] = 3",
            "args[1]['a'][0] = (1, {'b': 3})",
            "args[1]['a'].append(1)",
            "args[1]['a'] = ((1, {'b': 2}),)",
            "del args[1]['a']",
            "args[1]['a'][0][1].clear()",
        ],
        unread=[
            "args[1]['unread'] = 2",
            "args[1]['new'] = 2",
            "del args[1]['unread']",
            "args[1]['a'][0] = (5, {'b': 2})",
            "args[1]['a'][0][1]['c'] = 1",
        ],
    ),
    program(
        "keys of a dictionary",
        """
        args = [torch.arange(4.0), {"a": 1, "b": 2}]
        def f(x, d):
            return x + len(d), [k for k in d]
        """,
        read=[
            "args[1]['c'] = 3",
            "del args[1]['a']",
            "args[1]['a'] = args[1].pop('a')",
            "args[1].clear()",
            "args[1] = {'b': 2, 'a': 1}",
            "args[1] = {'a': 1, 0: 2}",
        ],
        unread=["args[1]['a'] = 5", "args[1] = {'a': 7, 'b': 8}"],
    ),
    program(
        "keys of other types",
        """
        args = [torch.arange(4.0), {1: "one", (1, 2): "pair", None: "none"}]
        def f(x, d):
            return x + len(d[1]) + len(d[(1, 2)]) + ((1, 3) in d), [type(k).__name__ for k in d]
        """,
        read=[
            "args[1][1] = 'other'",
            "args[1][(1, 2)] = 'other'",
            "args[1] = {True: 'one', (1, 2): 'pair', None: 'none'}",
            "args[1] = {1.0: 'one', (1, 2): 'pair', None: 'none'}",
            "args[1] = {1: 'one', (1, 2.0): 'pair', None: 'none'}",
            "args[1] = {1: 'one', (1, 2): 'pair', 0: 'none'}",
        ],
        unread=["args[1][None] = 'other'"],
    ),
    program(
        "keys that were not there",
        """
        args = [torch.arange(4.0), {"a": 1}]
        def f(x, d):
            return x + d.get("b", 5) if "c" not in d else x
        """,
        read=["args[1]['b'] = 1", "args[1]['c'] = 1", "args[1] = None", "args[1] = dict(b=3)"],
        unread=["args[1]['a'] = 5", "args[1]['d'] = 5", "del args[1]['a']", "args[1] = {}"],
    ),
    program(
        "items of a dictionary",
        """
        args = [torch.arange(4.0), {"a": 1, "b": 2}]
        def f(x, d):
            for name, n in d.items():
                x = x * n + len(name)
            return x
        """,
        read=[
            "args[1]['a'] = 3",
            "args[1] = {'b': 2, 'a': 1}",
            "args[1]['c'] = 1",
            "args[1].popitem()",
            "args[1] = {'aa': 1, 'b': 2}",
        ],
        unread=["args[1] = dict(a=1, b=2)"],
    ),
    program(
        "the order of an OrderedDict",
        """
        from collections import OrderedDict
        args = [torch.arange(4.0), OrderedDict(a=1, b=2, c=3)]
        def f(x, d):
            for n in d.values():
                x = x * n + 1
            return x
        """,
        read=[
            "args[1].move_to_end('a')",
            "args[1].move_to_end('c', last=False)",
            "args[1]['b'] = 5",
            "args[1].popitem(last=False)",
            "args[1] = dict(a=1, b=2, c=3)",
            "args[1] = OrderedDict(b=2, a=1, c=3)",
        ],
        unread=["args[1] = OrderedDict(a=1, b=2, c=3)", "args[1].move_to_end('c')"],
    ),
    program(
        "one key of an OrderedDict",
        """
        from collections import OrderedDict
        args = [torch.arange(4.0), OrderedDict(a=1, b=2)]
        def f(x, d):
            return x + d["a"]
        """,
        read=["args[1]['a'] = 2", "del args[1]['a']", "args[1] = dict(a=1)"],
        unread=["args[1].move_to_end('a')", "args[1]['b'] = 5", "args[1]['c'] = 1", "del args[1]['b']"],
    ),
    program(
        "a defaultdict",
        """
        from collections import defaultdict
        args = [torch.arange(4.0), defaultdict(int, a=1)]
        def f(x, d):
            return x + d["a"], dict(d).get("b")
        """,
        read=["args[1]['a'] = 5", "args[1]['b'] = 5", "args[1].default_factory = list", "del args[1]['a']"],
        unread=["args[1] = defaultdict(int, a=1)"],
    ),
    program(
        "a deque",
        """
        from collections import deque
        args = [torch.arange(4.0), deque([1, 2, 3], maxlen=3)]
        def f(x, d):
            return x + d[0], d.maxlen
        """,
        read=[
            "args[1][0] = 5",
            "args[1].append(4)",
            "args[1].pop()",
            "args[1].rotate(1)",
            "args[1] = deque([1, 2, 3])",
            "args[1] = deque([1, 2, 3], maxlen=4)",
            "args[1] = [1, 2, 3]",
        ],
        unread=["args[1][1] = 7"],
    ),
    program(
        "a set",
        """
        args = [torch.arange(4.0), {"a", "b"}, frozenset({1})]
        def f(x, names, numbers):
            return x + len(names) if "a" in names and 1 in numbers else x
        """,
        read=[
            "args[1].add('c')",
            "args[1].remove('a')",
            "args[1].clear()",
            "args[2] = frozenset({2})",
            "args[2] = {1}",
            "args[1] = frozenset(args[1])",
        ],
        unread=["args[2] = frozenset([1])"],
    ),
    program(
        "a named tuple",
        """
        import collections
        class Point(collections.namedtuple("Point", "a b")):
            def total(self): return self.a
        Other = collections.namedtuple("Other", "b a")
        args = [torch.arange(4.0), Point(1, 2)]
        def f(x, p):
            return x + p.a + p.total()
        """,
        read=[
            "args[1] = Point(2, 2)",
            "args[1] = Other(1, 2)",
            "args[1] = (1, 2)",
            "Point.total = lambda self: 5",
            "Point.a = 7",
        ],
        unread=["args[1] = Point(1, 3)", "Point.other = 5", "Point.b = 7"],
    ),
    program(
        "a subclass of list with a length of its own",
        """
        class Long(list):
            def __len__(self): return 7
            def __getitem__(self, n): return list.__getitem__(self, n) * 2
        args = [torch.arange(4.0), Long([1, 2])]
        def f(x, xs):
            return x + len(xs) + xs[0]
        """,
        read=[
            "args[1][0] = 5",
            "Long.__len__ = lambda self: 8",
            "del Long.__len__",
            "Long.__getitem__ = lambda self, n: 3",
            "args[1] = [1, 2]",
            "args[1].__class__ = type('Other', (Long,), {'__len__': lambda self: 9})",
        ],
        unread=["Long.unread = 1"],
    ),
    program(
        "a subclass of dict with attributes",
        """
        class Config(dict):
            limit = 3
            def __missing__(self, key): return self.limit
        args = [torch.arange(4.0), Config(a=1)]
        args[1].scale = 2
        def f(x, c):
            return x * c["a"] * c.scale + c["absent"]
        """,
        read=[
            "args[1]['a'] = 2",
            "args[1].scale = 5",
            "args[1].limit = 5",
            "Config.limit = 4",
            "Config.__missing__ = lambda self, key: 0",
            "args[1]['absent'] = 9",
            "del args[1].scale",
        ],
        unread=["Config.other = 4"],
    ),
    program(
        "a list that is only added to",
        """
        seen = []
        def f(x):
            seen.append(1)
            return x + 1
        watch = seen
        """,
        read=["seen = watch = ()", "seen = watch = None", "args[0] = torch.ones(2)"],
        unread=["seen.clear()", "seen = watch = [1, 2, 3]", "seen.extend('abc')"],
    ),
    program(
        "two lists, one of them written",
        """
        args = [torch.arange(4.0), [1], [1]]
        def f(x, a, b):
            a[0] = 5
            return x + b[0]
        args[1] = [5]
        """,
        read=["args[2] = args[1]", "args[2][0] = 3", "args[1].append(1)", "args[2].insert(0, 7)"],
        unread=["args[1] = [5]", "args[1][0] = 5"],
    ),
    program(
        "a mapping proxy and a chain of maps",
        """
        import types, collections
        inner, outer = {"a": 1}, {"b": 2}
        args = [torch.arange(4.0), collections.ChainMap(inner, outer)]
        def f(x, m):
            return x + m["a"] + m["b"]
        """,
        read=[
            "inner['a'] = 2",
            "outer['b'] = 3",
            "inner['b'] = 5",
            "del inner['a']",
            "args[1].maps.reverse(); inner['b'] = 9",
            "args[1] = args[1].new_child({'a': 4})",
        ],
        unread=["outer['c'] = 1", "inner['c'] = 1"],
    ),
    program(
        "dictionaries compared",
        """
        args = [torch.arange(4.0), {"a": [1, (2,)]}, {"a": [1, (2,)]}]
        def f(x, a, b):
            return x + 1 if a == b else x - 1
        """,
        read=["args[1]['a'][0] = 2", "args[2]['a'][1] = (3,)", "args[2]['b'] = 1", "args[1] = {}"],
    ),
    program(
        "keys with an eq and a hash of their own",
        """
        class Key:
            def __init__(self, n): self.n = n
            def __repr__(self): return f"Key({self.n})"
            def __hash__(self): return hash(self.n)
            def __eq__(self, other): return isinstance(other, Key) and self.n == other.n
        d = {Key(1): 1, Key(2): 2}
        args = [torch.arange(4.0), Key(1)]
        def f(x, k):
            return x + d[k]
        """,
        read=[
            "args[1] = Key(2)",
            "args[1].n = 2",
            "Key.__eq__ = lambda self, other: False",
            "Key.__hash__ = lambda self: 5",
            "d[Key(1)] = 5",
            "d.clear()",
            "args[1] = 1",
        ],
        unread=["Key.unread = 1", "args[1].unread = 1"],
    ),
]
