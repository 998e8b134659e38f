"""Metaclasses: what they see, and in which order."""

from programs import error_of


class _Told(type):
    """Says which of its methods are called."""

    @classmethod
    def __prepare__(meta, name, bases, **kwargs):
        print("prepare", name, len(bases), kwargs)
        return super().__prepare__(name, bases, **kwargs)

    def __new__(meta, name, bases, namespace, **kwargs):
        print("new", name, [k for k in namespace if not k.startswith("__")], kwargs)
        return super().__new__(meta, name, bases, namespace)

    def __init__(cls, name, bases, namespace, **kwargs):
        print("init", name, kwargs)
        super().__init__(name, bases, namespace)

    def __call__(cls, *args, **kwargs):
        print("call", cls.__name__, args, kwargs)
        return super().__call__(*args, **kwargs)


def the_order_of_class_creation():
    class C(metaclass=_Told, option=1):
        print("body")
        x = 1

        def __init__(self, *args, **kwargs):
            print("instance init")

    C(1, a=2)
    return type(C).__name__


def a_metaclass_is_inherited():
    class Base(metaclass=_Told):
        pass

    class Child(Base, flag=True):
        y = 1

    return type(Child) is _Told, isinstance(Child, _Told)


def prepare_may_return_its_own_mapping():
    class Recording(dict):
        def __init__(self):
            self.order = []

        def __setitem__(self, key, value):
            if not key.startswith("__"):
                self.order.append(key)
            super().__setitem__(key, value)

        def __missing__(self, key):
            if key.startswith("auto_"):
                return f"made {key}"
            raise KeyError(key)

    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases):
            return Recording()

        def __new__(meta, name, bases, namespace):
            cls = super().__new__(meta, name, bases, dict(namespace))
            cls.order = namespace.order
            return cls

    class C(metaclass=Meta):
        b = 1
        a = 2
        b = 3
        c = auto_value

        def method(self): ...

    return C.order, C.c, C.b


def prepare_that_returns_no_mapping():
    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases):
            return 5

    class C(metaclass=Meta):
        pass


def a_class_body_with_its_own_lookup_reads_enclosing_variables():
    class Defaults(dict):
        def __missing__(self, key):
            print("looked up", key)
            raise KeyError(key)

    class Meta(type):
        __prepare__ = classmethod(lambda meta, name, bases: Defaults())

        def __new__(meta, name, bases, namespace):
            return super().__new__(meta, name, bases, dict(namespace))

    outside = "enclosing"

    class C(metaclass=Meta):
        got = outside
        builtin = len([1, 2])

    return C.got, C.builtin


def a_namespace_that_overrides_enclosing_variables():
    class Meta(type):
        __prepare__ = classmethod(lambda meta, name, bases: {"outside": "from the namespace"})

    outside = "enclosing"

    class C(metaclass=Meta):
        got = outside

        def method(self):
            return outside

    return C.got, C().method()


def a_metaclass_can_be_a_function():
    def meta(name, bases, namespace, **kwargs):
        return name, bases, [k for k in namespace if not k.startswith("__")], kwargs

    class C(metaclass=meta, k=1):
        x = 1

        def f(self): ...

    return C


def metaclass_conflict():
    class M1(type):
        pass

    class M2(type):
        pass

    class A(metaclass=M1):
        pass

    class B(metaclass=M2):
        pass

    class C(A, B):
        pass


def the_most_derived_metaclass_wins():
    class M1(type):
        pass

    class M2(M1):
        pass

    class A(metaclass=M1):
        pass

    class B(metaclass=M2):
        pass

    class C(A, B):
        pass

    class D(A, metaclass=M2):
        pass

    return type(C).__name__, type(D).__name__


def set_name_and_init_subclass_run_in_order():
    class Named:
        def __set_name__(self, owner, name):
            print("set_name", name, owner.__name__)

    class Base:
        def __init_subclass__(cls, **kwargs):
            print("init_subclass", cls.__name__, kwargs)

    class Meta(type):
        def __new__(meta, name, bases, namespace, **kwargs):
            print("before type.__new__")
            cls = super().__new__(meta, name, bases, namespace, **kwargs)
            print("after type.__new__")
            return cls

        def __init__(cls, name, bases, namespace, **kwargs):
            print("init")
            super().__init__(name, bases, namespace)

    class C(Base, metaclass=Meta, z=1):
        a = Named()
        b = Named()

    return C.__name__


