"""Attribute access: descriptors, properties, and the hooks that replace lookup."""

from programs import error_of


class _Logged:
    """A data descriptor that tells what is done with it."""

    def __set_name__(self, owner, name):
        print("set_name", owner.__name__, name)
        self.name = name

    def __get__(self, instance, owner=None):
        print("get", self.name, instance is None, owner.__name__)
        return self if instance is None else instance.__dict__.get(self.name, "default")

    def __set__(self, instance, value):
        print("set", self.name, value)
        instance.__dict__[self.name] = value

    def __delete__(self, instance):
        print("delete", self.name)
        del instance.__dict__[self.name]


def a_data_descriptor_in_its_whole_life():
    class C:
        field = _Logged()

    c = C()
    first = c.field
    c.field = 5
    second = c.field
    c.field += 1
    del c.field
    return first, second, c.field, C.field is vars(C)["field"], error_of(lambda: delattr(c, "field"))


def a_data_descriptor_wins_over_the_instance_dict():
    class Data:
        def __get__(self, instance, owner):
            return "descriptor"

        def __set__(self, instance, value):
            raise AttributeError("read only")

    class NonData:
        def __get__(self, instance, owner):
            return "descriptor"

    class C:
        data, non_data = Data(), NonData()

    c = C()
    c.__dict__.update(data="instance", non_data="instance")
    return c.data, c.non_data, error_of(lambda: setattr(c, "data", 1))


def properties_with_getter_setter_deleter():
    class Temperature:
        def __init__(self, celsius):
            self.celsius = celsius

        @property
        def celsius(self):
            """In degrees."""
            return self._celsius

        @celsius.setter
        def celsius(self, value):
            if value < -273:
                raise ValueError("below absolute zero")
            self._celsius = value

        @celsius.deleter
        def celsius(self):
            print("deleted")
            del self._celsius

        fahrenheit = property(lambda self: self.celsius * 1.8 + 32)

    t = Temperature(100)
    t.celsius -= 50
    results = [
        t.celsius,
        t.fahrenheit,
        Temperature.celsius.__doc__,
        error_of(lambda: setattr(t, "celsius", -300)),
    ]
    del t.celsius
    return results + [error_of(lambda: t.celsius), error_of(lambda: setattr(t, "fahrenheit", 1))]


def a_property_error_names_the_property_and_class():
    class C:
        @property
        def p(self):
            return 1

    c = C()
    return error_of(lambda: setattr(c, "p", 2)), error_of(lambda: delattr(c, "p"))


def setting_a_read_only_property_leaves_the_program():
    class C:
        @property
        def size(self):
            return 1

    C().size = 5


def getattr_is_called_only_for_missing_names():
    class C:
        here = "class"

        def __init__(self):
            self.mine = "instance"

        def __getattr__(self, name):
            print("getattr", name)
            if name.startswith("x"):
                return name.upper()
            raise AttributeError(f"no {name}", name=name, obj=self)

    c = C()
    return c.here, c.mine, c.xyz, getattr(c, "abc", "fallback"), hasattr(c, "q"), error_of(lambda: c.nope)


def getattribute_is_called_for_every_name():
    class C:
        x = 1

        def __getattribute__(self, name):
            print("getattribute", name)
            if name == "secret":
                raise AttributeError("hidden")
            return super().__getattribute__(name)

        def __getattr__(self, name):
            return f"getattr for {name}"

        def method(self):
            return self.x

    c = C()
    return c.x, c.method(), c.secret, c.missing


def setattr_and_delattr_hooks():
    class Guarded:
        def __setattr__(self, name, value):
            print("setattr", name, value)
            if name.startswith("_"):
                raise AttributeError(f"{name} is private")
            object.__setattr__(self, name, value)

        def __delattr__(self, name):
            print("delattr", name)
            super().__delattr__(name)

    g = Guarded()
    g.a = 1
    g.a += 1
    del g.a
    return vars(g), error_of(lambda: setattr(g, "_x", 1)), error_of(lambda: delattr(g, "a"))


def an_attribute_error_in_a_property_falls_to_getattr():
    class C:
        @property
        def broken(self):
            return self.nonexistent

        def __getattr__(self, name):
            return f"<{name}>"

    return C().broken


def another_error_in_a_property_is_not_swallowed():
    class C:
        @property
        def broken(self):
            raise KeyError("inside")

        def __getattr__(self, name):
            return "never"

    c = C()
    return (
        error_of(lambda: c.broken),
        error_of(lambda: hasattr(c, "broken")),
        error_of(lambda: getattr(c, "broken", 1)),
    )


def missing_attributes_are_named_in_the_error():
    class C:
        pass

    def f(): ...

    return [
        error_of(call)
        for call in (
            lambda: C().x,
            lambda: C.x,
            lambda: f.x,
            lambda: (1).x,
            lambda: None.x,
            lambda: [].x,
            lambda: "".x,
            lambda: setattr(1, "x", 2),
            lambda: setattr(object(), "x", 2),
            lambda: delattr(C(), "x"),
            lambda: setattr(int, "x", 2),
            lambda: super(C, C()).x,
            lambda: error_of.__globals__["error_of"].y,
        )
    ]


def an_attribute_error_carries_name_and_object():
    class C:
        pass

    c = C()
    try:
        c.missing
    except AttributeError as e:
        return e.name, e.obj is c, str(e)


