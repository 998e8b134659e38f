// Guard programs: a flat list of outside values, how each is reached, and what must hold of it.
#pragma once

#include "failure.h"
#include "global_state.h"
#include "python_object.h"
#include "recent_failures.h"
#include "shapes.h"
#include "steps.h"
#include "values.h"

#include <alloca.h>

#include <limits>
#include <vector>

namespace framelift {

// The parent of a node that is reached from the frame, and the slot of a node that is no input.
constexpr int FRAME = -1;
constexpr int NO_INPUT = -1;

// What an access or a check was given, in the form that it is used in.
struct Operand {
  Held object;
  Py_ssize_t number = 0;  // an index, a length, a flag, a member's offset, a node, or a list's index
  DictLookup lookup;
  uint64_t keys_version = 0;  // of the dict whose keys were last found to be as expected
};

// What was last found of what calls of a module depend on, beside its class.
struct ModuleCall {
  static constexpr size_t N_HOOKS = 4;
  static constexpr uint64_t NEVER_SEEN = std::numeric_limits<uint64_t>::max();

  uint64_t version = NEVER_SEEN;  // of the module's dict, which holds the hooks
  PyObject* hooks[N_HOOKS] = {};
  uint64_t hooks_versions[N_HOOKS] = {};
};

struct AccessKind;
struct CheckKind;
struct Program;

// There is no garbage collection while it lasts: a collection runs finalizers, which are Python code. Only
// CPython 3.11 collects in the middle of an allocation.
struct CollectionPause {
#if PY_VERSION_HEX < 0x030C0000
  CollectionPause() = default;
  CollectionPause(const CollectionPause&) = delete;
  CollectionPause& operator=(const CollectionPause&) = delete;
  ~CollectionPause() {
    if (was_enabled) {
      PyGC_Enable();
    }
  }

  const int was_enabled = PyGC_Disable();
#endif
};

// One evaluation of a program. No Python code runs and the GIL is held, so values are borrowed. References
// that an access creates are kept until the end.
struct Walk {
  Program& program;
  PyObject* func;
  PyObject* const* locals;
  Py_ssize_t n_locals;
  PyObject** values;
  PyObject** kept;
  int n_kept = 0;
  CollectionPause pause;

  PyObject* keep(PyObject* owned) {
    if (owned != nullptr) {
      kept[n_kept++] = owned;
    }
    return owned;
  }
};

// Calls use(room for `count` pointers). The room is on the stack, and gone afterwards, unless there are many:
// then the thread keeps it for the next time, since asking for that much memory may take longer than a walk.
constexpr size_t MAX_STACK_POINTERS = 4096;
inline thread_local std::vector<PyObject*> spare_pointers;

template <class Use>
__attribute__((noinline)) bool with_pointers(size_t count, Use use) {
  if (count <= MAX_STACK_POINTERS) {
    return use(static_cast<PyObject**>(alloca(count * sizeof(PyObject*))));
  }
  // Taken out of its place meanwhile: a finalizer may come here again.
  std::vector<PyObject*> room = std::move(spare_pointers);
  if (room.size() < count) {
    room.resize(count);
  }
  bool result = use(room.data());
  spare_pointers = std::move(room);
  return result;
}

// A borrowed value, or null when there is none to be had (a parent of the wrong kind included).
using AccessFunction = PyObject* (*)(Operand&, Walk&, PyObject* parent);
using CheckFunction = bool (*)(Operand&, Walk&, PyObject* value);

struct Node {
  AccessFunction access;
  const AccessKind* kind;
  int parent;
  int slot;
  int first_check;
  int end_check;
  Operand operand;
};

struct Check {
  CheckFunction holds;
  const CheckKind* kind;
  Operand operand;
};

// Lookups on a class, known to be good for as long as the class keeps its version.
struct ClassLookups {
  struct Expected {
    PyRef name;
    Held value;               // nothing: absent
    std::vector<Held> parts;  // of a property or its like, which can't be held weakly: then `value` is its type

    bool is(PyObject* found) const;
  };
  Held type;
  std::vector<Held> mro;  // empty: it does not matter
  std::vector<Expected> expected;
  unsigned int version = 0;

  // The first name whose lookup has another result now ("mro()": the bases), or null.
  PyObject* first_difference();
};

// The tensors at some input slots, grouped by the storage they share.
struct StorageGroups {
  std::vector<int> slots;
  std::vector<int> groups;

  // The position of the first tensor out of place, or -1.
  int first_difference(PyObject* const* inputs) const;
};

struct Program {
  std::vector<Node> nodes;
  std::vector<Check> checks;
  std::vector<PyObject*> specs;  // borrowed from checks: some that differ
  std::vector<std::vector<Held>> lists;  // of keys or elements, in order
  std::vector<ModuleCall> module_calls;
  PyRef invalidation;  // whether an object that something is compared with has died
  PyRef on_death;      // the callback that notes that
  std::vector<ClassLookups> classes;
  StorageGroups storages;
  ShapeFacts shapes;
  PyRef state;
  Steps steps;
  RecentFailures recent_failures;
  int n_inputs = 0;
  int n_kept = 0;  // how many references an evaluation may have to own

  // Whether an object that it compares with has died: then it never holds again.
  bool is_invalidated() const;

  // Whether everything holds; then `inputs` gets n_inputs new references. `failure` may be null.
  // An exception may be set after false, if there is no memory. Nothing of an evaluation is left on the
  // C stack, so that regions can recurse as deeply as plain functions.
  bool evaluate(
      PyObject* func, PyObject* const* locals, Py_ssize_t n_locals, PyObject** inputs,
      Failure* failure);

  int traverse(visitproc visit, void* arg);
};

using ProgramBox = Box<Program>;

extern PyObject* missing;  // stands for an absent class attribute

// Adds Program, the ACCESS_*, CHECK_* and READ_* constants, FRAME and NO_INPUT.
bool add_program_type(PyObject* module);

}  // namespace framelift
