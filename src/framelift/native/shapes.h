// Facts about sizes and numbers that a compiled graph relies on: expressions over what a walk has found.
#pragma once

#include "constants.h"

#include <cstdint>
#include <vector>

namespace framelift {

// An int or a float of Python's, as far as 64 bits go.
struct Number {
  bool is_float = false;
  int64_t whole = 0;
  double real = 0.0;

  double as_double() const { return is_float ? real : static_cast<double>(whole); }
  bool truth() const { return is_float ? real != 0.0 : whole != 0; }
};

// The number itself, or a tensor's size or stride in one dimension.
#define FRAMELIFT_READ_KINDS(X) X(NUMBER) X(SIZE) X(STRIDE)
FRAMELIFT_ENUM(ReadKind, FRAMELIFT_READ_KINDS);

struct ShapeRead {
  int node;
  ReadKind kind;
  int dim;
};

// One step of an expression in postfix form; `run` takes its operands from the top of the stack and
// leaves its result there. False when the result is out of reach: an overflow, a division by zero.
struct ShapeStep {
  bool (*run)(const ShapeStep& step, std::vector<Number>& stack);
  Number constant;
};

struct ShapeFacts {
  std::vector<ShapeRead> reads;
  std::vector<std::vector<ShapeStep>> facts;

  // The index of the first fact that does not hold of the values that a walk found, or -1.
  int first_difference(PyObject* const* values) const;

  // What is read of these values, as a new tuple; None if one of them is not there.
  PyObject* found(PyObject* const* values) const;

  // Takes reads (node, kind, dim) and facts as sequences of steps (name, constant). False with an
  // exception set when they make no sense.
  bool set(PyObject* reads, PyObject* facts, size_t n_nodes);
};

}  // namespace framelift
