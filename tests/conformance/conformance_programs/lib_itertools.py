"""Library: itertools."""

from __future__ import annotations

import itertools
import operator
import sys

import torch

from conformance_programs import add_source, error_of, program

CALLS = {
    "accumulate": "list(itertools.accumulate([x, x, x]))",
    "accumulate_with_function": "list(itertools.accumulate([1, 2, 3], lambda a, b: a * b + x, initial=1))",
    "accumulate_of_numbers": "list(itertools.accumulate([3, 1, 2], max))",
    "batched_by_hand": "[list(g) for g in zip(*[iter([x, 1, 2, 3])] * 2)]",
    "chain": "list(itertools.chain([x], (1, 2), 'ab', {3: 4}, x))",
    "chain_from_iterable": "list(itertools.chain.from_iterable([[x], [x + 1, 2]]))",
    "combinations": "[a * b for a, b in itertools.combinations([x, x + 1, x + 2], 2)]",
    "combinations_with_replacement": "list(itertools.combinations_with_replacement([x, 1], 2))",
    "compress": "list(itertools.compress([x, x + 1, x + 2], [1, 0, True]))",
    "count": "[x * n for n in itertools.islice(itertools.count(2, 3), 3)]",
    "count_of_floats": "list(zip(itertools.count(0.5, 0.25), [x, x]))",
    "cycle": "list(itertools.islice(itertools.cycle([x, 1]), 5))",
    "dropwhile": "list(itertools.dropwhile(lambda n: n < 3, [1, 2, 3, 1])) + [x]",
    "filterfalse": "list(itertools.filterfalse(lambda t: t.dim() > 1, [x, x[None]]))",
    "filterfalse_none": "list(itertools.filterfalse(None, [0, 1, '', x.dim() - 1]))",
    "groupby": "[(k, list(g)) for k, g in itertools.groupby([x, x + 1, x[None]], torch.Tensor.dim)]",
    "groupby_without_key": "[(k, len(list(g)), x) for k, g in itertools.groupby('aabc')]",
    "islice": "list(itertools.islice([x, 1, 2, 3], 1, None, 2)), list(itertools.islice(x, 2))",
    "pairwise": "[b - a for a, b in itertools.pairwise([x, x * 2, x * 4])]",
    "permutations": "[a - b for a, b in itertools.permutations([x, x * 2, 1], 2)]",
    "product": "[a * b for a, b in itertools.product([x, x + 1], [1, 2])]",
    "product_repeat": "list(itertools.product([x], 'ab', repeat=2))",
    "repeat": "list(itertools.repeat(x, 3)), list(map(pow, range(3), itertools.repeat(2)))",
    "starmap": "list(itertools.starmap(torch.add, [(x, 1), (x, x)]))",
    "starmap_of_a_lambda": "list(itertools.starmap(lambda a, b=2: a * b, [(x,), (x, 3)]))",
    "takewhile": "list(itertools.takewhile(lambda t: t.dim() == 1, [x, x, x[None], x]))",
    "tee": "[sum(each) for each in itertools.tee(iter([x, x + 1]), 2)]",
    "zip_longest": "list(itertools.zip_longest([x, x], 'abc', [1], fillvalue=x.sum()))",
    "nested": "list(itertools.islice(itertools.chain(itertools.repeat(x, 2), itertools.count()), 4))",
}
if sys.version_info >= (3, 12):
    CALLS["batched"] = "list(itertools.batched([x, 1, x + 1], 2)), list(itertools.batched(x, 2))"
GIVEN = {
    "accumulate": "list(itertools.accumulate(some, operator.mul))",
    "chain": "list(itertools.chain(some, some))",
    "combinations": "[a * b for a, b in itertools.combinations(some, 2)]",
    "cycle": "sum(itertools.islice(itertools.cycle(some), 5))",
    "groupby": "[(k, len(list(g))) for k, g in itertools.groupby(some, lambda t: t.dim())]",
    "islice": "list(itertools.islice(some, 1, 3))",
    "pairwise": "[a - b for a, b in itertools.pairwise(some)]",
    "product": "[a + b for a, b in itertools.product(some, some)][-1]",
    "starmap": "list(itertools.starmap(operator.add, zip(some, some)))",
    "tee": "a, b = itertools.tee(some)\n    r = next(a), next(a), next(b)",
    "zip_longest": "list(itertools.zip_longest(some, [x]))",
    "takewhile": "list(itertools.takewhile(lambda t: t is not some[2], some))",
    "compress": "list(itertools.compress(some, [t is some[0] for t in some]))",
    "permutations": "len(list(itertools.permutations(some)))",
    "filterfalse": "list(itertools.filterfalse(lambda t: t is some[1], some))",
    "repeat": "list(itertools.repeat(some, 2))",
    "dropwhile": "list(itertools.dropwhile(lambda t: t is some[0], some))",
}

for _name, _call in CALLS.items():
    add_source(
        f"lib_itertools::{_name}",
        f"import itertools, torch\ndef f(x):\n    return x + 1, {_call}\n",
    )
for _name, _call in GIVEN.items():
    _call = _call if "r = " in _call else f"r = {_call}"
    add_source(
        f"lib_itertools::{_name}_of_given",
        "import itertools, operator, torch\n"
        "def given():\n    return ([torch.ones(3), torch.ones(3) * 2, torch.ones(3) * 3],)\n"
        f"def f(x, some):\n    {_call}\n    return x + 1, r\n",
    )


@program
def returned_iterators_go_on_where_they_stand(x):
    counted, cycled = itertools.count(3), itertools.cycle([x, x + 1])
    next(counted), next(cycled)
    return counted, cycled, itertools.chain([x], [2]), itertools.repeat(x, 2)


@program
def iterators_are_lazy(x):
    asked = []

    def source():
        for n in range(5):
            asked.append(n)
            yield x * n

    first = itertools.islice(map(lambda t: t + 1, source()), 2)
    before = list(asked)
    taken = list(first)
    return before, taken, asked


@program
def errors_of_arguments(x):
    return (
        x + 1,
        error_of(itertools.islice, [1], -1),
        error_of(itertools.combinations, "ab", -1),
        error_of(itertools.repeat),
        error_of(itertools.chain, 1)[0],
        error_of(lambda: list(itertools.chain(1))),
        error_of(lambda: list(itertools.starmap(torch.add, [1]))),
    )


@program
def a_recipe_sliding_window(x):
    window = list(itertools.islice(iter([x, x + 1, x + 2, x + 3]), 2))
    return [sum(w) for w in zip(*(itertools.islice([x, x * 2, x * 3], n, None) for n in range(2)))], window


@program
def a_recipe_roundrobin(x):
    def roundrobin(*iterables):
        nexts = itertools.cycle(iter(it).__next__ for it in iterables)
        active = len(iterables)
        while active:
            try:
                for step in nexts:
                    yield step()
            except StopIteration:
                active -= 1
                nexts = itertools.cycle(itertools.islice(nexts, active))

    return list(roundrobin([x, x + 1], [1], "ab"))


@program(given=lambda: ({"a": torch.ones(3), "b": torch.zeros(3)},))
def over_a_given_dict(x, named):
    return [k + str(n) for n, k in zip(itertools.count(), named)], sum(
        itertools.chain(named.values(), [x]), start=x
    )


@program(given=lambda: (itertools.count(5),), breaks="iterator from before")
def a_given_count_goes_on(x, counted):
    return x * next(counted)


@program
def groups_share_their_source(x):
    groups = itertools.groupby([1, 1, 2], key=operator.neg)
    _, first = next(groups)
    _, second = next(groups)
    return list(first), list(second), x + 1