def classes_can_be_descriptors_owners_through_inheritance():
    class Upper:
        def __set_name__(self, owner, name):
            self.key = "_" + name

        def __get__(self, instance, owner):
            return getattr(instance, self.key).upper()

        def __set__(self, instance, value):
            setattr(instance, self.key, value)

    class Base:
        name = Upper()

    class Child(Base):
        def __init__(self, name):
            self.name = name

    return Child("ann").name, vars(Child("bob"))


def a_lazy_attribute_replaces_itself():
    class lazy:
        def __init__(self, f):
            self.f = f

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, instance, owner):
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.f(instance)
            return value

    class C:
        @lazy
        def answer(self):
            print("computing")
            return 42

    c = C()
    return c.answer, c.answer, vars(c)


def class_and_static_methods_are_descriptors():
    class C:
        @classmethod
        def c(cls):
            return cls.__name__

        @staticmethod
        def s():
            return "static"

    class D(C):
        pass

    return [
        D.c(), D().c(), C.s(), C().s(), vars(C)["c"].__get__(None, D)(), vars(C)["s"].__func__(),
        type(vars(C)["c"]).__name__, C.c.__self__ is C, C.c == C.c,
    ]  # fmt: skip


def functions_are_descriptors():
    class C:
        def m(self):
            return "m"

    c = C()
    return C.m.__get__(c, C)() == c.m(), vars(C)["m"].__get__(None, C) is C.m, C.__dict__["m"](c)


def descriptors_on_a_metaclass_serve_the_class():
    class Meta(type):
        @property
        def label(cls):
            return f"class {cls.__name__}"

        def __getattr__(cls, name):
            return f"{cls.__name__}.{name} made up"

    class C(metaclass=Meta):
        pass

    return C.label, C.other, error_of(lambda: C().label)


def getattr_setattr_hasattr_with_computed_names():
    class C:
        pass

    c = C()
    for name in ("a", "b"):
        setattr(c, name + "1", name * 2)
    return (
        getattr(c, "a1"),
        getattr(c, "zz", None),
        hasattr(c, "b1"),
        vars(c),
        error_of(lambda: getattr(c, 5)),
    )


def special_methods_are_looked_up_on_the_type():
    class C:
        def __len__(self):
            return 1

    c = C()
    c.__len__ = lambda: 99
    c.__call__ = lambda: "instance call"
    return len(c), c.__len__(), error_of(lambda: c())


def dir_can_be_customised():
    class C:
        def __dir__(self):
            return ["b", "a"]

    class D:
        x = 1

        def __init__(self):
            self.y = 2

    return dir(C()), [n for n in dir(D()) if not n.startswith("_")]


def the_dict_of_an_instance_is_live():
    class C:
        pass

    c = C()
    d = c.__dict__
    c.x = 1
    d["y"] = 2
    seen = c.y
    c.__dict__ = {"z": 3}
    return seen, d, c.z, hasattr(c, "x"), error_of(lambda: setattr(c, "__dict__", 5))


def a_typed_field_framework():
    class Field:
        def __init__(self, kind, default=None, check=None):
            self.kind, self.default, self.check = kind, default, check

        def __set_name__(self, owner, name):
            self.name = name
            owner.fields = {**getattr(owner, "fields", {}), name: self}

        def __get__(self, instance, owner):
            return self if instance is None else instance.__dict__.get(self.name, self.default)

        def __set__(self, instance, value):
            if not isinstance(value, self.kind):
                raise TypeError(f"{self.name} is {self.kind.__name__}, not {type(value).__name__}")
            if self.check and not self.check(value):
                raise ValueError(f"{value!r} is no {self.name}")
            instance.__dict__[self.name] = value

    class Model:
        def __init__(self, **values):
            for name, value in values.items():
                if name not in type(self).fields:
                    raise AttributeError(f"{type(self).__name__} has no field {name}")
                setattr(self, name, value)

        def as_dict(self):
            return {name: getattr(self, name) for name in type(self).fields}

    class Person(Model):
        name = Field(str)
        age = Field(int, 0, lambda n: n >= 0)

    class Employee(Person):
        salary = Field(float, 1.5)

    return [
        Person(name="Ann", age=3).as_dict(),
        Employee(name="Bob").as_dict(),
        error_of(lambda: Person(age="3")),
        error_of(lambda: Person(age=-3)),
        error_of(lambda: Person(salary=1.0)),
        list(Employee.fields),
    ]


def a_proxy_forwards_and_records():
    class Proxy:
        def __init__(self, target):
            object.__setattr__(self, "_target", target)
            object.__setattr__(self, "_log", [])

        def __getattr__(self, name):
            self._log.append(f"get {name}")
            value = getattr(self._target, name)
            if callable(value):

                def call(*args, **kwargs):
                    self._log.append(f"call {name}{args}")
                    return value(*args, **kwargs)

                return call
            return value

        def __setattr__(self, name, value):
            self._log.append(f"set {name}")
            setattr(self._target, name, value)

    class Thing:
        size = 1

        def grow(self, by):
            self.size += by
            return self.size

    p = Proxy(Thing())
    p.grow(4)
    p.size = 10
    return p.size, p.grow(1), p._log, error_of(lambda: p.shrink)
