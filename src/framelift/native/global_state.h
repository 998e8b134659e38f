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
  // "name: expected X, found Y" for each item that changed.
  std::vector<std::string> diff() const;

  // All of it as text, to compare with another process's.
  std::vector<std::string> texts() const;

  int traverse(visitproc, void*) { return 0; }

 private:
  // One torch function mode: a default device by its device. What any other one is has guards of its own.
  struct Mode {
    std::string name;
    std::optional<c10::Device> device;
  };

  bool modes_hold() const;
  std::string modes_diff() const;

  std::vector<int64_t> values_;
  std::vector<Mode> modes_;
};

// The torch function mode that was entered so manieth, borrowed; nullptr where there are fewer.
PyObject* torch_function_mode(int64_t index);

bool add_global_state_type(PyObject* module);
PyObject* text_list(const std::vector<std::string>& lines);

}  // namespace framelift
