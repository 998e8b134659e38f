// Tensors without data, made without going through the dispatcher: what the op memory needs to
// produce a remembered result in microseconds. Sizes and strides are those of a run on fakes.

#include "fakes.h"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_numbers.h>
#include <torch/csrc/utils/python_symnode.h>

#include <vector>

namespace framelift {
namespace {

using Sizes = std::vector<c10::SymInt>;

bool read_size(PyObject *value, Sizes &out) {
  if (torch::is_symint(py::handle(value))) {
    out.push_back(py::handle(value).cast<c10::SymInt>());
    return true;
  }
  int64_t number = PyLong_AsLongLong(value);
  if (number == -1 && PyErr_Occurred()) return false;
  out.emplace_back(number);
  return true;
}

bool read_sizes(PyObject *tuple, Sizes &out) {
  if (!PyTuple_Check(tuple)) {
    PyErr_SetString(PyExc_TypeError, "sizes and strides must be tuples of ints");
    return false;
  }
  out.reserve(PyTuple_GET_SIZE(tuple));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    if (!read_size(PyTuple_GET_ITEM(tuple, i), out)) return false;
  }
  return true;
}

// Nothing here may reach a Python dispatch mode: the caller is one.
struct BelowPython {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::DispatchKeySet(
      {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::PythonDispatcher})};
};

}  // namespace

PyObject *empty_meta(PyObject *, PyObject *const *args, Py_ssize_t n) {
  if (n != 3 || !THPDtype_Check(args[2])) {
    PyErr_SetString(PyExc_TypeError, "empty_meta(sizes, strides, dtype)");
    return nullptr;
  }
  Sizes sizes, strides;
  if (!read_sizes(args[0], sizes) || !read_sizes(args[1], strides)) return nullptr;
  try {
    BelowPython below;
    auto made = at::empty_strided_symint(
        sizes, strides, at::TensorOptions().dtype(reinterpret_cast<THPDtype *>(args[2])->scalar_type).device(at::kMeta));
    return THPVariable_Wrap(made);
  } catch (const std::exception &e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}

PyObject *meta_like(PyObject *, PyObject *const *args, Py_ssize_t n) {
  if (n < 1 || n > 2 || !THPVariable_Check(args[0]) || (n == 2 && !THPVariable_Check(args[1]))) {
    PyErr_SetString(PyExc_TypeError, "meta_like(tensor, base=None)");
    return nullptr;
  }
  const at::Tensor &tensor = THPVariable_Unpack(args[0]);
  try {
    BelowPython below;
    // what was computed of its sizes is copied too: with symbols that costs far more than the tensor itself
    auto impl = tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
        n == 2 ? THPVariable_Unpack(args[1]).unsafeGetTensorImpl()->version_counter() : c10::VariableVersion(0),
        /*allow_tensor_metadata_change=*/true);
    if (n == 2) {
      impl->set_storage_keep_dtype(THPVariable_Unpack(args[1]).storage());
    } else {
      impl->set_storage_keep_dtype(c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), tensor.storage().sym_nbytes(), c10::GetAllocator(c10::kMeta),
          /*resizable=*/true));
    }
    return THPVariable_Wrap(at::Tensor(std::move(impl)));
  } catch (const std::exception &e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}

PyObject *view_meta(PyObject *, PyObject *const *args, Py_ssize_t n) {
  if (n != 4 || !THPVariable_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "view_meta(base, sizes, strides, offset)");
    return nullptr;
  }
  const at::Tensor &base = THPVariable_Unpack(args[0]);
  Sizes sizes, strides, offset;
  if (!read_sizes(args[1], sizes) || !read_sizes(args[2], strides) || !read_size(args[3], offset)) {
    return nullptr;
  }
  try {
    // without the autograd keys it would count as an inference tensor, which has no version
    auto keys = c10::DispatchKeySet(
        {c10::DispatchKey::Meta, c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutogradMeta});
    auto made = at::detail::make_tensor<c10::TensorImpl>(
        c10::TensorImpl::VIEW, c10::Storage(base.storage()), keys, base.dtype());
    made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset[0]);
    // an in-place operation on either must be seen on both
    made.unsafeGetTensorImpl()->set_version_counter(base.unsafeGetTensorImpl()->version_counter());
    return THPVariable_Wrap(made);
  } catch (const std::exception &e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}

PyObject *as_view(PyObject *, PyObject *const *args, Py_ssize_t n) {
  if (n != 3 || !THPVariable_Check(args[0]) || !THPVariable_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "as_view(base, tensor, creation)");
    return nullptr;
  }
  long creation = PyLong_AsLong(args[2]);
  if (creation == -1 && PyErr_Occurred()) return nullptr;
  try {
    torch::autograd::as_view(
        THPVariable_Unpack(args[0]), THPVariable_Unpack(args[1]), /*is_bw_differentiable=*/true,
        /*is_fw_differentiable=*/true, nullptr, nullptr,
        static_cast<torch::autograd::CreationMeta>(creation));
  } catch (const std::exception &e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
  Py_RETURN_NONE;
}

}  // namespace framelift
