// Entries (a guard program and the region it guards) and the cache they are found in.
#pragma once

#include "python_object.h"

namespace framelift {

// The first entry of the cache whose program holds runs its region on the inputs; null without an
// exception when there is none. `func` may be null.
PyObject* dispatch(
    PyObject* cache, PyObject* func, PyObject* const* locals, Py_ssize_t n_locals);

extern PyObject* miss;  // what Cache.dispatch returns when no entry holds

bool add_cache_types(PyObject* module);

}  // namespace framelift
