#include "operations.h"

#include <cstring>

#include "global_state.h"
#include "tensor_spec.h"

namespace framelift {

namespace {

// ---- accesses ----

PyObject* access_arg(Operand& operand, Walk& walk, PyObject*) {
  return operand.number < walk.n_locals ? walk.locals[operand.number] : nullptr;
}

PyObject* access_func(Operand&, Walk& walk, PyObject*) {
  return walk.func;
}

PyObject* access_globals(Operand&, Walk&, PyObject* parent) {
  return PyFunction_Check(parent) ? PyFunction_GET_GLOBALS(parent) : nullptr;
}

PyObject* access_const(Operand& operand, Walk&, PyObject*) {
  return operand.object.get();
}

// A key that is dead is in no dictionary.
Found find(Operand& operand, PyObject* dict) {
  PyObject* key = operand.object.get();
  return key == nullptr ? Found::UNKNOWN : operand.lookup.find(key, dict);
}

PyObject* value_in(Operand& operand, PyObject* dict) {
  if (dict == nullptr || !PyDict_Check(dict)) {
    return nullptr;
  }
  return find(operand, dict) == Found::PRESENT ? operand.lookup.value() : nullptr;
}

PyObject* access_attr(Operand& operand, Walk&, PyObject* parent) {
  return value_in(operand, instance_dict(parent));
}

// The dictionary of an instance that has no attributes yet may still have to be made.
PyObject* access_dict(Operand&, Walk&, PyObject* parent) {
  PyObject** place = _PyObject_GetDictPtr(parent);
  if (place != nullptr && *place == nullptr) {
    *place = PyDict_New();
  }
  return place == nullptr ? nullptr : *place;
}

PyObject* access_key(Operand& operand, Walk&, PyObject* parent) {
  return value_in(operand, parent);
}

PyObject* tuple_item(PyObject* tuple, Py_ssize_t index) {
  return index < PyTuple_GET_SIZE(tuple) ? PyTuple_GET_ITEM(tuple, index) : nullptr;
}

PyObject* access_item(Operand& operand, Walk&, PyObject* parent) {
  if (PyTuple_Check(parent)) {
    return tuple_item(parent, operand.number);
  }
  bool inside = PyList_Check(parent) && operand.number < PyList_GET_SIZE(parent);
  return inside ? PyList_GET_ITEM(parent, operand.number) : nullptr;
}

PyObject* access_deque_item(Operand& operand, Walk& walk, PyObject* parent) {
  PyTypeObject* type = deque_type();
  if (!PyObject_TypeCheck(parent, type) || operand.number >= native_length(parent)) {
    return nullptr;
  }
  return walk.keep(type->tp_as_sequence->sq_item(parent, operand.number));
}

// The order of an OrderedDict is its own, which its iterator knows.
PyObject* access_value_at(Operand& operand, Walk&, PyObject* parent) {
  if (!PyODict_CheckExact(parent) && !PyDict_CheckExact(parent)) {
    return nullptr;
  }
  PyRef keys = PyRef::steal(PyObject_GetIter(parent));
  PyRef key;
  for (Py_ssize_t n = 0; keys && n <= operand.number; n++) {
    key = PyRef::steal(PyIter_Next(keys.get()));
    if (!key) {
      break;
    }
  }
  PyObject* value = key ? PyDict_GetItemWithError(parent, key.get()) : nullptr;
  if (value == nullptr) {
    PyErr_Clear();
  }
  return value;
}

bool has_member(Operand& operand, PyObject* object) {
  auto* owner = reinterpret_cast<PyTypeObject*>(operand.object.get());
  return owner != nullptr && PyObject_TypeCheck(object, owner);
}

PyObject* member_value(Operand& operand, PyObject* object) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + operand.number);
}

PyObject* access_slot(Operand& operand, Walk&, PyObject* parent) {
  return has_member(operand, parent) ? member_value(operand, parent) : nullptr;
}

PyObject* access_cell_object(Operand& operand, Walk&, PyObject* parent) {
  PyObject* closure = PyFunction_Check(parent) ? PyFunction_GET_CLOSURE(parent) : nullptr;
  return closure == nullptr ? nullptr : tuple_item(closure, operand.number);
}

