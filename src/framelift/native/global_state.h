// What a compiled graph relies on about torch's global and thread-local state.
#pragma once

#include "python_object.h"

#include <cstdint>
#include <string>
#include <vector>

namespace framelift {

// A snapshot, taken when it is made.
class GlobalState {
 public:
  GlobalState();

  bool holds() const;
  // "name: expected X, found Y" for each item that changed.
  std::vector<std::string> diff() const;

  int traverse(visitproc, void*) { return 0; }

 private:
  std::vector<int64_t> values_;
};

bool add_global_state_type(PyObject* module);
PyObject* text_list(const std::vector<std::string>& lines);

}  // namespace framelift
