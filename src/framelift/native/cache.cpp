#include "cache.h"

#include "program.h"

#include <ATen/record_function.h>
#include <structmember.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace framelift {

PyObject* miss = nullptr;

namespace {

// Program and region never change, so only `info` can close a cycle.
struct Entry {
  PyRef program;
  PyRef region;
  PyRef info;
  // What profilers show of a run; empty: nothing.
  std::string title;
  Py_ssize_t hits = 0;
  PyObject* weak_references = nullptr;

  int traverse(visitproc visit, void* arg) {
    Py_VISIT(program.get());
    Py_VISIT(region.get());
    Py_VISIT(info.get());
    return 0;
  }
};

struct Cache {
  std::vector<PyRef> entries;
  PyObject* weak_references = nullptr;
  Py_ssize_t hits = 0;
  Py_ssize_t misses = 0;

  int traverse(visitproc visit, void* arg) {
    for (const PyRef& entry : entries) {
      Py_VISIT(entry.get());
    }
    return 0;
  }
  auto find(PyObject* entry) {
    return std::find_if(entries.begin(), entries.end(), [&](const PyRef& candidate) {
      return candidate.get() == entry;
    });
  }
};

using EntryBox = Box<Entry>;
using CacheBox = Box<Cache>;

template <class Body>
void dealloc_referenced(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (Box<Body>::of(self).weak_references != nullptr) {
    PyObject_ClearWeakRefs(self);
  }
  Box<Body>::dealloc(self);
}

// A region's arguments, with the place in front that vectorcall may use.
class Arguments {
 public:
  explicit Arguments(int count) : count_(count) {
    if (count_ > INLINE_COUNT) {
      heap_.reset(new PyObject*[count_ + 1]);
      start_ = heap_.get();
    }
  }
  PyObject** data() { return start_ + 1; }
  PyObject* call(PyObject* callable) {
    PyObject* result =
        PyObject_Vectorcall(callable, data(), count_ | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
    for (int i = 0; i < count_; ++i) {
      Py_DECREF(data()[i]);
    }
    return result;
  }

 private:
  static constexpr int INLINE_COUNT = 15;
  int count_;
  PyObject* inline_[INLINE_COUNT + 1];
  std::unique_ptr<PyObject*[]> heap_;
  PyObject** start_ = inline_;
};

void move_to_front(Cache& cache, PyObject* entry) {
  auto place = cache.find(entry);
  if (place != cache.entries.end()) {
    std::rotate(cache.entries.begin(), place, place + 1);
  }
}

Program& program_of(PyObject* entry) {
  return ProgramBox::of(EntryBox::of(entry).program.get());
}

// Takes out the entries that never hold again. They die when it returns: that may run code.
std::vector<PyRef> take_invalidated(Cache& cache) {
  std::vector<PyRef> invalidated;
  for (size_t i = 0; i < cache.entries.size();) {
    if (program_of(cache.entries[i].get()).is_invalidated()) {
      invalidated.push_back(std::move(cache.entries[i]));
      cache.entries.erase(cache.entries.begin() + i);
    } else {
      ++i;
    }
  }
  return invalidated;
}

// Whether the entry's program held; if so *result is what its region returned. `lookup` is what profilers see
// until then.
bool try_entry(
    Cache& cache, PyObject* object, PyObject* func, PyObject* const* locals, Py_ssize_t n_locals,
    at::RecordFunction& lookup, PyObject** result) {
  Entry& entry = EntryBox::of(object);
  Program& program = program_of(object);
  Arguments arguments(program.n_inputs);
  if (!program.evaluate(func, locals, n_locals, arguments.data(), nullptr)) {
    return false;
  }
  ++entry.hits;
  ++cache.hits;
  move_to_front(cache, object);
  if (!lookup.isActive()) {
    *result = arguments.call(entry.region.get());
    return true;
  }
  lookup.end();
  // Of the kind that torch's own compiler makes: snapshots of memory look for those.
  at::RecordFunction range(at::RecordScope::FUNCTION);
  if (range.isActive() && !entry.title.empty()) {
    range.before(entry.title);
  }
  *result = arguments.call(entry.region.get());
  return true;
}

}  // namespace

PyObject* dispatch(PyObject* self, PyObject* func, PyObject* const* locals, Py_ssize_t n_locals) {
  Cache& cache = CacheBox::of(self);
  PyRef held_cache = PyRef::borrow(self);
  func = func == nullptr ? Py_None : func;
  // Looks at a counter of the thread's, and no more, as long as no profiler is at work.
  at::RecordFunction lookup(at::RecordScope::FUNCTION);
  if (lookup.isActive()) {
    lookup.before("TorchDynamo Cache Lookup");  // by which tools know it
  }
  // By index and held one by one: a region or a finalizer may change the cache.
  for (size_t i = 0; i < cache.entries.size(); ++i) {
    PyRef entry = PyRef::borrow(cache.entries[i].get());
    Program& program = program_of(entry.get());
    if (program.is_invalidated()) {
      cache.entries.erase(cache.entries.begin() + i--);
      continue;
    }
    if (program.recent_failures.any_recurs(program, func, locals, n_locals)) {
      continue;
    }
    PyObject* result = nullptr;
    if (try_entry(cache, entry.get(), func, locals, n_locals, lookup, &result)) {
      return result;
    }
    if (PyErr_Occurred()) {
      return nullptr;
    }
  }
  ++cache.misses;
  return nullptr;
}

namespace {

// ---- Entry ----

PyObject* entry_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"program", "region", "info", "title", nullptr};
  PyObject* program;
  PyObject* region;
  PyObject* info = Py_None;
  const char* title = "";
  if (!PyArg_ParseTupleAndKeywords(
          args, kwargs, "O!O|Os:Entry", const_cast<char**>(names), ProgramBox::type, &program,
          &region, &info, &title)) {
    return nullptr;
  }
  if (!PyCallable_Check(region)) {
    return PyErr_Format(PyExc_TypeError, "region must be callable, got %R", region);
  }
  return EntryBox::make(
      {PyRef::borrow(program), PyRef::borrow(region), PyRef::borrow(info), std::string(title)});
}

