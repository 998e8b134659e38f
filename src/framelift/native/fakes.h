#pragma once

#include <torch/csrc/python_headers.h>

namespace framelift {

// empty_meta(sizes, strides, dtype) -> a fresh tensor on the meta device
PyObject *empty_meta(PyObject *self, PyObject *const *args, Py_ssize_t n);

// view_meta(base, sizes, strides, offset) -> a meta tensor over the base's storage and version counter
PyObject *view_meta(PyObject *self, PyObject *const *args, Py_ssize_t n);

}  // namespace framelift
