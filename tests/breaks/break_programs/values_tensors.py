"""Iterators and tensors that live across a break."""

import itertools
import operator

import torch

from break_programs import Box, case, matrices, program, values

# Iterators


@program
def iterators_of_every_kind(stop):
    def f(x):
        its = [
            iter([1, x, 3]),
            iter((4, 5)),
            iter({"a": 1}),
            iter({"b": x}.items()),
            iter(range(3)),
            iter("xyz"),
            iter(b"12"),
            reversed([1, 2]),
            enumerate("ab"),
            zip([1, 2], [x, x]),
            map(abs, [-1, -2]),
            filter(None, [0, 1, 2]),
        ]
        for it in its:
            next(it)
        y = x * 2
        stop(y)
        return [list(it) for it in its], y + 1

    return f


@program
def iterators_of_itertools(stop):
    def f(x):
        its = [
            itertools.chain([1], [x, 3]),
            itertools.islice(itertools.count(5), 4),
            itertools.repeat(x, 3),
            itertools.accumulate([1, 2, 3]),
            itertools.product("ab", "c"),
            itertools.permutations([1, 2]),
            itertools.combinations([1, 2, 3], 2),
            itertools.starmap(operator.add, [(1, 2), (x, 4)]),
            itertools.compress("abc", [1, 0, 1]),
            itertools.dropwhile(lambda n: n < 2, [1, 2, 3]),
            itertools.zip_longest([1], [2, 3]),
            itertools.pairwise([1, 2, 3]),
        ]
        first = [next(it) for it in its]
        stop(x)
        return first, [list(it) for it in its], x * 2

    return f


@program
def infinite_iterators(stop):
    def f(x):
        count, cycle = itertools.count(3, 2), itertools.cycle([x, x * 2])
        a = next(count), next(cycle)
        stop(x)
        b = next(count), next(cycle), next(cycle)
        return a, b, next(count)

    return f


@program
def iterators_are_shared_between_locals(stop):
    def f(x):
        it = iter([1, 2, 3, 4])
        same, pairs = it, zip(it, it)
        a = next(it)
        stop(x)
        b = next(same)
        stop(x)
        return x * a + b, next(pairs), it is same

    return f


@program
def iterator_over_a_local_list(stop):
    def f(x):
        items = [x, x * 2]
        it = iter(items)
        a = next(it)
        stop(a)
        items.append(x + 1)
        return [v + 1 for v in it], items

    return f


@program
def generators_as_values(stop):
    def f(x):
        def numbers(n):
            while True:
                got = yield x * n
                n = n + 1 if got is None else got

        a, b = numbers(1), (x + n for n in range(3))
        first = next(a), next(b)
        stop(x)
        second = a.send(5), next(b)
        return first, second, list(b), a.gi_frame is not None

    return f


@program
def exhausted_and_fresh_iterators(stop):
    def f(x):
        done, fresh, empty = iter([x]), iter([x * 2]), iter(())
        list(done)
        stop(x)
        return next(done, "done"), next(fresh) + 1, next(empty, "empty")

    return f


# Tensors


@program
def aliases_of_one_tensor(stop):
    def f(x):
        y = x * 2
        z, items, box = y, [y, x], Box(t=y)
        stop(y)
        y.add_(1)
        return z is y, items[0] is y, box.t is z, items[1] is x, z

    return f


@program
def views_of_one_tensor(stop):
    def f(m):
        y = m * 2
        row, column, flat, transposed = y[0], y[:, 1], y.view(-1), y.t()
        stop(y)
        y.add_(1)
        row.mul_(2)
        stop(row)
        column[0] = 7
        return y, row, column, flat, transposed

    return case(f, inputs=matrices())


@program
def views_of_an_argument(stop):
    def f(x):
        head, tail, whole = x[:2], x[1:], x.view(1, 3)
        stop(x)
        head.add_(1)
        stop(tail)
        tail.mul_(2)
        return whole, head + tail

    return f


@program
def layouts_of_tensors(stop):
    def f(m):
        t, strided, wide = m.t(), m[::2], m[0].expand(4, 2)
        cl = torch.zeros(1, 2, 3, 3).to(memory_format=torch.channels_last)
        stop(m)
        return t * 2, strided + 1, wide, cl + 1, t.stride(), wide.stride(), cl.is_contiguous()

    return case(f, inputs=matrices())


