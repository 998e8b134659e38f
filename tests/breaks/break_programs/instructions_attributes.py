"""Breaks at loads, stores and deletions of attributes and items."""

import collections
import types

import torch

from break_programs import RECORDS, Box, Slim, case, halt, program

# Attributes


class _Watched:
    """Each way to get at an attribute calls `stop`."""

    def __init__(self, stop):
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "kept", {})

    def __getattr__(self, name):
        self.stop(1)
        try:
            return self.kept[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self.kept[name] = self.stop(value)

    def __delattr__(self, name):
        self.stop(2)
        del self.kept[name]


@program
def property_that_breaks(stop):
    class Thing:
        def __init__(self):
            self.reads = 0

        @property
        def value(self):
            self.reads += 1
            return stop(torch.full((3,), float(self.reads)))

    def f(x, t):
        y = x * 2
        z = y + t.value
        return z * t.value, t.reads

    return f, Thing()


@program
def property_setter_and_deleter_that_break(stop):
    class Thing:
        log = ()

        @property
        def value(self):
            return self._value

        @value.setter
        def value(self, v):
            self._value = stop(v * 2)

        @value.deleter
        def value(self):
            stop(0)
            del self._value

    def f(x, t):
        t.value = x + 1
        y = t.value * 2
        del t.value
        return y, hasattr(t, "value")

    return f, Thing()


@program
def getattr_method_that_breaks(stop):
    def f(x, w):
        w.kept["a"] = x * 2
        y = w.a + 1
        z = getattr(w, "missing", y)
        return y, z is y, hasattr(w, "a")

    return f, _Watched(stop)


@program
def setattr_method_that_breaks(stop):
    def f(x, w):
        w.a = x * 2
        w.b = w.kept["a"] + 1
        w.a, w.b = w.b, w.a
        return w.kept["a"] - x

    return f, _Watched(stop)


@program
def delattr_method_that_breaks(stop):
    def f(x, w):
        w.kept["a"] = x * 2
        y = w.kept["a"] + 1
        del w.a
        return y - x, list(w.kept)

    return f, _Watched(stop)


@program
def getattribute_method_that_breaks(stop):
    class Thing:
        def __init__(self, v):
            self.v = v

        def __getattribute__(self, name):
            if name != "v":
                return object.__getattribute__(self, name)
            return stop(object.__getattribute__(self, name)) + 1

    def f(x):
        t = Thing(x * 2)
        return t.v * t.v

    return f


@program
def attribute_in_place_addition(stop):
    def f(x, box):
        box.total += stop(x * 2)
        box.total += 1
        box.items += [stop(x)]
        return box.total * 2

    return f, Box(total=torch.zeros(3), items=[])


@program
def attribute_in_place_through_a_property(stop):
    class Thing:
        def __init__(self):
            self.raw = torch.zeros(3)

        @property
        def value(self):
            return stop(self.raw)

        @value.setter
        def value(self, v):
            self.raw = stop(v)

    def f(x, t):
        y = x * 2
        t.value += y
        t.value *= 2
        return t.raw + y

    return f, Thing()


@program
def data_descriptor_that_breaks(stop):
    class Field:
        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, obj, owner=None):
            return self if obj is None else stop(obj.__dict__[self.name]) * 2

        def __set__(self, obj, value):
            obj.__dict__[self.name] = stop(value) + 1

        def __delete__(self, obj):
            stop(0)
            del obj.__dict__[self.name]

    class Thing:
        value = Field()

    def f(x):
        t = Thing()
        t.value = x * 2
        y = t.value
        t.value = y
        z = t.value - y
        del t.value
        return z, vars(t)

    return f


@program
def plain_descriptor_makes_a_method(stop):
    class Method:
        def __init__(self, fn):
            self.fn = fn

        def __get__(self, obj, owner=None):
            stop(1)
            return types.MethodType(self.fn, obj)

    class Thing:
        scale = 3

        @Method
        def go(self, v):
            return v * self.scale

    def f(x):
        t = Thing()
        y = t.go(x + 1)
        return t.go(y)

    return f


@program
def slots_around_a_break(stop):
    def f(x, s):
        s.a = x * 2
        stop(s.a)
        s.b = s.a + 1
        del s.a
        stop(s.b)
        return s.b - 1, hasattr(s, "a")

    return f, Slim(log=[])