PyObject* access_contents(Operand&, Walk&, PyObject* parent) {
  return PyCell_Check(parent) ? PyCell_GET(parent) : nullptr;
}

PyObject* access_cell(Operand& operand, Walk& walk, PyObject* parent) {
  PyObject* cell = access_cell_object(operand, walk, parent);
  return cell == nullptr ? nullptr : access_contents(operand, walk, cell);
}

PyObject* access_default(Operand& operand, Walk&, PyObject* parent) {
  PyObject* defaults = PyFunction_Check(parent) ? PyFunction_GET_DEFAULTS(parent) : nullptr;
  return defaults == nullptr ? nullptr : tuple_item(defaults, operand.number);
}

PyObject* access_kwdefault(Operand& operand, Walk&, PyObject* parent) {
  return PyFunction_Check(parent) ? value_in(operand, PyFunction_GET_KW_DEFAULTS(parent)) : nullptr;
}

PyObject* access_self(Operand&, Walk&, PyObject* parent) {
  return PyMethod_Check(parent) ? PyMethod_GET_SELF(parent) : nullptr;
}

PyObject* access_method_func(Operand&, Walk&, PyObject* parent) {
  return PyMethod_Check(parent) ? PyMethod_GET_FUNCTION(parent) : nullptr;
}

PyObject* access_grad(Operand&, Walk& walk, PyObject* parent) {
  return is_tensor(parent) ? walk.keep(grad_of(parent)) : nullptr;
}

// What a class has under a name itself (borrowed). CPython 3.12 keeps the dicts of its own classes elsewhere.
PyObject* own_attribute(PyTypeObject* type, PyObject* name) {
#if PY_VERSION_HEX < 0x030C0000
  return PyDict_GetItemWithError(type->tp_dict, name);
#else
  PyRef dict = PyRef::steal(PyType_GetDict(type));
  return dict ? PyDict_GetItemWithError(dict.get(), name) : nullptr;
#endif
}

// A property of a class that pybind has made: what gets it is a function of C.
bool is_bound_property(PyObject* found) {
  if (!Py_IS_TYPE(found, &PyProperty_Type)) {
    return false;
  }
  PyObject* getter = PyObject_GetAttrString(found, "fget");
  bool native = getter != nullptr && (PyCFunction_Check(getter) || PyInstanceMethod_Check(getter));
  Py_XDECREF(getter);
  return native;
}

// The descriptor of an attribute that C implements, whatever a Python class derived from there says.
PyObject* native_descriptor(PyTypeObject* type, PyObject* name) {
  PyObject* mro = type->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    bool fixed = !PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE) ||
        PyType_HasFeature(base, Py_TPFLAGS_IMMUTABLETYPE);
    PyObject* found = own_attribute(base, name);
    if (found != nullptr && !fixed && is_bound_property(found)) {
      return found;
    }
    if (found != nullptr && fixed) {
      bool native = Py_IS_TYPE(found, &PyGetSetDescr_Type) || Py_IS_TYPE(found, &PyMemberDescr_Type);
      return native ? found : nullptr;
    }
  }
  return nullptr;
}

PyObject* access_native_attr(Operand& operand, Walk& walk, PyObject* parent) {
  PyTypeObject* type = Py_TYPE(parent);
  PyObject* descriptor = native_descriptor(type, operand.object.get());
  PyObject* value = descriptor == nullptr
      ? nullptr
      : Py_TYPE(descriptor)->tp_descr_get(descriptor, parent, reinterpret_cast<PyObject*>(type));
  if (value == nullptr) {
    PyErr_Clear();
  }
  return walk.keep(value);
}

// What the calling thread has of a `threading.local`. Where a class of the program's has an `__init__` for it,
// that would have to run for a new thread.
PyObject* access_thread_dict(Operand&, Walk& walk, PyObject* parent) {
  if (Py_TYPE(parent)->tp_init != PyBaseObject_Type.tp_init && !has_begun(parent)) {
    return nullptr;
  }
  PyObject* value = PyObject_GetAttrString(parent, "__dict__");
  if (value == nullptr) {
    PyErr_Clear();
  }
  return walk.keep(value);
}

