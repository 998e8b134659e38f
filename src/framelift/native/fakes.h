#pragma once

#include <torch/csrc/python_headers.h>

namespace framelift {

// empty_meta(sizes, strides, dtype) -> a fresh tensor on the meta device
PyObject *empty_meta(PyObject *self, PyObject *const *args, Py_ssize_t n);

// view_meta(base, sizes, strides, offset) -> a meta tensor over the base's storage and version counter
PyObject *view_meta(PyObject *self, PyObject *const *args, Py_ssize_t n);

// meta_like(tensor, base=None) -> one more meta tensor of the same sizes and strides, over memory of its own, or
// over the base's storage and version counter
PyObject *meta_like(PyObject *self, PyObject *const *args, Py_ssize_t n);

// as_view(base, tensor, creation): makes the tensor, which has no history yet, a view of the base to
// autograd, as the dispatcher would; an in-place operation on either then says what it must of both
PyObject *as_view(PyObject *self, PyObject *const *args, Py_ssize_t n);

}  // namespace framelift
