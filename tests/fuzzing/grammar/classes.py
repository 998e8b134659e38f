"""Python's data model: descriptors, metaclasses, special methods, slots, changed classes and functions."""

from __future__ import annotations

from .area import catalogue, table
from .language import LANGUAGE

HEADER = """
import abc, collections, dataclasses, enum, itertools, operator, types

class Meta(type):
    def __call__(cls, *args, **kwargs):
        LOG.append(('made', cls.__name__))
        return super().__call__(*args, **kwargs)

    def __contains__(cls, item):
        return item == cls.level

    @property
    def title(cls):
        return cls.__name__.lower()

class Field:
    def __init__(self, default):
        self.default = default
    def __set_name__(self, owner, name):
        self.name = '_' + name
    def __get__(self, obj, cls=None):
        if obj is None:
            return self
        return obj.__dict__.get(self.name, self.default)
    def __set__(self, obj, value):
        LOG.append(('set', self.name))
        obj.__dict__[self.name] = value

class Base(metaclass=Meta):
    level = 1
    shared = []
    field = Field(0.5)
    def __init__(self, value=None):
        self.value = torch.ones(3) if value is None else value
    def __init_subclass__(cls, **options):
        super().__init_subclass__()
        cls.options = options
    def __add__(self, other):
        return self.value + (other.value if isinstance(other, Base) else other)
    def __radd__(self, other):
        return other - self.value
    def __iadd__(self, other):
        self.value = self.value + other
        return self
    def __bool__(self):
        return self.level > 0
    def __len__(self):
        return self.level + 2
    def __contains__(self, item):
        return item == self.level
    def __eq__(self, other):
        return isinstance(other, Base) and self.level == other.level
    def __hash__(self):
        return self.level
    def __getattr__(self, name):
        if name.startswith('auto'):
            return len(name)
        raise AttributeError(name)
    def __format__(self, spec):
        return f'<{self.level}{spec}>'
    def __matmul__(self, other):
        return self.value * other
    def __neg__(self):
        return -self.value
    def __index__(self):
        return self.level
    def __float__(self):
        return self.level * 0.5
    def run(self, x):
        return x * self.level
    @classmethod
    def build(cls, x):
        return cls(x)
    @staticmethod
    def helper(x):
        return x * 0.5
    @property
    def size(self):
        return self.level * 2
    @functools.cached_property
    def cached(self):
        LOG.append('cached')
        return self.value * 2
    def each(self):
        for n in range(self.level + 1):
            yield self.value * n

class Child(Base, kind='child'):
    level = 2
    def run(self, x):
        return super().run(x) + 1
    def __setattr__(self, name, value):
        if name == 'watched':
            LOG.append('watched')
        super().__setattr__(name, value)

class Mixin:
    def run(self, x):
        return super().run(x) - 0.5

class Both(Mixin, Child):
    pass

class Counted:
    count = 0
    def __init__(self):
        type(self).count += 1

def outer(k):
    def inside(x, by=k):
        return x * by + k
    return inside

def triple(self, x):
    return x * 3

def options(x, /, y=1, *rest, z=2, **more):
    return x * y + z + len(rest) + len(more)

base, child, both = Base(), Child(), Both()
made = outer(2)
space = types.SimpleNamespace(a=torch.ones(3), b=2)
registry = {'run': base.run, 'made': made, 'op': operator.add}
"""
EXPRESSIONS = {
    "T": table("""
        2*  child.run(<T>)
        both.run(<T>)
        base + <T>
        <T> + base
        base + child
        base @ <T>
        -child
        Base.build(<T>).value
        Child.helper(<T>)
        made(<T>)
        made(<T>, by=<F>)
        outer(<I>)(<T>)
        base.cached
        child.value
        space.a * <T>
        registry['run'](<T>)
        registry['op'](<T>, <T>)
        options(<T>, <I>, z=<F>)
        options(<T>, *<n>[:2], k=1, **{'m': 2})
        sum(child.each())
        functools.reduce(operator.add, both.each())
        next(base.each()) + <T>
        type(child)(<T>).value
        Base.run(child, <T>)
        getattr(child, 'run')(<T>)
        operator.methodcaller('run', <T>)(child)
        operator.attrgetter('value')(base)
        (lambda self: self.value)(base)
        list(itertools.chain(base.each(), [<T>]))[-1]
        list(itertools.accumulate([<T>, <T>]))[1]
        [*itertools.islice(child.each(), 2)][1]
        dict(zip('ab', [<T>, <T>]))['b']
        super(Child, child).run(<T>)
    """),
    "I": table("""
        base.level
        child.size
        len(child)
        Base.level
        Counted.count
        base.autox
        operator.index(child)
        len(Base.shared)
        len(Child.__mro__)
        Counted().count
        len(vars(child))
        len(dir(space)) % 5
        space.b
        child.level.__add__(1)
        sum(x for x in itertools.repeat(<I>, 2))
        len(inspect_names(child)) % 5
    """),
    "F": ["child.field", "float(base)", "Base.field.default", "base.field * 0.5"],
    "B": table("""
        bool(base)
        <I> in child
        <I> in Base
        base == child
        hasattr(base, 'nothing')
        hasattr(child, 'autoz')
        isinstance(both, Base)
        issubclass(Both, Mixin)
        type(child) is Child
        'run' in vars(child)
        callable(base.run)
        base.run == base.run
        base.run is base.run
        Child.options == {'kind': 'child'}
        {base: 1}.get(child) == 1
        all(isinstance(x, Base) for x in (base, child))
    """),
    "S": ['f"{base:x}"', "Base.title", "type(both).__name__", "child.run.__name__", "Child.__qualname__"],
    "O": ["<o>"],
}
STATEMENTS = """
## 4 assignment
<+T> = <T>
## 2 log
LOG.append(<I>)
## log a truth
LOG.append(<B>)
## log a text
LOG.append(<S>)
## field
child.field = <F>
## watched
child.watched = <I>
## in place
base += <T>
## attribute
base.level = <I>
## class attribute
Base.level = <I> % 4
## shared
Base.shared.append(<I>)
## instance method
child.run = made
## instance method gone
vars(child).pop('run', None)
## missing
try:
    base.nothing
except AttributeError as <+E1>:
    LOG.append(<e1>.args)
## class made
<+X1> = type('Made', (Child,), {'level': <I>})
LOG.append(<x1>().level)
## local class
class Inner(Base):
    level = <I>
    def run(self, value):
        return super().run(value) * 2
<+T> = Inner().run(<T>)
## dataclass made
<+X1> = dataclasses.make_dataclass('P', ['a', 'b'])(<T>, <I>)
LOG.append(<x1>.b)
## namespace
space.b = <I>
## namespace attribute
space.c = <T>
## delete
space.__dict__.pop('c', None)
## cached gone
vars(base).pop('cached', None)
## function attribute
made.note = <I>
LOG.append(made.note)
## nonlocal
<+G> = outer(<I>)
## counted
Counted()
## note
note(<I>)
## registry
registry['made'] = outer(<I>)
## wrong call
try:
    options()
except TypeError as <+E1>:
    LOG.append(<e1>.args)
## generator kept
<+J1> = child.each()
LOG.append(next(<j1>))
<j1>.close()
## branch
if <B>:
    ...
"""
EDITS = """
## level
Base.level = 3
## child's level
child.level = 0
## method
Child.run = triple
## method of the base
Base.run = triple
## method gone
if 'run' in vars(Child): del Child.run
## property
Base.size = property(lambda self: 7)
## static
Child.helper = staticmethod(lambda x: x - 1)
## bases
Both.__bases__ = (Child,)
## class of an object
base.__class__ = Child
## defaults
made.__defaults__ = (5,)
## code
made.__code__ = outer(1).__code__
## cell
made.__closure__[0].cell_contents = 4
## keyword defaults
options.__kwdefaults__ = {'z': 4}
## getattr
Base.__getattr__ = lambda self, name: 9
## truth
Base.__bool__ = lambda self: False
## addition
Base.__add__ = lambda self, other: self.value * 2
## field's default
vars(Base)['field'].default = 1.5
## field gone
Base.field = 2.5
## another object
child = Child()
## namespace
space = types.SimpleNamespace(a=torch.zeros(3), b=5)
## registry
registry['op'] = operator.sub
## counted
Counted.count = 0
## a function of a module
functools.reduce = functools.reduce
## slot
vars(child)['extra'] = 1
## added to the class
Child.extra = 3
"""
CLASSES = LANGUAGE.extended(
    "classes",
    header=HEADER
    + """
def inspect_names(obj):
    return [name for name in dir(obj) if not name.startswith('_')]
""",
    statements=catalogue(STATEMENTS),
    expressions=EXPRESSIONS,
    edits=catalogue(EDITS),
    globals=(*LANGUAGE.globals, "base", "child", "space"),
    options=[{"calls": 4}, {"calls": 4}, {"calls": 4, "fullgraph": True}],
)
