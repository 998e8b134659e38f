"""Class statements: bodies, instances, methods, slots, and what a class body sees."""

from programs import error_of


def a_class_body_is_executed_in_order():
    class C:
        print("in the body")
        x = 1
        y = x + 1
        for i in range(3):
            y += i
        del i
        print(sorted(k for k in locals() if not k.startswith("__")))

    return C.x, C.y, hasattr(C, "i")


def methods_bind_their_instance():
    class Point:
        dimensions = 2

        def __init__(self, x, y=0):
            self.x, self.y = x, y

        def moved(self, dx=0, dy=0):
            return type(self)(self.x + dx, self.y + dy)

        @classmethod
        def origin(cls):
            return cls(0, 0)

        @staticmethod
        def distance(a, b):
            return abs(a.x - b.x) + abs(a.y - b.y)

        @property
        def pair(self):
            return self.x, self.y

    p = Point(1, 2).moved(dy=5)
    return p.pair, Point.origin().pair, p.distance(p, Point(0)), Point.dimensions, p.dimensions


def class_attributes_and_instance_attributes():
    class C:
        shared = []
        n = 0

    a, b = C(), C()
    a.shared.append(1)
    a.n += 1
    C.n = 10
    return b.shared, a.n, b.n, a.__dict__, vars(b)


def the_names_of_a_class():
    class Outer:
        """Docs."""

        class Inner:
            def method(self): ...

    return [
        Outer.__name__,
        Outer.__qualname__,
        Outer.__doc__,
        Outer.Inner.__qualname__,
        Outer.Inner.method.__qualname__,
        Outer.__module__,
        Outer.__bases__ == (object,),
        repr(Outer.Inner),
    ]


def a_class_body_sees_globals_and_its_own_names_but_methods_do_not():
    class C:
        name = "class"

        def method(self):
            return name

        same = name

    return C.same, error_of(C().method)


def comprehensions_in_a_class_body_see_only_the_first_iterable():
    def make():
        class C:
            n = 3
            squares = [i * i for i in range(n)]
            try:
                scaled = [i * n for i in range(2)]
            except NameError as e:
                scaled = str(e)

        return C

    return make().squares, make().scaled


def a_name_assigned_in_a_class_body_is_not_looked_for_in_the_enclosing_function():
    x = "outer"

    class C:
        seen_before = error_of(eval, "x")
        x = "class"
        seen_after = x
        get = lambda self: x
        del x
        try:
            x
        except NameError as e:
            seen_last = str(e)

    return C.seen_before, C.seen_after, C().get(), C.seen_last


def a_class_body_reads_a_global_after_deleting_its_own_name():
    class C:
        error_of = 1
        first = error_of
        del error_of
        second = error_of.__name__

    return C.first, C.second


def nonlocal_and_global_in_a_class_body():
    global _set_by_class_body
    n = 1

    class C:
        nonlocal n
        global _set_by_class_body
        n += 1
        _set_by_class_body = "set"

    result = n, hasattr(C, "n"), _set_by_class_body
    del _set_by_class_body
    return result


def an_exception_in_a_class_body_leaves_no_class():
    try:

        class C:
            x = 1
            raise ValueError("body")

    except ValueError as e:
        return str(e), error_of(lambda: C)


def deleting_a_missing_name_in_a_class_body():
    class C:
        del missing


def a_class_decorator_may_return_anything():
    def register(cls):
        cls.registered = True
        return cls

    def replace(cls):
        return f"instead of {cls.__name__}"

    @register
    class A:
        pass

    @replace
    class B:
        pass

    return A.registered, B


def bases_and_keywords_are_expressions():
    class Base:
        def __init_subclass__(cls, **kwargs):
            cls.options = kwargs

    bases, options = [Base], {"a": 1}

    class C(*bases, b=2, **options):
        pass

    return C.options, C.__mro__ == (C, Base, object), C.__mro__[1].__name__


def slots_restrict_attributes():
    class Slotted:
        __slots__ = ("a", "b")

        def __init__(self):
            self.a = 1

    s = Slotted()
    s.b = 2
    del s.b
    return [
        s.a, error_of(lambda: s.b), error_of(lambda: setattr(s, "c", 1)), hasattr(s, "__dict__"),
        error_of(lambda: delattr(s, "b")), sorted(k for k in vars(Slotted) if not k.startswith("__")),
    ]  # fmt: skip


def slots_and_inheritance():
    class A:
        __slots__ = ("x",)

    class B(A):
        __slots__ = ("y", "__dict__")

    class C(A):
        pass

    b, c = B(), C()
    b.x, b.y, b.z = 1, 2, 3
    c.x, c.w = 4, 5
    return b.__dict__, c.__dict__, (b.x, b.y), c.x


def slots_conflicting_with_a_class_variable():
    class C:
        __slots__ = ("a",)
        a = 1


def private_names_are_mangled():
    class C:
        __secret = 1

        def __init__(self):
            self.__mine = 2

        def get(self, other):
            __local = other.__mine
            return self.__secret + __local

        def names(self):
            return sorted(vars(self)), [k for k in vars(C) if "secret" in k]

    class D(C):
        __secret = 100

    return C().get(C()), D().get(D()), C().names(), error_of(lambda: C().__secret)


def new_and_init_both_receive_the_arguments():
    class C:
        def __new__(cls, *args, **kwargs):
            print("new", cls.__name__, args, kwargs)
            return super().__new__(cls)

        def __init__(self, *args, **kwargs):
            print("init", args, kwargs)

    class D(C):
        pass

    C(1, a=2)
    D(3)
    return C.__new__(C, 4).__dict__


