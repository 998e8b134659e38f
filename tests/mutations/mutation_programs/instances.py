"""Attributes of instances."""

from mutation_programs.catalogue import program

PROGRAMS = [
    program(
        "an attribute",
        """
        class Item:
            def __init__(self): self.n, self.unread = 1, 1
        item, other = Item(), Item()
        def f(x):
            return x + item.n
        """,
        read=[
            "item.n = 2",
            "item.n = 1.0",
            "del item.n",
            "item = Item(); item.n = 5",
            "item = type('Other', (), {'n': 1})()",
            "item.__dict__ = {'n': 3}",
            "item.__class__ = type('Other', (Item,), {'n': property(lambda self: 7)})",
            "Item.n = property(lambda self: 8)",
            "Item.__getattribute__ = lambda self, name: 9",
        ],
        unread=[
            "item.unread = 2",
            "del item.unread",
            "item.new = 3",
            "other.n = 5",
            "Item.n = 5",
            "Item.unread = 5",
            "Item.__getattr__ = lambda self, name: 5",
            "item = Item()",
            "item.__dict__ = {'n': 1}",
        ],
    ),
    program(
        "an attribute of an attribute",
        """
        class Node:
            def __init__(self, **kw): self.__dict__.update(kw)
        root = Node(child=Node(leaf=Node(n=2, m=1), m=1))
        def f(x):
            return x * root.child.leaf.n
        """,
        read=[
            "root.child.leaf.n = 3",
            "root.child.leaf = Node(n=4)",
            "root.child = Node(leaf=Node(n=5))",
            "root = Node(child=Node(leaf=Node(n=6)))",
            "root.child = None",
            "del root.child.leaf",
        ],
        unread=[
            "root.child.leaf.m = 3",
            "root.child.leaf = Node(n=2)",
            "root.child = Node(leaf=Node(n=2))",
            "root.new = 5",
        ],
    ),
    program(
        "an attribute that is not there",
        """
        class Item:
            known = 1
        item = Item()
        def f(x):
            return x + getattr(item, "missing", 5) + hasattr(item, "other")
        """,
        read=[
            "item.missing = 1",
            "Item.missing = 1",
            "Item.__getattr__ = lambda self, name: 2",
            "item.other = 1",
            "Item.__getattribute__ = lambda self, name: 3",
        ],
        unread=["item.known = 2", "Item.known = 2", "Item.new = 3"],
    ),
    program(
        "slots",
        """
        class Base:
            __slots__ = ("a", "unread")
        class Item(Base):
            __slots__ = ("b", "empty")
        item = Item()
        item.a, item.b, item.unread = 1, 2, 3
        def f(x):
            return x + item.a * item.b + getattr(item, "empty", 0)
        """,
        read=[
            "item.a = 5",
            "item.b = 5",
            "del item.a",
            "item.empty = 1",
            "Item.a = 7",
            "Base.a = property(lambda self: 7)",
        ],
        unread=["item.unread = 5", "del item.unread", "Base.new = 1"],
    ),
    program(
        "a dataclass",
        """
        import dataclasses
        @dataclasses.dataclass
        class Config:
            n: int = 1
            names: list = dataclasses.field(default_factory=lambda: ["a"])
            unread: int = 3
        args = [torch.arange(4.0), Config()]
        def f(x, c):
            return x * c.n + len(c.names)
        """,
        read=["args[1].n = 2", "args[1].names.append('b')", "args[1] = Config(n=5)", "args[1] = None"],
        unread=["args[1].unread = 5", "args[1] = Config(unread=9)", "args[1].names[0] = 'z'", "Config.n = 7"],
    ),
    program(
        "a frozen dataclass compared and hashed",
        """
        import dataclasses
        @dataclasses.dataclass(frozen=True)
        class Key:
            a: int
            b: str = "b"
        table = {Key(1): 10, Key(2): 20}
        args = [torch.arange(4.0), Key(1)]
        def f(x, key):
            return x + table[key] if key != Key(3) else x
        """,
        read=["args[1] = Key(2)", "args[1] = Key(3)", "args[1] = Key(1, 'c')", "table[Key(1)] = 5"],
    ),
    program(
        "the fields of a dataclass",
        """
        import dataclasses
        @dataclasses.dataclass
        class Config:
            n: int = 1
            m: int = 2
        args = [torch.arange(4.0), Config()]
        def f(x, c):
            return x + sum(getattr(c, field.name) for field in dataclasses.fields(c))
        """,
        read=[
            "args[1].m = 5",
            "del Config.__dataclass_fields__['m']",
            "args[1] = dataclasses.make_dataclass('C', ['n'])(1)",
        ],
        unread=["args[1].unread = 1"],
    ),
    program(
        "members of an enumeration",
        """
        import enum
        class Mode(enum.Enum):
            UP = 1
            DOWN = 2
            @property
            def sign(self): return 1 if self is Mode.UP else -1
        class Level(enum.IntEnum):
            LOW = 1
            HIGH = 2
        args = [torch.arange(4.0), Mode.UP, Level.LOW]
        def f(x, mode, level):
            return x * mode.sign + mode.value * level
        """,
        read=[
            "args[1] = Mode.DOWN",
            "args[2] = Level.HIGH",
            "args[2] = 1",
            "Mode.sign = property(lambda self: 5)",
            "args[1]._value_ = 7",
        ],
        unread=["args[1] = Mode(1)", "args[1] = Mode['UP']", "Mode.unread = 3"],
    ),
    program(
        "a namespace, and all its names",
        """
        import types
        options = types.SimpleNamespace(a=1, b=2)
        def f(x):
            return x + len(vars(options)) * options.a
        """,
        read=["options.a = 2", "options.c = 3", "del options.b", "options = types.SimpleNamespace(a=1)"],
        unread=["options.b = 5"],
    ),
    program(
        "an object written to and read by another name",
        """
        class Item:
            def __init__(self, n): self.n = n
        args = [torch.arange(4.0), Item(5), Item(1)]
        def f(x, a, b):
            a.n = 5
            return x + b.n
        """,
        read=["args[2] = args[1]", "args[2].n = 3", "args[1] = args[2]"],
        unread=["args[1].n = 9", "args[1] = Item(3)"],
    ),
    program(
        "a state that is counted",
        """
        class Counter:
            def __init__(self): self.n, self.seen = 0, []
        counter = watch = Counter()
        def f(x):
            counter.seen.append(x.shape[0])
            counter.last = x.shape[0]
            return x + 1
        """,
        read=[
            "args[0] = torch.ones(3)",
            "counter.seen = ()",
            "Counter.last = property(lambda s: 1, lambda s, v: None)",
            "counter = watch = None",
        ],
        unread=["counter.n = 5", "counter.seen.clear()", "counter.last = 'x'", "counter = watch = Counter()"],
    ),
    program(
        "bool, len, eq of a class",
        """
        class Item:
            def __init__(self, n): self.n = n
            def __len__(self): return self.n
            def __eq__(self, other): return self.n == other.n
            def __hash__(self): return self.n
        args = [torch.arange(4.0), Item(1), Item(2)]
        def f(x, a, b):
            return x + 1 if a and a == b else x - len(b)
        """,
        read=[
            "args[1].n = 2",
            "args[2].n = 1",
            "Item.__len__ = lambda self: 5",
            "Item.__eq__ = lambda self, other: True",
            "Item.__bool__ = lambda self: False",
            "del Item.__len__",
            "args[1].n = 0",
        ],
        unread=["Item.unread = 1", "args[1].unread = 1", "Item.__hash__ = lambda self: 9"],
    ),
    program(
        "operators of a class",
        """
        class Number:
            def __init__(self, n): self.n = n
            def __add__(self, other): return self.n + other
            def __getitem__(self, k): return self.n * k
            def __call__(self, k): return self.n - k
            def __contains__(self, k): return k == self.n
            def __iter__(self): return iter([self.n])
        number = Number(2)
        def f(x):
            return x * (number + 1) + number[3] + number(1) + (2 in number) + sum(number)
        """,
        read=[
            "number.n = 5",
            "Number.__add__ = lambda self, other: 0",
            "Number.__getitem__ = lambda self, k: 0",
            "Number.__call__ = lambda self, k: 0",
            "Number.__contains__ = lambda self, k: False",
            "Number.__iter__ = lambda self: iter([7])",
            "del Number.__contains__",
        ],
        unread=[
            "number.__add__ = lambda other: 99",
            "Number.__sub__ = lambda self, other: 1",
            "number.m = 5",
        ],
    ),
    program(
        "text of an object",
        """
        class Name:
            def __init__(self, text): self.text = text
            def __str__(self): return self.text
            def __repr__(self): return "repr"
        name = Name("ab")
        def f(x):
            return x + len(str(name)) + len(f"{name!r}{name}")
        """,
        read=[
            "name.text = 'abc'",
            "Name.__str__ = lambda self: 'long text'",
            "Name.__repr__ = lambda self: 'r'",
            "Name.__format__ = lambda self, spec: 'formatted'",
        ],
        unread=["name.unread = 1", "Name.unread = 1"],
    ),
    program(
        "a context manager",
        """
        class Manager:
            entered = 2
            def __enter__(self): return self.entered
            def __exit__(self, *error): return self.swallow
            swallow = True
        manager = Manager()
        def f(x):
            with manager as n:
                x = x + n
                raise ValueError
            return x
        """,
        read=[
            "manager.entered = 3",
            "Manager.__enter__ = lambda self: 9",
            "Manager.swallow = False",
            "Manager.__exit__ = lambda self, *error: True if self.entered else False\nmanager.entered = 4",
        ],
        unread=["manager.unread = 1", "manager.__enter__ = lambda: 7"],
    ),
    program(
        "copies",
        """
        import copy
        class Item:
            def __init__(self): self.n, self.xs = 1, [1]
        item = Item()
        def f(x):
            twin = copy.deepcopy(item)
            return x + twin.n + twin.xs[0]
        """,
        read=[
            "item.n = 2",
            "item.xs[0] = 5",
            "item.new = 1",
            "Item.__deepcopy__ = lambda self, memo: Item() if memo is None else self; item.n = 4",
            "Item.__reduce_ex__ = lambda self, protocol: (Item, ())\nitem.n = 3",
        ],
        unread=["Item.unread = 1"],
    ),
]
