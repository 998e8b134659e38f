#include "program.h"

#include "operations.h"
#include "tensor_spec.h"

#include <structmember.h>

#include <algorithm>
#include <string>
#include <unordered_map>

namespace framelift {

PyObject* missing = nullptr;

// ---- objects that die ----

namespace {

// Whether an object has died that a program compares with.
struct Invalidation {
  bool happened = false;
  int traverse(visitproc, void*) { return 0; }
};

// The callback of a program's weak references; `self` is its Invalidation.
PyObject* note_death(PyObject* self, PyObject*) {
  Box<Invalidation>::of(self).happened = true;
  Py_RETURN_NONE;
}

PyMethodDef note_death_method = {"note_death", note_death, METH_O, nullptr};

PyType_Slot invalidation_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(Box<Invalidation>::dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(Box<Invalidation>::traverse)},
    {0, nullptr},
};

PyType_Spec invalidation_spec = {
    "framelift._guards.Invalidation", sizeof(Box<Invalidation>), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, invalidation_slots};

}  // namespace

bool Program::is_invalidated() const {
  return Box<Invalidation>::of(invalidation.get()).happened;
}

// ---- evaluation ----

namespace {

// What stands for a class's bases, in order, among the names that are looked up on it.
PyObject* mro_name() {
  static PyObject* const name = PyUnicode_InternFromString("mro()");
  return name;
}

// The functions in a property, classmethod or staticmethod; empty for anything else.
std::vector<PyRef> parts_of(PyObject* descriptor) {
  std::vector<PyRef> parts;
  if (Py_IS_TYPE(descriptor, &PyProperty_Type)) {
    for (const char* name : {"fget", "fset", "fdel"}) {
      parts.push_back(get_attribute(descriptor, name));
    }
  } else if (Py_IS_TYPE(descriptor, &PyClassMethod_Type) || Py_IS_TYPE(descriptor, &PyStaticMethod_Type)) {
    parts.push_back(get_attribute(descriptor, "__func__"));
  }
  return parts;
}

}  // namespace

bool ClassLookups::Expected::is(PyObject* found) const {
  if (parts.empty()) {
    return value.is(found);
  }
  if (found == nullptr || !value.is(reinterpret_cast<PyObject*>(Py_TYPE(found)))) {
    return false;
  }
  std::vector<PyRef> others = parts_of(found);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].is(others[i].get())) {
      return false;
    }
  }
  return true;
}

bool same_bases(PyObject* found, const std::vector<Held>& expected) {
  if (found == nullptr || PyTuple_GET_SIZE(found) != static_cast<Py_ssize_t>(expected.size())) {
    return false;
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].is(PyTuple_GET_ITEM(found, i))) {
      return false;
    }
  }
  return true;
}

PyObject* ClassLookups::first_difference() {
  auto* own_type = reinterpret_cast<PyTypeObject*>(type.get());
  if (own_type == nullptr) {
    return expected.empty() ? Py_None : expected[0].name.get();
  }
  auto valid_version = [&] {
    return (own_type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) != 0 ? own_type->tp_version_tag : 0;
  };
  if (version != 0 && valid_version() == version) {
    return nullptr;
  }
  if (!mro.empty() && !same_bases(own_type->tp_mro, mro)) {
    return mro_name();
  }
  for (const Expected& lookup : expected) {
    if (!lookup.is(_PyType_Lookup(own_type, lookup.name.get()))) {
      return lookup.name.get();
    }
  }
  version = valid_version();  // the lookups gave the class a new version, if it can have one
  return nullptr;
}

