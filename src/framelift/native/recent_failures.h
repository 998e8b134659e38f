// Where a program failed before. These places are looked at first, so most programs that fail do so at once.
#pragma once

#include <Python.h>

#include <vector>

namespace framelift {

struct Program;

// The last few places where a program failed, each with the path to it. Guards have no effects: a check that
// fails makes its program fail, whether or not the checks in front of it were made.
class RecentFailures {
 public:
  // The access of a node failed (check < 0), or one of the program's checks.
  __attribute__((cold)) void add(const Program& program, int node, int check);
  // Whether the program fails at one of these places again. Runs no Python code.
  bool any_recurs(
      Program& program, PyObject* func, PyObject* const* locals, Py_ssize_t n_locals) const;

 private:
  struct Place {
    int node;
    int check;
    std::vector<int> path;  // the nodes to reach, parents first
  };
  static constexpr size_t LIMIT = 4;
  std::vector<Place> places_;
  size_t oldest_ = 0;
};

}  // namespace framelift
