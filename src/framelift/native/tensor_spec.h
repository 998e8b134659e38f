// What a compiled graph relies on about one tensor.
#pragma once

#include "python_object.h"

#include <c10/core/DispatchKeySet.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>

namespace framelift {

// Whether a value is a tensor, found without asking __instancecheck__.
bool is_tensor(PyObject* value);

// The storage of a tensor, as an identity; null if it has none.
const void* storage_of(PyObject* tensor);

// A tensor's .grad as an owned reference, None when there is none; null if it can't be had.
PyObject* grad_of(PyObject* tensor);

// Facts that a TensorSpec leaves open, since few programs rely on them. Hooks are called with a gradient.
bool is_leaf(PyObject* tensor);
bool has_hooks(PyObject* tensor);
int64_t offset_of(PyObject* tensor);
// How many bytes a tensor's storage has; -1 if it has none, or that is a symbol.
int64_t nbytes_of(PyObject* tensor);

// Whether no byte belongs to both of two tensors or arrays, as far as the first and last byte of each tell.
// What is not a tensor on the CPU or something with a buffer lies apart from everything.
bool lie_apart(PyObject* left, PyObject* right);

// All reads are of the TensorImpl's own fields. What a tensor subclass answers in Python instead
// (a device or sizes of its own) is not asked for: that would run Python code.
class TensorSpec {
 public:
  using Dims = c10::ArrayRef<int64_t>;

  // Throws std::invalid_argument when the tensor can't be described. `dynamic`: free dimensions;
  // `free_strides`: dimensions whose stride may be any, unless it follows from the sizes of others.
  TensorSpec(PyObject* tensor, Dims dynamic, Dims free_strides = {});

  bool matches(PyObject* value) const;
  bool operator==(const TensorSpec& other) const;
  // The first difference as a new TensorDifference, or None; null with an exception set.
  PyObject* diff(PyObject* value) const;

  PyTypeObject* type() const { return reinterpret_cast<PyTypeObject*>(type_.get()); }
  caffe2::TypeMeta dtype() const { return dtype_; }
  std::optional<c10::Device> device() const { return device_; }
  bool requires_grad() const { return requires_grad_; }
  bool has_strides() const { return layout_ == c10::kStrided && !symbolic_; }
  size_t dim() const { return sizes_.size(); }
  // Nothing where the dimension is free.
  std::optional<int64_t> size(size_t dim) const;
  // Nothing where the stride is free, or follows from the sizes of other dimensions.
  std::optional<int64_t> stride(size_t dim) const;
  // Calls report(dim, stride) for strides that follow from nothing, but for 0 and 1; nothing: it is free.
  template <class Report>
  void own_strides(Report report) const;
  std::string to_string() const;

  int traverse(visitproc visit, void* arg) {
    Py_VISIT(type_.get());
    return 0;
  }

 private:
  static constexpr int64_t FREE = -1;
  using Numbers = c10::SmallVector<int64_t, 5>;

  // One dimension's stride in a tensor of which something is free, checked innermost first:
  // `DENSE` ones continue where the dimension before them ends, `FIXED` ones are numbers.
  enum class Stride : uint8_t { DENSE, FIXED, FREE };
  struct StrideLink {
    uint32_t dim;
    Stride kind;
    bool operator==(const StrideLink&) const = default;
  };

  using Links = c10::SmallVector<StrideLink, 5>;

  void note_sizes(const c10::TensorImpl& impl, Dims dynamic);
  Links stride_order(c10::IntArrayRef sizes, Dims free_strides) const;
  bool shape_matches(const c10::TensorImpl& impl) const;
  bool sizes_match(const c10::TensorImpl& impl) const;
  bool strides_match(c10::IntArrayRef sizes, c10::IntArrayRef strides) const;
  // Calls report(dim, expected) for each stride that is not as expected, until it returns false.
  template <class Report>
  void compare_strides(c10::IntArrayRef sizes, c10::IntArrayRef strides, Report report) const;
  PyObject* shape_diff(const c10::TensorImpl& impl) const;

  PyRef type_;
  c10::DispatchKeySet keys_;
  caffe2::TypeMeta dtype_;
  std::optional<c10::Device> device_;
  c10::Layout layout_ = c10::kStrided;
  bool requires_grad_ = false;
  bool symbolic_ = false;  // has sizes that are SymInts
  Numbers sizes_;
  Numbers strides_;
  Links links_;  // empty when nothing is free
};

bool add_tensor_spec_type(PyObject* module);

}  // namespace framelift