int entry_clear(PyObject* self) {
  EntryBox::of(self).info = PyRef();
  return 0;
}

template <PyRef Entry::*field>
PyObject* entry_get(PyObject* self, void*) {
  PyObject* value = (EntryBox::of(self).*field).get();
  return Py_NewRef(value == nullptr ? Py_None : value);
}

int entry_set_info(PyObject* self, PyObject* value, void*) {
  EntryBox::of(self).info = PyRef::borrow(value);
  return 0;
}

PyObject* entry_hits(PyObject* self, void*) {
  return PyLong_FromSsize_t(EntryBox::of(self).hits);
}

PyGetSetDef entry_properties[] = {
    {"program", entry_get<&Entry::program>, nullptr, nullptr, nullptr},
    {"region", entry_get<&Entry::region>, nullptr, nullptr, nullptr},
    {"info", entry_get<&Entry::info>, entry_set_info, nullptr, nullptr},
    {"hits", entry_hits, nullptr, "How often the region was run by dispatch.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef entry_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(EntryBox, body) + offsetof(Entry, weak_references),
     READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot entry_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(entry_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc_referenced<Entry>)},
    {Py_tp_members, entry_members},
    {Py_tp_traverse, reinterpret_cast<void*>(EntryBox::traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(entry_clear)},
    {Py_tp_getset, entry_properties},
    {0, nullptr},
};

PyType_Spec entry_spec = {
    "framelift._guards.Entry", sizeof(EntryBox), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    entry_slots};

// ---- Cache ----

PyObject* cache_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":Cache", const_cast<char**>(names))) {
    return nullptr;
  }
  return CacheBox::make({});
}