// The classes that derive from one directly, in the order in which they were made.
PyObject* access_subclasses(Operand&, Walk& walk, PyObject* parent) {
  if (!PyType_Check(parent)) {
    return nullptr;
  }
  // past metaclasses of the program's
  PyObject* method = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__");
  PyObject* value = method == nullptr ? nullptr : PyObject_CallOneArg(method, parent);
  Py_XDECREF(method);
  if (value == nullptr) {
    PyErr_Clear();
  }
  return walk.keep(value);
}

// Where an iterator of C's stands, as it says itself: what makes one like it, with what, and its state.
PyObject* access_reduced(Operand&, Walk& walk, PyObject* parent) {
  if (PyType_HasFeature(Py_TYPE(parent), Py_TPFLAGS_HEAPTYPE) || Py_TYPE(parent)->tp_iternext == nullptr) {
    return nullptr;
  }
  PyObject* value = PyObject_CallMethod(parent, "__reduce__", nullptr);
  if (value == nullptr) {
    PyErr_Clear();
  }
  return walk.keep(value);
}

// What a dictionary's view or a mapping proxy is of: the first field of both.
PyObject* access_viewed(Operand&, Walk&, PyObject* parent) {
  if (Py_IS_TYPE(parent, &PyDictProxy_Type)) {
    return *reinterpret_cast<PyObject**>(parent + 1);
  }
  bool view = PyDictKeys_Check(parent) || PyDictValues_Check(parent) || PyDictItems_Check(parent);
  return view ? *reinterpret_cast<PyObject**>(parent + 1) : nullptr;
}

// What a weak reference refers to; None if that is gone.
PyObject* access_referent(Operand&, Walk&, PyObject* parent) {
  return PyWeakref_CheckRef(parent) ? referent(parent) : nullptr;
}

bool is_number_of_numpys(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  return !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && std::strncmp(type->tp_name, "numpy.", 6) == 0;
}

// The integer in a tensor that lies in the CPU's memory, which it takes no operator to read.
PyObject* integer_in(Walk& walk, const at::Tensor& tensor) {
  bool is_one = tensor.defined() && tensor.layout() == at::kStrided && tensor.device().is_cpu() &&
      tensor.scalar_type() == at::kLong && tensor.dim() == 0 && tensor.has_storage();
  const void* data = is_one ? tensor.const_data_ptr() : nullptr;
  return data == nullptr ? nullptr : walk.keep(PyLong_FromLongLong(*static_cast<const int64_t*>(data)));
}

// A number of NumPy's, or an integer in a tensor, as one of Python's.
PyObject* access_number(Operand&, Walk& walk, PyObject* parent) {
  if (THPVariable_Check(parent)) {
    return integer_in(walk, THPVariable_Unpack(parent));
  }
  if (!is_number_of_numpys(parent)) {
    return nullptr;
  }
  PyObject* number = PyIndex_Check(parent) ? PyNumber_Index(parent) : PyNumber_Float(parent);
  if (number == nullptr) {
    PyErr_Clear();
  }
  return walk.keep(number);
}

// What a bytearray holds now, or a number of NumPy's is made of.
PyObject* access_bytes(Operand&, Walk& walk, PyObject* parent) {
  if (PyByteArray_Check(parent)) {
    return walk.keep(PyBytes_FromStringAndSize(PyByteArray_AS_STRING(parent), PyByteArray_GET_SIZE(parent)));
  }
  bool has_bytes = is_number_of_numpys(parent) && PyObject_CheckBuffer(parent);
  PyObject* bytes = has_bytes ? PyBytes_FromObject(parent) : nullptr;
  if (bytes == nullptr) {
    PyErr_Clear();
  }
  return walk.keep(bytes);
}

// What abc.get_cache_token() says: the count of the classes that were registered, anywhere.
PyObject* access_registrations(Operand&, Walk& walk, PyObject*) {
  return walk.keep(count_registrations());
}

PyObject* access_mode(Operand& operand, Walk&, PyObject*) {
  return torch_function_mode(operand.number);
}

PyObject* access_decimal_context(Operand&, Walk& walk, PyObject*) {
  return walk.keep(decimal_context());
}

