"""Lists, tuples, ranges and the containers' own methods."""

from programs import error_of


def list_methods():
    a = [3, 1, 2]
    a.append(4)
    a.extend("xy")
    a.insert(1, "in")
    popped = a.pop(), a.pop(0)
    a.remove("x")
    index, count = a.index(2), a.count(1)
    b = a.copy()
    a.reverse()
    b.clear()
    return a, b, popped, index, count


def list_assignment_and_deletion():
    a = [0, 1, 2, 3, 4, 5]
    a[0] = "a"
    a[-1] = "z"
    del a[1]
    a[1:3] = ["b", "c", "d"]
    del a[::2]
    a[len(a) :] = [9, 9]
    a[::2] = "PQ" if len(a[::2]) == 2 else "PQR"
    return a


def list_errors():
    a = [1, 2, 3]

    def set_far():
        a[9] = 0

    def delete_far():
        del a[9]

    def extended():
        a[::2] = [1, 2, 3]

    def not_iterable():
        a[1:2] = 5

    def bad_index():
        a["x"] = 1

    return [
        error_of(f)
        for f in (
            set_far,
            delete_far,
            extended,
            not_iterable,
            bad_index,
            lambda: a[1.0],
            lambda: a.index(9),
            lambda: a + (1,),
        )
    ], a


def tuples():
    t = (1, 2, 2, 3)

    def assign():
        t[0] = 1

    return (
        t.count(2),
        t.index(3),
        t + (4,),
        t * 2,
        t[1:],
        t[-1],
        error_of(assign),
        tuple("ab"),
        (1, 2) < (1, 3),
        hash((1, 2)) == hash((1, 2)),
        (),
    )


def nested_lists_share_or_do_not_share():
    shared = [[0] * 2] * 2
    own = [[0] * 2 for _ in range(2)]
    shared[0][0] = own[0][0] = 1
    return shared, own


def a_list_that_contains_itself():
    a = [1]
    a.append(a)
    return repr(a), a[1] is a, len(a), a[1][1][0]


def comparison_of_sequences():
    return [
        [1, 2] == [1, 2],
        [1, 2] < [1, 2, 0],
        [2] > [1, 9],
        (1, "a") < (1, "b"),
        [] < [0],
        [1] == (1,),
        error_of(lambda: [1, "a"] < [1, 2]),
    ]


def ranges_are_sequences():
    r = range(10, 0, -3)
    return (
        list(r),
        len(r),
        r[1],
        r[-1],
        r[1:],
        7 in r,
        8 in r,
        r.index(4),
        r.count(4),
        reversed(r).__class__.__name__,
        list(reversed(r)),
        r == range(10, 1, -3),
        range(0),
    )


def list_multiplication_and_in_place():
    a = [1]
    b = a
    a *= 3
    b += "ab"
    a[0:0] = [0]
    return a is b, a, [] * 5, 2 * [1, 2], -1 * [1]


def sorting_in_place_returns_none():
    a = [3, 1, 2]
    return a.sort(), a, a.sort(reverse=True), list(a), a.reverse(), a, sorted(a) is a


def a_list_modified_during_sort():
    a = [3, 1, 2]

    def key(x):
        a.append(x)
        return x

    return error_of(lambda: a.sort(key=key))


def list_subclass_overrides():
    class Even(list):
        def append(self, x):
            if x % 2:
                raise ValueError(f"{x} is odd")
            super().append(x)

        def __contains__(self, x):
            return x % 2 == 0

        def __iter__(self):
            return (x * 10 for x in super().__iter__())

        def __len__(self):
            return 100

    e = Even([2])
    e.append(4)
    return (
        error_of(e.append, 3),
        100 in e,
        list(e),
        len(e),
        [*e],
        sum(e),
        e[0],
        bool(e),
        error_of(lambda: e[5]),
    )


def bool_of_every_container():
    return [
        bool(x)
        for x in (
            [],
            [0],
            (),
            (0,),
            {},
            {0: 0},
            set(),
            {0},
            "",
            " ",
            b"",
            b"0",
            range(0),
            range(1),
            0,
            0.0,
            0j,
            None,
            ...,
        )
    ]


def del_of_items_attributes_and_names():
    class C:
        pass

    c, d, a, b = C(), {"k": 1}, [1, 2, 3], 5
    c.x = 1
    del c.x, d["k"], a[0], b
    return vars(c), d, a, "b" in locals()


def memoryviews():
    data = bytearray(b"abcdef")
    view = memoryview(data)
    view[0] = 90
    view[1:3] = b"YX"
    return (
        bytes(data),
        view[3],
        bytes(view[::2]),
        len(view),
        view.tolist()[:2],
        error_of(lambda: view.__setitem__(0, 300)),
    )


def a_matrix_with_lists():
    def determinant(m):
        if len(m) == 1:
            return m[0][0]
        total = 0
        for j, x in enumerate(m[0]):
            minor = [row[:j] + row[j + 1 :] for row in m[1:]]
            total += (-1) ** j * x * determinant(minor)
        return total

    def transpose(m):
        result = [[None] * len(m) for _ in m[0]]
        for i, row in enumerate(m):
            for j, x in enumerate(row):
                result[j][i] = x
        return result

    m = [[2, 0, 1], [1, 3, 2], [1, 1, 4]]
    return determinant(m), transpose(m), determinant(transpose(m))


def a_stack_machine():
    def run(program):
        stack, variables, pc, output = [], {}, 0, []
        while pc < len(program):
            op, *args = program[pc].split()
            pc += 1
            if op == "push":
                stack.append(int(args[0]))
            elif op == "load":
                stack.append(variables[args[0]])
            elif op == "store":
                variables[args[0]] = stack.pop()
            elif op in ("add", "sub", "mul"):
                b, a = stack.pop(), stack.pop()
                stack.append({"add": a + b, "sub": a - b, "mul": a * b}[op])
            elif op == "print":
                output.append(stack[-1])
            elif op == "jnz":
                if stack.pop():
                    pc = int(args[0])
            else:
                raise ValueError(f"bad instruction {op} at {pc - 1}")
        return output, variables

    factorial = [
        "push 5",
        "store n",
        "push 1",
        "store r",
        "load r",
        "load n",
        "mul",
        "store r",
        "load n",
        "push 1",
        "sub",
        "store n",
        "load n",
        "jnz 4",
        "load r",
        "print",
    ]
    return run(factorial), error_of(run, ["add"]), error_of(run, ["jump 3"]), error_of(run, ["load q"])


def merge_sort_and_quick_sort():
    def merge_sort(items):
        if len(items) < 2:
            return items
        middle = len(items) // 2
        a, b, out = merge_sort(items[:middle]), merge_sort(items[middle:]), []
        while a and b:
            out.append((a if a[0] <= b[0] else b).pop(0))
        return out + a + b

    def quick_sort(items):
        if not items:
            return []
        pivot, *rest = items
        return (
            quick_sort([x for x in rest if x < pivot]) + [pivot] + quick_sort([x for x in rest if x >= pivot])
        )

    items = [5, 3, 8, 1, 9, 2, 7, 3]
    return merge_sort(items), quick_sort(items), items
