"""List, set and dict comprehensions and generator expressions."""

from programs import error_of


def the_four_kinds():
    xs = [1, 2, 3, 2]
    return [x * x for x in xs], sorted({x * x for x in xs}), {x: x * x for x in xs}, tuple(x * x for x in xs)


def conditions_and_several_loops():
    return [
        [x for x in range(10) if x % 2 if x > 3],
        [(x, y) for x in range(3) for y in range(x)],
        [(x, y) for x in range(3) if x for y in "ab" if y != "a" or x == 2],
        [x if x % 2 else -x for x in range(4)],
    ]


def nested_comprehensions():
    matrix = [[1, 2, 3], [4, 5, 6]]
    return [
        [[row[i] for row in matrix] for i in range(3)],
        [x for row in matrix for x in row],
        {i: {j: i * j for j in range(2)} for i in range(2)},
        [sum(x for x in row) for row in matrix],
    ]


def the_loop_variable_does_not_leak():
    x = "outer"
    squares = [x * x for x in range(3)]
    return x, squares, error_of(lambda: [y for y in range(2)] and y)


def an_unbound_outer_variable_with_the_same_name():
    def f():
        values = [x for x in range(3)]
        try:
            return x
        except UnboundLocalError as e:
            return values, str(e)
        x = 1

    return f()


def comprehension_variables_in_closures():
    functions = [lambda: x for x in range(3)]
    fixed = [lambda x=x: x for x in range(3)]
    by_call = [(lambda x: lambda: x)(x) for x in range(3)]
    return [f() for f in functions], [f() for f in fixed], [f() for f in by_call]


def an_outer_cell_variable_with_the_same_name():
    x = "outer"

    def read():
        return x

    functions = [lambda: x for x in range(2)]
    return read(), x, [f() for f in functions]


def walrus_in_a_comprehension_binds_outside():
    total = 0
    running = [total := total + x for x in range(5)]
    found = any((hit := x) > 2 for x in [1, 2, 3, 4])
    pairs = [(y, last) for x in range(3) if (y := x * 2)] if (last := 9) else None
    return running, total, found, hit, pairs, y


def walrus_in_a_nested_comprehension():
    rows = [[(n := i * j) for j in range(3)] for i in range(3)]
    return rows, n


def unpacking_targets():
    pairs = [(1, (2, 3)), (4, (5, 6))]
    return (
        [a + b * c for a, (b, c) in pairs],
        [rest for first, *rest in ["abc", "d"]],
        {k: v for k, v in zip("ab", pairs)},
    )


def attribute_and_item_targets():
    class Box:
        pass

    box, items = Box(), [0, 0]
    seen = [box.x for box.x in range(3)]
    others = [items[1] for items[1] in "ab"]
    return seen, box.x, others, items


def exceptions_inside():
    def f(x):
        if x == 2:
            raise ValueError(x)
        return x

    def unpack():
        return [a for a, b in [(1, 2), (3,)]]

    return (
        error_of(lambda: [f(x) for x in range(4)]),
        error_of(lambda: {x: 1 / x for x in (1, 0)}),
        error_of(unpack),
    )


def an_exception_inside_a_comprehension_restores_the_outer_variable():
    x = "outer"
    try:
        [1 / x for x in (1, 0)]
    except ZeroDivisionError:
        pass
    try:
        [y for x in (1, 2) for y in x]
    except TypeError as e:
        return x, str(e)


def an_exception_in_a_comprehension_leaves_the_program():
    table = {"a": 1}
    return [table[k] for k in "ab"]


def the_order_of_evaluation_in_a_dict_comprehension():
    def say(x):
        print(x)
        return x

    return {say(f"k{i}"): say(f"v{i}") for i in range(2)}


def later_keys_win_in_dict_comprehensions():
    return {len(w): w for w in ("a", "bb", "c", "dd")}, {k.lower(): k for k in "aAbB"}


def comprehensions_over_generators_and_strings():
    def g():
        yield from "xyz"

    return [c.upper() for c in g()], {c for c in "a"}, [*(c for c in g() if c != "y")]


def a_comprehension_in_a_method_uses_self():
    class C:
        scale = 3

        def all(self, items):
            return [self.scale * i for i in items if self.keep(i)]

        def keep(self, i):
            return i % 2 == 0

    return C().all(range(5))


def a_comprehension_in_default_arguments_and_decorators():
    def tag(*names):
        def decorate(f):
            f.names = names
            return f

        return decorate

    @tag(*[n * 2 for n in "ab"])
    def f(x=[i for i in range(3)]):
        return x

    return f(), f.names


def comprehensions_in_conditions_and_subscripts():
    xs = [3, 1, 2]
    if [x for x in xs if x > 2]:
        xs[[i for i in range(3) if xs[i] == 1][0]] = 100
    return xs, "yes" if {x for x in ()} else "no", [xs[i : i + 2] for i in range(2)]


def comprehensions_that_delete_and_shadow_builtins():
    result = [len for len in ("a", "b")]
    return result, len(result)


def locals_inside_a_comprehension():
    outer = 1
    keys = [sorted(k for k in list(locals()) if not k.startswith(".")) for inner in range(1)]
    return outer, "inner" in keys[0]


def deep_nesting():
    return [[[[(a, b, c, d) for d in range(2)] for c in range(1)] for b in range(2)] for a in range(2)]


def starred_items_in_displays_around_comprehensions():
    return (
        [0, *[x for x in range(2)], *(x * 10 for x in range(2))],
        {**{k: 1 for k in "a"}, "b": 2},
        {*{x for x in "q"}, "r"},
    )


def a_sieve_and_pythagorean_triples():
    n = 30
    sieve = [p for p in range(2, n) if all(p % q for q in range(2, int(p**0.5) + 1))]
    triples = [
        (a, b, c) for a in range(1, n) for b in range(a, n) for c in range(b, n) if a * a + b * b == c * c
    ]
    return sieve, triples


def word_counts_by_comprehension():
    text = "the cat and the dog and the bird"
    words = text.split()
    counts = {w: sum(1 for v in words if v == w) for w in dict.fromkeys(words)}
    by_count = {
        n: sorted(w for w, c in counts.items() if c == n) for n in sorted(set(counts.values()), reverse=True)
    }
    return counts, by_count


def matrix_operations_by_comprehension():
    a, b = [[1, 2], [3, 4]], [[0, 1], [1, 0]]
    product = [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]
    transposed = [list(column) for column in zip(*a)]
    identity = [[int(i == j) for j in range(2)] for i in range(2)]
    return product, transposed, identity, [[*row, sum(row)] for row in a]


def game_of_life_by_set_comprehension():
    def step(cells):
        near = {(x + dx, y + dy) for x, y in cells for dx in (-1, 0, 1) for dy in (-1, 0, 1)}

        def neighbours(x, y):
            return sum((x + dx, y + dy) in cells for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy)

        return {c for c in near if (n := neighbours(*c)) == 3 or n == 2 and c in cells}

    glider = {(1, 0), (2, 1), (0, 2), (1, 2), (2, 2)}
    for _ in range(4):
        glider = step(glider)
    return sorted(glider)


def variables_of_a_comprehension_in_a_class_body():
    class Body:
        first = 1
        seen = [sorted(locals())[-1] for zz in range(2)]

    return Body.seen
