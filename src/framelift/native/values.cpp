#include "values.h"

#include "python_object.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Size.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace framelift {

namespace {

PyTypeObject* the_deque_type = nullptr;
PyObject* get_cache_token = nullptr;  // of _abc, in C
PyObject* get_decimal_context = nullptr;  // of _decimal, in C
PyObject* take_last_item = nullptr;  // dict.popitem

bool same_float(PyObject* a, PyObject* b) {
  double x = PyFloat_AS_DOUBLE(a);
  double y = PyFloat_AS_DOUBLE(b);
  return std::memcmp(&x, &y, sizeof x) == 0;
}

bool same_complex(PyObject* a, PyObject* b) {
  Py_complex x = PyComplex_AsCComplex(a);
  Py_complex y = PyComplex_AsCComplex(b);
  return std::memcmp(&x, &y, sizeof x) == 0;
}

// For types whose == is C code and compares everything.
bool same_by_equality(PyObject* a, PyObject* b) {
  int result = PyObject_RichCompareBool(a, b, Py_EQ);
  if (result < 0) {
    PyErr_Clear();
  }
  return result == 1;
}

bool same_tuple(PyObject* a, PyObject* b) {
  if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) {
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    if (!same_constant(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) {
      return false;
    }
  }
  return true;
}

bool same_frozenset(PyObject* a, PyObject* b) {
  return ElementIndex(a).equals(b);
}

bool same_slice(PyObject* a, PyObject* b) {
  auto* x = reinterpret_cast<PySliceObject*>(a);
  auto* y = reinterpret_cast<PySliceObject*>(b);
  return same_constant(x->start, y->start) && same_constant(x->stop, y->stop) &&
      same_constant(x->step, y->step);
}

// Not ==, which takes range(0) and range(5, 5) for equal.
bool same_range(PyObject* a, PyObject* b) {
  for (const char* name : {"start", "stop", "step"}) {
    PyRef x = get_attribute(a, name);
    PyRef y = get_attribute(b, name);
    if (!x || !y || !same_constant(x.get(), y.get())) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

bool same_device(PyObject* a, PyObject* b) {
  return reinterpret_cast<THPDevice*>(a)->device == reinterpret_cast<THPDevice*>(b)->device;
}

bool same_singleton(PyObject*, PyObject*) {
  return false;  // identity has been tried
}

bool is_native(PyObject* value);

bool all_native_in_tuple(PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    if (!is_native(PyTuple_GET_ITEM(tuple, i))) {
      return false;
    }
  }
  return true;
}

bool all_native_in_set(PyObject* set) {
  Py_ssize_t position = 0;
  PyObject* element;
  Py_hash_t hash;
  while (_PySet_NextEntry(set, &position, &element, &hash)) {
    if (!is_native(element)) {
      return false;
    }
  }
  return true;
}

bool always_native(PyObject*) {
  return true;
}

// What is known of the types of constants.
struct ConstantType {
  PyTypeObject* type;
  bool (*same)(PyObject*, PyObject*);
  bool (*native)(PyObject*);  // whether == and hash() of this value run C code only
};

const ConstantType CONSTANT_TYPES[] = {
    {&PyUnicode_Type, same_by_equality, always_native},
    {&PyLong_Type, same_by_equality, always_native},
    {&PyBool_Type, same_singleton, always_native},
    {&PyFloat_Type, same_float, always_native},
    {&PyTuple_Type, same_tuple, all_native_in_tuple},
    {&PyBytes_Type, same_by_equality, always_native},
    {&PyComplex_Type, same_complex, always_native},
    {&THPDeviceType, same_device, always_native},
    {&THPDtypeType, same_singleton, always_native},
    {&THPSizeType, same_tuple, all_native_in_tuple},
    {&PyFrozenSet_Type, same_frozenset, all_native_in_set},
    {&PySlice_Type, same_slice, [](PyObject*) { return false; }},
    {&PyRange_Type, same_range, always_native},
};

const ConstantType* constant_type(PyObject* value) {
  for (const ConstantType& entry : CONSTANT_TYPES) {
    if (entry.type == Py_TYPE(value)) {
      return &entry;
    }
  }
  return nullptr;
}

// Whether == and hash() of this value run C code only: constants, and what compares by identity.
bool is_native(PyObject* value) {
  if (const ConstantType* entry = constant_type(value)) {
    return entry->native(value);
  }
  PyTypeObject* type = Py_TYPE(value);
  return type->tp_richcompare == PyBaseObject_Type.tp_richcompare &&
      type->tp_hash == PyBaseObject_Type.tp_hash;
}

// Whether two different objects with the same hash are the same key to a dict.
Found same_key(PyObject* a, PyObject* b) {
  if (!is_native(a) || !is_native(b)) {
    return Found::UNKNOWN;
  }
  // A native value equal to a str is a str; asking bytes could issue a BytesWarning.
  if (PyUnicode_CheckExact(a) != PyUnicode_CheckExact(b)) {
    return Found::ABSENT;
  }
  return same_by_equality(a, b) ? Found::PRESENT : Found::ABSENT;
}

// The head of a dict's key table, the same in CPython 3.11 to 3.13.
struct DictKeysHead {
  Py_ssize_t reference_count;
  uint8_t log2_size;
  uint8_t log2_index_bytes;
  uint8_t kind;  // 0: any keys; otherwise only exact strs
  uint32_t version;
  Py_ssize_t n_usable;
  Py_ssize_t n_entries;  // those of deleted keys included
};

// An entry of a table with any keys, the same in these versions.
struct DictEntry {
  Py_hash_t hash;
  PyObject* key;
  PyObject* value;  // null: deleted
};

const DictKeysHead* keys_of(PyObject* dict) {
  return reinterpret_cast<const DictKeysHead*>(reinterpret_cast<PyDictObject*>(dict)->ma_keys);
}

bool has_only_str_keys(PyObject* dict) {
  return keys_of(dict)->kind != 0;
}

// Of a table with any keys: they lie behind the indices.
const DictEntry* entries_of(const DictKeysHead* keys) {
  const char* indices = reinterpret_cast<const char*>(keys + 1);
  return reinterpret_cast<const DictEntry*>(indices + (size_t{1} << keys->log2_index_bytes));
}

// A dict with keys of any type: CPython's own search would call the __eq__ of a key with the same
// hash, so look through it by hand.
Found search(PyObject* dict, PyObject* wanted, Py_hash_t wanted_hash, PyObject** value) {
  Found result = Found::ABSENT;
  const DictKeysHead* keys = keys_of(dict);
  const DictEntry* entries = entries_of(keys);
  for (Py_ssize_t i = 0; i < keys->n_entries; ++i) {
    const DictEntry& entry = entries[i];
    if (entry.value == nullptr) {
      continue;
    }
    Found match = entry.key == wanted ? Found::PRESENT
        : entry.hash == wanted_hash   ? same_key(entry.key, wanted)
                                      : Found::ABSENT;
    if (match == Found::PRESENT) {
      *value = entry.value;
      return match;
    }
    if (match == Found::UNKNOWN) {
      result = match;
    }
  }
  return result;
}

bool has_keys_in_table_order(PyObject* dict, const std::vector<Held>& expected) {
  Py_ssize_t position = 0;
  PyObject* key;
  for (size_t i = 0; PyDict_Next(dict, &position, &key, nullptr); ++i) {
    if (!same_element(key, expected[i])) {
      return false;
    }
  }
  return true;
}

// An OrderedDict's C iterator hashes the keys on its way.
bool has_keys_in_list_order(PyObject* dict, const std::vector<Held>& expected) {
  Py_ssize_t position = 0;
  PyObject* key;
  while (PyDict_Next(dict, &position, &key, nullptr)) {
    if (!is_native(key)) {
      return false;
    }
  }
  PyRef iterator = PyRef::steal(PyODict_Type.tp_iter(dict));
  for (size_t i = 0; iterator && i < expected.size(); ++i) {
    PyRef next = PyRef::steal(Py_TYPE(iterator.get())->tp_iternext(iterator.get()));
    if (!next || !same_element(next.get(), expected[i])) {
      PyErr_Clear();
      return false;
    }
  }
  return bool(iterator);
}

}  // namespace

bool init_values() {
  PyRef module = PyRef::steal(PyImport_ImportModule("collections"));
  PyRef classes = PyRef::steal(PyImport_ImportModule("_abc"));
  if (!module || !classes) {
    return false;
  }
  the_deque_type =
      reinterpret_cast<PyTypeObject*>(get_attribute(module.get(), "deque").release());
  get_cache_token = get_attribute(classes.get(), "get_cache_token").release();
  take_last_item = get_attribute(reinterpret_cast<PyObject*>(&PyDict_Type), "popitem").release();
  PyRef decimals = PyRef::steal(PyImport_ImportModule("_decimal"));
  if (decimals) {
    get_decimal_context = get_attribute(decimals.get(), "getcontext").release();
  }
  PyErr_Clear();  // without it numbers of that kind are Python's, and not captured
  return the_deque_type != nullptr && get_cache_token != nullptr && take_last_item != nullptr;
}

PyObject* decimal_context() {
  if (get_decimal_context == nullptr) {
    return nullptr;
  }
  PyRef context = PyRef::steal(PyObject_CallNoArgs(get_decimal_context));
  PyRef text = PyRef::steal(context ? PyObject_Repr(context.get()) : nullptr);
  const char* all = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  const char* flags = all ? std::strstr(all, "flags=[") : nullptr;
  const char* rest = flags ? std::strchr(flags, ']') : nullptr;
  if (rest == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  std::string kept = std::string(all, flags) + (rest + 1);
  return PyUnicode_FromStringAndSize(kept.data(), Py_ssize_t(kept.size()));
}

namespace {

// How many of the registrations were not the program's doing.
long foreign_registrations = 0;

}  // namespace

PyObject* count_registrations() {
  PyObject* count = PyObject_CallNoArgs(get_cache_token);
  long all = count == nullptr ? -1 : PyLong_AsLong(count);
  if (all == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return count;
  }
  Py_DECREF(count);
  return PyLong_FromLong(all - foreign_registrations);
}

bool disregard_registrations(long before) {
  PyObject* count = count_registrations();
  long now = count == nullptr ? -1 : PyLong_AsLong(count);
  Py_XDECREF(count);
  if (now == -1) {
    return false;
  }
  foreign_registrations += now - before;
  return true;
}

#if PY_VERSION_HEX >= 0x030D0000

bool detach_values(PyObject* dict) {
  // popitem() makes an ordinary table first, and what was last becomes the last again. An empty dict gets one
  // with a key that is no str.
  bool done = false;
  if (reinterpret_cast<PyDictObject*>(dict)->ma_used == 0) {
    done = PyDict_SetItem(dict, Py_None, Py_None) == 0;
    PyDict_Clear(dict);
  } else {
    PyRef item = PyRef::steal(PyObject_CallOneArg(take_last_item, dict));
    done = item &&
        PyDict_SetItem(dict, PyTuple_GET_ITEM(item.get(), 0), PyTuple_GET_ITEM(item.get(), 1)) == 0;
  }
  if (!done) {
    PyErr_Clear();
  }
  return done && !has_embedded_values(dict);
}

uint64_t no_version() {
  static uint64_t latest = uint64_t{1} << 63;
  return ++latest;
}

#endif

PyTypeObject* deque_type() {
  return the_deque_type;
}

bool same_element(PyObject* a, const Held& b) {
  if (!same_constant(a, b)) {
    return false;
  }
  // of these, values that do not equal themselves are told apart by where they are
  bool may_hold_nan = PyFloat_CheckExact(a) || PyComplex_CheckExact(a) || PyTuple_CheckExact(a);
  if (!may_hold_nan || !is_native(a)) {
    return true;
  }
  return same_by_equality(a, b.get());
}

bool same_constant(PyObject* a, PyObject* b) {
  if (a == b) {
    return true;
  }
  if (Py_TYPE(a) != Py_TYPE(b)) {
    return false;
  }
  const ConstantType* entry = constant_type(a);
  return entry != nullptr && entry->same(a, b);
}

Py_ssize_t native_length(PyObject* value) {
  if (PyList_Check(value) || PyTuple_Check(value) || PyBytes_Check(value)) {
    return Py_SIZE(value);
  }
  if (PyDict_Check(value)) {
    return reinterpret_cast<PyDictObject*>(value)->ma_used;
  }
  if (PyUnicode_Check(value)) {
    return PyUnicode_GET_LENGTH(value);
  }
  if (PyAnySet_Check(value)) {
    return PySet_GET_SIZE(value);
  }
  if (PyObject_TypeCheck(value, the_deque_type)) {
    return the_deque_type->tp_as_sequence->sq_length(value);
  }
  return -1;
}

bool DictLookup::prepare(PyObject* key) {
  hash_ = PyObject_Hash(key);
  return hash_ != -1;
}

Found DictLookup::find_anew(PyObject* key, PyObject* dict, uint64_t version) {
  PyObject* value = nullptr;
  Found result = Found::ABSENT;
  if (!has_only_str_keys(dict)) {
    result = search(dict, key, hash_, &value);
  } else if (PyUnicode_CheckExact(key)) {
    value = _PyDict_GetItem_KnownHash(dict, key, hash_);
    result = value == nullptr ? Found::ABSENT : Found::PRESENT;
  } else if (!is_native(key)) {
    result = Found::UNKNOWN;  // a subclass of str, say
  }
  if (result != Found::UNKNOWN) {
    version_ = version;
    value_ = value;
  }
  return result;
}

bool order_is_unversioned(PyObject* dict) {
  return PyODict_Check(dict) && native_length(dict) > 1;
}

bool has_keys(PyObject* dict, const std::vector<Held>& expected) {
  if (native_length(dict) != static_cast<Py_ssize_t>(expected.size())) {
    return false;
  }
  return order_is_unversioned(dict) ? has_keys_in_list_order(dict, expected)
                                    : has_keys_in_table_order(dict, expected);
}

ElementIndex::ElementIndex(PyObject* set) {
  elements_.reserve(PySet_GET_SIZE(set));
  Py_ssize_t position = 0;
  PyObject* element;
  Py_hash_t hash;
  while (_PySet_NextEntry(set, &position, &element, &hash)) {
    elements_.emplace_back(hash, element);
  }
  std::sort(elements_.begin(), elements_.end());
}

bool ElementIndex::contains(PyObject* element, Py_hash_t hash) const {
  auto candidate = std::lower_bound(
      elements_.begin(), elements_.end(), std::pair<Py_hash_t, PyObject*>(hash, nullptr));
  for (; candidate != elements_.end() && candidate->first == hash; ++candidate) {
    if (same_constant(candidate->second, element)) {
      return true;
    }
  }
  return false;
}

bool ElementIndex::equals(PyObject* set) const {
  if (PySet_GET_SIZE(set) != static_cast<Py_ssize_t>(elements_.size())) {
    return false;
  }
  Py_ssize_t position = 0;
  PyObject* element;
  Py_hash_t hash;
  while (_PySet_NextEntry(set, &position, &element, &hash)) {
    if (!contains(element, hash)) {
      return false;
    }
  }
  return true;
}

}  // namespace framelift