def init_is_skipped_when_new_returns_something_else():
    class C:
        def __new__(cls, x):
            return x if isinstance(x, str) else super().__new__(cls)

        def __init__(self, x):
            print("init", x)
            self.x = x

    return C("string"), C(5).x


def instances_of_immutable_builtins_are_customised_in_new():
    class Celsius(float):
        def __new__(cls, value, unit="C"):
            self = super().__new__(cls, value if unit == "C" else (value - 32) / 1.8)
            self.unit = unit
            return self

    class Pair(tuple):
        def __new__(cls, a, b):
            return tuple.__new__(cls, (a, b))

        @property
        def swapped(self):
            return Pair(self[1], self[0])

    return (
        float(Celsius(212, "F")),
        Celsius(5) + 1,
        Celsius(1).unit,
        tuple(Pair(1, 2).swapped),
        Pair(1, 2) == (1, 2),
    )


def a_singleton_and_a_borg():
    class Singleton:
        _instance = None

        def __new__(cls):
            if cls._instance is None:
                cls._instance = super().__new__(cls)
            return cls._instance

    class Borg:
        _state = {}

        def __init__(self):
            self.__dict__ = self._state

    a, b = Borg(), Borg()
    a.x = 1
    return Singleton() is Singleton(), b.x, a is b


def the_class_of_an_instance_can_change():
    class Caterpillar:
        def move(self):
            return f"{self.name} crawls"

    class Butterfly:
        def move(self):
            return f"{self.name} flies"

    c = Caterpillar()
    c.name = "Carl"
    first = c.move()
    c.__class__ = Butterfly
    return first, c.move(), type(c).__name__, error_of(lambda: setattr(c, "__class__", int))


def the_class_cell_is_available_in_methods():
    class C:
        def cls(self):
            return __class__

    class D(C):
        pass

    return D().cls() is C, C().cls.__code__.co_freevars


def del_runs_when_the_last_reference_goes():
    class Resource:
        def __del__(self):
            print("released")

    r = Resource()
    alias = r
    del r
    print("still held")
    del alias
    print("end")


def methods_can_be_added_and_replaced_later():
    class C:
        def greet(self):
            return "hello"

    c = C()
    first = c.greet()
    C.greet = lambda self: "hi"
    second = c.greet()
    c.greet = lambda: "own"
    third = c.greet()
    del c.greet
    del C.greet
    return first, second, third, error_of(lambda: c.greet())


def class_getitem_makes_a_class_subscriptable():
    class Box:
        def __class_getitem__(cls, item):
            return f"{cls.__name__}[{item}]"

    class Other:
        pass

    return Box[int.__name__], Box[1, 2], error_of(lambda: Other[1])


def type_with_three_arguments_makes_a_class():
    def describe(self):
        return f"{type(self).__name__}({self.x})"

    C = type("Made", (), {"x": 5, "describe": describe})
    D = type("Derived", (C,), {"x": 6})
    return (
        C().describe(),
        D().describe(),
        C.__name__,
        D.__mro__[1] is C,
        error_of(lambda: type("X", (int, str), {})),
    )


def isinstance_and_issubclass_in_all_forms():
    class A:
        pass

    class B(A):
        pass

    return [
        isinstance(B(), A), isinstance(A(), (int, B)), issubclass(B, A), issubclass(A, (B, object)),
        isinstance(1, int | str), type(B()) is A, error_of(lambda: issubclass(1, A)), isinstance(True, int),
    ]  # fmt: skip


def a_linked_list_class():
    class Node:
        __slots__ = "value", "next"

        def __init__(self, value, next=None):
            self.value, self.next = value, next

    class LinkedList:
        def __init__(self, items=()):
            self.head = None
            for item in reversed(list(items)):
                self.push(item)

        def push(self, value):
            self.head = Node(value, self.head)

        def __iter__(self):
            node = self.head
            while node is not None:
                yield node.value
                node = node.next

        def reverse(self):
            previous, node = None, self.head
            while node:
                node.next, previous, node = previous, node, node.next
            self.head = previous
            return self

        def __len__(self):
            return sum(1 for _ in self)

        def __repr__(self):
            return f"<{' -> '.join(map(repr, self))}>"

    items = LinkedList("abc")
    items.push(0)
    return repr(items), len(items), repr(items.reverse()), 0 in items, repr(LinkedList())


def a_bank_with_transactions_that_roll_back():
    class InsufficientFunds(Exception):
        def __init__(self, account, amount):
            super().__init__(f"{account.owner} has {account.balance}, needs {amount}")
            self.missing = amount - account.balance

    class Account:
        count = 0

        def __init__(self, owner, balance=0):
            self.owner, self.balance = owner, balance
            type(self).count += 1

        def withdraw(self, amount):
            if amount > self.balance:
                raise InsufficientFunds(self, amount)
            self.balance -= amount

    def transfer(source, target, amount):
        before = source.balance, target.balance
        try:
            target.balance += amount
            source.withdraw(amount)
        except InsufficientFunds as e:
            source.balance, target.balance = before
            return f"failed, missing {e.missing}: {e}"
        else:
            return "ok"
        finally:
            print(source.owner, source.balance, target.owner, target.balance)

    ann, bob = Account("ann", 100), Account("bob")
    return transfer(ann, bob, 70), transfer(ann, bob, 70), transfer(bob, ann, 1), Account.count
