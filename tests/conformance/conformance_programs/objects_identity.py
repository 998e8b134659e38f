"""Identity and aliasing: which object is which, in containers, in memory, after copies."""

from __future__ import annotations

import collections
import copy
import gc
import pickle
import weakref

import torch

from conformance_programs import error_of, program


class Node:
    def __init__(self, value=0):
        self.value = value


class Named:
    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return isinstance(other, Named) and self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Copied:
    def __init__(self, tensor):
        self.tensor, self.copies = tensor, 0

    def __copy__(self):
        made = Copied(self.tensor)
        made.copies = self.copies + 1
        return made

    def __deepcopy__(self, memo):
        made = Copied(self.tensor * 2)
        memo[id(self)] = made
        return made


class Pickled:
    def __init__(self, value):
        self.value = value

    def __getstate__(self):
        return {"saved": self.value}

    def __setstate__(self, state):
        self.value = state["saved"] + 1


class Reduced:
    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return Reduced, (self.value + 1,)


def _twice():
    shared = [1]
    return shared, shared


# The same under two names


@program(given=_twice)
def a_list_under_two_names(x, a, b):
    a.append(2)
    return x * len(b), a is b, b


@program(given=lambda: ([1], [1]), then=lambda n, a, b: (a, a) if n == 0 else (a, b))
def two_lists_become_one(x, a, b):
    a.append(len(b))
    return x * len(b), a is b, a == b


@program(given=_twice, then=lambda n, a, b: (a, [*b]) if n == 0 else None)
def one_list_becomes_two(x, a, b):
    a.append(5)
    return x + len(b), a is b


@program(given=lambda: ({"k": [0]},))
def an_element_under_two_names(x, held):
    first = held["k"]
    held["again"] = first
    first.append(1)
    return x * len(held["again"]), held["k"] is held["again"]


@program(given=lambda: [(lambda node: (node, [node]))(Node(3))][0])
def an_instance_and_a_list_of_it(x, node, nodes):
    nodes[0].value += 1
    return x * node.value, nodes[0] is node


@program(given=lambda: (torch.ones(3),), then=lambda n, y: (torch.zeros(3),) if n == 0 else None)
def a_tensor_returned_as_it_is(x, y):
    return y, x, [y, x], y is x, x + 1


@program(
    given=lambda: (lambda t: (t, t))(torch.ones(3)), then=lambda n, a, b: (a, a.clone()) if n == 0 else None
)
def a_tensor_under_two_names(x, a, b):
    a.add_(1)
    return x + b, a is b


@program(given=lambda: (lambda t: (t, t[1:]))(torch.ones(3)))
def two_views_of_one_memory(x, whole, part):
    part.mul_(3)
    return x + whole, whole[1:] + part


@program(given=lambda: (lambda t: (t, t.view(1, 3)))(torch.ones(3)))
def a_view_is_changed_through_its_base(x, whole, view):
    whole.add_(x)
    return view * 2


@program(given=lambda: (lambda t: (t, t.detach()))(torch.ones(3)))
def a_detached_alias(x, a, b):
    a.mul_(2)
    return b + x, a is b


@program
def an_alias_made_inside(x):
    y = x + 1
    z = y.view(3)
    z.add_(1)
    return y, z, y is z


@program
def results_that_are_one_object(x):
    made = [x + 1]
    return made, made, {"k": made}, (x, x)


@program(given=lambda: ([],))
def a_list_that_contains_itself(x, held):
    held.append(held)
    return x + len(held), held[0] is held


@program
def a_cycle_made_inside(x):
    made = {"x": x}
    made["me"] = made
    pair = [made]
    made["pair"] = pair
    return pair, x + 1


@program(given=lambda: (Node(),))
def an_object_holds_what_is_returned(x, node):
    node.value = [x + 1]
    return node.value, node


@program(given=lambda: ([Node(1), Node(1)],), then=lambda n, nodes: nodes.reverse())
def instances_are_told_apart(x, nodes):
    a, b = nodes
    a.value += 1
    return x * a.value, a is b, a == b, nodes.index(b)


# Tensors in containers


@program
def a_tensor_as_a_key(x):
    y = x + 1
    table = {x: 1, y: 2}
    return table[x], table[y], x in table, (x + 1) in table, list(table.values()), y


@program(given=lambda: (torch.ones(3), torch.ones(3)))
def outside_tensors_as_keys(x, a, b):
    table = {a: "a", b: "b"}
    return table[a], table[b], x in table, len({a, b, a}), table, x + 1


@program(given=lambda: (lambda t: ({t: 1}, t))(torch.ones(3)))
def a_given_table_with_tensor_keys(x, table, key):
    table[key] += 1
    return x * table[key], key in table, x in table


