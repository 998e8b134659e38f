"""Breaks inside loops over iterables of every kind."""

import collections
import itertools
from pathlib import Path

import torch

from break_programs import RECORDS, case, matrices, program, values


@program
def over_a_list(stop):
    def f(x):
        y = x * 2
        for n in [1, x, 3]:
            y = y + stop(n)
        return y, n

    return f


@program
def over_a_tuple_of_tensors(stop):
    def f(x):
        out = []
        for a in (x, x + 1, x * 2):
            b = a * 2
            stop(b)
            out.append(b - 1)
        return out, a

    return f


@program
def over_a_dictionary(stop):
    def f(x, table):
        for key in table:
            table[key] = table[key] + stop(x)
            x = x * 2
        return x, list(table)

    return f, {"a": 1, "b": 2}


@program
def over_items_values_and_keys(stop):
    def f(x, table):
        y = x * 2
        for key, value in table.items():
            y = y + stop(value)
        for value in table.values():
            y = y * stop(value)
        for key in table.keys():
            y = y - len(stop(key))
        return y

    return f, {"a": 1, "bb": 2}


@program
def over_a_dictionary_that_grows(stop):
    def f(x, table, log):
        try:
            for key in table:
                table["new"] = x * 2
                log.append(stop(key))
        except RuntimeError as error:
            log.append(error.args)
        return x + len(table)

    return f, {"a": 1, "b": 2}, []


@program
def over_a_dictionary_that_changes_behind_its_iterator(stop):
    def f(x, table, log):
        for n, pair in zip(range(5), table.items()):
            last = table.pop("c", x)
            log.append((n, stop(pair)))
            table["c"] = last
        for key in (own := {"a": 1, "b": 2, "c": 3}):
            if key != "c":
                own["a"] = own.pop("a")
                log.append(stop(key))
        return x + len(table)

    return f, {"a": 1, "b": 2, "c": 3}, []


@program
def over_what_is_empty_at_first_and_what_shrinks(stop):
    def f(x, log):
        table, numbers, ordered = {}, {1, 2}, collections.OrderedDict(a=1, b=2)
        iterators = [iter(table), iter(table.values()), iter(numbers), reversed(ordered)]
        next(iterators[2]), next(iterators[3])
        stop(x)
        table["new"] = x * 2
        numbers.discard(1)
        del ordered["a"]
        for iterator in iterators:
            try:
                log.append(next(iterator))
            except (RuntimeError, StopIteration) as error:
                log.append(error.args)
        return x + 1

    return f, []


@program
def over_a_range(stop):
    def f(x):
        for n in range(1, 8, 3):
            x = stop(x) * n
        for n in range(3, 0, -1):
            x = x + stop(n)
        return x, n

    return f


@program
def over_zip_and_enumerate(stop):
    def f(x):
        y = x * 2
        for n, (a, b) in enumerate(zip([x, y], "ab", strict=True), start=stop(1)):
            y = y + stop(a) * n
        for a, b in zip((1, 2, 3), iter([x, y])):
            y = y + a * stop(b)
        return y, n, b

    return f


@program
def over_map_and_filter(stop):
    def f(x):
        y = x * 2
        for v in map(lambda n: stop(x * n), [1, 2]):
            y = y + v
        for v in filter(lambda n: stop(n) % 2, range(5)):
            y = y * v + 1
        for v in map(torch.add, [x, y], [y, x]):
            y = y + stop(v)
        return y

    return f


@program
def over_reversed_and_sorted(stop):
    def f(x):
        y = x * 2
        for n in reversed([1, 2, 3]):
            y = y * n + stop(n)
        for n in sorted([3, 1, 2], key=lambda n: -n):
            y = y - stop(n)
        for n in reversed(range(3)):
            y = stop(y) + n
        return y

    return f


@program
def over_itertools_chain_and_islice(stop):
    def f(x):
        y = x * 2
        for n in itertools.chain([1], (2, 3), range(4, 6)):
            y = y + stop(n)
        for n in itertools.islice(itertools.count(10), 1, 6, 2):
            y = y - stop(n)
        for n in itertools.chain.from_iterable([[1, x], [x]]):
            y = y * stop(n)
        return y

    return f


@program
def over_itertools_count_until_break(stop):
    def f(x):
        for n in itertools.count(1, 2):
            x = x + stop(n)
            if n > 6:
                break
        return x, n

    return f


@program
def over_itertools_product_and_combinations(stop):
    def f(x):
        y = x * 2
        for a, b in itertools.product([1, 2], repeat=2):
            y = y + stop(a) * b
        for a, b in itertools.combinations((1, x, 3), 2):
            y = y + a * stop(b)
        for pair in itertools.pairwise([1, 2, 3]):
            y = y - stop(pair)[0]
        return y

    return f


@program
def over_itertools_accumulate_and_cycle(stop):
    def f(x):
        y = x * 2
        for a in itertools.accumulate([x, x, x]):
            y = y + stop(a)
        for n, a in enumerate(itertools.cycle([1, x])):
            y = y + stop(a)
            if n == 4:
                break
        return y

    return f


@program
def over_itertools_groupby(stop):
    def f(x):
        out = []
        for key, group in itertools.groupby([1, 3, 2, 4, 5], key=lambda n: stop(n) % 2):
            out.append((stop(key), [x * n for n in group]))
        return out

    return f