int StorageGroups::first_difference(PyObject* const* inputs) const {
  struct Seen {
    const void* storage = nullptr;
    int group = 0;
  };
  size_t capacity = 2;
  while (capacity < 2 * slots.size()) {
    capacity *= 2;
  }
  std::vector<Seen> table(capacity);  // open addressing, by storage
  std::vector<const void*> of_group(slots.size(), nullptr);
  for (size_t i = 0; i < slots.size(); ++i) {
    PyObject* tensor = inputs[slots[i]];
    if (!is_tensor(tensor)) {
      return static_cast<int>(i);
    }
    const void* storage = storage_of(tensor);
    if (storage == nullptr) {
      storage = tensor;  // without a storage it shares one with itself only
    }
    size_t place = std::hash<const void*>()(storage) / 16 * 0x9E3779B97F4A7C15u >> 20;
    while (table[place % capacity].storage != nullptr &&
           table[place % capacity].storage != storage) {
      ++place;
    }
    Seen& seen = table[place % capacity];
    const void*& groups_storage = of_group[groups[i]];
    bool first_of_both = seen.storage == nullptr && groups_storage == nullptr;
    if (first_of_both) {
      seen = {storage, groups[i]};
      groups_storage = storage;
    } else if (groups_storage != storage || seen.group != groups[i]) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

namespace {

bool state_holds(Program& program, Failure* failure) {
  if (!program.state || Box<GlobalState>::of(program.state.get()).holds()) {
    return true;
  }
  if (failure != nullptr) {
    PyRef differences = PyRef::steal(Box<GlobalState>::of(program.state.get()).diff());
    fail(failure, FailureKind::STATE, std::nullopt, differences.get());
  }
  return false;
}

bool classes_hold(Program& program, Failure* failure) {
  for (size_t i = 0; i < program.classes.size(); ++i) {
    if (PyObject* name = program.classes[i].first_difference()) {
      return fail(failure, FailureKind::CLASS, static_cast<int>(i), name);
    }
  }
  return true;
}

bool storages_hold(Program& program, PyObject** inputs, Failure* failure) {
  if (program.storages.slots.empty()) {
    return true;
  }
  int position = program.storages.first_difference(inputs);
  return position < 0 ||
      fail(failure, FailureKind::STORAGE, position, inputs[program.storages.slots[position]]);
}

bool shapes_hold(Program& program, const Walk& walk, Failure* failure) {
  if (program.shapes.facts.empty()) {
    return true;
  }
  int fact = program.shapes.first_difference(walk.values);
  if (fact >= 0 && failure != nullptr) {
    PyRef found = PyRef::steal(program.shapes.found(walk.values));
    fail(failure, FailureKind::SHAPE, fact, found.get());
  }
  return fact < 0;
}

}  // namespace

bool Program::evaluate(
    PyObject* func, PyObject* const* locals, Py_ssize_t n_locals, PyObject** inputs,
    Failure* failure) {
  return with_pointers(nodes.size() + n_kept, [&](PyObject** values) {
    PyObject** kept = values + nodes.size();
    int kept_count = 0;
    bool holds;
    {
      Walk walk{*this, func, locals, n_locals, values, kept};
      holds = state_holds(*this, failure) && classes_hold(*this, failure) &&
          steps.hold(walk, inputs, failure) && shapes_hold(*this, walk, failure) &&
          storages_hold(*this, inputs, failure);
      kept_count = walk.n_kept;
    }
    for (int i = 0; holds && i < n_inputs; ++i) {
      Py_INCREF(inputs[i]);
    }
    // Only now, since dropping a value may run its finalizer.
    while (kept_count > 0) {
      Py_DECREF(kept[--kept_count]);
    }
    return holds;
  });
}

int Program::traverse(visitproc visit, void* arg) {
  for (const Node& node : nodes) {
    Py_VISIT(node.operand.object.owned());
  }
  for (const Check& check : checks) {
    Py_VISIT(check.operand.object.owned());
  }
  for (const ClassLookups& lookups : classes) {
    Py_VISIT(lookups.type.owned());
    for (const Held& base : lookups.mro) {
      Py_VISIT(base.owned());
    }
    for (const ClassLookups::Expected& lookup : lookups.expected) {
      Py_VISIT(lookup.value.owned());
      for (const Held& part : lookup.parts) {
        Py_VISIT(part.owned());
      }
    }
  }
  for (const std::vector<Held>& list : lists) {
    for (const Held& item : list) {
      Py_VISIT(item.owned());
    }
  }
  Py_VISIT(invalidation.get());
  Py_VISIT(on_death.get());
  Py_VISIT(state.get());
  return 0;
}

// ---- construction ----

namespace {

constexpr size_t MAX_KINDS_OF_TENSORS = 64;

bool expect(bool condition, const char* what, PyObject* got) {
  if (!condition) {
    PyErr_Format(PyExc_TypeError, "expected %s, got %R", what, got);
  }
  return condition;
}

bool take_number(Operand& operand, PyObject* object, Py_ssize_t limit, const char* what) {
  operand.number = PyNumber_AsSsize_t(object, PyExc_OverflowError);
  if (operand.number == -1 && PyErr_Occurred()) {
    return false;
  }
  if (operand.number < 0 || operand.number >= limit) {
    PyErr_Format(PyExc_ValueError, "%s out of range: %zd", what, operand.number);
    return false;
  }
  return true;
}

PyRef interned(PyObject* name) {
  PyRef owned = PyRef::borrow(name);
  PyObject* object = owned.release();
  PyUnicode_InternInPlace(&object);
  return PyRef::steal(object);
}

bool take_name(Operand& operand, PyObject* object) {
  if (!expect(PyUnicode_CheckExact(object), "a name", object)) {
    return false;
  }
  operand.object = Held::strongly(interned(object));
  return operand.lookup.prepare(operand.object.get());
}

bool hold(Program& program, Held& held, PyObject* object) {
  held = Held::weakly(object, program.on_death.get());
  return bool(held);
}

// Where the slot is, and in the instances of which class: the descriptor would keep that alive.
bool take_member(Program& program, Operand& operand, PyObject* object) {
  if (!expect(Py_IS_TYPE(object, &PyMemberDescr_Type), "a member descriptor", object)) {
    return false;
  }
  const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(object)->d_member;
  operand.number = member->offset;
  auto* owner = reinterpret_cast<PyObject*>(PyDescr_TYPE(object));
  return hold(program, operand.object, owner) &&
      expect(member->type == T_OBJECT_EX, "the descriptor of a slot", object);
}

bool take_list(Program& program, Operand& operand, PyObject* object) {
  if (!expect(PyTuple_CheckExact(object), "a tuple", object)) {
    return false;
  }
  std::vector<Held> items(PyTuple_GET_SIZE(object));
  for (size_t i = 0; i < items.size(); ++i) {
    if (!hold(program, items[i], PyTuple_GET_ITEM(object, i))) {
      return false;
    }
  }
  operand.number = static_cast<Py_ssize_t>(program.lists.size());
  program.lists.push_back(std::move(items));
  return true;
}

// An equal spec that the program has, if there is one: a model has many tensors and few kinds of them, and
// reading the same few specs again is quicker than reading many.
PyObject* same_spec(Program& program, PyObject* object) {
  if (!Box<TensorSpec>::is_exact(object)) {
    return object;
  }
  for (PyObject* known : program.specs) {
    if (Box<TensorSpec>::of(known) == Box<TensorSpec>::of(object)) {
      return known;
    }
  }
  if (program.specs.size() < MAX_KINDS_OF_TENSORS) {
    program.specs.push_back(object);
  }
  return object;
}

// Takes the operand of an access or a check of the node with this index.
bool take_operand(
    Program& program, size_t node, OperandKind kind, PyObject* object, Operand& operand) {
  switch (kind) {
    case OperandKind::NOTHING:
      return true;
    case OperandKind::OBJECT:
      return hold(program, operand.object, object);
    case OperandKind::VALUE:
      operand.object = Held::strongly(PyRef::borrow(object));
      return true;
    case OperandKind::INDEX:
      return take_number(operand, object, PY_SSIZE_T_MAX, "index");
    case OperandKind::EARLIER_NODE:
      return take_number(operand, object, static_cast<Py_ssize_t>(node) + 1, "node");
    case OperandKind::FLAG:
      operand.number = PyObject_IsTrue(object);
      return operand.number >= 0;
    case OperandKind::NAME:
      return take_name(operand, object);
    case OperandKind::KEY:
      return hold(program, operand.object, object) && operand.lookup.prepare(object);
    case OperandKind::MEMBER:
      return take_member(program, operand, object);
    case OperandKind::TYPE:
      return hold(program, operand.object, object) && expect(PyType_Check(object), "a type", object);
    case OperandKind::TUPLE:
      return take_list(program, operand, object);
    case OperandKind::MODULE_CALL:
      operand.number = static_cast<Py_ssize_t>(program.module_calls.size());
      program.module_calls.emplace_back();
      return true;
    case OperandKind::TENSOR_SPEC:
      operand.object = Held::strongly(PyRef::borrow(same_spec(program, object)));
      return expect(Box<TensorSpec>::is_exact(object), "a TensorSpec", object);
  }
  Py_UNREACHABLE();
}

// Calls take(i, item) for the items of a sequence while it returns true.
template <class Take>
bool for_each(PyObject* object, const char* what, Take take) {
  PyRef sequence = PyRef::steal(PySequence_Tuple(object));
  if (!sequence) {
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sequence.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(sequence.get(), i);
    if (!expect(PyTuple_Check(item), what, item) || !take(item)) {
      return false;
    }
  }
  return true;
}

bool add_check(Program& program, PyObject* item) {
  int number;
  PyObject* object;
  if (!PyArg_ParseTuple(item, "iO:check", &number, &object)) {
    return false;
  }
  const CheckKind* kind = check_kind(number);
  if (kind == nullptr) {
    PyErr_Format(PyExc_ValueError, "no such check: %d", number);
    return false;
  }
  Check check{kind->run, kind, {}};
  size_t node = program.nodes.size() - 1;
  if (!take_operand(program, node, kind->operand, object, check.operand)) {
    return false;
  }
  program.checks.push_back(std::move(check));
  return true;
}

bool add_node(Program& program, PyObject* item) {
  int parent, number, slot;
  PyObject* object;
  PyObject* checks;
  if (!PyArg_ParseTuple(item, "iiOOi:node", &parent, &number, &object, &checks, &slot)) {
    return false;
  }
  size_t index = program.nodes.size();
  if (parent < FRAME || parent >= static_cast<int>(index)) {
    PyErr_Format(PyExc_ValueError, "node %zu: parent %d doesn't precede it", index, parent);
    return false;
  }
  const AccessKind* kind = access_kind(number);
  if (kind == nullptr) {
    PyErr_Format(PyExc_ValueError, "no such access: %d", number);
    return false;
  }
  int first_check = static_cast<int>(program.checks.size());
  Node node{kind->run, kind, parent, slot, first_check, first_check, {}};
  if (!take_operand(program, index, kind->operand, object, node.operand)) {
    return false;
  }
  program.n_kept += kind->creates_reference;
  program.nodes.push_back(std::move(node));
  bool ok = for_each(checks, "a check (kind, operand)", [&](PyObject* check) {
    return add_check(program, check);
  });
  program.nodes[index].end_check = static_cast<int>(program.checks.size());
  return ok;
}

// Every input must come from exactly one node, or evaluation would leave some of them unset.
bool slots_are_filled(const Program& program) {
  std::vector<bool> filled(std::max(program.n_inputs, 0));
  int count = 0;
  for (const Node& node : program.nodes) {
    if (node.slot == NO_INPUT) {
      continue;
    }
    if (node.slot < 0 || node.slot >= program.n_inputs || filled[node.slot]) {
      PyErr_Format(PyExc_ValueError, "input slot %d out of range or filled twice", node.slot);
      return false;
    }
    filled[node.slot] = true;
    ++count;
  }
  if (count != program.n_inputs) {
    PyErr_Format(PyExc_ValueError, "%d of %d input slots are filled", count, program.n_inputs);
  }
  return count == program.n_inputs;
}

bool hold_found(Program& program, ClassLookups::Expected& lookup, PyObject* found) {
  std::vector<PyRef> parts = parts_of(found);
  lookup.parts.resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i] || !hold(program, lookup.parts[i], parts[i].get())) {
      return false;
    }
  }
  PyObject* compared = parts.empty() ? found : reinterpret_cast<PyObject*>(Py_TYPE(found));
  return hold(program, lookup.value, compared);
}