@program
def slot_that_is_missing_raises_after_the_break(stop):
    def f(x, s):
        y = x * 2
        stop(y)
        try:
            return s.a
        except AttributeError as error:
            s.b = y
            return str(error), y + 1

    return f, Slim()


@program
def attributes_of_the_tensor(stop):
    def f(x):
        y = x * 2
        y.note = "made"
        stop(y)
        z = y + 1
        z.parent = y
        stop(z)
        return z, z.parent.note, z.parent is y

    return f


@program
def attribute_of_a_tensor_argument(stop):
    def f(x):
        x.seen = getattr(x, "seen", 0) + 1
        y = x * x.seen
        stop(y)
        x.last = y
        return y + 1

    (x,) = (torch.ones(3),)
    return case(f, inputs=[x, x, x])


@program
def attribute_of_the_function_itself(stop):
    def f(x):
        f.calls = getattr(f, "calls", 0) + 1
        y = x * f.calls
        stop(y)
        f.last = y
        return y + f.calls

    return f


@program
def attributes_of_the_class():
    def f(x):
        _Counted.calls += 1
        y = x * _Counted.calls
        halt(y)
        _Counted.last = y.shape
        setattr(_Counted, f"call{_Counted.calls}", 1)
        return y + 1, _Counted().calls

    return case(f, watched=[_Counted])


class _Counted:
    calls = 0


@program
def attributes_of_a_module(stop):
    def f(x, m):
        m.calls += 1
        y = x * m.calls
        stop(y)
        m.last = y
        stop(m.last)
        del m.spare
        m.spare = m.last + 1
        return m.spare * 2

    module = types.ModuleType("scratch")
    module.calls, module.spare = 0, None
    return f, module


@program
def cached_attribute(stop):
    from functools import cached_property

    class Thing:
        def __init__(self):
            self.computed = 0

        @cached_property
        def weight(self):
            self.computed += 1
            return stop(torch.ones(3) * self.computed)

    def f(x, t):
        y = x * 2 + t.weight
        return y * t.weight, t.computed

    return f, Thing()


@program
def deep_attribute_chain(stop):
    def f(x, root):
        root.a.b.c = x * 2
        stop(root.a)
        root.a.b.c = root.a.b.c + 1
        root.a, root.old = Box(b=root.a.b), root.a
        return root.a.b is root.old.b, root.a.b.c * 2

    return f, Box(a=Box(b=Box(c=None)), old=None)


@program
def private_names_are_mangled(stop):
    class Thing:
        def __init__(self):
            self.__hidden = 1

        def go(self, x):
            self.__hidden += 1
            __local = x * self.__hidden
            stop(__local)
            return __local + self.__hidden

    def f(x, t):
        return t.go(x) + 1

    return f, Thing()


@program
def dictionary_of_the_instance(stop):
    def f(x, box):
        box.__dict__["a"] = x * 2
        stop(x)
        vars(box)["b"] = box.a + 1
        stop(x)
        box.__dict__.update(c=box.b, a=None)
        return sorted(vars(box)), box.c - 1

    return f, Box()


# Items


class _Shelf:
    """Each way to get at an item calls `stop`."""

    def __init__(self, stop, **kept):
        self.stop, self.kept = stop, kept

    def __getitem__(self, key):
        self.stop(1)
        return self.kept[str(key)]

    def __setitem__(self, key, value):
        self.kept[str(key)] = self.stop(value)

    def __delitem__(self, key):
        self.stop(2)
        del self.kept[str(key)]

    def __contains__(self, key):
        return bool(self.stop(key)) and str(key) in self.kept

    def __len__(self):
        return self.stop(len(self.kept))

    def __bool__(self):
        return self.stop(True)


@program
def getitem_method_that_breaks(stop):
    def f(x, s):
        s.kept["a"] = x * 2
        return s["a"] + s["a"] * 2, x - 1

    return f, _Shelf(stop)


@program
def setitem_and_delitem_methods_that_break(stop):
    def f(x, s):
        s["a"] = x * 2
        s["b"] = y = x + 1
        del s["a"]
        s[1:2] = y * 2
        return list(s.kept), y

    return f, _Shelf(stop)


@program
def item_in_place_addition(stop):
    def f(x, s):
        y = x * 2
        s["n"] += y
        s["n"] *= 2
        s[stop("n")] -= stop(y)
        return s.kept["n"] + y

    return f, _Shelf(stop, n=torch.zeros(3))


