"""Dictionaries and sets, and keys that are the program's own objects."""

from programs import error_of


def dict_methods():
    d = {"a": 1, "b": 2}
    got = d.get("a"), d.get("z"), d.get("z", 0), d.setdefault("c", 3), d.setdefault("a", 9)
    popped = d.pop("b"), d.pop("b", None)
    d.update({"e": 5}, f=6)
    d.update([("g", 7)])
    last = d.popitem()
    return got, popped, last, d, list(d), list(d.values()), list(d.items()), len(d), "a" in d, d.copy() == d


def insertion_order_is_kept():
    d = {}
    for k in "zebra":
        d[k] = d.get(k, 0) + 1
    del d["b"]
    d["b"] = "back"
    return list(d.items()), list(reversed(d)), dict(sorted(d.items(), key=str))


def keys_that_are_equal_are_one():
    d = {1: "int", True: "bool", 1.0: "float", "1": "str"}
    return d, d[True], {0: "a", False: "b"}, {(1, 2): 1}[1.0, 2]


def missing_keys():
    d = {"a": 1}

    def delete():
        del d["z"]

    return (
        error_of(lambda: d["z"]),
        error_of(lambda: d.pop("z")),
        error_of(delete),
        error_of(lambda: d[1, 2]),
        error_of(lambda: {}.popitem()),
    )


def a_missing_key_leaves_the_program():
    prices = {"apple": 1}
    return sum(prices[x] for x in ("apple", "pear"))


def unhashable_keys():
    d = {}

    def assign():
        d[[1]] = 1

    return (
        error_of(assign),
        error_of(lambda: d[{}]),
        error_of(lambda: {[]: 1}),
        error_of(lambda: {1, []}),
        error_of(lambda: [] in d),
        error_of(lambda: d.get([])),
    )


def views_are_live():
    d = {"a": 1}
    keys, values, items = d.keys(), d.values(), d.items()
    d["b"] = 2
    return (
        list(keys),
        list(values),
        list(items),
        keys & {"a", "z"},
        sorted(keys | {"z"}),
        ("a", 1) in items,
        keys - {"a"},
        keys.mapping["b"],
    )


def changing_a_dict_during_iteration():
    d = {"a": 1, "b": 2}

    def grow():
        for k in d:
            d[k * 2] = 0

    def change_values():
        for k in d:
            d[k] = 9
        return d

    return change_values(), error_of(grow)


def dict_construction_in_every_way():
    return [
        dict(),
        dict(a=1),
        dict([("a", 1)], b=2),
        dict({"a": 1}, a=2),
        dict.fromkeys("ab", 0),
        dict(zip("ab", [1, 2])),
        {**{"x": 1}},
        {k: 1 for k in "q"},
    ]


def own_keys_are_hashed_and_compared():
    class Key:
        def __init__(self, name):
            self.name = name

        def __hash__(self):
            print("hash", self.name)
            return 7

        def __eq__(self, other):
            print("eq", self.name, other.name)
            return self.name.lower() == other.name.lower()

    a, b, c = Key("a"), Key("b"), Key("A")
    d = {a: 1}
    d[b] = 2
    d[c] = 3
    return d[a], len(d), [k.name for k in d], Key("B") in d


def errors_in_hash_and_eq_pass_through():
    class BadHash:
        def __hash__(self):
            raise ValueError("no hash")

    class BadEq:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            raise KeyError("no eq")

    d = {BadEq(): 1}
    return (
        error_of(lambda: {BadHash()}),
        error_of(lambda: d[BadHash()]),
        error_of(lambda: d[BadEq()]),
        error_of(lambda: BadEq() in d),
    )


def mutable_objects_as_keys_by_identity():
    class Thing:
        pass

    a, b = Thing(), Thing()
    d = {a: "a", b: "b"}
    a.x = 5
    return d[a], d[b], len({a, a, b})


def dict_comparison_and_merging():
    a, b = {"x": 1, "y": 2}, {"y": 2, "x": 1}
    c = a | {"z": 3}
    a |= {"w": 0}
    return a == b, b == {"x": 1, "y": 2}, c, a, error_of(lambda: a < b), {} == {}, error_of(lambda: a | [1])


def set_methods():
    s = {1, 2, 3}
    s.add(4)
    s.discard(9)
    s.remove(1)
    s.update([5, 6], (7,))
    s.difference_update({5})
    s.intersection_update({2, 3, 4, 6})
    s.symmetric_difference_update({2, 100})
    return (
        sorted(s),
        s.isdisjoint({8}),
        s.issubset(range(200)),
        s.issuperset({3}),
        sorted(s.union([0])),
        error_of(s.remove, 55),
        s.copy() == s,
    )