bool hold_bases(Program& program, ClassLookups& lookups, PyObject* bases) {
  if (!expect(PyTuple_CheckExact(bases), "a tuple of classes", bases)) {
    return false;
  }
  lookups.mro.resize(PyTuple_GET_SIZE(bases));
  for (size_t i = 0; i < lookups.mro.size(); ++i) {
    if (!hold(program, lookups.mro[i], PyTuple_GET_ITEM(bases, i))) {
      return false;
    }
  }
  return true;
}

bool add_class(Program& program, PyObject* item) {
  PyObject* type;
  PyObject* lookups;
  if (!PyArg_ParseTuple(item, "O!O:class lookups", &PyType_Type, &type, &lookups)) {
    return false;
  }
  ClassLookups entry;
  if (!hold(program, entry.type, type)) {
    return false;
  }
  bool ok = for_each(lookups, "a class lookup (name, expected)", [&](PyObject* lookup) {
    PyObject* name;
    PyObject* expected;
    if (!PyArg_ParseTuple(lookup, "UO:class lookup", &name, &expected)) {
      return false;
    }
    if (interned(name).get() == mro_name()) {
      return hold_bases(program, entry, expected);
    }
    entry.expected.push_back({interned(name), {}, {}});
    return expected == missing || hold_found(program, entry.expected.back(), expected);
  });
  program.classes.push_back(std::move(entry));
  return ok;
}

