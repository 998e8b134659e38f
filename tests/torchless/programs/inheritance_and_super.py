"""Inheritance, method resolution order, and super in all its forms."""

from programs import error_of


def super_without_arguments():
    class A:
        def f(self, x):
            return ["A", x]

    class B(A):
        def f(self, x):
            return ["B"] + super().f(x + 1)

    class C(B):
        def f(self, x):
            return ["C"] + super().f(x=x)

    return C().f(1)


def super_with_two_arguments():
    class A:
        def f(self):
            return "A"

    class B(A):
        def f(self):
            return "B" + super(B, self).f()

    class C(B):
        def f(self):
            return super(B, self).f(), super(C, self).f()

    return C().f(), super(B, C()).f()


def super_reads_attributes_and_properties():
    class A:
        value = "A value"

        @property
        def p(self):
            return f"p of {type(self).__name__}"

    class B(A):
        value = "B value"

        @property
        def p(self):
            return super().p + "!"

        def read(self):
            return super().value, super(B, self).value, self.value

    return B().read(), B().p


def super_in_class_and_static_methods():
    class A:
        @classmethod
        def make(cls, x):
            return cls.__name__, x

        @staticmethod
        def free(x):
            return x

    class B(A):
        @classmethod
        def make(cls, x):
            return ("B", *super().make(x))

        @staticmethod
        def free(x):
            return super(B, B).free(x) + 1

    return B.make(1), B().make(2), B.free(1)


def super_in_new():
    class A:
        def __new__(cls, *args):
            self = super().__new__(cls)
            self.made_by = "A"
            return self

    class B(A):
        def __new__(cls, x):
            self = super().__new__(cls, x)
            self.x = x
            return self

    return vars(B(5))


def super_as_an_object():
    class A:
        def f(self):
            return "A.f"

    class B(A):
        def f(self):
            s = super()
            return s.f(), s.__thisclass__.__name__, s.__self__ is self, s.__self_class__.__name__

    unbound = super(B)
    b = B()
    return b.f(), unbound.__get__(b, B).f()


def super_in_a_nested_function_and_comprehension():
    class A:
        def f(self, x):
            return x * 2

    class B(A):
        def f(self, x):
            def inner():
                return super(B, self).f(x)

            return inner(), [super(B, self).f(i) for i in range(3)], (lambda: super(__class__, self).f(9))()

    return B().f(1)


def super_called_where_it_cannot_work():
    def free():
        return super().x

    class A:
        def no_arguments():
            return super().x

        def deleted_first_argument(self):
            del self
            return super().x

        def wrong_instance(self):
            return super(A, 5).x

        def wrong_type(self):
            return super(5, self).x

        def in_a_generator(self):
            return list(super().x for _ in range(1))

    a = A()
    return [
        error_of(f)
        for f in (
            free,
            A.no_arguments,
            a.deleted_first_argument,
            a.wrong_instance,
            a.wrong_type,
            a.in_a_generator,
        )
    ]


def super_does_not_find_what_is_not_there():
    class A:
        pass

    class B(A):
        def f(self):
            return super().f()

        def __getattr__(self, name):
            return "getattr is not used by super"

    return error_of(B().f)


def super_with_a_rebound_first_argument():
    class A:
        def name(self):
            return type(self).__name__, self.tag

    class B(A):
        def __init__(self, tag):
            self.tag = tag

        def name(self):
            self = B("other")
            return super().name()

    return B("first").name()


def super_shadowed_by_a_local_function():
    class A:
        def f(self):
            super = lambda: "shadow"
            return super()

    return A().f()


def super_setitem_getitem_and_iter():
    class Upper(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key.upper(), value)

        def __getitem__(self, key):
            return super().__getitem__(key.upper())

        def __iter__(self):
            for key in super().__iter__():
                yield f"<{key}>"

    u = Upper()
    u["a"] = 1
    u["a"] += 5
    return u["A"], u["a"], list(u), len(u)


def cooperative_diamond():
    class Base:
        def __init__(self, **kwargs):
            print("Base", kwargs)
            super().__init__(**kwargs)

    class Left(Base):
        def __init__(self, left, **kwargs):
            print("Left", left)
            super().__init__(**kwargs)

    class Right(Base):
        def __init__(self, right, **kwargs):
            print("Right", right)
            super().__init__(**kwargs)

    class Bottom(Left, Right):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)

    Bottom(left=1, right=2)
    return [c.__name__ for c in Bottom.__mro__], error_of(lambda: Bottom(left=1, right=2, other=3))


def inconsistent_bases_are_refused():
    class A:
        pass

    class B(A):
        pass

    class C(A, B):
        pass


def duplicate_and_invalid_bases():
    class A:
        pass

    def twice():
        class B(A, A):
            pass

    def number():
        class B(5):
            pass

    def final():
        class B(bool):
            pass

    def conflict():
        class B(int, str):
            pass

    return [error_of(f) for f in (twice, number, final, conflict)]