def an_error_in_set_name():
    class Bad:
        def __set_name__(self, owner, name):
            raise ValueError(f"not as {name}")

    class C:
        field = Bad()


def metaclass_methods_are_class_methods_but_not_instance_methods():
    class Meta(type):
        def size(cls):
            return len(cls.__name__)

        def __len__(cls):
            return 7

        def __iter__(cls):
            return iter(["a", "b"])

        def __contains__(cls, item):
            return item == "z"

        def __getitem__(cls, item):
            return item * 2

        def __add__(cls, other):
            return f"{cls.__name__}+{other.__name__}"

        def __repr__(cls):
            return f"<{cls.__name__}>"

    class C(metaclass=Meta):
        pass

    return (
        C.size(),
        len(C),
        list(C),
        "z" in C,
        C[4],
        C + int,
        repr(C),
        error_of(lambda: C().size()),
        error_of(lambda: len(C())),
    )


def a_metaclass_call_can_make_singletons():
    class Singleton(type):
        def __init__(cls, *args):
            super().__init__(*args)
            cls.instances = {}

        def __call__(cls, *args):
            if args not in cls.instances:
                cls.instances[args] = super().__call__(*args)
            return cls.instances[args]

    class Color(metaclass=Singleton):
        def __init__(self, name):
            print("created", name)
            self.name = name

    return (
        Color("red") is Color("red"),
        Color("red") is Color("blue"),
        sorted(c.name for c in Color.instances.values()),
    )


def a_metaclass_forgetting_the_class_cell():
    class Meta(type):
        def __new__(meta, name, bases, namespace):
            namespace.pop("__classcell__", None)
            return super().__new__(meta, name, bases, namespace)

    class C(metaclass=Meta):
        def f(self):
            return super().f


def an_interface_checker():
    class InterfaceError(TypeError):
        pass

    class Interface(type):
        def __new__(meta, name, bases, namespace, abstract=False):
            cls = super().__new__(meta, name, bases, namespace)
            required = {m for b in cls.__mro__[1:] for m in getattr(b, "__required__", ())}
            missing = sorted(m for m in required if not callable(getattr(cls, m, None)))
            if missing and not abstract:
                raise InterfaceError(f"{name} misses {', '.join(missing)}")
            return cls

        def __init__(cls, name, bases, namespace, **kwargs):
            super().__init__(name, bases, namespace)

    class Storage(metaclass=Interface, abstract=True):
        __required__ = "load", "save"

    def incomplete():
        class Half(Storage):
            def load(self): ...

    class Full(Storage):
        def load(self):
            return "loaded"

        save = print

    return error_of(incomplete), Full().load()


def a_small_object_relational_mapper():
    class Column:
        counter = 0

        def __init__(self, kind):
            self.kind = kind
            Column.counter += 1
            self.position = Column.counter

    class Table(type):
        def __new__(meta, name, bases, namespace):
            columns = {k: v for k, v in namespace.items() if isinstance(v, Column)}
            for base in bases:
                columns = {**getattr(base, "columns", {}), **columns}
            kept = {k: v for k, v in namespace.items() if k not in columns}
            return super().__new__(meta, name, bases, {**kept, "columns": columns, "rows": []})

        def __len__(cls):
            return len(cls.rows)

        def where(cls, **conditions):
            return [r for r in cls.rows if all(getattr(r, k) == v for k, v in conditions.items())]

    class Record(metaclass=Table):
        def __init__(self, *values):
            for (name, column), value in zip(self.columns.items(), values, strict=True):
                setattr(self, name, column.kind(value))
            type(self).rows.append(self)

        def __repr__(self):
            fields = ", ".join(f"{k}={getattr(self, k)!r}" for k in self.columns)
            return f"{type(self).__name__}({fields})"

    class Person(Record):
        name = Column(str)
        age = Column(int)

    class Staff(Person):
        salary = Column(float)

    Person("Ann", "30")
    Person("Bob", 25)
    Staff("Cyd", 30, "12.5")
    return [
        len(Person),
        len(Staff),
        repr(Person.where(age=30)),
        repr(Staff.rows),
        list(Staff.columns),
        error_of(lambda: Person("x")),
    ]


def enumerating_subclasses():
    class Base:
        pass

    class A(Base):
        pass

    class B(Base):
        pass

    class C(A):
        pass

    def tree(cls):
        return {cls.__name__: [tree(s) for s in cls.__subclasses__()]}

    return tree(Base)