def set_operators_and_comparison():
    a, b = {1, 2, 3}, {3, 4}
    return [
        a | b,
        a & b,
        a - b,
        b - a,
        a ^ b,
        a <= a,
        a < a,
        {1} < a,
        a >= {2},
        a == {3, 2, 1},
        a != b,
        error_of(lambda: a | [1]),
        error_of(lambda: a + b),
    ]


def frozen_sets():
    f = frozenset([1, 2])
    d = {f: "frozen"}
    return (
        d[frozenset([2, 1])],
        f | {3},
        type(f | {3}).__name__,
        type({3} | f).__name__,
        f == {1, 2},
        error_of(lambda: f.add(3)),
        {f} == {frozenset({1, 2})},
        {1, 2} in {f},
    )


def set_displays_and_empty_sets():
    x = 1
    return {x, x + 1, 1}, set(), type({}).__name__, {*[1, 2], *(2, 3)}, {1, 1.0, True}, len({"a", "b", "a"})


def defaultdict_and_counter():
    from collections import Counter, defaultdict

    groups = defaultdict(list)
    for w in ("apple", "avocado", "bean", "cherry", "corn"):
        groups[w[0]].append(w)
    nested = defaultdict(lambda: defaultdict(int))
    nested["x"]["y"] += 5
    c = Counter("mississippi")
    c.update("mm")
    c.subtract("s")
    return (
        dict(groups),
        {k: dict(v) for k, v in nested.items()},
        c.most_common(2),
        c["zzz"],
        sorted((c & Counter("ss")).items()),
        c.total(),
        "zzz" in c,
    )


def dict_subclasses_with_missing():
    class Graph(dict):
        def __missing__(self, key):
            if not isinstance(key, str):
                raise KeyError(f"bad {key}")
            return self.setdefault(key, [])

        def __repr__(self):
            return f"Graph({super().__repr__()})"

    g = Graph()
    g["a"].append("b")
    g["b"]
    return repr(g), g.get("z"), error_of(lambda: g[5]), dict(g), "z" in g


def an_lru_cache_by_hand():
    class LRU:
        def __init__(self, size):
            self.size, self.data, self.hits, self.misses = size, {}, 0, 0

        def __getitem__(self, key):
            try:
                value = self.data.pop(key)
            except KeyError:
                self.misses += 1
                raise
            self.hits += 1
            self.data[key] = value
            return value

        def __setitem__(self, key, value):
            self.data.pop(key, None)
            self.data[key] = value
            while len(self.data) > self.size:
                oldest = next(iter(self.data))
                print("evict", oldest, self.data.pop(oldest))

        def get(self, key, compute):
            try:
                return self[key]
            except KeyError:
                self[key] = value = compute(key)
                return value

    cache = LRU(2)
    results = [cache.get(k, lambda k: k * 10) for k in (1, 2, 1, 3, 2, 1)]
    return results, cache.hits, cache.misses, list(cache.data), error_of(lambda: cache[99])


def an_inverted_index_and_query():
    documents = {1: "the cat sat", 2: "the dog sat down", 3: "a cat and a dog"}
    index = {}
    for number, text in documents.items():
        for word in text.split():
            index.setdefault(word, set()).add(number)

    def query(expression):
        result = None
        operation = "and"
        for word in expression.split():
            if word in ("and", "or", "not"):
                operation = word
                continue
            found = index.get(word, set())
            if result is None:
                result = set(documents) - found if operation == "not" else set(found)
            elif operation == "and":
                result &= found
            elif operation == "or":
                result |= found
            else:
                result -= found
        return sorted(result or ())

    return [query(q) for q in ("cat", "cat and dog", "cat or dog", "sat not dog", "zebra", "not the", "")]


def topological_sorting():
    def order(graph):
        state, result = {}, []

        def visit(node, path):
            if state.get(node) == "done":
                return
            if node in path:
                raise ValueError(" -> ".join([*path[path.index(node) :], node]))
            for dependency in graph.get(node, ()):
                visit(dependency, [*path, node])
            state[node] = "done"
            result.append(node)

        for node in graph:
            visit(node, [])
        return result

    return order({"app": ["lib", "log"], "lib": ["core"], "log": ["core"], "core": []}), error_of(
        order, {"a": ["b"], "b": ["c"], "c": ["b"]}
    )
