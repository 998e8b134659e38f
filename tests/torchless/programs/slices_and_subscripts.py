"""Indexing and slicing, on builtins and on own classes."""

from programs import error_of


class _Recorder:
    def __getitem__(self, key):
        return "get", key

    def __setitem__(self, key, value):
        print("set", key, value)

    def __delitem__(self, key):
        print("del", key)


def slices_of_sequences():
    s, a = "abcdefg", [0, 1, 2, 3, 4]
    i, j, k = 1, 4, 2
    return [
        s[i:j],
        s[:j],
        s[i:],
        s[:],
        s[i:j:k],
        s[::-1],
        s[-3:-1],
        s[10:],
        s[5:2],
        a[i:],
        a[::k],
        a[-1::-2],
        a[None:None],
        (1, 2, 3)[:2],
        range(10)[2:8:3],
        b"xyz"[1:],
    ]


def slice_assignment_grows_and_shrinks():
    a = list(range(6))
    a[1:3] = "xyz"
    a[:0] = [-1]
    a[-1:] = []
    a[2:2] = (7, 7)
    b = list(range(6))
    b[::2] = "abc"
    b[::-1] = list(b)
    return a, b


def slice_deletion():
    a, b, c = list(range(8)), list(range(8)), list(range(8))
    del a[2:5]
    del b[::3]
    del c[:]
    d = list(range(5))
    del d[-2:], d[0]
    return a, b, c, d


def slice_in_place_operators():
    a = [1, 2, 3, 4]
    a[1:3] += ["new"]
    a[:1] *= 3
    r = _Recorder()

    class Sums:
        def __getitem__(self, key):
            print("get", key)
            return 10

        def __setitem__(self, key, value):
            print("set", key, value)

    s = Sums()
    s[1:2] += 5
    s["k"] -= 1
    s[1, ::2] *= 2
    return a, r[1:2]


def slices_reach_own_classes_as_objects():
    r = _Recorder()
    a, b, c = 1, 2, 3
    r[a:b] = "two"
    r[a:b:c] = "three"
    r[:] = "all"
    r[a:b, ..., c] = "mixed"
    del r[a:b]
    del r[::c]
    del r[a, b]
    return [repr(x) for x in (r[a:b], r[:b], r[a:], r[:], r[a:b:c], r[a:b, c], r[()], r[a,], r[...])]


def slice_objects():
    s = slice(1, 10, 2)
    return [
        s.start,
        s.stop,
        s.step,
        s.indices(6),
        slice(5),
        slice(None, None, -1).indices(4),
        s == slice(1, 10, 2),
        "abcdefghijkl"[s],
        error_of(lambda: slice()),
        error_of(lambda: slice(1, 2, 0).indices(5)),
    ]


def slice_errors():
    a, text, number, nothing = [1, 2, 3], "abc", 1, None

    def extended():
        a[::2] = [1]

    return [
        error_of(lambda: a["x":]),
        error_of(lambda: a[::0]),
        error_of(lambda: a[1.5:]),
        error_of(extended),
        error_of(lambda: a[1, number]),
        error_of(lambda: {}[1:2]),
        error_of(lambda: text["a"]),
        error_of(lambda: number[0]),
        error_of(lambda: nothing[0]),
    ]


def subscripting_things_that_do_not_support_it():
    x = 5

    def assign():
        x[0] = 1

    def delete():
        del x[0]

    def assign_slice():
        x[1:2] = []

    def delete_slice():
        del x[1:2]

    def no_delete():
        class Half:
            def __getitem__(self, k):
                return k

        del Half()[0]

    return [
        error_of(f)
        for f in (
            lambda: x[0],
            lambda: x[1:2],
            assign,
            delete,
            assign_slice,
            delete_slice,
            no_delete,
            lambda: len[0],
        )
    ]


def an_index_out_of_range_leaves_the_program():
    row = [1, 2, 3]
    return row[0] + row[len(row)]


def index_protocol_in_slices():
    class Two:
        def __index__(self):
            print("index")
            return 2

    t = Two()
    a = list(range(6))
    a[t] = "two"
    return a[t], a[t:], a[:t:t], "abcd"[t], a[-2]


def negative_indices():
    a = [1, 2, 3]
    a[-1] += 10
    a[-3], a[-2] = a[-2], a[-3]
    return a, a[-3:], a[:-1], error_of(lambda: a[-4])


def nested_subscripts_and_calls():
    table = {"rows": [[1, 2], [3, {"deep": (4, 5)}]], "f": lambda i: [i, i * 2]}
    table["rows"][1][1]["deep"] += (6,)
    table["rows"][0][::-1][0]
    return table["rows"][1][1]["deep"][-1], table["f"](3)[1], table["rows"][0][table["rows"][0][0]]


def evaluation_order_of_slices():
    def say(x):
        print(x)
        return x

    a = list(range(10))
    a[say(1) : say(5) : say(2)] = [say(8), say(9)]
    return a[say(0) : say(4)], a


def a_sparse_grid_with_tuple_keys():
    class Grid:
        def __init__(self, width, height, fill="."):
            self.size, self.fill, self.cells = (width, height), fill, {}

        def _expand(self, key):
            x, y = key if isinstance(key, tuple) else (key, slice(None))
            xs = range(*x.indices(self.size[0])) if isinstance(x, slice) else [x]
            ys = range(*y.indices(self.size[1])) if isinstance(y, slice) else [y]
            return [(i, j) for j in ys for i in xs]

        def __setitem__(self, key, value):
            for cell in self._expand(key):
                self.cells[cell] = value

        def __getitem__(self, key):
            found = [self.cells.get(cell, self.fill) for cell in self._expand(key)]
            return found[0] if len(found) == 1 else "".join(found)

        def __delitem__(self, key):
            for cell in self._expand(key):
                self.cells.pop(cell, None)

        def __str__(self):
            return "\n".join(self[:, y] for y in range(self.size[1]))

    g = Grid(5, 3)
    g[1:4, 1] = "#"
    g[0] = "|"
    g[4, ::2] = "*"
    del g[2, 1]
    print(g)
    return g[1, 1], g[2, 1], g[:, 0]
