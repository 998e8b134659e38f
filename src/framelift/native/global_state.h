// What a compiled graph relies on about torch's global and thread-local state.
#pragma once

#include "python_object.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace framelift {

// A snapshot, taken when it is made.
class GlobalState {
 public:
  GlobalState();

  bool holds() const;
  // A new list with a StateDifference for each item that has another value now, or null with an exception set.
  PyObject* diff() const;

  // A new dict of all of it by name, to compare with another process's, or null with an exception set.
  PyObject* values() const;

  int traverse(visitproc, void*) { return 0; }

 private:
  // One torch function mode. A default device is known by its device; any other mode has guards of its own.
  struct Mode {
    std::string name;
    std::optional<c10::Device> device;
  };

  bool modes_hold() const;
  PyObject* modes_to_python() const;

  std::vector<int64_t> values_;
  std::vector<Mode> modes_;
};

// The torch function mode with this index, the outermost being 0. Borrowed; null where there are fewer.
PyObject* torch_function_mode(int64_t index);

bool add_global_state_type(PyObject* module);

}  // namespace framelift
