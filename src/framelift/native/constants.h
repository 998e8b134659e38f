// Enums whose members Python knows as constants of the module: one list makes both.
#pragma once

#include <Python.h>

#include <iterator>
#include <string>

// FRAMELIFT_ENUM(Fruit, LIST) with `#define LIST(X) X(APPLE) X(PEAR)` makes the enum class Fruit and the
// names of its members, `FruitNames`.
#define FRAMELIFT_MEMBER(name) name,
#define FRAMELIFT_NAME(name) #name,
#define FRAMELIFT_ENUM(Enum, LIST)     \
  enum class Enum { LIST(FRAMELIFT_MEMBER) }; \
  inline constexpr const char* Enum##Names[] = {LIST(FRAMELIFT_NAME)}

namespace framelift {

inline const char* constant_name(const char* name) {
  return name;
}

// A row of a table has its name as a field.
template <class Row>
const char* constant_name(const Row& row) {
  return row.name;
}

// Adds PREFIX_NAME to the module for each row; its value is the row's index.
template <class Row, size_t N>
bool add_constants(PyObject* module, const std::string& prefix, const Row (&rows)[N]) {
  for (size_t i = 0; i < N; ++i) {
    std::string name = prefix + constant_name(rows[i]);
    if (PyModule_AddIntConstant(module, name.c_str(), static_cast<long>(i)) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace framelift
