// Owning references, and C++ values as Python objects.
#pragma once

#include <Python.h>

#include <cstdint>
#include <new>
#include <utility>

// From 3.13 on libpython exports this, and declares it in headers for CPython alone.
#if PY_VERSION_HEX >= 0x030D0000
extern "C" int _PySet_NextEntry(PyObject* set, Py_ssize_t* position, PyObject** key, Py_hash_t* hash);
#endif

namespace framelift {

// What a weak reference refers to, borrowed; None if that is no more. With the GIL held this is as good as its
// successor, which gives a new reference.
inline PyObject* referent(PyObject* reference) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return PyWeakref_GET_OBJECT(reference);
#pragma GCC diagnostic pop
}

// An owned reference.
class PyRef {
 public:
  PyRef() = default;
  static PyRef steal(PyObject* object) {
    PyRef ref;
    ref.object_ = object;
    return ref;
  }
  static PyRef borrow(PyObject* object) {
    Py_XINCREF(object);
    return steal(object);
  }
  PyRef(PyRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  PyRef& operator=(PyRef&& other) noexcept {
    // The old object goes last: its finalizer may look at whatever holds this reference.
    PyObject* old = std::exchange(object_, std::exchange(other.object_, nullptr));
    Py_XDECREF(old);
    return *this;
  }
  PyRef(const PyRef&) = delete;
  PyRef& operator=(const PyRef&) = delete;
  ~PyRef() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// What a guard compares with. Where the object can be weakly referenced it is: guards keep nothing of the
// program alive, and an object that comes to lie at the address of a dead one is another one.
class Held {
 public:
  Held() = default;
  static Held strongly(PyRef object) {
    Held held;
    held.bits_ = reinterpret_cast<uintptr_t>(object.release());
    return held;
  }
  // `on_death` is called when the object dies. Empty with an exception set when there is no memory.
  static Held weakly(PyObject* object, PyObject* on_death) {
    // Functions of C are often made when they are asked for, the types of C stay, and frozensets are
    // compared by value.
    auto* as_type = reinterpret_cast<PyTypeObject*>(object);
    bool stays = PyCFunction_Check(object) || PyFrozenSet_CheckExact(object) ||
        (PyType_Check(object) && !PyType_HasFeature(as_type, Py_TPFLAGS_HEAPTYPE));
    if (stays || !PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
      return strongly(PyRef::borrow(object));
    }
    Held held = strongly(PyRef::steal(PyWeakref_NewRef(object, on_death)));
    held.bits_ |= held.bits_ == 0 ? 0 : WEAK;
    return held;
  }
  Held(Held&& other) noexcept : bits_(std::exchange(other.bits_, 0)) {}
  Held& operator=(Held&& other) noexcept {
    PyRef old = PyRef::steal(owned());
    bits_ = std::exchange(other.bits_, 0);
    return *this;
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { Py_XDECREF(owned()); }

  // Borrowed; null if it is dead, or nothing is held.
  PyObject* get() const {
    if ((bits_ & WEAK) == 0) {
      return owned();
    }
    PyObject* object = referent(owned());
    return object == Py_None ? nullptr : object;
  }
  // Whether it is this object. Where nothing is held, null is.
  bool is(PyObject* object) const {
    if ((bits_ & WEAK) == 0) {
      return owned() == object;
    }
    // the object that is asked about is alive; a dead reference refers to None
    return reinterpret_cast<PyWeakReference*>(owned())->wr_object == object && object != Py_None;
  }
  // The object that is owned: the reference if it is a weak one.
  PyObject* owned() const { return reinterpret_cast<PyObject*>(bits_ & ~WEAK); }
  explicit operator bool() const { return bits_ != 0; }

 private:
  static constexpr uintptr_t WEAK = 1;
  uintptr_t bits_ = 0;
};

// An attribute, by an interned name: PyObject_GetAttrString makes a new string each time, and
// CPython's cache of type lookups keeps those.
inline PyRef get_attribute(PyObject* object, const char* name) {
  PyRef interned = PyRef::steal(PyUnicode_InternFromString(name));
  return interned ? PyRef::steal(PyObject_GetAttr(object, interned.get())) : PyRef();
}

// A Python object around a C++ value. Body has `int traverse(visitproc, void*)`. A body that can
// change after it was made also has a tp_clear of its own; the others are like tuples: what they
// refer to is older than they are, so a cycle through one goes through something clearable too.
template <class Body>
struct Box {
  PyObject_HEAD
  Body body;

  static inline PyTypeObject* type = nullptr;

  static bool is_exact(PyObject* object) { return Py_TYPE(object) == type; }
  static Body& of(PyObject* object) { return reinterpret_cast<Box*>(object)->body; }

  static PyObject* make(Body&& body) {
    PyObject* self = type->tp_alloc(type, 0);
    if (self != nullptr) {
      new (&of(self)) Body(std::move(body));
    }
    return self;
  }

  static void dealloc(PyObject* self) {
    PyTypeObject* own_type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    of(self).~Body();
    own_type->tp_free(self);
    Py_DECREF(own_type);
  }

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    return of(self).traverse(visit, arg);
  }

  // Makes the type and puts it into the module under its own name.
  static bool add_type(PyObject* module, PyType_Spec& spec) {
    type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return type != nullptr && PyModule_AddType(module, type) == 0;
  }
};

}  // namespace framelift
