// Looking at Python values without running any Python code.
#pragma once

#include "python_object.h"

#include <cstdint>
#include <utility>
#include <vector>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "framelift supports CPython 3.11 to 3.13; dict versions and dict keys differ elsewhere"
#endif

namespace framelift {

// Finds what is needed of the standard library. False with an exception set when that fails.
bool init_values();

#if PY_VERSION_HEX >= 0x030D0000

// The head of what a dict has whose keys lie in a table of its class.
struct SplitValues {
  uint8_t capacity;
  uint8_t size;
  uint8_t embedded;  // they lie in an instance
};

// From 3.13 on the values of an instance's dict may lie in the instance. Attributes are then set past the dict,
// whose version stays as it was. This gives the dict values of its own, for good: the same keys and values in
// the same order. False: there was no memory for it.
bool detach_values(PyObject* dict);

// A number that is no version of any dict's, and another one each time.
uint64_t no_version();

inline bool has_embedded_values(PyObject* dict) {
  auto* values = reinterpret_cast<const SplitValues*>(reinterpret_cast<PyDictObject*>(dict)->ma_values);
  return values != nullptr && values->embedded;
}

#endif

// Changes whenever the dict does. CPython draws it from one counter for all dicts, so a version
// seen once means that dict with that content for ever: an address used again has another version.
inline uint64_t dict_version(PyObject* dict) {
#if PY_VERSION_HEX >= 0x030D0000
  if (has_embedded_values(dict) && !detach_values(dict)) {
    return no_version();
  }
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
}

// Same exact type and the same value. Types not known to compare in C are the same only when
// they are the same object. NaN equals itself and 0.0 differs from -0.0.
bool same_constant(PyObject* a, PyObject* b);
// The same of elements of tables: these find a NaN by which object it is.
bool same_element(PyObject* a, const Held& b);
inline bool same_constant(PyObject* a, const Held& b) {
  PyObject* expected = b.get();
  return expected != nullptr && same_constant(a, expected);
}

// The length of a list, tuple, dict, set, frozenset, deque, str or bytes, subclasses included,
// whatever their __len__ says; -1 for anything else.
Py_ssize_t native_length(PyObject* value);

// How often a class was registered with an abstract base class, as a new int, or null.
PyObject* count_registrations();

// What was registered since the count was `before` is not counted from here on.
bool disregard_registrations(long before);
// The text of this thread's context of decimal numbers, without its flags: a new reference, or null.
PyObject* decimal_context();

// The type collections.deque.
PyTypeObject* deque_type();

// The instance __dict__ (borrowed), made now if its values were still inline; null without one.
inline PyObject* instance_dict(PyObject* object) {
  if (PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_MANAGED_DICT)) {
    // In front of the object, as CPython lays it out; the short way if the dict has been made.
    auto* header = reinterpret_cast<PyObject**>(object);
#if PY_VERSION_HEX < 0x030C0000
    if (header[-4] == nullptr) {
      return header[-3];
    }
#elif PY_VERSION_HEX < 0x030D0000
    if ((reinterpret_cast<uintptr_t>(header[-3]) & 1) == 0) {
      return header[-3];
    }
#else
    if (header[-3] != nullptr) {
      return header[-3];
    }
#endif
  }
  PyObject** place = _PyObject_GetDictPtr(object);
  return place == nullptr ? nullptr : *place;
}

// UNKNOWN: only a Python __eq__ could tell.
enum class Found { ABSENT, PRESENT, UNKNOWN };

// A dict lookup that remembers its last result for as long as the dict stays as it was. The value
// is borrowed and not held: an unchanged dict holds it.
class DictLookup {
 public:
  // Runs the key's __hash__, once. False with an exception set when it raises.
  bool prepare(PyObject* key);

  Found find(PyObject* key, PyObject* dict) {
    uint64_t version = dict_version(dict);
    if (version == version_) {
      return value_ == nullptr ? Found::ABSENT : Found::PRESENT;
    }
    return find_anew(key, dict, version);
  }
  // After PRESENT.
  PyObject* value() const { return value_; }

 private:
  Found find_anew(PyObject* key, PyObject* dict, uint64_t version);

  Py_hash_t hash_ = 0;
  uint64_t version_ = 0;
  PyObject* value_ = nullptr;
};

// Whether the dict has exactly these keys in this order.
bool has_keys(PyObject* dict, const std::vector<Held>& expected);
// Whether order is kept outside the dict's own table, where dict_version doesn't cover it.
bool order_is_unversioned(PyObject* dict);

// The elements of a set (borrowed) by hash, to compare sets without calling __eq__.
class ElementIndex {
 public:
  explicit ElementIndex(PyObject* set);
  // Whether the set has exactly these elements, as same_constant compares them.
  bool equals(PyObject* set) const;

 private:
  bool contains(PyObject* element, Py_hash_t hash) const;
  std::vector<std::pair<Py_hash_t, PyObject*>> elements_;
};

}  // namespace framelift