// What a function of C answers: the operand has it, and after it the arguments.
PyObject* access_asked(Operand& operand, Walk& walk, PyObject*) {
  PyObject* call = operand.object.get();
  size_t count = PyTuple_GET_SIZE(call) - 1;
  PyObject** items = reinterpret_cast<PyTupleObject*>(call)->ob_item;
  PyObject* answer = PyObject_Vectorcall(items[0], items + 1, count, nullptr);
  if (answer == nullptr) {
    PyErr_Clear();
  }
  return walk.keep(answer);
}

const AccessKind ACCESSES[] = {
    {"ARG", access_arg, OperandKind::INDEX, false},
    {"FUNC", access_func, OperandKind::NOTHING, false},
    {"GLOBALS", access_globals, OperandKind::NOTHING, false},
    {"SCOPE", access_globals, OperandKind::NOTHING, false},
    {"CONST", access_const, OperandKind::OBJECT, false},
    {"ATTR", access_attr, OperandKind::NAME, false, Lasts::WITH_ATTRIBUTES},
    {"DICT", access_dict, OperandKind::NOTHING, false},
    {"KEY", access_key, OperandKind::KEY, false, Lasts::WITH_KEYS},
    {"ITEM", access_item, OperandKind::INDEX, false, Lasts::WITH_VALUE},
    {"DEQUE_ITEM", access_deque_item, OperandKind::INDEX, true},
    {"VALUE_AT", access_value_at, OperandKind::INDEX, false},
    {"SLOT", access_slot, OperandKind::MEMBER, false},
    {"CELL", access_cell, OperandKind::INDEX, false},
    {"CELL_OBJECT", access_cell_object, OperandKind::INDEX, false},
    {"CONTENTS", access_contents, OperandKind::NOTHING, false},
    {"DEFAULT", access_default, OperandKind::INDEX, false},
    {"KWDEFAULT", access_kwdefault, OperandKind::NAME, false},
    {"SELF", access_self, OperandKind::NOTHING, false},
    {"METHOD_FUNC", access_method_func, OperandKind::NOTHING, false},
    {"GRAD", access_grad, OperandKind::NOTHING, true},
    {"NATIVE_ATTR", access_native_attr, OperandKind::NAME, true},
    {"THREAD_DICT", access_thread_dict, OperandKind::NOTHING, true},
    {"SUBCLASSES", access_subclasses, OperandKind::NOTHING, true},
    {"REDUCED", access_reduced, OperandKind::NOTHING, true},
    {"VIEWED", access_viewed, OperandKind::NOTHING, false},
    {"REFERENT", access_referent, OperandKind::NOTHING, false},
    {"BYTES", access_bytes, OperandKind::NOTHING, true},
    {"NUMBER", access_number, OperandKind::NOTHING, true},
    {"REGISTRATIONS", access_registrations, OperandKind::NOTHING, true},
    {"DECIMAL_CONTEXT", access_decimal_context, OperandKind::NOTHING, true},
    {"MODE", access_mode, OperandKind::INDEX, false},
    {"ASKED", access_asked, OperandKind::VALUE, true},
};

// ---- checks ----

bool check_is(Operand& operand, Walk&, PyObject* value) {
  return operand.object.is(value);
}

bool check_is_not(Operand& operand, Walk&, PyObject* value) {
  return !operand.object.is(value);
}

bool check_type(Operand& operand, Walk&, PyObject* value) {
  return operand.object.is(reinterpret_cast<PyObject*>(Py_TYPE(value)));
}

bool check_equal(Operand& operand, Walk&, PyObject* value) {
  return same_constant(value, operand.object);
}

bool check_len(Operand& operand, Walk&, PyObject* value) {
  return native_length(value) == operand.number;
}

bool check_nonempty(Operand& operand, Walk&, PyObject* value) {
  Py_ssize_t length = native_length(value);
  return length >= 0 && (length != 0) == (operand.number != 0);
}

bool check_keys(Operand& operand, Walk& walk, PyObject* value) {
  if (!PyDict_Check(value)) {
    return false;
  }
  uint64_t version = dict_version(value);
  if (version == operand.keys_version && !order_is_unversioned(value)) {
    return true;
  }
  bool holds = has_keys(value, walk.program.lists[operand.number]);
  if (holds) {
    operand.keys_version = version;
  }
  return holds;
}

bool check_no_key(Operand& operand, Walk&, PyObject* value) {
  return PyDict_Check(value) && find(operand, value) == Found::ABSENT;
}

