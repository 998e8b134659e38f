"""Effects on containers and classes on both sides of breaks."""

import collections
import types

import torch

from break_programs import Box, case, halt, program, values


@program
def list_operations_around_breaks(stop):
    def f(x, items):
        items.append(x * 2)
        items.insert(0, 1)
        stop(x)
        items.extend([x, 3])
        items[0] += 1
        stop(x)
        items.reverse()
        popped = items.pop(1)
        items += (4,)
        stop(x)
        del items[:2]
        return popped, items[-1], len(items)

    return f, [0]


@program
def dictionary_operations_around_breaks(stop):
    def f(x, table):
        table["new"] = x * 2
        table.setdefault("list", []).append(x)
        stop(x)
        table.update(a=1, new=table["new"] + 1)
        table |= {"b": 2}
        stop(x)
        first = table.pop("a")
        table["a"] = first + 1
        last = table.popitem()
        return list(table), last

    return f, {"k": 0}


@program
def set_operations_around_breaks(stop):
    def f(x, seen):
        n = len(seen)
        seen.add(n)
        stop(x)
        seen |= {n + 10}
        seen.discard(0)
        stop(x)
        seen ^= {10, 100}
        return x * len(seen), 10 in seen

    return f, {-1}


@program
def deque_operations_around_breaks(stop):
    def f(x, queue):
        queue.append(x * 2)
        queue.appendleft(1)
        stop(x)
        queue.rotate(1)
        queue.extend([3, x])
        stop(x)
        popped = queue.popleft()
        return popped, queue[-1] + 1, len(queue)

    return f, collections.deque([0, 0], maxlen=6)


@program
def ordered_dict_operations_around_breaks(stop):
    def f(x, table):
        table["c"] = x * 2
        table.move_to_end("a")
        stop(x)
        table["d"] = table.pop("c") + 1
        stop(x)
        table.move_to_end("d", last=False)
        return list(table), table["d"]

    return f, collections.OrderedDict(a=1, b=2)


@program
def defaultdict_and_counter_around_breaks(stop):
    def f(x, groups, counts):
        groups["a"].append(x * 2)
        counts["n"] += 1
        stop(x)
        groups["b"].append(groups["a"][-1])
        counts.update("nm")
        stop(x)
        return groups["c"], counts.most_common(1), groups["b"][-1] + 1

    return f, collections.defaultdict(list), collections.Counter()


@program
def user_containers_around_breaks(stop):
    class Log(list):
        def append(self, value):
            super().append((len(self), value))
            self.last = value

    class Table(dict):
        def __setitem__(self, key, value):
            self.writes = getattr(self, "writes", 0) + 1
            super().__setitem__(key, value)

    def f(x, log, table):
        log.append(x * 2)
        table["a"] = x
        stop(x)
        log.append(table["a"])
        table["a"] = log.last + 1
        stop(x)
        log[0] = None
        return table.writes, table["a"]

    return f, Log(), Table()


@program
def nested_containers_are_changed(stop):
    def f(x, tree):
        tree["a"][0]["b"].append(x * 2)
        stop(x)
        tree["a"].append({"b": tree["a"][0]["b"]})
        tree["a"][0]["b"] = []
        stop(x)
        tree["a"][-1]["b"][-1] = x + 1
        return len(tree["a"])

    return f, {"a": [{"b": []}]}


@program
def aliases_stay_aliases(stop):
    def f(x, box):
        items = box.items
        items.append(x * 2)
        box.copy = items
        stop(x)
        box.copy.append(x)
        box.items = list(items)
        stop(x)
        box.items.append("only here")
        return items is box.copy, items is box.items, len(items)

    return f, Box(items=[])


@program
def new_objects_in_old_and_old_in_new(stop):
    def f(x, old):
        new = Box(old=old, value=x * 2)
        old.new = new
        stop(x)
        new.value = new.value + 1
        old.news.append(new)
        newer = [old, new]
        stop(newer)
        new.friends = newer
        return newer[1] is old.new, old.new.friends[0] is old

    return f, Box(news=[])


@program
def cycles_are_made_around_a_break(stop):
    def f(x, kept):
        a, b = Box(v=x * 2), Box(v=x)
        a.b = b
        stop(a)
        b.a = a
        items = [a]
        items.append(items)
        stop(b)
        kept.append(items)
        return items[1] is items, a.b.a is a, a.v + 1

    return f, []


@program
def list_is_replaced_by_slices_and_multiplied(stop):
    def f(x, items):
        items[:] = [x * 2, *items]
        stop(x)
        items *= 2
        items[1:3] = []
        stop(x)
        items[len(items) :] = (x, None)
        return len(items), items[0] + 1

    return f, [1]


@program
def lists_grow_each_call(stop):
    def f(x, log):
        start = len(log)
        log.append(x * start)
        stop(x)
        log.append(log[0] + start)
        return sum(1 for _ in log), log[-1] + log[start]

    return case(f, [], inputs=[*values(), *values()])


@program
def caches_on_self(stop):
    class Cached:
        def __init__(self):
            self.memo, self.misses = {}, 0

        def power(self, n):
            if n not in self.memo:
                self.misses += 1
                stop(n)
                self.memo[n] = torch.full((3,), 2.0**n)
            return self.memo[n]

        def go(self, x):
            return x * self.power(2) + self.power(x.shape[0]) - self.power(2)

    def f(x, c):
        return c.go(x) + 1, c.misses

    return f, Cached()


@program
def counters_of_every_kind(stop):
    calls = 0

    def f(x, box, items):
        nonlocal calls
        calls += 1
        box.calls += 1
        items[0] += 1
        f.calls = getattr(f, "calls", 0) + 1
        stop(x)
        calls, box.calls, items[0] = calls + 10, box.calls + 10, items[0] + 10
        return x * calls + box.calls, items[0], f.calls

    return f, Box(calls=0), [0]


@program
def class_attributes_are_shared():
    def f(x, a):
        type(a).total += 1
        a.own = x * type(a).total
        halt(x)
        _Shared.total += 10
        a.total = -1
        halt(x)
        del a.total
        return a.total, _Shared().total, a.own + 1

    return case(f, _Shared(), watched=[_Shared])


class _Shared:
    total = 0


@program
def methods_are_replaced_on_the_class():
    def f(x, a):
        y = a.go(x)
        _Replaced.go = lambda self, v: v * 5
        halt(y)
        z = a.go(x)
        a.go = lambda v: v - 1
        halt(z)
        return y, z, a.go(x), _Replaced().go(x)

    return case(f, _Replaced(), watched=[_Replaced])


class _Replaced:
    def go(self, v):
        return v + 1


@program
def module_attributes_are_replaced(stop):
    def f(x, module):
        y = module.scale(x)
        module.scale = lambda v: v * 7
        stop(y)
        z = module.scale(x)
        module.seen.append(z)
        return y, z

    module = types.ModuleType("scratch")
    module.scale, module.seen = torch.relu, []
    return f, module
