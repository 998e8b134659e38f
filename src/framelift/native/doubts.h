// Where a program failed before: looked at first, so that most programs that fail do so at once.
#pragma once

#include <Python.h>

#include <vector>

namespace framelift {

struct Program;

// The last few places where a program failed, each with the way to it. Guards are pure: a check that
// fails fails its program, whether or not the checks in front of it were made.
class Doubts {
 public:
  // The access of a node failed (check < 0), or one of the program's checks.
  void note(const Program& program, int node, int check);
  // Whether the program fails at one of these places. Runs no Python code.
  bool confirmed(
      Program& program, PyObject* func, PyObject* const* locals, Py_ssize_t n_locals) const;

 private:
  struct Doubt {
    int node;
    int check;
    std::vector<int> way;  // the nodes to reach, parents first
  };
  static constexpr size_t LIMIT = 4;
  std::vector<Doubt> doubts_;
  size_t oldest_ = 0;
};

}  // namespace framelift
