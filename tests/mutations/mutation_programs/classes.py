"""Classes: attributes, methods, bases, descriptors, what `isinstance` says."""

from mutation_programs.catalogue import program

PROGRAMS = [
    program(
        "a method",
        """
        class Base:
            def scale(self): return 2
        class Item(Base):
            def unread(self): return 0
        item = Item()
        def f(x):
            return x * item.scale()
        """,
        read=[
            "Base.scale = lambda self: 3",
            "Item.scale = lambda self: 4",
            "item.scale = lambda: 5",
            "del Base.scale",
            "Base.scale.__code__ = (lambda self: 6).__code__",
            "Base.scale = property(lambda self: lambda: 7)",
            "Item.__bases__ = (type('Other', (), {'scale': lambda self: 8}),)",
            "Item.__getattribute__ = lambda self, name: lambda: 9",
            "item.__class__ = type('Other', (), {'scale': lambda self: 10})",
        ],
        unread=[
            "Item.unread = None",
            "Base.new = 1",
            "item.new = 1",
            "Item.__getattr__ = lambda self, name: 5",
            "Other = type('Other', (Base,), {'scale': lambda self: 5})",
            "Base.scale.tag = 1",
        ],
    ),
    program(
        "an attribute of a class",
        """
        class Base:
            n = 2
        class Middle(Base): pass
        class Item(Middle):
            unread = 1
        item = Item()
        def f(x):
            return x * item.n + Item.n
        """,
        read=[
            "Base.n = 3",
            "Middle.n = 4",
            "Item.n = 5",
            "item.n = 6",
            "Item.n = property(lambda self: 7)",
            "del Base.n",
            "Base.n = [1]",
        ],
        unread=["Item.unread = 5", "Base.other = 5", "item.other = 5", "Middle.unread = 4"],
    ),
    program(
        "a list that a class holds",
        """
        class Item:
            rates = [1, 2]
            table = {"a": 1, "b": 2}
        def f(x):
            return x * Item.rates[0] + Item.table["a"]
        """,
        read=[
            "Item.rates[0] = 5",
            "Item.rates = [7, 7]",
            "Item.table['a'] = 6",
            "Item.rates.append(1)",
            "del Item.table['a']",
        ],
        unread=["Item.rates[1] = 5", "Item.table['b'] = 5", "Item.table['c'] = 5"],
    ),
    program(
        "a property",
        """
        class Item:
            def __init__(self): self.n, self.unread = 1, 1
            @property
            def area(self): return self.n * 2
        item = Item()
        def f(x):
            return x + item.area
        """,
        read=[
            "item.n = 2",
            "Item.area = property(lambda self: 7)",
            "Item.area = 7",
            "del Item.area",
            "Item.area.fget.__code__ = (lambda self: 9).__code__",
        ],
        unread=[
            "item.unread = 5",
            "item.__dict__['area'] = 5",
            "Item.area.__init__(Item.area.fget, None, None, 'doc')",
        ],
    ),
    program(
        "a descriptor",
        """
        class Twice:
            def __init__(self, n): self.n = n
            def __get__(self, obj, cls): return self.n * 2
        class Plain:
            def __init__(self, n): self.n = n
        class Item:
            twice = Twice(1)
            plain = Plain(3)
        item = Item()
        def f(x):
            return x + item.twice + item.plain.n
        """,
        read=[
            "vars(Item)['twice'].n = 5",
            "Twice.__get__ = lambda self, obj, cls: 9",
            "Item.twice = Twice(7)",
            "item.twice = 11",
            "del Twice.__get__; Twice.__radd__ = lambda self, other: other",
            "Plain.__get__ = lambda self, obj, cls: Plain(13)",
            "vars(Item)['plain'].n = 15",
            "item.plain = Plain(17)",
        ],
        unread=["Item.other = Twice(9)", "item.unread = 1", "Twice.unread = 1"],
    ),
    program(
        "a data descriptor",
        """
        class Field:
            def __init__(self, name): self.name = name
            def __get__(self, obj, cls): return obj.__dict__[self.name] * 2
            def __set__(self, obj, value): obj.__dict__[self.name] = value
        class Item:
            n = Field("_n")
        item = Item()
        item.n = 3
        def f(x):
            return x + item.n
        """,
        read=[
            "item.n = 5",
            "vars(Item)['n'].name = 'm'; item.m = 8",
            "del Field.__set__; item.__dict__['n'] = 21",
            "Field.__get__ = lambda self, obj, cls: 23",
            "Item.n = 25",
        ],
        unread=["item.__dict__['n'] = 27", "Field.__set__ = lambda self, obj, value: None"],
    ),
    program(
        "a descriptor that later stores",
        """
        class Get:
            def __get__(self, obj, cls): return 5
        class Item:
            n = Get()
        item = Item()
        item.__dict__["n"] = 1
        def f(x):
            return x + item.n
        """,
        read=[
            "Get.__set__ = lambda self, obj, value: None",
            "item.n = 2",
            "del item.n",
            "Get.__delete__ = lambda self, obj: None",
        ],
        unread=["Get.unread = 3"],
    ),
    program(
        "class methods and static methods",
        """
        class Item:
            n = 2
            @classmethod
            def made(cls, k): return cls.n * k
            @staticmethod
            def plain(k): return k + 1
        class Sub(Item):
            n = 3
        def f(x):
            return x * Sub.made(2) + Item.plain(1)
        """,
        read=[
            "Sub.n = 5",
            "Item.made = classmethod(lambda cls, k: 7)",
            "Sub.made = lambda k: 9",
            "Item.plain = staticmethod(lambda k: 11)",
            "Item.plain = 5",
            "del Sub.n",
        ],
        unread=["Item.n = 5", "Item.other = 1", "Sub.plain = None"],
    ),
    program(
        "super",
        """
        class A:
            def scale(self): return 1
        class B(A):
            pass
        class C(B):
            def scale(self): return super().scale() + 1
        item = C()
        def f(x):
            return x * item.scale()
        """,
        read=[
            "A.scale = lambda self: 5",
            "B.scale = lambda self: 7",
            "del A.scale",
            "C.__bases__ = (type('Other', (), {'scale': lambda self: 9}),)",
            "B.__bases__ = (type('Other', (), {'scale': lambda self: 11}),)",
        ],
        unread=["B.other = lambda self: 7", "item.other = 1", "A.other = 1"],
    ),
    program(
        "super with two bases",
        """
        class Root:
            def scale(self): return 1
        class Left(Root):
            def scale(self): return super().scale() * 2
        class Right(Root):
            pass
        class Both(Left, Right):
            pass
        item = Both()
        def f(x):
            return x * item.scale()
        """,
        read=[
            "Right.scale = lambda self: 5",
            "Root.scale = lambda self: 7",
            "Both.__bases__ = (Left,); Left.scale.tag = 1; Right.scale = None; Root.scale = lambda self: 3",
            "Both.__bases__ = (Left, type('Other', (Root,), {'scale': lambda self: 9}))",
        ],
        unread=["Right.other = 1"],
    ),
    program(
        "isinstance",
        """
        class Base: pass
        class Item(Base): pass
        class Other: pass
        args = [torch.arange(4.0), Item()]
        def f(x, o):
            return x + 1 if isinstance(o, Base) else x - 1
        """,
        read=[
            "args[1] = Other()",
            "args[1].__class__ = Other",
            "Item.__bases__ = (Other,)",
            "Base = Other",
            "args[1] = torch.ones(2)",
            "args[1] = 5",
        ],
        unread=["args[1] = Item()", "args[1].n = 5", "Item.n = 5", "Base.n = 5"],
    ),
    program(
        "issubclass and the bases of a class",
        """
        class Base: pass
        class Item(Base): pass
        class Other: pass
        args = [torch.arange(4.0), Item]
        def f(x, cls):
            return x + 1 if issubclass(cls, Base) else x - 1
        """,
        read=["args[1] = Other", "Item.__bases__ = (Other,)", "Base = Other", "args[1] = int"],
        unread=["Item.n = 5"],
    ),
    program(
        "an abstract base class",
        """
        import abc
        class Shape(abc.ABC): pass
        class Plain: pass
        class Square(Plain): pass
        class Unrelated(abc.ABC): pass
        args = [torch.arange(4.0), Square()]
        def f(x, o):
            return x + 1 if isinstance(o, Shape) else x - 1
        """,
        read=["Shape.register(Square)", "args[1] = type('S', (Shape,), {})()", "Shape.register(Plain)"],
        unread=["args[1] = Square()", "Unrelated.register(Square)", "args[1].n = 1"],
    ),
    program(
        "registered with an abstract base class",
        """
        import abc
        class Shape(abc.ABC): pass
        class Square: pass
        class Other: pass
        Shape.register(Square)
        args = [torch.arange(4.0), Square(), Square]
        def f(x, o, cls):
            return x + 1 if isinstance(o, Shape) and issubclass(cls, Shape) else x - 1
        """,
        read=["args[1] = Other()", "args[2] = Other"],
        unread=["args[1] = Square()", "Shape.register(Other)"],
    ),
    program(
        "an abstract base class of the library",
        """
        import collections.abc
        class Bag:
            def __init__(self): self.n = 1
        args = [torch.arange(4.0), Bag()]
        def f(x, o):
            return x + 1 if isinstance(o, collections.abc.Sequence) else x - 1
        """,
        read=["collections.abc.Sequence.register(Bag)", "args[1] = [1]", "args[1] = 'text'"],
        unread=["args[1].n = 2", "args[1] = Bag()"],
    ),
    program(
        "a metaclass that answers isinstance",
        """
        class Meta(type):
            odd = 1
            def __instancecheck__(cls, value): return value % 2 == cls.odd
        class Odd(metaclass=Meta): pass
        class Plain(type): pass
        class Kind(metaclass=Plain): pass
        args = [torch.arange(4.0), 3]
        def f(x, n):
            return x + isinstance(n, Odd) + 2 * isinstance(n, Kind)
        """,
        read=[
            "args[1] = 4",
            "Meta.odd = 0",
            "Meta.__instancecheck__ = lambda cls, value: False",
            "Plain.__instancecheck__ = lambda cls, value: True",
            "del Meta.__instancecheck__",
        ],
        unread=["Plain.unread = 1"],
    ),
    program(
        "attributes of a metaclass",
        """
        class Meta(type):
            n = 2
            @property
            def size(cls): return cls.width
            def __len__(cls): return 3
        class Item(metaclass=Meta):
            width = 5
        def f(x):
            return x * Item.n + Item.size + len(Item)
        """,
        read=[
            "Meta.n = 3",
            "Item.n = 7",
            "Item.width = 9",
            "Meta.size = property(lambda cls: 11)",
            "Meta.__len__ = lambda cls: 13",
            "Meta.__getattribute__ = lambda cls, name: 15",
        ],
        unread=["Item.other = 1", "Meta.other = 1"],
    ),
    program(
        "the name, module, doc of a class",
        """
        class Item:
            "text"
        def f(x):
            return x + len(Item.__name__) + len(Item.__qualname__) + len(Item.__module__) + len(Item.__doc__)
        """,
        read=[
            "Item.__name__ = 'Other'",
            "Item.__qualname__ = 'a.b.c'",
            "Item.__module__ = 'm'",
            "Item.__doc__ = 'longer text'",
        ],
        unread=["Item.n = 5"],
    ),
    program(
        "the bases and the order of a class",
        """
        class A: pass
        class B: pass
        class Item(A): pass
        def f(x):
            return x + len(Item.__mro__) + sum(len(base.__name__) for base in Item.__bases__)
        """,
        read=["Item.__bases__ = (B,)", "Item.__bases__ = (A, B)", "A.__name__ = 'Other'"],
        unread=["Item.n = 5"],
    ),
    program(
        "the names of a class",
        """
        class Item:
            a = 1
            b = 2
        def f(x):
            return x + sum(1 for name in vars(Item) if not name.startswith("_"))
        """,
        read=["Item.c = 3", "del Item.a"],
        unread=[],
    ),
    program(
        "annotations",
        """
        class Item:
            a: int
            b: str
        def f(x):
            return x + len(Item.__annotations__)
        """,
        read=[
            "Item.__annotations__['c'] = int",
            "Item.__annotations__ = {}",
            "del Item.__annotations__['a']",
        ],
        unread=["Item.n = 1"],
    ),
    program(
        "instances that are made",
        """
        class Item:
            kind = 3
            def __init__(self, n): self.n = n
        def f(x):
            item = Item(2)
            return x * item.n + item.kind
        """,
        read=[
            "Item.__init__ = lambda self, n: setattr(self, 'n', 7)",
            "Item.__new__ = lambda cls, n: torch.nn.Identity() if False else object.__new__(type('O', (), {'n': 1, 'kind': 2}))",
            "Item.kind = 5",
            "Item.__setattr__ = lambda self, name, value: object.__setattr__(self, name, value * 2)",
            "Item.__getattr__ = lambda self, name: 4; Item.kind = 6",
            "Item.__getattribute__ = lambda self, name: 11",
            "Item.n = property(lambda self: 5, lambda self, value: None)",
            "Item.__init__.__code__ = (lambda self, n: None).__code__",
        ],
        unread=["Item.other = 5", "Item.__len__ = lambda self: 0"],
    ),
    program(
        "a class with getattr",
        """
        class Lazy:
            def __init__(self): self.values = {"a": 1, "b": 2}
            def __getattr__(self, name): return self.values[name]
        lazy = Lazy()
        def f(x):
            return x + lazy.a
        """,
        read=[
            "lazy.values['a'] = 5",
            "lazy.a = 7",
            "Lazy.a = 9",
            "Lazy.__getattr__ = lambda self, name: 11",
            "lazy.values = {'a': 13}",
            "del Lazy.__getattr__",
        ],
        unread=["lazy.values['b'] = 5", "lazy.b = 5", "lazy.values['c'] = 5"],
    ),
    program(
        "setattr and delattr of a class",
        """
        class Item:
            def __init__(self): self.n = 1
        item = watch = Item()
        def f(x):
            item.n = x.shape[0]
            return x + 1
        """,
        read=[
            "Item.__setattr__ = lambda self, name, value: object.__setattr__(self, name, value * 2)",
            "Item.n = property(lambda self: 0, lambda self, value: self.__dict__.update(m=value))",
            "item.__class__ = type('Other', (Item,), {'__setattr__': lambda self, *a: None})",
        ],
        unread=["Item.n = 7", "item.n = 9", "item.other = 1"],
    ),
    program(
        "cached properties",
        """
        import functools
        class Item:
            def __init__(self): self.n = 2
            @functools.cached_property
            def area(self): return self.n * 3
        item = Item()
        item.area
        def f(x):
            return x + item.area
        """,
        read=[
            "item.area = 7",
            "del item.area; item.n = 5",
            "Item.area = 9; del item.area",
            "Item.area = property(lambda self: 8)",
        ],
        unread=["item.n = 5"],
    ),
    program(
        "an exception's class",
        """
        class Failed(Exception): pass
        class Other(Exception): pass
        def check(n):
            if n > limit: raise Failed(n)
        limit = 1
        args = [torch.arange(4.0), 3]
        def f(x, n):
            try:
                check(n)
            except Failed as error:
                return x + error.args[0]
            return x
        """,
        read=[
            "limit = 5",
            "args[1] = 0",
            "args[1] = 4",
            "Failed = Other",
            "check = lambda n: None",
            "Failed.__init__ = lambda self, n: self.args and None",
        ],
        unread=["Failed.unread = 1"],
    ),
    program(
        "match by class and by attributes",
        """
        class Point:
            __match_args__ = ("a", "b")
            def __init__(self, a, b): self.a, self.b = a, b
        class Other:
            a = 1
        args = [torch.arange(4.0), Point(1, 2)]
        def f(x, p):
            match p:
                case Point(1, n): return x + n
                case Point(a=m): return x - m
                case {"k": n}: return x * n
                case [a, *rest]: return x * a + len(rest)
            return x
        """,
        read=[
            "args[1].a = 3",
            "args[1].b = 3",
            "Point.__match_args__ = ('b', 'a')",
            "del args[1].b",
            "args[1] = {'k': 5}",
            "args[1] = [1, 2, 3]",
            "args[1] = Other()",
        ],
        unread=["args[1].c = 3", "Point.n = 5"],
    ),
]