bool read_ints(PyObject* tuple, std::vector<int>& numbers) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    long number = PyLong_AsLong(PyTuple_GET_ITEM(tuple, i));
    if (number == -1 && PyErr_Occurred()) {
      return false;
    }
    if (number != static_cast<int>(number)) {
      PyErr_SetString(PyExc_OverflowError, "a number of a program is too large for an int");
      return false;
    }
    numbers.push_back(static_cast<int>(number));
  }
  return true;
}

bool set_storages(Program& program, PyObject* object) {
  if (object == Py_None) {
    return true;
  }
  PyObject* slots;
  PyObject* groups;
  if (!expect(PyTuple_Check(object), "storages (slots, groups)", object) ||
      !PyArg_ParseTuple(object, "O!O!:storages", &PyTuple_Type, &slots, &PyTuple_Type, &groups)) {
    return false;
  }
  StorageGroups& storages = program.storages;
  if (!read_ints(slots, storages.slots) || !read_ints(groups, storages.groups)) {
    return false;
  }
  bool in_range = std::all_of(storages.slots.begin(), storages.slots.end(), [&](int slot) {
    return slot >= 0 && slot < program.n_inputs;
  });
  if (!in_range || storages.slots.size() != storages.groups.size()) {
    PyErr_SetString(PyExc_ValueError, "storages: slots out of range, or not as many as groups");
    return false;
  }
  std::unordered_map<int, int> dense;  // group numbers become indices
  for (int& group : storages.groups) {
    group = dense.emplace(group, static_cast<int>(dense.size())).first->second;
  }
  return true;
}

