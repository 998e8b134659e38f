"""Breaks in methods and modules that the function under test calls."""

import torch
from torch import nn

from break_programs import RECORDS, case, matrices, program, values

# Methods


@program
def methods_three_deep(stop):
    class Thing:
        def __init__(self):
            self.log, self.count = [], 0

        def a(self, v):
            self.count += 1
            return self.b(v * 2) + self.count

        def b(self, v):
            self.log.append(v)
            return self.c(v) - self.count

        def c(self, v):
            self.count += 10
            stop(v)
            self.count += 100
            return v * self.count

    def f(x, t):
        return t.a(x) + t.b(x)

    return f, Thing()


@program
def class_and_static_methods(stop):
    class Thing:
        scale = 3

        @classmethod
        def make(cls, v):
            made = cls()
            made.v = stop(v) * cls.scale
            return made

        @staticmethod
        def double(v):
            return stop(v) * 2

        def go(self):
            return self.double(self.v) + self.make(self.v).v

    class Sub(Thing):
        scale = 5

    def f(x):
        return Sub.make(x + 1).go() + Thing.double(x)

    return f


@program
def super_without_arguments(stop):
    class A:
        def __init__(self, v):
            self.v = stop(v)

        def go(self, w):
            stop(w)
            return self.v + w

    class B(A):
        def __init__(self, v):
            super().__init__(v * 2)
            self.w = self.v + 1

        def go(self, w):
            stop(w)
            r = super().go(w * 2)
            stop(r)
            return super().go(r) + self.w

    class C(B):
        def go(self, w):
            return super().go(w) * 2, __class__.__name__

    def f(x):
        return C(x).go(x + 1)

    return f


@program
def super_with_arguments_and_many_bases(stop):
    class Base:
        def go(self, v):
            RECORDS.append("base")
            return stop(v)

    class Left(Base):
        def go(self, v):
            RECORDS.append("left")
            return super(Left, self).go(v * 2) + 1

    class Right(Base):
        def go(self, v):
            RECORDS.append("right")
            stop(v)
            return super().go(v + 1)

    class Both(Left, Right):
        def go(self, v):
            return super(Both, self).go(v) + super(Left, self).go(v)

    def f(x):
        return Both().go(x * 2)

    return f


@program
def super_in_a_comprehension_and_a_closure(stop):
    class A:
        def go(self, v):
            return stop(v) + 1

    class B(A):
        def go(self, v):
            parent = super().go
            twice = lambda w: super(B, self).go(parent(w))
            return [parent(w) for w in (v, v * 2)], twice(v)

    def f(x):
        return B().go(x * 2)

    return f


@program
def constructor_chain_with_breaks(stop):
    class Part:
        def __init__(self, v):
            RECORDS.append("part")
            self.v = stop(v) + 1

    class Whole:
        def __init__(self, v):
            RECORDS.append("whole")
            self.parts = [Part(v), Part(v * 2)]
            self.total = sum(p.v for p in self.parts)
            stop(self.total)
            self.done = True

    def f(x, kept):
        w = Whole(x * 2)
        kept.append(w)
        return w.total + 1, w.done

    return f, []


@program
def properties_and_calls_in_a_chain(stop):
    class Node:
        def __init__(self, v, parent=None):
            self.v, self.parent = v, parent

        @property
        def child(self):
            return Node(stop(self.v) * 2, self)

        def __call__(self, by):
            return Node(stop(self.v) * by, self)

        def __getitem__(self, n):
            return self if n == 0 else self.parent[n - 1]

    def f(x):
        node = Node(x + 1).child(3).child
        return node.v, node[2].v, node[3].v

    return f


# Modules


class _Noisy(nn.Module):
    """A layer that breaks, counts, and keeps a running value."""

    def __init__(self, stop, scale=2.0):
        super().__init__()
        self.stop, self.calls = stop, 0
        self.weight = nn.Parameter(torch.full((3,), scale))
        self.register_buffer("running", torch.zeros(3))

    def forward(self, x):
        self.calls += 1
        y = x * self.weight
        self.stop(y)
        self.running = self.running + y.detach()
        return y + self.calls


@program
def module_is_compiled(stop):
    return case(_Noisy(stop), inputs=values())


@program
def submodules_two_deep(stop):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = _Noisy(stop), _Noisy(stop, 0.5)

        def forward(self, x):
            y = self.first(x) + x
            return self.second(y) * self.first.calls

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.head = Block(), nn.Linear(3, 2)

        def forward(self, x):
            return self.head(torch.relu(self.block(x)))

    return Net()


@program
def sequential(stop):
    model = nn.Sequential(nn.Linear(3, 3), _Noisy(stop), nn.ReLU(), _Noisy(stop))

    def f(x, model):
        y = model(x)
        return model[1].running + y

    return f, model


@program
def sequential_is_compiled(stop):
    return nn.Sequential(nn.Linear(3, 3), _Noisy(stop), nn.ReLU(), _Noisy(stop), nn.Linear(3, 1))


@program
def module_list_in_a_loop(stop):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(_Noisy(stop, n) for n in (1.0, 2.0, 3.0))

        def forward(self, x):
            outputs = []
            for n, layer in enumerate(self.layers):
                x = layer(x) - n
                outputs.append(x)
            return outputs

    return Net()


@program
def module_dict_chosen_by_name(stop):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleDict({"a": _Noisy(stop), "b": nn.Linear(3, 3)})

        def forward(self, x, name):
            return self.heads[name](x * 2) + 1

    a, b, c = values()
    return case(Net(), calls=[(a, "a"), (b, "b"), (c, "a")])


@program
def forward_hooks(stop):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    seen = []

    def before(module, args):
        seen.append("before")
        return (stop(args[0]) + 1,)

    def after(module, args, output):
        seen.append(output)
        return stop(output) * 2

    model[0].register_forward_pre_hook(before)
    model[0].register_forward_hook(after)
    model.register_forward_hook(lambda module, args, output: seen.append("outer"))

    def f(x, model):
        return model(x * 2) + 1

    return case(f, model, state=seen)


@program
def module_with_a_branch_on_data():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(3, 3), nn.Linear(3, 3)
            self.ups = 0

        def forward(self, x):
            y = x * 2
            if y.sum() > 0:
                self.ups += 1
                return self.up(y)
            return self.down(y) + self.ups

    return Net()


@program
def module_training_and_eval(stop):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.drop = nn.BatchNorm1d(2), nn.Dropout(0.5)

        def forward(self, m):
            y = self.drop(self.norm(m))
            stop(y)
            self.train(not self.training)
            return self.drop(y) + 1

    return case(Net(), inputs=matrices())


@program
def module_made_inside(stop):
    def f(x):
        layer = nn.Linear(3, 2)
        stop(x)
        with torch.no_grad():
            layer.weight.fill_(0.5)
        stop(layer)
        return layer(x) - layer.bias, len(list(layer.parameters()))

    return f


@program
def method_of_a_module_that_is_not_forward(stop):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(3, 2), nn.Linear(2, 3)

        def encode(self, x):
            return stop(self.encoder(x)).relu()

        def forward(self, x):
            code = self.encode(x)
            return self.decoder(code), code

    return Net()