@program
def a_tensor_in_a_list_is_found_by_identity(x):
    y = x + 1
    held = [x, y]
    return held.index(x), x is held[0], any(each is y for each in held), y


@program(breaks="data-dependent branch")
def a_tensor_in_a_list_is_compared(x):
    y = x[:1] + 1
    return y in [y + 1, y], x * 2


@program
def a_tensor_first_in_a_list_is_in_it(x):
    return x in [x, 1], [x].index(x), [x].count(x), x + 1


@program
def a_tensor_is_removed_by_identity(x):
    y = x + 1
    held = [x, y]
    held.remove(x)
    return held


@program(given=lambda: ([torch.ones(3), torch.zeros(3)],))
def lists_of_tensors_are_compared_by_identity(x, held):
    return held == held, held == list(held), held is held, x + 1


@program
def tensors_in_sets(x):
    y = x + 1
    return len({x, y, x}), x in {x}, y in {x}, {x} == {x}, x * 2


@program
def tensors_in_tuples_that_are_keys(x):
    table = {(x, 1): "a"}
    return table[x, 1], (x, 2) in table, x + 1


@program(given=lambda: (torch.nn.ReLU(), torch.nn.ReLU()))
def modules_as_keys(x, a, b):
    names = {a: "a", b: "b"}
    return names[a], names.get(b), a in names, a(x)


@program(given=lambda: (torch.nn.LayerNorm(3),))
def parameters_as_keys(x, module):
    names = {parameter: name for name, parameter in module.named_parameters()}
    return names[module.weight], names[module.bias], len(set(module.parameters())), x + 1


@program
def keys_that_are_equal_are_one(x):
    table = {Named("a"): 1}
    table[Named("a")] = 2
    return table[Named("a")], len(table), len({Named("a"), Named("a")}), x + 1


@program
def numbers_that_are_equal_are_one_key(x):
    table = {1: "int"}
    table[True] = "bool"
    table[1.0] = "float"
    return table, 1.0 in table, x + 1


@program
def not_a_number_is_found_by_identity(x):
    nan = float("nan")
    return nan in [nan], nan == nan, [nan] == [nan], {nan: 1}.get(nan), [nan].index(nan), x + 1


@program
def identity_of_small_constants(x):
    a, b = 5, 5
    return a is b, None is a, (a == b) is True, x + 1


@program
def identity_of_classes_and_functions(x):
    return type(x) is torch.Tensor, Node is Node, len is len, type(Node()) is Node, x + 1


# Addresses


@program
def addresses_tell_objects_apart(x):
    y = x + 1
    return id(x) == id(x), id(x) == id(y), id(x) != id(y), id(x) in {id(x): 1}, y


@program(given=lambda: ([1], [1]))
def addresses_of_given_objects(x, a, b):
    return id(a) == id(a), id(a) == id(b), x + 1


@program
def a_memo_by_address(x):
    memo = {}

    def doubled(t):
        if id(t) not in memo:
            memo[id(t)] = t * 2
        return memo[id(t)]

    return doubled(x) is doubled(x), doubled(x), len(memo)


@program(breaks="address of an abstract value")
def an_address_as_text(x):
    y = x + 1
    return isinstance(hex(id(y)), str), y


@program(breaks="address of an abstract value")
def the_default_text_of_an_object(x):
    return repr(Node()).startswith("<"), x + 1


@program
def the_hash_of_a_tensor(x):
    return hash(x) == hash(x), x + 1


# Weak references made inside


@program
def a_weak_reference_to_an_inside_object(x):
    node = Node(3)
    reference = weakref.ref(node)
    return reference() is node, x + reference().value


@program(given=lambda: (Node(2),))
def a_weak_reference_to_a_given_object(x, node):
    return x * weakref.ref(node)().value


@program(given=lambda: (lambda n: (n, weakref.ref(n)))(Node(2)))
def a_given_weak_reference(x, node, reference):
    return x * reference().value, reference() is node, reference() is None


@program(
    given=lambda: (lambda n: ([n], weakref.ref(n)))(Node(2)),
    then=lambda n, held, reference: held.clear() if n == 0 else None,
)
def a_weak_reference_dies_between_calls(x, held, reference):
    found = reference()
    return x * (found.value if found is not None else 7), len(held)


@program(given=lambda: (lambda n: (n, weakref.proxy(n)))(Node(2)), breaks="opaque object")
def a_weak_proxy(x, node, proxy):
    y = x + 1
    return y * proxy.value


@program(given=lambda: (lambda n: (n, weakref.WeakValueDictionary(a=n)))(Node(2)))
def a_weak_value_dictionary(x, node, table):
    return x * table["a"].value, table["a"] is node, "b" in table


# Copies


