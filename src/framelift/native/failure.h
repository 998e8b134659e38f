// What the module answers when something does not hold: tuples with named fields, made only then.
#pragma once

#include "constants.h"
#include "python_object.h"

#include <initializer_list>
#include <optional>

namespace framelift {

#define FRAMELIFT_FAILURE_KINDS(X) X(ACCESS) X(CHECK) X(STATE) X(CLASS) X(STORAGE) X(SHAPE)
FRAMELIFT_ENUM(FailureKind, FRAMELIFT_FAILURE_KINDS);

// Where a program failed. See GuardFailure in _guards.pyi.
struct Failure {
  FailureKind kind = FailureKind::ACCESS;
  std::optional<int> position;
  std::optional<int> check;
  PyRef found;

  // A new GuardFailure, or null with an exception set.
  PyObject* to_python() const;
};

// Fills in a failure; `failure` is null where nobody has asked. Always false. Out of line, since most guards hold.
__attribute__((cold)) bool fail(
    Failure* failure, FailureKind kind, std::optional<int> position, PyObject* found,
    std::optional<int> check = std::nullopt);

#define FRAMELIFT_TENSOR_FACTS(X) \
  X(TYPE) X(DTYPE) X(DEVICE) X(LAYOUT) X(REQUIRES_GRAD) X(DIM) X(SIZE) X(SYMBOLIC) X(STRIDE) X(KEYS)
FRAMELIFT_ENUM(TensorFact, FRAMELIFT_TENSOR_FACTS);

// A new TensorDifference, or null with an exception set. Takes over the references.
PyObject* tensor_difference(
    TensorFact fact, std::optional<int> dim, PyObject* expected, PyObject* found);

// The same for a StateDifference.
PyObject* state_difference(const char* name, PyObject* expected, PyObject* found);

// Adds GuardFailure, TensorDifference, StateDifference, and the FAILED_* and TENSOR_* constants.
bool add_failure_types(PyObject* module);

}  // namespace framelift
