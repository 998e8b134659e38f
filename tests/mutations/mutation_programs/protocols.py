"""What the language and its library read on a program's behalf."""

from mutation_programs.catalogue import program

PROGRAMS = [
    program(
        "an iterator's class",
        """
        class Count:
            def __init__(self, stop): self.stop = stop
            def __iter__(self):
                self.n = 0
                return self
            def __next__(self):
                self.n += 1
                if self.n > self.stop: raise StopIteration
                return self.n
        count = Count(2)
        def f(x):
            for n in count:
                x = x * n + 1
            return x
        """,
        read=[
            "count.stop = 3",
            "Count.__iter__ = lambda self: iter([5])",
            "def step(self): raise StopIteration\nCount.__next__ = step",
            "Count.n = property(lambda self: 9, lambda self, value: None)",
        ],
        unread=["count.unread = 1", "Count.unread = 1", "count.n = 7"],
    ),
    program(
        "a sequence by its getitem",
        """
        class Squares:
            def __init__(self): self.stop = 3
            def __getitem__(self, n):
                if n >= self.stop: raise IndexError
                return n * n
        squares = Squares()
        def f(x):
            return x + sum(squares) + (4 in squares)
        """,
        read=[
            "squares.stop = 4",
            "def get(self, n):\n    if n: raise IndexError\n    return 7\nSquares.__getitem__ = get",
            "Squares.__iter__ = lambda self: iter([5])",
            "Squares.__contains__ = lambda self, n: False",
        ],
        unread=["squares.unread = 1", "Squares.unread = 1"],
    ),
    program(
        "sorting by lt and by a key",
        """
        class Item:
            def __init__(self, n): self.n, self.unread = n, 0
            def __lt__(self, other): return self.n < other.n
        weight = 1
        def key(item): return -item.n * weight
        items = [Item(2), Item(1), Item(3)]
        def f(x):
            for item in sorted(items):
                x = x * 10 + item.n
            for item in sorted(items, key=key):
                x = x * 10 + item.n
            return x
        """,
        read=[
            "items[0].n = 5",
            "Item.__lt__ = lambda self, other: self.n > other.n",
            "weight = -1",
            "key.__code__ = (lambda item: item.n).__code__",
            "items.append(Item(0))",
            "items.reverse(); items[0].n = items[1].n",
            "key = None",
        ],
        unread=["items[0].unread = 1", "Item.unread = 5"],
    ),
    program(
        "numbers that objects stand for",
        """
        class Number:
            def __init__(self, n): self.n = n
            def __index__(self): return self.n
            def __float__(self): return self.n * 2.0
        number = Number(1)
        xs = [5, 6, 7]
        def f(x):
            return x + xs[number] + float(number) + len(range(number))
        """,
        read=[
            "number.n = 2",
            "Number.__index__ = lambda self: 0",
            "Number.__float__ = lambda self: 9.0",
            "xs[1] = 8",
            "del Number.__float__",
        ],
        unread=["xs[0] = 1", "number.unread = 1", "Number.unread = 1"],
    ),
    program(
        "formatted text",
        """
        class Item:
            def __init__(self): self.n, self.unread = 1, 1
        item = Item()
        names = {"a": "x"}
        def f(x):
            return x + len("{0.n} {1[a]}".format(item, names)) + len("%(a)s" % names) + len("{a}".format_map(names))
        """,
        read=[
            "item.n = 100",
            "names['a'] = 'xyz'",
            "Item.n = property(lambda self: 12345)",
            "del names['a']",
        ],
        unread=["item.unread = 5", "names = dict(names)"],
    ),
    program(
        "a class that says it is another",
        """
        class Item:
            kind = int
            @property
            def __class__(self): return self.kind
        item = Item()
        def f(x):
            return x + 1 if isinstance(item, int) else x - 1
        """,
        read=["item.kind = str", "Item.kind = str", "item = 5"],
        unread=["item.unread = 1"],
    ),
    program(
        "a metaclass that is replaced",
        """
        class Meta(type):
            n = 2
        class Other(type):
            n = 3
        class Item(metaclass=Meta): pass
        def f(x):
            return x + Item.n
        """,
        read=["Item.__class__ = Other", "Meta.n = 5", "Item.n = 7"],
        unread=["Item.m = 7", "Other.n = 9"],
    ),
    program(
        "exceptions and their bases",
        """
        class A(Exception): pass
        class B(Exception): pass
        class Failed(A): pass
        def f(x):
            try:
                raise Failed
            except B:
                return x - 1
            except A:
                return x + 1
        """,
        read=["Failed.__bases__ = (B,)", "A, B = B, A", "Failed = B", "Failed.__bases__ = (A, B)"],
        unread=["Failed.n = 5", "A.n = 5"],
    ),
    program(
        "the methods of a dictionary's subclass",
        """
        class Table(dict):
            def __getitem__(self, key): return dict.__getitem__(self, key) * 2
            def __contains__(self, key): return key == "b"
            def keys(self): return ["a"]
        table = Table(a=1, b=2)
        def f(x):
            return x + table["a"] + ("b" in table) + len(table.keys()) + table.get("b", 0)
        """,
        read=[
            "Table.__getitem__ = lambda self, key: 5",
            "Table.__contains__ = lambda self, key: False",
            "Table.keys = lambda self: []",
            "Table.get = lambda self, key, default: 7",
            "del Table.keys",
            "table['a'] = 3",
        ],
        unread=["Table.unread = 5"],
    ),
    program(
        "an int and a text with attributes",
        """
        class Size(int): pass
        class Name(str): pass
        args = [torch.arange(4.0), Size(2), Name("ab")]
        args[1].unit, args[2].tag = 3, 4
        def f(x, size, name):
            return x * size + size.unit + len(name) + name.tag
        """,
        read=[
            "args[1].unit = 5",
            "args[2].tag = 5",
            "args[1] = 2",
            "args[2] = 'ab'",
            "Size.unit = property(lambda self: 9)",
            "Name.__len__ = lambda self: 9",
            "Size.__rmul__ = lambda self, other: other",
            "del args[1].unit",
        ],
        unread=["args[1].unread = 1", "Size.unread = 1"],
    ),
    program(
        "a cached property's function",
        """
        import functools
        class Item:
            @functools.cached_property
            def area(self): return 3
        item = Item()
        item.area
        def f(x):
            item.__dict__.pop("area", None)
            return x + item.area
        """,
        read=[
            "Item.area.func = lambda self: 5",
            "Item.area.func.__code__ = (lambda self: 7).__code__",
            "Item.area = 9",
        ],
        unread=["Item.unread = 1"],
    ),
    program(
        "the signature of a function",
        """
        import inspect
        def inner(a, b=2): return a
        def other(a, b, c): return a
        def f(x):
            return x + len(inspect.signature(inner).parameters) + (inspect.signature(inner).parameters["b"].default or 0)
        """,
        read=[
            "inner.__defaults__ = (5,)",
            "inner = other",
            "inner.__code__ = other.__code__; inner.__defaults__ = (1,)",
            "inner.__signature__ = inspect.signature(lambda b=9: 1)",
            "inner.__wrapped__ = other",
        ],
        unread=["inner.unread = 5", "inner.__doc__ = 'text'"],
    ),
    program(
        "a protocol that is checked at run time",
        """
        import typing
        @typing.runtime_checkable
        class Runs(typing.Protocol):
            n: int
            def run(self): ...
        class Item:
            def __init__(self): self.n, self.unread = 1, 1
            def run(self): pass
        item = Item()
        def f(x):
            return x + 1 if isinstance(item, Runs) else x - 1
        """,
        read=[
            "del item.n",
            "del Item.run",
            "item = 5",
            "Item.__getattribute__ = lambda self, name: object.__getattribute__(self, name) if name != 'n' else missing",
        ],
        unread=["item.n = 2", "item.unread = 2", "del item.unread", "Item.unread = 5", "item = Item()"],
    ),
    program(
        "members of an enumeration gone over",
        """
        import enum
        class Mode(enum.Enum):
            UP = 1
            DOWN = 2
        class Flags(enum.Flag):
            A = 1
            B = 2
        name, flags = "UP", Flags.A | Flags.B
        def f(x):
            return x + len(list(Mode)) + Mode[name].value + Mode(2).value + (Flags.A in flags)
        """,
        read=[
            "name = 'DOWN'",
            "flags = Flags.B",
            "Mode._member_map_['OTHER'] = Mode.UP; Mode._member_names_.append('OTHER')",
            "Mode.UP._value_ = 7",
            "Mode._member_map_['UP'] = Mode.DOWN",
        ],
        unread=["Mode.unread = 5", "other = Mode.UP"],
    ),
    program(
        "getters of the operator module",
        """
        import operator
        class Item:
            def __init__(self): self.n, self.child, self.unread = 1, None, 2
            def scale(self, k): return self.n * k
        item = Item(); item.child = Item()
        get, pick, call = operator.attrgetter("child.n"), operator.itemgetter(1), operator.methodcaller("scale", 3)
        pair = [1, 2]
        def f(x):
            return x + get(item) + pick(pair) + call(item)
        """,
        read=[
            "item.child.n = 5",
            "pair[1] = 5",
            "item.n = 5",
            "get = operator.attrgetter('n'); item.n = 4",
            "pick = operator.itemgetter(0)",
            "call = operator.methodcaller('scale', 4)",
            "Item.scale = lambda self, k: 9",
        ],
        unread=["pair[0] = 7", "item.unread = 5", "item.child.unread = 5"],
    ),
    program(
        "weak references",
        """
        import weakref
        class Item:
            def __init__(self, n): self.n = n
        item, other = Item(2), Item(3)
        ref = weakref.ref(item)
        def f(x):
            return x + 1 if ref is None else x - 1
        """,
        read=["ref = None"],
        unread=["ref = weakref.ref(other)", "item.n = 5"],
    ),
    program(
        "attributes by names that are computed",
        """
        class Item:
            def __init__(self): self.a, self.b, self.c = 1, 2, 3
        item, names = Item(), ["a", "b"]
        def f(x):
            for name in names:
                x = x * getattr(item, name)
            setattr(item, "last", names[-1])
            return x
        watch = item
        """,
        read=[
            "item.a = 5",
            "names[0] = 'c'",
            "names.append('c')",
            "Item.a = property(lambda self: 7)",
            "del item.b",
        ],
        unread=["item.c = 5", "Item.c = 7"],
    ),
    program(
        "all attributes of an object",
        """
        class Item:
            def __init__(self): self.a, self.b = 1, 2
        item = Item()
        def f(x):
            for name, n in vars(item).items():
                x = x * n + len(name)
            return x
        """,
        read=[
            "item.a = 5",
            "item.c = 3",
            "del item.a",
            "item.a = item.__dict__.pop('a')",
            "item.__dict__ = {'z': 1}",
        ],
        unread=["Item.unread = 5"],
    ),
    program(
        "functions that memoise",
        """
        import functools
        @functools.lru_cache
        def scale(n): return n * 3
        args = [torch.arange(4.0), 2]
        def f(x, n):
            return x * scale(n)
        """,
        read=[
            "args[1] = 3",
            "scale = lambda n: 5",
            "scale.__wrapped__.__code__ = (lambda n: n * 5).__code__; scale.cache_clear()",
        ],
        unread=["scale.cache_clear()", "scale(9)"],
    ),
    program(
        "two closures over one cell",
        """
        def make():
            n = 1
            def put(value):
                nonlocal n
                n = value
            def get(): return n
            return put, get
        put1, get1 = make()
        put2, get2 = make()
        args = [torch.arange(4.0), put1, get1]
        def f(x, put, get):
            put(5)
            return x + get()
        """,
        read=["args[2] = get2", "args[1] = put2", "args[2] = lambda: 7"],
        unread=["args[1:] = [put2, get2]"],
    ),
    program(
        "a global of another module, written and read",
        """
        import types
        lib = types.ModuleType("mutated_lib")
        exec("n = 1\\ndef get(): return n + k\\ndef put(value):\\n    global n\\n    n = value\\nk = 1", vars(lib))
        def f(x):
            lib.put(3)
            return x + lib.get()
        """,
        read=[
            "lib.k = 5",
            "lib.get = lambda: 9",
            "lib.put.__code__ = (lambda value: None).__code__; lib.n = 4",
            "vars(lib).pop('k')",
        ],
        unread=["lib.n = 7", "lib.unread = 1", "k = 5"],
    ),
    program(
        "an attribute of a method's function",
        """
        class Item:
            def run(self): pass
        Item.run.rate = 2
        method = Item().run
        def f(x):
            return x + method.rate + len(method.__name__)
        """,
        read=["Item.run.rate = 3", "del Item.run.rate", "Item.run.__name__ = 'other'", "method = Item"],
        unread=["Item.run.unread = 1", "Item.run.__doc__ = 'text'"],
    ),
    program(
        "text, bytes and paths that objects stand for",
        """
        import os
        class Item:
            n = 1
            def __bytes__(self): return b"a" * self.n
            def __fspath__(self): return "a" * self.n
            def __class_getitem__(cls, key): return key
        item = Item()
        def f(x):
            return x + len(bytes(item)) + len(os.fspath(item)) + Item[3]
        """,
        read=[
            "item.n = 2",
            "Item.__bytes__ = lambda self: b'abc'",
            "Item.__fspath__ = lambda self: 'abc'",
            "Item.__class_getitem__ = classmethod(lambda cls, key: 7)",
        ],
        unread=["Item.unread = 1"],
    ),
    program(
        "a class that is made from another",
        """
        class Name:
            def __set_name__(self, owner, name): self.length = len(name)
        class Base:
            n = 1
            def __init_subclass__(cls, **options): pass
            def run(self): return self.n
        def f(x):
            class Made(Base, option=3):
                name = Name()
                def run(self): return super().run() + 1
            first = Made.n
            Made.n = 5
            return x + Made().run() + first + Made.name.length + getattr(Made, "absent", 0) + Made.n
        """,
        read=[
            "Base.n = 2",
            "Base.run = lambda self: 7",
            "Base.absent = 5",
            "Name.__set_name__ = lambda self, owner, name: setattr(self, 'length', 11)",
        ],
        unread=["Base.unread = 1", "Name.unread = 1"],
    ),
]