@program
def over_itertools_zip_longest_and_takewhile(stop):
    def f(x):
        y = x * 2
        for a, b in itertools.zip_longest([1, 2], [3], fillvalue=0):
            y = y + stop(a) * b
        for n in itertools.takewhile(lambda n: stop(n) < 3, [1, 2, 3, 1]):
            y = y * n
        a, b = itertools.tee([1, 2])
        for n in a:
            y = y + stop(n)
        return y + sum(b)

    return f


@program
def over_a_generator_made_before(stop):
    def f(x):
        def numbers():
            n = 0
            while n < 3:
                n += 1
                yield x * n
            RECORDS.append("drained")

        y = x
        for v in numbers():
            stop(v)
            y = y + v
        return y

    return f


@program
def over_a_generator_that_breaks(stop):
    def f(x):
        def numbers():
            for n in range(3):
                stop(n)
                yield x * n
                stop(n)

        y = x * 2
        for v in numbers():
            y = y + v
        return y + 1

    return f


@program
def over_a_generator_that_is_left_early(stop):
    def f(x):
        def numbers():
            try:
                for n in range(5):
                    yield stop(x * n)
            finally:
                RECORDS.append("closed")

        y = x
        numbered = numbers()
        for v in numbered:
            y = y + stop(v)
            break
        numbered.close()
        RECORDS.append("after")
        return y

    return f


@program
def over_an_iterator_that_is_passed_in(stop):
    def f(x, numbers):
        y = x * 2
        for n in numbers:
            y = y + stop(n)
            if n == 2:
                break
        return y, next(numbers)

    return case(f, calls=[(x, iter([1, 2, 3, 4, 5])) for x in values()])


@program
def over_a_generator_that_is_passed_in(stop):
    def numbers(n):
        while True:
            got = yield n
            n = n + 1 if got is None else got

    def f(x, g):
        y = x * next(g)
        for n in g:
            y = y + stop(n)
            if n > 3:
                break
        return y + g.send(10), next(g)

    return case(f, calls=[(x, numbers(1)) for x in values()])


@program
def over_the_lines_of_a_file(stop):
    def f(x):
        y = x * 2
        with open("lines.txt") as lines:
            for line in lines:
                y = y + stop(int(line))
                if int(line) == 2:
                    break
            rest = lines.read()
        return y, rest

    Path("lines.txt").write_text("1\n2\n3\n4\n")
    return f


@program
def over_a_set_of_numbers(stop):
    def f(x):
        y = x * 2
        for n in {1, 2, 3}:
            y = y + stop(n)
        for n in frozenset([5]):
            y = y * stop(n)
        return y

    return f


@program
def over_a_string_and_bytes(stop):
    def f(x):
        y = x * 2
        for letter in "abc":
            y = y + ord(stop(letter))
        for byte in b"xy":
            y = y - stop(byte)
        return y

    return f


@program
def over_a_tensor(stop):
    def f(m):
        out = []
        for row in m * 2:
            out.append(row + 1)
            stop(row)
        return torch.stack(out), row

    return case(f, inputs=matrices())


@program
def over_the_values_of_a_tensor():
    def f(x):
        total, out = 0, []
        for v in x:
            if v > 0:
                total += v.item()
            elif not v:
                continue
            out.append(v * total)
        return out, total, [v for v in x.tolist()]

    return f


@program
def over_a_deque_and_other_collections(stop):
    def f(x, queue):
        y = x * 2
        for v in queue:
            y = y + stop(v)
        queue.append(y)
        for key, count in collections.Counter("aab").items():
            y = y * stop(count)
        for key in collections.OrderedDict(a=1, b=2):
            y = y + len(stop(key))
        return y

    return f, collections.deque([1, 2], maxlen=4)


@program
def over_an_object_with_iter_and_next(stop):
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    def f(x):
        y, c = x * 2, Countdown(3)
        for n in c:
            y = y + stop(n)
        return y, c.n, list(c)

    return f


@program
def over_an_object_whose_iter_and_next_break(stop):
    class Numbers:
        def __init__(self, x):
            self.x, self.n = x, 0

        def __iter__(self):
            RECORDS.append("iter")
            stop(self.x)
            return self

        def __next__(self):
            self.n += 1
            RECORDS.append(self.n)
            stop(self.n)
            if self.n > 3:
                raise StopIteration(self.n)
            return self.x * self.n

    def f(x):
        y = x
        for v in Numbers(x * 2):
            y = y + v
        else:
            y = y - 1
        return y

    return f


@program
def over_an_object_with_getitem_only(stop):
    class Numbers:
        def __getitem__(self, n):
            if n == 3:
                raise IndexError(n)
            return stop(n) + 1

    def f(x):
        y = x * 2
        for n in Numbers():
            y = y * n
        return y, list(Numbers())

    return f


@program
def over_iter_with_a_sentinel(stop):
    def f(x):
        numbers = [1, 2, 0, 3]
        y = x * 2
        for n in iter(lambda: stop(numbers.pop(0)), 0):
            y = y + n
        return y, numbers

    return f


@program
def over_modules_and_parameters(stop):
    def f(x, layers):
        for layer in layers:
            x = layer(x)
            stop(x)
        for name, p in layers.named_parameters():
            x = x + p.sum() * len(stop(name))
        return x

    layers = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3)])
    return f, layers