bool set_state(Program& program, PyObject* object) {
  if (object == Py_None) {
    return true;
  }
  program.state = PyRef::borrow(object);
  return expect(Box<GlobalState>::is_exact(object), "a GlobalState", object);
}

PyObject* program_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"nodes", "n_inputs", "state", "types", "storages", nullptr};
  Program program;
  PyObject* nodes;
  PyObject* state = Py_None;
  PyObject* types = nullptr;
  PyObject* storages = Py_None;
  if (!PyArg_ParseTupleAndKeywords(
          args, kwargs, "Oi|OOO:Program", const_cast<char**>(names), &nodes, &program.n_inputs,
          &state, &types, &storages)) {
    return nullptr;
  }
  program.invalidation = PyRef::steal(Box<Invalidation>::make({}));
  program.on_death = PyRef::steal(
      program.invalidation ? PyCFunction_New(&note_death_method, program.invalidation.get()) : nullptr);
  bool ok = program.on_death &&
      for_each(nodes, "a node (parent, access, operand, checks, slot)",
               [&](PyObject* item) { return add_node(program, item); }) &&
      slots_are_filled(program) && set_state(program, state) && set_storages(program, storages);
  ok = ok &&
      (types == nullptr ||
       for_each(types, "class lookups (type, lookups)",
                [&](PyObject* item) { return add_class(program, item); }));
  if (!ok) {
    return nullptr;
  }
  program.steps.prepare(program);
  return ProgramBox::make(std::move(program));
}

// ---- methods ----

// The arguments (func, args) of collect and check.
struct Call {
  PyObject* func;
  PyRef args;

