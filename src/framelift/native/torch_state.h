#pragma once
#include "python_object.h"

namespace framelift {

// The functions that save torch's state and put it back, for _frame.
bool add_torch_state_capsule(PyObject* module);

}  // namespace framelift
