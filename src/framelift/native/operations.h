// The accesses and checks that guard programs are made of.
#pragma once

#include "program.h"

namespace framelift {

// What kind of operand an access or a check takes.
enum class OperandKind {
  NOTHING,
  OBJECT,  // compared by identity
  VALUE,   // compared by value
  INDEX,
  FLAG,
  NAME,
  KEY,
  MEMBER,
  TYPE,
  TUPLE,
  FROZENSET,
  TENSOR_SPEC,
  EARLIER_NODE,
  CALLABLE,
};

struct AccessKind {
  const char* name;
  AccessFunction run;
  OperandKind operand;
  bool creates_reference;
};

struct CheckKind {
  const char* name;
  CheckFunction run;
  OperandKind operand;
  bool runs_python;
};

// The numbers that Python code uses are indices into these. Null when out of range.
const AccessKind* access_kind(int number);
const CheckKind* check_kind(int number);

}  // namespace framelift