int cache_clear(PyObject* self) {
  // Out of the cache first: dropping an entry can run code that uses the cache.
  std::vector<PyRef> entries = std::exchange(CacheBox::of(self).entries, {});
  return 0;
}

PyObject* cache_add(PyObject* self, PyObject* entry) {
  if (!EntryBox::is_exact(entry)) {
    return PyErr_Format(PyExc_TypeError, "expected an Entry, got %R", entry);
  }
  std::vector<PyRef>& entries = CacheBox::of(self).entries;
  entries.insert(entries.begin(), PyRef::borrow(entry));
  Py_RETURN_NONE;
}

PyObject* cache_remove(PyObject* self, PyObject* entry) {
  Cache& cache = CacheBox::of(self);
  auto place = cache.find(entry);
  if (place == cache.entries.end()) {
    return PyErr_Format(PyExc_ValueError, "not in the cache: %R", entry);
  }
  PyRef removed = std::move(*place);
  cache.entries.erase(place);
  Py_RETURN_NONE;
}

PyObject* cache_clear_method(PyObject* self, PyObject*) {
  cache_clear(self);
  Py_RETURN_NONE;
}

PyObject* cache_entries(PyObject* self, PyObject*) {
  take_invalidated(CacheBox::of(self));
  PyRef list = PyRef::steal(PyList_New(0));
  for (const PyRef& entry : CacheBox::of(self).entries) {
    if (!list || PyList_Append(list.get(), entry.get()) != 0) {
      return nullptr;
    }
  }
  return list.release();
}

PyObject* cache_dispatch(PyObject* self, PyObject* arguments) {
  PyObject* func;
  PyObject* sequence;
  if (!PyArg_ParseTuple(arguments, "OO:dispatch", &func, &sequence)) {
    return nullptr;
  }
  PyRef args = PyRef::steal(PySequence_Tuple(sequence));
  if (!args) {
    return nullptr;
  }
  PyObject** items = reinterpret_cast<PyTupleObject*>(args.get())->ob_item;
  PyObject* result = dispatch(self, func, items, PyTuple_GET_SIZE(args.get()));
  return result == nullptr && !PyErr_Occurred() ? Py_NewRef(miss) : result;
}

Py_ssize_t cache_length(PyObject* self) {
  take_invalidated(CacheBox::of(self));
  return static_cast<Py_ssize_t>(CacheBox::of(self).entries.size());
}

template <Py_ssize_t Cache::*counter>
PyObject* cache_count(PyObject* self, void*) {
  return PyLong_FromSsize_t(CacheBox::of(self).*counter);
}

PyMethodDef cache_methods[] = {
    {"add", cache_add, METH_O, "Puts an entry in front."},
    {"remove", cache_remove, METH_O, "Takes an entry out."},
    {"clear", cache_clear_method, METH_NOARGS, "Takes all entries out."},
    {"entries", cache_entries, METH_NOARGS, "The entries, in the order they are tried."},
    {"dispatch", cache_dispatch, METH_VARARGS,
     "dispatch(func, args): what the region of the first entry that holds returns, or MISS."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef cache_properties[] = {
    {"hits", cache_count<&Cache::hits>, nullptr, nullptr, nullptr},
    {"misses", cache_count<&Cache::misses>, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef cache_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CacheBox, body) + offsetof(Cache, weak_references),
     READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot cache_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(cache_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc_referenced<Cache>)},
    {Py_tp_members, cache_members},
    {Py_tp_traverse, reinterpret_cast<void*>(CacheBox::traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(cache_clear)},
    {Py_tp_methods, cache_methods},
    {Py_tp_getset, cache_properties},
    {Py_sq_length, reinterpret_cast<void*>(cache_length)},
    {0, nullptr},
};

PyType_Spec cache_spec = {
    "framelift._guards.Cache", sizeof(CacheBox), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    cache_slots};

}  // namespace

bool add_cache_types(PyObject* module) {
  return EntryBox::add_type(module, entry_spec) && CacheBox::add_type(module, cache_spec);
}

}  // namespace framelift