bool check_no_attr(Operand& operand, Walk& walk, PyObject* value) {
  PyObject* dict = instance_dict(value);
  return dict == nullptr || check_no_key(operand, walk, dict);
}

bool check_no_slot(Operand& operand, Walk&, PyObject* value) {
  return has_member(operand, value) && member_value(operand, value) == nullptr;
}

// Two equal sets may be iterated in different orders.
bool check_elements_in_order(Operand& operand, Walk& walk, PyObject* value) {
  const std::vector<Held>& expected = walk.program.lists[operand.number];
  if (!PyAnySet_Check(value) || PySet_GET_SIZE(value) != static_cast<Py_ssize_t>(expected.size())) {
    return false;
  }
  Py_ssize_t position = 0;
  size_t n = 0;
  PyObject* element;
  Py_hash_t hash;
  while (_PySet_NextEntry(value, &position, &element, &hash)) {
    if (!same_element(element, expected[n++])) {
      return false;
    }
  }
  return true;
}

bool check_code(Operand& operand, Walk&, PyObject* value) {
  return PyFunction_Check(value) && operand.object.is(PyFunction_GET_CODE(value));
}

bool check_empty_cell(Operand&, Walk&, PyObject* value) {
  return PyCell_Check(value) && PyCell_GET(value) == nullptr;
}

bool check_tensor(Operand& operand, Walk&, PyObject* value) {
  return Box<TensorSpec>::of(operand.object.get()).matches(value);
}

bool check_leaf(Operand& operand, Walk&, PyObject* value) {
  return is_tensor(value) && is_leaf(value) == (operand.number != 0);
}

bool check_no_hooks(Operand&, Walk&, PyObject* value) {
  return is_tensor(value) && !has_hooks(value);
}

// What of a module's own attributes has others called than its class's `forward`.
struct CallNames {
  static constexpr size_t N_HOOKS = ModuleCall::N_HOOKS;
  static constexpr size_t N = N_HOOKS + 3;

  PyObject* names[N] = {};
  DictLookup lookups[N];

  // After the hooks: attributes in the place of methods. False with an exception set when there is no memory.
  bool prepare() {
    const char* texts[N] = {"_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_pre_hooks",
                            "_compiled_call_impl", "_call_impl", "forward"};
    for (size_t i = 0; i < N; ++i) {
      names[i] = PyUnicode_InternFromString(texts[i]);
      if (names[i] == nullptr || !lookups[i].prepare(names[i])) {
        return false;
      }
    }
    return true;
  }
};

CallNames call_names;

bool is_unchanged(const ModuleCall& call, uint64_t version) {
  if (version != call.version) {
    return false;
  }
  for (size_t i = 0; i < ModuleCall::N_HOOKS; ++i) {
    if (dict_version(call.hooks[i]) != call.hooks_versions[i]) {
      return false;
    }
  }
  return true;
}

bool check_calls_forward(Operand& operand, Walk& walk, PyObject* value) {
  PyObject* dict = instance_dict(value);
  if (dict == nullptr) {
    return false;
  }
  ModuleCall& call = walk.program.module_calls[operand.number];
  uint64_t version = dict_version(dict);
  if (is_unchanged(call, version)) {
    return true;
  }
  call.version = ModuleCall::NEVER_SEEN;
  for (size_t i = 0; i < CallNames::N; ++i) {
    Found found = call_names.lookups[i].find(call_names.names[i], dict);
    if (i >= ModuleCall::N_HOOKS) {
      if (found != Found::ABSENT) {
        return false;
      }
      continue;
    }
    PyObject* hooks = found == Found::PRESENT ? call_names.lookups[i].value() : nullptr;
    if (hooks == nullptr || !PyODict_CheckExact(hooks) || native_length(hooks) != 0) {
      return false;
    }
    call.hooks[i] = hooks;
    call.hooks_versions[i] = dict_version(hooks);
  }
  call.version = version;
  return true;
}

bool check_offset(Operand& operand, Walk&, PyObject* value) {
  return is_tensor(value) && offset_of(value) == operand.number;
}

bool check_nbytes(Operand& operand, Walk&, PyObject* value) {
  return is_tensor(value) && nbytes_of(value) == operand.number;
}

