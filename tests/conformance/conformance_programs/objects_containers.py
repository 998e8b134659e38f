"""Objects from outside that contain others: sequences, mappings, sets, and classes derived from these."""

from __future__ import annotations

import array
import collections
import dataclasses
import types
import typing

import torch
from transformers import PretrainedConfig
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import ModelOutput

from conformance_programs._objects import Kind, chapter, each

Point = collections.namedtuple("Point", "x y")


class Pair(typing.NamedTuple):
    left: typing.Any
    right: int = 0

    @property
    def swapped(self):
        return Pair(self.right, self.left)


class Stack(list):
    """With an attribute, and a method that changes it."""

    def __init__(self, items=(), label="s"):
        super().__init__(items)
        self.label = label

    def push(self, item):
        self.append(item)
        return self


class Loud(list):
    def __getitem__(self, index):
        return ("item", super().__getitem__(index))

    def __len__(self):
        return 10 * super().__len__()


class Trio(tuple):
    def total(self):
        return sum(self)


class Config(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value


class Lenient(dict):
    def __missing__(self, key):
        return f"no {key}"


class Tags(set):
    def toggle(self, item):
        (self.discard if item in self else self.add)(item)


class Table(collections.abc.Mapping):
    def __init__(self, **held):
        self.held = held

    def __getitem__(self, key):
        return self.held[key]

    def __iter__(self):
        return iter(self.held)

    def __len__(self):
        return len(self.held)


class Register(collections.abc.MutableMapping):
    def __init__(self, **held):
        self.held, self.writes = dict(held), 0

    def __getitem__(self, key):
        return self.held[key]

    def __setitem__(self, key, value):
        self.held[key] = value
        self.writes += 1

    def __delitem__(self, key):
        del self.held[key]

    def __iter__(self):
        return iter(self.held)

    def __len__(self):
        return len(self.held)


class Row(collections.abc.Sequence):
    def __init__(self, *items):
        self.items = items

    def __getitem__(self, n):
        return self.items[n]

    def __len__(self):
        return len(self.items)


class Output(ModelOutput):
    loss: typing.Any = None
    logits: typing.Any = None


Output = dataclasses.dataclass(Output)


def counter(**counts):
    return collections.Counter(counts)


def ordered(**items):
    return collections.OrderedDict(items)


def chained():
    return collections.ChainMap({"a": 1}, {"a": 2, "b": 3})


ITERATED = each("iterated", ("opaque object", "iterator from before"))
SEQUENCE = """
    indexed: v[0], v[-1], v[1:], v[::-1]
    found: v.index(v[0]), v.count(2), 99 in v
"""
LISTS = (
    SEQUENCE
    + """
    appended: v.append(9)
    extended: v.extend([7, 8]); v.__iadd__([6])
    assigned: v[0] = (v[-1], "new")
    removed:
        out.append(v.pop())
        v.insert(0, "front")
        del v[1]
    sliced:
        v[1:1] = [5]
    reversed: v.reverse()
    sorted: sorted(map(str, v))
    joined: v + [1], v * 2, [*v, *v]
"""
)
MAPPING = """
    indexed: v["a"], v.get("a"), v.get("zz", 4), "a" in v, "zz" in v
"""
DICTS = (
    MAPPING
    + """
    assigned: v["new"] = len(v)
    updated: v.update(b=5, c=6); v.__ior__({"d": 1})
    removed:
        out.append(v.pop("a"))
        v["a"] = 1
    defaulted: v.setdefault("s", []).append(1)
    joined: {**v, "z": 1}, dict(v), v | {"q": 2}
    comprehended: {key: value for key, value in v.items()}, sorted(map(str, v))
"""
)
SETS = """
    asked: 1 in v, v <= {1, 2, 3}, v & {1}, v.isdisjoint({9}), len(v | {7}), v - {1}, sorted(v)
"""

chapter(
    Kind("tuple", lambda: (1, "b", 2.5), lambda: (4, 5), SEQUENCE + "joined: v + (1,), v * 2\n"),
    Kind("empty_tuple", lambda: (), lambda: (1,), without="unpacked"),
    Kind("nested_tuple", lambda: ((1, [2]), {"k": (3,)}), own="deep: v[0][1][0], v[1]['k'][0]\nchanged: v[0][1].append(5)"),
    Kind("list", lambda: [1, "b", 2], lambda: [4, 5], LISTS, without="ordered"),
    Kind("empty_list", lambda: [], lambda: [1], "appended: v.append(9)", without="unpacked"),
    Kind("tensors", lambda: [torch.ones(3), torch.zeros(3)], lambda: [torch.full((3,), 2.0), torch.ones(3)], """
        summed: sum(v), torch.stack(v), v[0] + x, torch.cat([*v, x])
        replaced: v[0] = x * 2
        in_place: v[1].add_(1)
        member: any(each is x for each in v), [id(each) == id(v[0]) for each in v]
    """, {}, "equal contained text"),
    Kind("deque", lambda: collections.deque([1, "b", 2], maxlen=4), lambda: collections.deque([5, 6]), """
        indexed: v[0], v[-1], v.maxlen, v.index(v[0]), v.count(2)
        appended: v.append(9); v.appendleft(8)
        rotated: v.rotate(1)
        removed: v.pop(), v.popleft() if len(v) > 3 else None
        extended: v.extend([1])
        assigned: v[0] = "new"
    """, without="ordered"),
    Kind("named_tuple", lambda: Point(1, [2]), lambda: Point("u", 3), SEQUENCE + """
        fields: v.x, v.y, v._fields, v._asdict(), v._replace(x=5), Point(*v) == v
    """, scope={"Point": Point}, without="ordered"),
    Kind("typed_tuple", lambda: Pair([1], 2), lambda: Pair(2), "fields: v.left, v.right, v.swapped, v._field_defaults, v[0]", without="ordered"),
    Kind("return_type", lambda: torch.ones(2, 3).max(dim=0), lambda: torch.zeros(4, 2).max(dim=0), "fields: v.values + 1, v.indices, v[0], v.values is v[0]", {}, "equal ordered contained text hashed"),
    Kind("user_list", lambda: Stack([1, "b", 2], "t"), lambda: Stack([4, 5]), LISTS + """
        labelled: v.label
        relabelled: v.label = v.label + "!"
        pushed: v.push(3) is v
        new_attribute: v.extra = [v.label]
    """, without="ordered"),
    Kind("loud_list", lambda: Loud([1, 2]), lambda: Loud([3]), "indexed: v[0], list.__getitem__(v, 0), list.__len__(v)\nappended: v.append(5)"),
    Kind("user_tuple", lambda: Trio((1, 2, 3)), lambda: Trio((4, 5, 6)), SEQUENCE + "summed: v.total(), x * v.total()\n"),
    Kind("user_sequence", lambda: Row(1, 2, 3), lambda: Row(4), "indexed: v[0], v[-1], v[1:], v.index(v[0]), v.count(1), list(reversed(v))", without="unpacked"),
    Kind("dict", lambda: {"a": 1, "b": [2]}, lambda: {"a": 5, "c": {}}, DICTS),
    Kind("empty_dict", lambda: {}, lambda: {"a": 1}, "assigned: v['k'] = 1", without="unpacked"),
    Kind("dict_of_objects", lambda: {None: 1, (1, 2): 2, torch.float32: 3, int: 4, len: 5}, own="indexed: v[None], v[1, 2], v[torch.float32], v[int], v.get(len)"),
    Kind("ordered_dict", lambda: ordered(a=1, b=2), lambda: ordered(b=1, a=3), DICTS + "moved: v.move_to_end('b'); out.append(list(v))\nlast: v.popitem(last=True)\nreversed: list(reversed(v))\n"),
    Kind("default_dict", lambda: collections.defaultdict(list, a=[1]), lambda: collections.defaultdict(int, a=1), MAPPING + "missing: v['q']\nfactory: v.default_factory()\ncounted: v['n'] += v['n']\n"),
    Kind("counter", lambda: counter(a=2, b=1), lambda: counter(a=1), MAPPING + "counts: v.most_common(), v.total(), v['zz'], v + v, v - v, sorted(v.elements())\nupdated: v.update('ab'); v['c'] += 1\nsubtracted: v.subtract(a=1)\n"),
    Kind("chain_map", chained, lambda: collections.ChainMap({"a": 5}), MAPPING + "assigned: v['n'] = 1\nmaps: v.maps, v.parents, v.new_child({'z': 1})\nremoved: v.maps[0].clear(); v['a'] = 4\n"),
    Kind("mapping_proxy", lambda: types.MappingProxyType({"a": 1, "b": 2}), lambda: types.MappingProxyType({"a": 3}), MAPPING + "joined: dict(v), v | {'c': 1}\n"),
    Kind("user_dict", lambda: collections.UserDict(a=1, b=2), lambda: collections.UserDict(a=4), MAPPING + "assigned: v['c'] = 8\ndata: v.data\nremoved: v.pop('a'); v['a'] = 2\n"),
    Kind("list_wrapper", lambda: collections.UserList([1, 2]), lambda: collections.UserList([3]), SEQUENCE + "appended: v.append(3)\ndata: v.data\n"),
    Kind("string_wrapper", lambda: collections.UserString("abc"), lambda: collections.UserString("d"), "methods: v.upper(), v[0], v + 'd', v.data"),
    Kind("config_dict", lambda: Config(a=1, b=2), lambda: Config(a=2), DICTS + "attributes: v.a, hasattr(v, 'zz'), getattr(v, 'zz', 3)\nset: v.n = 5\n"),
    Kind("lenient_dict", lambda: Lenient(a=1), lambda: Lenient(a=2), "missing: v['a'], v['q'], v.get('q')"),
    Kind("mapping", lambda: Table(a=1, b=2), lambda: Table(a=3), MAPPING + "values: list(v.values()), v == {'a': 1, 'b': 2}, v.items() == v.items()\n"),
    Kind("mutable_mapping", lambda: Register(a=1), lambda: Register(a=2), MAPPING + "assigned: v['b'] = 7; out.append(v.writes)\nupdated: v.update(c=1); v.setdefault('d', 2)\nremoved: v.pop('a'); v['a'] = 0\n"),
    Kind("set", lambda: {1, 2, 3}, lambda: {1, 4}, SETS),
    Kind("changing_set", lambda: {1, 2, 3}, lambda: {1, 4}, "added: v.add(5); v.discard(1); out.append(sorted(v))\nupdated: v.update({8}); out.append(8 in v)\n", without="returned iterated unpacked contained enumerated equal ordered text copied deeply_copied"),
    Kind("empty_set", lambda: set(), lambda: {1}, "added: v.add(5)", without="unpacked"),
    Kind("frozenset", lambda: frozenset((1, 2, 3)), lambda: frozenset((1, 4)), SETS),
    Kind("user_set", lambda: Tags({1, 2}), lambda: Tags({3}), SETS + "toggled: v.toggle(7)\n"),
    Kind("keys", lambda: {"a": 1, "b": 2}.keys(), lambda: {"a": 3}.keys(), "asked: 'a' in v, v & {'a'}, v | {'c'}, sorted(v), list(reversed(v))"),
    Kind("values", lambda: {"a": 1, "b": [2]}.values(), lambda: {"a": 3}.values(), "asked: 1 in v, list(v), list(reversed(v))"),
    Kind("items", lambda: {"a": 1, "b": 2}.items(), lambda: {"a": 3}.items(), "asked: ('a', 1) in v, dict(v), list(v)"),
    Kind("ordered_keys", lambda: ordered(a=1, b=2).keys(), lambda: ordered(b=1).keys(), "asked: 'a' in v, list(v), list(reversed(v))"),
    Kind("ordered_values", lambda: ordered(a=1, b=2).values(), lambda: ordered(b=1).values(), "asked: 1 in v, list(v)"),
    Kind("ordered_items", lambda: ordered(a=1, b=2).items(), lambda: ordered(b=1).items(), "asked: ('a', 1) in v, list(v)"),
    Kind("bytearray", lambda: bytearray(b"abc"), lambda: bytearray(b"d"), "indexed: v[0], v[1:], v.hex(), bytes(v)\nassigned: v[0] = 65\nappended: v.append(66)", {}, "unpacked"),
    Kind("memoryview", lambda: memoryview(b"abc"), own="indexed: v[0], v[1:].tobytes(), v.nbytes, bytes(v)", breaks=ITERATED | each("truth length hashed indexed", "opaque object"), without="text unpacked contained enumerated equal"),
    Kind("array", lambda: array.array("i", [1, 2]), lambda: array.array("i", [3]), "indexed: v[0], v.typecode, v.tolist()\nappended: v.append(3)", ITERATED | each("truth length text", "opaque object") | each("indexed", ("opaque object", "unknown native function")) | each("copied appended", "unknown native function"), "unpacked contained enumerated equal ordered deeply_copied"),
    Kind("model_output", lambda: BaseModelOutput(last_hidden_state=torch.ones(2)), lambda: BaseModelOutput(last_hidden_state=torch.zeros(2), hidden_states=(torch.ones(1),)), """
        read: v.last_hidden_state + 1, v["last_hidden_state"] * 2, v[0], v.hidden_states, v.to_tuple(), "attentions" in v
        changed: v.hidden_states = (x,)
        changed_item: v["attentions"] = (x,)
    """, {}, "equal contained text"),
    Kind("user_output", lambda: Output(loss=torch.ones(())), lambda: Output(logits=torch.zeros(2)), "read: v.loss, v.logits, v[0], len(v.to_tuple())\nmade: Output(loss=x.sum(), logits=x)\n", scope={"Output": Output}, breaks={}, without="equal contained unpacked text"),
    Kind("config", lambda: PretrainedConfig(hidden_size=3, extra=[1]), lambda: PretrainedConfig(hidden_size=4), """
        read: v.hidden_size * x, v.return_dict, getattr(v, "none_such", 3), hasattr(v, "extra"), v.output_attentions
        changed: v.hidden_size = v.hidden_size + 1
    """),
)  # fmt: skip