@program
def key_is_computed_with_a_break(stop):
    def f(x, table):
        y = x * 2
        table[stop("a")] = y
        table[stop("b")] = table[stop("a")] + 1
        del table[stop("a")]
        return table["b"] * 2, list(table)

    return f, {}


@program
def index_is_a_data_dependent_number():
    def f(x, items):
        y = x * 2
        n = int(y.argmax())
        items[n] += y
        z = items[n] + y[n]
        items[n - 1 :] = [z]
        return z, y[: n + 1] * 2

    return f, [1.0, 2.0, 3.0]


@program
def slices_with_breaking_ends(stop):
    def f(x, items):
        y = x * 2
        items[stop(1) : stop(2)] = [y, y + 1]
        del items[stop(0) :: stop(3)]
        return items[: stop(2)], y[stop(0) : stop(2)] + 1

    return f, [1, 2, 3, 4]


@program
def slices_of_slices_of_tensors(stop):
    def f(x):
        m = torch.outer(x, x)
        m[stop(0), 1:] = 5.0
        m[1:, stop(1)] += 1
        return m[stop(slice(0, 2)), stop(1) :] * 2, m[..., stop(-1)]

    return f


@program
def contains_method_that_breaks(stop):
    def f(x, s):
        y = x * 2
        s.kept["1"] = y
        found = [1 in s, 2 not in s, 3 in s]
        return y + 1 if 1 in s else y - 1, found

    return f, _Shelf(stop)


@program
def length_and_truth_that_break(stop):
    def f(x, s):
        y = x * 2
        n = len(s)
        if not s:
            return y
        while s and n < 3:
            n += 1
            y = y + n
        return y if s else x

    return f, _Shelf(stop, a=1)


@program
def missing_method_that_breaks(stop):
    class Grows(dict):
        def __missing__(self, key):
            self[key] = stop(len(self))
            return self[key]

    def f(x):
        table = Grows(a=7)
        y = x * table["b"]
        z = y + table["b"] + table["c"] + table["a"]
        return z, dict(table)

    return f


@program
def boolean_mask_is_stored_to():
    def f(x):
        y = x * 2
        y[y > 0] = 0.5
        z = y + 1
        z[torch.nonzero(z < 1).squeeze(1)] *= 3
        return z, y

    return f


@program
def boolean_mask_is_loaded():
    def f(x):
        y = x * 2
        kept = y[y > 0]
        return kept.shape, kept.sum() + 1, torch.unique(y.sign()) * 2

    return f


@program
def identity_after_a_break(stop):
    def f(x, log):
        y = x * 2
        z = stop(y)
        log += [y, z]
        return z is y, log[0] is log[1], y is not x, stop(None) is None, x is stop(x)

    return f, []


@program
def deletions_of_names(stop):
    def f(x):
        y, z = x * 2, x + 1
        del y
        stop(z)
        y = z * 3
        del z, x
        stop(y)
        try:
            return z
        except UnboundLocalError as error:
            return str(error), y

    return f


@program
def store_to_several_targets(stop):
    def f(x, box, items, table):
        box.a = items[0] = table["k"] = n = stop(x * 2)
        box.a, items[1], *table["rest"] = (n, stop(n + 1), 1, 2)
        return box.a is items[0], items[1] - 1

    return f, Box(), [0, 0], {}


@program
def target_order_is_kept(stop):
    def at(where, target):
        RECORDS.append(where)
        stop(0)
        return target

    def f(x, box, items):
        y = x * 2
        at("first", items)[at("index", 0)], at("second", box).value = stop(y), y + 1
        at("third", box).value += at("value", 1)
        return items[0] + box.value

    return f, Box(), [None]


@program
def objects_that_say_of_what_class_they_are(stop):
    class Proxy:
        def __init__(self, log):
            self.log = log

        @property
        def __class__(self):
            self.log.append("asked")
            return dict

    def f(x, log):
        y = x * 2
        proxy = Proxy(log)
        kept = [proxy, proxy.log]
        stop(y)
        kept.append(proxy.__class__)
        return y + len(log), [type(item).__name__ for item in kept], isinstance(proxy, dict), log

    return f, []


@program
def descriptors_of_a_class_are_written_to(stop):
    def f(x):
        Point = collections.namedtuple("Point", "x y")
        stop(x)
        before = Point.x.__doc__
        Point.x.__doc__ = "across"
        y = x + 1
        return before, Point.x.__doc__, y, Point(y, 2).x

    return f