bool check_same_as(Operand& operand, Walk& walk, PyObject* value) {
  return value == walk.values[operand.number];
}

bool check_not_same_as(Operand& operand, Walk& walk, PyObject* value) {
  return value != walk.values[operand.number];
}

bool check_apart(Operand& operand, Walk& walk, PyObject* value) {
  return lie_apart(value, walk.values[operand.number]);
}

const CheckKind CHECKS[] = {
    {"IS", check_is, OperandKind::OBJECT, Lasts::WITH_VALUE},
    {"IS_NOT", check_is_not, OperandKind::OBJECT, Lasts::WITH_VALUE},
    {"TYPE", check_type, OperandKind::TYPE, Lasts::WITH_VALUE},
    {"EQUAL", check_equal, OperandKind::VALUE, Lasts::WITH_VALUE},
    {"LEN", check_len, OperandKind::INDEX, Lasts::WITH_KEYS},
    {"NONEMPTY", check_nonempty, OperandKind::FLAG, Lasts::WITH_KEYS},
    {"KEYS", check_keys, OperandKind::TUPLE},
    {"NO_KEY", check_no_key, OperandKind::KEY, Lasts::WITH_KEYS},
    {"NO_ATTR", check_no_attr, OperandKind::NAME, Lasts::WITH_ATTRIBUTES},
    {"NO_SLOT", check_no_slot, OperandKind::MEMBER},
    {"ELEMENTS_IN_ORDER", check_elements_in_order, OperandKind::TUPLE},
    {"CODE", check_code, OperandKind::OBJECT},
    {"EMPTY_CELL", check_empty_cell, OperandKind::NOTHING},
    {"TENSOR", check_tensor, OperandKind::TENSOR_SPEC},
    {"LEAF", check_leaf, OperandKind::FLAG},
    {"NO_HOOKS", check_no_hooks, OperandKind::NOTHING},
    {"CALLS_FORWARD", check_calls_forward, OperandKind::MODULE_CALL},
    {"OFFSET", check_offset, OperandKind::INDEX},
    {"NBYTES", check_nbytes, OperandKind::INDEX},
    {"SAME_AS", check_same_as, OperandKind::EARLIER_NODE},
    {"NOT_SAME_AS", check_not_same_as, OperandKind::EARLIER_NODE},
    {"APART", check_apart, OperandKind::EARLIER_NODE},
};

template <class Kind, size_t N>
const Kind* kind_at(const Kind (&table)[N], int number) {
  return number >= 0 && static_cast<size_t>(number) < N ? &table[number] : nullptr;
}

}  // namespace

const AccessKind* access_kind(int number) {
  return kind_at(ACCESSES, number);
}

const CheckKind* check_kind(int number) {
  return kind_at(CHECKS, number);
}

bool add_operation_constants(PyObject* module) {
  return call_names.prepare() && add_constants(module, "ACCESS_", ACCESSES) &&
      add_constants(module, "CHECK_", CHECKS);
}

#if PY_VERSION_HEX >= 0x030D0000
// From 3.13 on an object of that class has the dictionaries of all threads, by a key that each thread has.
struct OfThread {
  PyObject* key;
  bool found;
};

int look_for_thread(PyObject* value, void* wanted) {
  OfThread* of_thread = static_cast<OfThread*>(wanted);
  if (PyDict_CheckExact(value) && PyDict_Contains(value, of_thread->key) == 1) {
    of_thread->found = true;
  }
  return 0;
}

bool has_begun(PyObject* local) {
  OfThread of_thread{PyThreadState_Get()->threading_local_key, false};
  if (of_thread.key != nullptr) {
    Py_TYPE(local)->tp_traverse(local, look_for_thread, &of_thread);
    PyErr_Clear();
  }
  return of_thread.found;
}
#else
// Until 3.12 a thread has an entry for each object of that class.
bool has_begun(PyObject* local) {
  PyObject* of_thread = PyThreadState_GetDict();
  PyObject* name = of_thread == nullptr ? nullptr : PyUnicode_FromFormat("thread.local.%p", local);
  bool found = name != nullptr && PyDict_Contains(of_thread, name) == 1;
  Py_XDECREF(name);
  PyErr_Clear();
  return found;
}
#endif

}  // namespace framelift
