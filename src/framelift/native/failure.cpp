#include "failure.h"

#include <vector>

namespace framelift {

namespace {

PyTypeObject* guard_failure_type = nullptr;
PyTypeObject* tensor_difference_type = nullptr;
PyTypeObject* state_difference_type = nullptr;

bool add_record_type(
    PyObject* module, PyTypeObject** type, const char* name, std::initializer_list<const char*> names) {
  std::vector<PyStructSequence_Field> fields;
  for (const char* field : names) {
    fields.push_back({field, nullptr});
  }
  fields.push_back({nullptr, nullptr});
  PyStructSequence_Desc description = {name, nullptr, fields.data(), static_cast<int>(names.size())};
  *type = PyStructSequence_NewType(&description);
  return *type != nullptr && PyModule_AddType(module, *type) == 0;
}

// Takes over the references; null if one of them is.
PyObject* make_record(PyTypeObject* type, std::initializer_list<PyObject*> values) {
  PyRef record = PyRef::steal(PyStructSequence_New(type));
  bool complete = bool(record);
  Py_ssize_t place = 0;
  for (PyObject* value : values) {
    complete = complete && value != nullptr;
    if (record) {
      PyStructSequence_SET_ITEM(record.get(), place++, value);
    } else {
      Py_XDECREF(value);
    }
  }
  return complete ? record.release() : nullptr;
}

PyObject* number_or_none(std::optional<int> number) {
  return number ? PyLong_FromLong(*number) : Py_NewRef(Py_None);
}

}  // namespace

bool fail(
    Failure* failure, FailureKind kind, std::optional<int> position, PyObject* found,
    std::optional<int> check) {
  if (failure != nullptr) {
    *failure = {kind, position, check, PyRef::borrow(found)};
  }
  return false;
}

PyObject* Failure::to_python() const {
  return make_record(
      guard_failure_type,
      {PyLong_FromLong(static_cast<long>(kind)), number_or_none(position), number_or_none(check),
       Py_XNewRef(found.get())});
}

PyObject* tensor_difference(
    TensorFact fact, std::optional<int> dim, PyObject* expected, PyObject* found) {
  return make_record(
      tensor_difference_type,
      {PyLong_FromLong(static_cast<long>(fact)), number_or_none(dim), expected, found});
}

PyObject* state_difference(const char* name, PyObject* expected, PyObject* found) {
  return make_record(state_difference_type, {PyUnicode_FromString(name), expected, found});
}

bool add_failure_types(PyObject* module) {
  return add_record_type(
             module, &guard_failure_type, "framelift._guards.GuardFailure",
             {"kind", "position", "check", "found"}) &&
      add_record_type(
             module, &tensor_difference_type, "framelift._guards.TensorDifference",
             {"fact", "dim", "expected", "found"}) &&
      add_record_type(
             module, &state_difference_type, "framelift._guards.StateDifference",
             {"name", "expected", "found"}) &&
      add_constants(module, "FAILED_", FailureKindNames) &&
      add_constants(module, "TENSOR_", TensorFactNames);
}

}  // namespace framelift
