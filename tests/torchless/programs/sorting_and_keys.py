"""Sorting, minimum and maximum, with keys and comparisons written in Python."""

from programs import error_of


def sorted_with_keys():
    words = ["banana", "Apple", "cherry", "date"]
    return (
        sorted(words),
        sorted(words, key=str.lower),
        sorted(words, key=len),
        sorted(words, key=lambda w: (-len(w), w)),
        sorted(words, reverse=True),
    )


def sorting_is_stable():
    rows = [("b", 2), ("a", 2), ("c", 1), ("d", 2)]
    return sorted(rows, key=lambda r: r[1]), sorted(rows, key=lambda r: r[1], reverse=True)


def the_key_is_called_once_per_item_in_order():
    calls = []

    def key(x):
        calls.append(x)
        return -x

    return sorted([3, 1, 2], key=key), calls


def own_less_than_is_used():
    class Card:
        order = "23456789TJQKA"

        def __init__(self, face):
            self.face = face

        def __lt__(self, other):
            print(self.face, "<", other.face)
            return self.order.index(self.face) < self.order.index(other.face)

    return [c.face for c in sorted(map(Card, "KA2"))], max(map(Card, "9TJ")).face if hasattr(
        Card, "__gt__"
    ) else None


def an_exception_in_the_key():
    def key(x):
        if x == 2:
            raise ValueError(f"no key for {x}")
        return x

    items = [3, 2, 1]
    return (
        error_of(lambda: sorted(items, key=key)),
        error_of(lambda: items.sort(key=key)),
        items,
        error_of(lambda: max(items, key=key)),
    )


def an_exception_in_a_comparison():
    class Bad:
        def __lt__(self, other):
            raise RuntimeError("cannot compare")

    return (
        error_of(lambda: sorted([Bad(), Bad()])),
        error_of(lambda: sorted([1, "a"])),
        error_of(lambda: sorted([None, 1])),
        error_of(lambda: sorted([1j, 2j])),
    )


def a_key_that_is_not_callable_leaves_the_program():
    return sorted([3, 1, 2], key="name")


def comparison_results_that_are_not_bools():
    class Odd:
        def __init__(self, n):
            self.n = n

        def __lt__(self, other):
            return [1] if self.n < other.n else ""

    return [o.n for o in sorted(map(Odd, [3, 1, 2]))]


def minimum_and_maximum():
    return [
        min(3, 1, 2),
        max([3, 1, 2]),
        min("abc", key=lambda c: -ord(c)),
        max([], default="empty"),
        min({}, default=None),
        max("a", "bb", key=len),
        max([(1, "x"), (1, "a")], key=lambda t: t[0]),
        min([(1, "x"), (1, "a")], key=lambda t: t[0]),
        error_of(lambda: min()),
        error_of(lambda: min(1)),
        error_of(lambda: max(1, 2, default=3)),
    ]


def sort_keys_that_are_tuples_lists_and_none():
    people = [("ann", 30, None), ("bob", 25, "x"), ("cyd", 30, "a")]
    return (
        sorted(people, key=lambda p: (-p[1], p[2] is None, p[2] or "")),
        sorted([[2], [1, 5], [1]]),
        sorted([(1, "b"), (1, "a")]),
    )


def sorting_dicts_by_value():
    d = {"a": 3, "b": 1, "c": 2}
    return (
        sorted(d, key=d.get),
        dict(sorted(d.items(), key=lambda kv: kv[1], reverse=True)),
        min(d, key=d.__getitem__),
        sorted(d.values()),
    )


def bisect_with_a_key():
    import bisect

    items = [("a", 1), ("b", 3), ("c", 5)]
    i = bisect.bisect_left(items, 3, key=lambda t: t[1])
    bisect.insort(items, ("x", 4), key=lambda t: t[1])
    return i, items, bisect.bisect([1, 2, 2, 3], 2), bisect.bisect_left([1, 2, 2, 3], 2)


def heaps_of_own_objects():
    import heapq

    class Job:
        def __init__(self, priority, name):
            self.priority, self.name = priority, name

        def __lt__(self, other):
            return self.priority < other.priority

    heap = []
    for n, name in [(3, "low"), (1, "high"), (2, "mid"), (0, "top")]:
        heapq.heappush(heap, Job(n, name))
    order = [heapq.heappop(heap).name for _ in range(2)]
    return (
        order,
        heapq.heappushpop(heap, Job(9, "last")).name,
        [j.name for j in heapq.nsmallest(2, heap)],
        heapq.nlargest(2, [5, 1, 9], key=lambda x: -x),
    )


def natural_sorting_and_ranking():
    import re

    def natural(text):
        return [(0, int(p)) if p.isdigit() else (1, p) for p in re.findall(r"\d+|\D+", text)]

    def ranks(scores):
        ordered = sorted(scores.items(), key=lambda kv: (-kv[1], kv[0]))
        out, last, rank = {}, None, 0
        for place, (name, score) in enumerate(ordered, 1):
            if score != last:
                rank, last = place, score
            out[name] = rank
        return out

    return sorted(["f10", "f9", "f1a", "10x", "2y"], key=natural), ranks({"a": 5, "b": 7, "c": 5, "d": 1})


def multi_key_sorting_by_repeated_stable_sorts():
    rows = [("x", 2, 9), ("y", 1, 9), ("z", 2, 1), ("w", 1, 1)]
    for index, reverse in [(0, False), (2, True), (1, False)]:
        rows.sort(key=lambda r: r[index], reverse=reverse)
    return rows


def sorting_generators_and_sets():
    return (
        sorted(x * x % 7 for x in range(6)),
        sorted({3, 1, 2}, reverse=True),
        sorted("hello"),
        sorted([True, 0, 2.5, -1]),
        sorted([[], [0]], key=bool),
    )
