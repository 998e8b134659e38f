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
  TENSOR_SPEC,
  EARLIER_NODE,
  MODULE_CALL,
};

// For how long what was found is known to stay so.
enum class Lasts {
  NO,
  WITH_VALUE,       // while the value is the same object (its type too, if that can't be assigned to); an access's
                    // parent, if that is a tuple
  WITH_ATTRIBUTES,  // while the instance __dict__ is unchanged: a check's value's, an access's parent's
  WITH_KEYS,        // the same for a dict itself
};

struct AccessKind {
  const char* name;
  AccessFunction run;
  OperandKind operand;
  bool creates_reference;
  Lasts lasts = Lasts::NO;
};

struct CheckKind {
  const char* name;
  CheckFunction run;
  OperandKind operand;
  Lasts lasts = Lasts::NO;
};

// By its number, which is what the module's constant ACCESS_<NAME> or CHECK_<NAME> says. Null when out of range.
const AccessKind* access_kind(int number);
const CheckKind* check_kind(int number);
bool add_operation_constants(PyObject* module);
// Whether a `threading.local` was made for the calling thread: CPython notes that in the thread's dictionary.
bool has_begun(PyObject* local);

}  // namespace framelift