  bool parse(PyObject* tuple, const char* format) {
    PyObject* sequence;
    if (!PyArg_ParseTuple(tuple, format, &func, &sequence)) {
      return false;
    }
    args = PyRef::steal(PySequence_Tuple(sequence));
    return bool(args);
  }
  bool evaluate(Program& program, PyObject** inputs, Failure* failure) {
    PyObject** items = reinterpret_cast<PyTupleObject*>(args.get())->ob_item;
    return program.evaluate(func, items, PyTuple_GET_SIZE(args.get()), inputs, failure);
  }
};

PyObject* program_collect(PyObject* self, PyObject* arguments) {
  Program& program = ProgramBox::of(self);
  Call call;
  if (!call.parse(arguments, "OO:collect")) {
    return nullptr;
  }
  std::vector<PyObject*> inputs(program.n_inputs);
  if (!call.evaluate(program, inputs.data(), nullptr)) {
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  }
  PyObject* list = PyList_New(program.n_inputs);
  for (int i = 0; i < program.n_inputs; ++i) {
    if (list != nullptr) {
      PyList_SET_ITEM(list, i, inputs[i]);
    } else {
      Py_DECREF(inputs[i]);
    }
  }
  return list;
}

PyObject* program_check(PyObject* self, PyObject* arguments) {
  Program& program = ProgramBox::of(self);
  Call call;
  if (!call.parse(arguments, "OO:check")) {
    return nullptr;
  }
  std::vector<PyObject*> inputs(program.n_inputs);
  Failure failure;
  if (call.evaluate(program, inputs.data(), &failure)) {
    for (PyObject* input : inputs) {
      Py_DECREF(input);
    }
    Py_RETURN_NONE;
  }
  if (PyErr_Occurred()) {
    return nullptr;
  }
  return failure.to_python();
}

PyObject* program_set_shapes(PyObject* self, PyObject* arguments) {
  Program& program = ProgramBox::of(self);
  PyObject* reads;
  PyObject* facts;
  bool ok = PyArg_ParseTuple(arguments, "OO:set_shapes", &reads, &facts) &&
      program.shapes.set(reads, facts, program.nodes.size());
  return ok ? Py_NewRef(Py_None) : nullptr;
}

Py_ssize_t program_length(PyObject* self) {
  return static_cast<Py_ssize_t>(ProgramBox::of(self).nodes.size());
}

PyObject* program_n_inputs(PyObject* self, void*) {
  return PyLong_FromLong(ProgramBox::of(self).n_inputs);
}

PyMethodDef program_methods[] = {
    {"collect", program_collect, METH_VARARGS,
     "collect(func, args): the inputs if everything holds, else None."},
    {"check", program_check, METH_VARARGS,
     "check(func, args): None if everything holds, else a GuardFailure."},
    {"set_shapes", program_set_shapes, METH_VARARGS,
     "set_shapes(reads, facts): what must hold of sizes and numbers."},
    {nullptr, nullptr, 0, nullptr},
};

PyObject* program_is_invalidated(PyObject* self, void*) {
  return PyBool_FromLong(ProgramBox::of(self).is_invalidated());
}

PyGetSetDef program_properties[] = {
    {"is_invalidated", program_is_invalidated, nullptr,
     "Whether an object that it compares with has died: then it never holds again.", nullptr},
    {"n_inputs", program_n_inputs, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot program_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(program_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(ProgramBox::dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(ProgramBox::traverse)},
    {Py_tp_methods, program_methods},
    {Py_tp_getset, program_properties},
    {Py_sq_length, reinterpret_cast<void*>(program_length)},
    {0, nullptr},
};

PyType_Spec program_spec = {
    "framelift._guards.Program", sizeof(ProgramBox), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, program_slots};

}  // namespace

bool add_program_type(PyObject* module) {
  return Box<Invalidation>::add_type(module, invalidation_spec) &&
      ProgramBox::add_type(module, program_spec) && add_operation_constants(module) &&
      add_constants(module, "READ_", ReadKindNames) &&
      PyModule_AddIntConstant(module, "FRAME", FRAME) == 0 &&
      PyModule_AddIntConstant(module, "NO_INPUT", NO_INPUT) == 0;
}

}  // namespace framelift