@program
def a_shallow_copy_of_inside_containers(x):
    inner = [x]
    held = {"inner": inner, "t": (x, inner)}
    made = copy.copy(held)
    made["inner"].append(1)
    return held, made, made is held, made["inner"] is inner, x + 1


@program
def a_deep_copy_of_inside_containers(x):
    inner = [1, {"a": (2,)}]
    held = [inner, inner, "text"]
    made = copy.deepcopy(held)
    made[0].append(3)
    return held, made, made[0] is made[1], x + 1


@program(given=lambda: ([[1], {"k": [2]}],))
def a_shallow_copy_of_a_given_list(x, held):
    made = copy.copy(held)
    made[0].append(len(held))
    made.append(5)
    return held, made, made[1] is held[1], x + 1


@program(given=lambda: ([[1], {"k": [2]}],))
def a_deep_copy_of_a_given_list(x, held):
    made = copy.deepcopy(held)
    made[0].append(len(held))
    return held, made, made[1] is held[1], x + 1


@program(given=lambda: (Node([1]),))
def a_copy_of_a_given_instance(x, node):
    made, deep = copy.copy(node), copy.deepcopy(node)
    made.value.append(2)
    return made.value is node.value, deep.value, type(deep) is Node, x + 1


@program
def a_copy_of_a_cycle(x):
    held = [1]
    held.append(held)
    made = copy.deepcopy(held)
    return made[1] is made, made is held, x + 1


@program
def a_copy_of_an_instance_with_a_cycle(x):
    node = Node()
    node.value = [node]
    made = copy.deepcopy(node)
    return made.value[0] is made, made is node, x + 1


@program
def a_shallow_copy_keeps_the_tensor(x):
    node = Node(x)
    made = copy.copy(node)
    return made.value is x, [*copy.copy([x])][0] is x, x + 1


@program
def a_deep_copy_of_a_tensor(x):
    return copy.deepcopy(x) + 1, copy.deepcopy([x, x])


@program
def copies_by_their_own_methods(x):
    held = Copied(x)
    return copy.copy(held).copies, copy.copy(copy.copy(held)).copies, copy.deepcopy([held, held])


@program
def copies_by_reduce_and_state(x):
    return copy.copy(Reduced(1)).value, copy.copy(Pickled(1)).value, copy.deepcopy(Pickled(2)).value, x + 1


@program(given=lambda: (Pickled(1), Reduced(2)))
def copies_of_given_objects_by_reduce_and_state(x, pickled, reduced):
    return copy.copy(pickled).value, copy.deepcopy(reduced).value, x + 1


@program(
    given=lambda: (
        collections.OrderedDict(a=[1]),
        collections.defaultdict(list, b=[2]),
        collections.deque([3], 4),
    )
)
def copies_of_given_collections(x, ordered, default, queue):
    return copy.copy(ordered), copy.deepcopy(default), copy.copy(queue), queue.copy(), default.copy(), x + 1


@program(breaks="unknown native function")
def pickled_and_back(x):
    y = x + 1
    made = pickle.loads(pickle.dumps({"a": [1, (2, 3)]}))
    return made, y * 2


@program(given=lambda: (Pickled(4),), breaks="unknown native function")
def a_given_object_pickled_and_back(x, held):
    y = x + 1
    return pickle.loads(pickle.dumps(held)).value, y


# Order


@program
def sorted_keeps_equal_elements_in_order(x):
    pairs = [(2, "a"), (1, "b"), (2, "c"), (1, "d")]
    return sorted(pairs, key=lambda pair: pair[0]), sorted(pairs, reverse=True), x + 1


@program(given=lambda: ({"b": 1, "a": 2},), then=lambda n, table: table.update({"b": table.pop("b")}))
def the_order_of_a_given_dictionary(x, table):
    return list(table), [*table.values()], next(iter(table)), x * len(table)


@program
def the_order_of_an_inside_dictionary(x):
    table = {"a": 1, "b": 2}
    del table["a"]
    table["a"] = 3
    return list(table), list(reversed(table)), table.popitem(), x + 1


@program
def tensors_are_sorted_by_what_they_are_not(x):
    return sorted([x, x + 1], key=lambda t: t.dim()), max([x, x], key=len) is x, x + 1


@program
def comparing_lists_with_tensors_first(x):
    return [1, x] < [2, x], (0, x) < (1, x), x + 1


# Collection


@program(breaks="unknown native function")
def the_collector_is_asked(x):
    y = x + 1
    gc.collect()
    return y * 2


@program(breaks="unknown native function")
def the_collector_is_switched(x):
    was = gc.isenabled()
    y = x + 1
    return y, was == gc.isenabled()


@program
def errors_of_lookups(x):
    return error_of(lambda: [1].index(2)), error_of(lambda: {}["k"]), x + 1
