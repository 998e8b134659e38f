#pragma once
#include "python_object.h"

namespace framelift {

// The functions that save torch's state and put it back, for _frame.
bool add_torch_state_capsule(PyObject* module);

// Where torch's default generator of random numbers stands, as a capsule, and what puts it back there.
PyObject* random_state(PyObject*, PyObject*);
PyObject* put_random_state(PyObject*, PyObject* capsule);

}  // namespace framelift