@program
def dtypes_of_tensors(stop):
    def f(x):
        made = [x.to(d) for d in (torch.float64, torch.bfloat16, torch.int64, torch.complex64)] + [x > 0]
        stop(x)
        return [t + 1 if t.dtype is not torch.bool else ~t for t in made]

    return f


@program
def scalars_and_empty_tensors(stop):
    def f(x):
        scalar, empty, one = x.sum(), x[:0], torch.tensor(3)
        stop(x)
        return scalar * one, empty + 1, empty.shape, torch.cat([x, empty])

    return f


@program
def graph_lives_across_the_break(stop):
    def f(x):
        y = (x * 2).sin()
        stop(y)
        z = (y * y).sum()
        stop(z)
        z.backward()
        return y.detach(), x.grad * 2

    return case(f, inputs=values(grad=True))


@program
def graph_of_an_argument_that_is_not_a_leaf(stop):
    def f(y):
        z = y * 3
        stop(z)
        (z * y).sum().backward()
        return z

    leaves = values(grad=True)
    return case(f, calls=[(leaf * 2,) for leaf in leaves], state=leaves)


@program
def results_carry_their_graph_out(stop):
    def f(x):
        y = x * 2
        stop(y)
        return y * y, y

    def backward(pair):
        sum(pair).sum().backward()

    return case(f, inputs=values(grad=True), then=backward)


@program
def grad_of_part_of_the_graph(stop):
    def f(x):
        y = x * x
        stop(y)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        stop(g)
        (h,) = torch.autograd.grad(g.sum(), x)
        return g.detach() + h

    return case(f, inputs=values(grad=True))


@program
def detached_and_leaf_locals(stop):
    def f(x):
        d = x.detach()
        w = d.clone().requires_grad_()
        y = w * 2
        stop(y)
        d.add_(1)
        y.sum().backward()
        return w.grad + 1, w.is_leaf, y.is_leaf, d

    return f


@program
def parameters_and_modules_as_locals(stop):
    def f(x):
        p = torch.nn.Parameter(x * 2)
        m = torch.nn.Linear(3, 2)
        seq = torch.nn.Sequential(m, torch.nn.ReLU())
        stop(x)
        return seq(x + p).sum() + p.sum(), seq[0] is m, type(p), [n for n, _ in m.named_parameters()]

    return f


@program
def tensors_kept_as_dictionary_keys(stop):
    def f(x):
        y = x * 2
        table = {y: "y", x: "x"}
        stop(y)
        return table[y], table[x], y in table, len({x, y, x}), y + 1

    return f


@program
def random_generators(stop):
    def f(x):
        g = torch.Generator()
        g.manual_seed(5)
        a = torch.rand(3, generator=g)
        stop(a)
        b = torch.rand(3, generator=g)
        c = torch.rand(3)
        return a + x, b, c

    return f


@program
def random_generator_from_outside(stop):
    def f(x, g):
        a = torch.rand(3, generator=g) + x
        stop(a)
        b = torch.rand(3, generator=g)
        return a, b

    return f, torch.Generator().manual_seed(3)


@program
def global_random_numbers_on_both_sides(stop):
    def f(x):
        a = torch.rand(3) + x
        stop(a)
        b = torch.randn(3) * a
        stop(b)
        c = torch.nn.functional.dropout(b, 0.5) + torch.randint(5, (3,))
        return a, b, c, torch.randperm(4)

    return f


@program
def random_state_is_saved_and_restored(stop):
    def f(x):
        state = torch.get_rng_state()
        a = torch.rand(3)
        stop(a)
        torch.set_rng_state(state)
        b = torch.rand(3)
        return torch.equal(a, b), a + x

    return f


@program
def sparse_and_quantised_are_not_special(stop):
    def f(x):
        s = torch.outer(x, x).to_sparse()
        y = x * 2
        stop(y)
        return s.to_dense() + y

    return f


@program
def numpy_arrays(stop):
    def f(x):
        a = (x * 2).numpy()
        stop(x)
        t = torch.from_numpy(a)
        t.add_(1)
        return t, a.tolist(), a.shape

    return f
