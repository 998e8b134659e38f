"""Iterators, and itertools fed with Python functions and generators."""

import itertools

from programs import error_of


def _letters():
    yield from "abc"


def iter_and_next():
    it = iter([1, 2])
    return (
        next(it),
        next(it),
        next(it, "end"),
        error_of(next, it),
        error_of(iter, 5),
        error_of(next, [1]),
        iter(it) is it,
    )


def iter_with_a_sentinel():
    values = iter([3, 1, 4, 1, 5])
    return list(iter(lambda: next(values), 4)), list(iter(lambda: next(values, "end"), "end"))


def iter_with_a_sentinel_and_an_error():
    def f():
        raise ValueError("in the callable")

    return error_of(lambda: list(iter(f, None))), error_of(lambda: iter(5, 1))


def zip_map_and_filter_are_lazy():
    def say(x):
        print(x)
        return x

    m = map(say, [1, 2, 3])
    f = filter(lambda x: say(x) % 2, [4, 5, 6])
    print("made")
    return next(m), next(f), list(zip(m, "ab")), list(f)


def zip_in_every_form():
    return [
        list(zip()),
        list(zip("ab")),
        list(zip("ab", [1, 2, 3])),
        error_of(lambda: list(zip("ab", "a", strict=True))),
        error_of(lambda: list(zip("a", "ab", strict=True))),
        list(zip(*[(1, 2), (3, 4)])),
    ]


def map_with_several_iterables_and_errors():
    return (
        list(map(lambda a, b: a * b, [1, 2, 3], [4, 5])),
        error_of(lambda: list(map(lambda a: a, [1], [2]))),
        error_of(lambda: list(map(int, ["1", "x"]))),
    )


def enumerate_and_reversed():
    class R:
        def __reversed__(self):
            return iter("reversed")

    return (
        list(enumerate("ab", 1)),
        list(reversed([1, 2])),
        "".join(reversed(R())),
        error_of(lambda: reversed(_letters())),
        list(reversed({"a": 1, "b": 2})),
    )


def infinite_iterators():
    take = lambda n, it: list(itertools.islice(it, n))
    return (
        take(3, itertools.count(10, 5)),
        take(5, itertools.cycle("ab")),
        list(itertools.repeat("x", 3)),
        take(2, itertools.count(0.5)),
    )


def accumulate_with_a_function():
    return (
        list(itertools.accumulate([1, 2, 3])),
        list(itertools.accumulate([3, 1, 2], max)),
        list(itertools.accumulate([1, 2], lambda a, b: a * 10 + b, initial=5)),
    )


def chain_and_islice_and_tee():
    a, b = itertools.tee(_letters())
    return (
        list(itertools.chain([1], _letters(), ())),
        list(itertools.chain.from_iterable(["ab", [1]])),
        list(itertools.islice(range(10), 2, 8, 3)),
        next(a),
        list(b),
        list(a),
    )


def compress_dropwhile_takewhile_filterfalse():
    return (
        list(itertools.compress("abcd", [1, 0, 1])),
        list(itertools.dropwhile(lambda x: x < 3, [1, 3, 2])),
        list(itertools.takewhile(lambda x: x < 3, [1, 3, 2])),
        list(itertools.filterfalse(lambda x: x % 2, range(5))),
    )


def groupby_with_a_key():
    words = ["apple", "avocado", "bean", "beet", "cherry", "apricot"]
    return [(k, list(g)) for k, g in itertools.groupby(words, key=lambda w: w[0])], [
        (k, len(list(g))) for k, g in itertools.groupby("aaabbc")
    ]


def starmap_and_zip_longest():
    return (
        list(itertools.starmap(lambda a, b=9: (a, b), [(1, 2), (3,)])),
        list(itertools.zip_longest("ab", [1], fillvalue="-")),
        list(itertools.pairwise("abcd")),
    )


def combinatorics():
    return [
        list(itertools.product("ab", [1, 2])),
        list(itertools.permutations("abc", 2)),
        list(itertools.combinations("abc", 2)),
        list(itertools.combinations_with_replacement("ab", 2)),
        list(itertools.product([0, 1], repeat=2)),
    ]


def exceptions_pass_through_itertools():
    def bad(x):
        if x == 2:
            raise KeyError(x)
        return x

    def g():
        yield 1
        raise ValueError("in the generator")

    return [
        error_of(lambda: list(map(bad, range(4)))),
        error_of(lambda: list(itertools.chain(g(), [1]))),
        error_of(lambda: list(itertools.takewhile(bad, [1, 2]))),
        error_of(lambda: list(itertools.accumulate([1, 2], lambda a, b: bad(b)))),
        error_of(lambda: sum(g())),
        error_of(lambda: dict(zip("ab", g()))),
    ]


def an_iterator_class_with_state():
    class Peekable:
        _nothing = object()

        def __init__(self, iterable):
            self._it = iter(iterable)
            self._next = self._nothing

        def __iter__(self):
            return self

        def peek(self, *default):
            if self._next is self._nothing:
                try:
                    self._next = next(self._it)
                except StopIteration:
                    if default:
                        return default[0]
                    raise
            return self._next

        def __next__(self):
            if self._next is not self._nothing:
                value, self._next = self._next, self._nothing
                return value
            return next(self._it)

    p = Peekable(_letters())
    return p.peek(), next(p), p.peek(), p.peek(), list(p), p.peek("none"), error_of(p.peek)


def an_iterable_that_is_not_its_own_iterator():
    class Numbers:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            print("new iterator")
            return iter(range(self.n))

    n = Numbers(3)
    return list(n), [(a, b) for a in n for b in n if a < b], 2 in n, max(n), error_of(next, n)


def next_that_raises_something_else():
    class It:
        def __iter__(self):
            return self

        def __next__(self):
            raise OSError("broken")

    return (
        error_of(list, It()),
        error_of(lambda: next(It(), "default")),
        error_of(lambda: [*It()]),
        error_of(lambda: 1 in It()),
    )


def batches_windows_and_flattening():
    def batched(iterable, n):
        it = iter(iterable)
        while batch := tuple(itertools.islice(it, n)):
            yield batch

    def windows(iterable, n):
        its = itertools.tee(iterable, n)
        for i, it in enumerate(its):
            next(itertools.islice(it, i, i), None)
        return zip(*its)

    return (
        list(batched("abcdefg", 3)),
        list(windows(range(5), 3)),
        list(itertools.chain.from_iterable(batched(range(5), 2))),
    )


def a_merge_of_sorted_streams():
    def merge(*streams):
        heads = []
        for stream in map(iter, streams):
            for first in stream:
                heads.append([first, stream])
                break
        while heads:
            smallest = min(heads, key=lambda head: head[0])
            yield smallest[0]
            try:
                smallest[0] = next(smallest[1])
            except StopIteration:
                heads.remove(smallest)

    import heapq

    streams = [[1, 4, 9], [2, 3], [], (x * 5 for x in range(3))]
    merged = list(merge(*streams))
    return merged, list(heapq.merge([1, 4], [2, 3], key=lambda x: x)), merged == sorted(merged)