def init_subclass_registers():
    class Plugin:
        registry = {}

        def __init_subclass__(cls, /, name=None, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.registry[name or cls.__name__.lower()] = cls

    class Csv(Plugin):
        pass

    class Json(Plugin, name="js"):
        pass

    def bad():
        class Bad(Plugin, unknown=1):
            pass

    return {k: v.__name__ for k, v in Plugin.registry.items()}, error_of(bad)


def mro_entries_replace_a_base():
    class Proxy:
        def __init__(self, target):
            self.target = target

        def __mro_entries__(self, bases):
            print("mro_entries", len(bases))
            return (self.target,)

    class Real:
        x = 1

    proxy = Proxy(Real)

    class C(proxy):
        pass

    return C.__bases__ == (Real,), C.__orig_bases__ == (proxy,), C.x


def abstract_base_classes():
    from abc import ABC, abstractmethod

    class Shape(ABC):
        @abstractmethod
        def area(self): ...

        @property
        @abstractmethod
        def name(self): ...

        def describe(self):
            return f"{self.name}: {self.area()}"

    class Square(Shape):
        def __init__(self, side):
            self.side = side

        def area(self):
            return self.side**2

        name = "square"

    class Partial(Shape):
        name = "partial"

    @Shape.register
    class Other:
        pass

    return [
        Square(3).describe(),
        error_of(lambda: Partial()),
        isinstance(Other(), Shape),
        issubclass(Other, Shape),
        sorted(Shape.__abstractmethods__),
    ]


def subclass_hook_decides_membership():
    from abc import ABCMeta

    class Sized(metaclass=ABCMeta):
        @classmethod
        def __subclasshook__(cls, c):
            return any("__len__" in vars(b) for b in c.__mro__) or NotImplemented

    class Has:
        def __len__(self):
            return 0

    return isinstance(Has(), Sized), issubclass(int, Sized), isinstance([], Sized)


def overriding_and_extending_builtins():
    class Stack(list):
        def push(self, x):
            self.append(x)
            return self

        def __getitem__(self, i):
            got = super().__getitem__(i)
            return Stack(got) if isinstance(i, slice) else got

        @property
        def top(self):
            return self[-1] if self else None

    s = Stack([1]).push(2).push(3)
    return (
        s.top,
        type(s[1:]).__name__,
        s[1:].top,
        Stack().top,
        type(s + [1]).__name__,
        s == [1, 2, 3],
        sorted(s, reverse=True),
    )


def changing_bases_changes_behaviour():
    class A:
        def f(self):
            return "A"

    class B:
        def f(self):
            return "B"

    class C(A):
        pass

    c = C()
    before = c.f()
    C.__bases__ = (B,)
    return before, c.f(), isinstance(c, A), isinstance(c, B), [k.__name__ for k in C.__mro__]


def mixins_with_a_template_method():
    class Report:
        def render(self):
            return "\n".join([self.header(), *self.lines(), self.footer()])

        def header(self):
            return "== report =="

        def footer(self):
            return "== end =="

        def lines(self):
            raise NotImplementedError(f"{type(self).__name__}.lines")

    class Numbered:
        def lines(self):
            for n, line in enumerate(super().lines(), 1):
                yield f"{n}. {line}"

    class Shouted:
        def lines(self):
            yield from (line.upper() for line in super().lines())

        def header(self):
            return super().header() + "!"

    class Items(Report):
        def lines(self):
            yield "apples"
            yield "pears"

    class Fancy(Numbered, Shouted, Items):
        pass

    print(Fancy().render())
    return error_of(Report().render), [c.__name__ for c in Fancy.mro()]


def visitors_by_class_name():
    class Node:
        def __init__(self, *children, **attributes):
            self.children = children
            self.__dict__.update(attributes)

    class Num(Node):
        pass

    class Neg(Node):
        pass

    class Add(Node):
        pass

    class Visitor:
        def visit(self, node):
            for cls in type(node).__mro__:
                method = getattr(self, f"visit_{cls.__name__.lower()}", None)
                if method is not None:
                    return method(node)
            raise LookupError(type(node).__name__)

        def visit_node(self, node):
            return [self.visit(c) for c in node.children]

    class Evaluate(Visitor):
        def visit_num(self, node):
            return node.value

        def visit_neg(self, node):
            return -super().visit_node(node)[0]

        def visit_add(self, node):
            return sum(self.visit_node(node))

    class Show(Evaluate):
        def visit_num(self, node):
            return str(super().visit_num(node))

        def visit_neg(self, node):
            return f"-{self.visit(*node.children)}"

        def visit_add(self, node):
            return f"({' + '.join(self.visit_node(node))})"

    tree = Add(Num(value=1), Neg(Add(Num(value=2), Num(value=3))), Num(value=10))
    return Evaluate().visit(tree), Show().visit(tree), error_of(Evaluate().visit, 5)
