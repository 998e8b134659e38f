#include "tensor_spec.h"

#include "failure.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <vector>

namespace framelift {

namespace {

// Reaches TensorImpl's device without device(), which asks Python for some tensor subclasses.
struct DeviceField : c10::TensorImpl {
  static constexpr auto get() { return &DeviceField::device_opt_; }
};

std::optional<c10::Device> raw_device(const c10::TensorImpl& impl) {
  return impl.*DeviceField::get();
}

// The keys tell the layout, but for the kinds of compressed sparse tensors. layout() would tell
// these too, and asks Python for some tensor subclasses.
c10::Layout raw_layout(const c10::TensorImpl& impl) {
  c10::DispatchKeySet keys = impl.key_set();
  if (!keys.has(c10::DispatchKey::Python)) {
    return impl.layout();
  }
  return keys.has_any(c10::sparse_ks)     ? c10::kSparse
      : keys.has_any(c10::sparse_csr_ks)  ? c10::kSparseCsr
      : keys.has_any(c10::mkldnn_ks)      ? c10::kMkldnn
                                          : c10::kStrided;
}

const c10::TensorImpl& impl_of(PyObject* tensor) {
  return *THPVariable_Unpack(tensor).unsafeGetTensorImpl();
}

std::string type_name(PyTypeObject* type) {
  PyRef name = PyRef::steal(PyType_GetQualName(type));
  PyRef module = get_attribute(reinterpret_cast<PyObject*>(type), "__module__");
  PyErr_Clear();
  std::string text;
  if (module && PyUnicode_Check(module.get())) {
    text = std::string(PyUnicode_AsUTF8(module.get())) + ".";
  }
  return text + (name ? PyUnicode_AsUTF8(name.get()) : type->tp_name);
}

std::string dtype_name(caffe2::TypeMeta dtype) {
  c10::ScalarType scalar_type = dtype.toScalarType();
  if (scalar_type == c10::ScalarType::Undefined) {
    return "undefined";
  }
  return std::string("torch.") + torch::getTHPDtype(scalar_type)->name;
}

// No streams here: they crash where torch's libraries bring another C++ runtime than the compiler's.
std::string layout_name(c10::Layout layout) {
  static const char* const names[] = {
      "Strided", "Sparse", "SparseCsr", "Mkldnn", "SparseCsc", "SparseBsr", "SparseBsc", "Jagged"};
  auto number = static_cast<size_t>(layout);
  return number < std::size(names) ? names[number] : "layout " + std::to_string(number);
}

bool size_is(const c10::SymInt& found, int64_t expected) {
  return !found.is_heap_allocated() && found.as_int_unchecked() == expected;
}

// ---- facts as Python values, for differences and properties ----

PyObject* to_python(PyTypeObject* type) {
  return Py_NewRef(reinterpret_cast<PyObject*>(type));
}

PyObject* to_python(caffe2::TypeMeta dtype) {
  c10::ScalarType scalar_type = dtype.toScalarType();
  return Py_NewRef(
      scalar_type == c10::ScalarType::Undefined
          ? Py_None
          : reinterpret_cast<PyObject*>(torch::getTHPDtype(scalar_type)));
}

PyObject* to_python(const std::optional<c10::Device>& device) {
  return device ? THPDevice_New(*device) : Py_NewRef(Py_None);
}

PyObject* to_python(c10::Layout layout) {
  return Py_NewRef(reinterpret_cast<PyObject*>(torch::getTHPLayout(layout)));
}

PyObject* to_python(c10::DispatchKeySet keys) {
  return PyUnicode_FromString(c10::toString(keys).c_str());
}

PyObject* to_python(bool value) {
  return PyBool_FromLong(value);
}

PyObject* to_python(int64_t number) {
  return PyLong_FromLongLong(number);
}

PyObject* to_python(const c10::SymInt& size) {
  return size.is_heap_allocated() ? Py_NewRef(Py_None) : to_python(size.as_int_unchecked());
}

template <class Expected, class Found>
PyObject* difference(
    TensorFact fact, const Expected& expected, const Found& found, std::optional<int> dim = std::nullopt) {
  return tensor_difference(fact, dim, to_python(expected), to_python(found));
}

// Where the next dimension outwards begins if this one is followed densely.
int64_t extent(int64_t size, int64_t stride) {
  return stride * std::max<int64_t>(size, 1);
}

// Of Python's hooks that were all removed again the dict that held them is left.
bool is_empty(PyObject* hooks) {
  return hooks != nullptr && PyDict_Check(hooks) && PyDict_GET_SIZE(hooks) == 0;
}

}  // namespace

bool is_tensor(PyObject* value) {
  return PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

const void* storage_of(PyObject* tensor) {
  return impl_of(tensor).unsafe_storage().unsafeGetStorageImpl();
}

bool is_leaf(PyObject* tensor) {
  return THPVariable_Unpack(tensor).is_leaf();
}

bool has_hooks(PyObject* tensor) {
  namespace impl = torch::autograd::impl;
  const auto* in_python = reinterpret_cast<THPVariable*>(tensor);
  const at::Tensor& variable = THPVariable_Unpack(tensor);
  if (impl::get_autograd_meta(variable) == nullptr) {
    return false;
  }
  if (!impl::hooks(variable).empty() && !is_empty(in_python->backward_hooks)) {
    return true;
  }
  if (impl::post_acc_grad_hooks(variable) && !is_empty(in_python->post_accumulate_grad_hooks)) {
    return true;
  }
  auto accumulator = impl::try_get_grad_accumulator(variable);
  return accumulator && !(accumulator->pre_hooks().empty() && accumulator->post_hooks().empty());
}

namespace {

// From the first byte of a value to behind the last one; empty if it has none.
struct Bytes {
  const char* begin = nullptr;
  const char* end = nullptr;
};

template <class Int>
Bytes reach(const void* start, size_t itemsize, size_t dims, const Int* sizes, const Int* strides, Int unit) {
  const char* begin = static_cast<const char*>(start);
  const char* end = begin + itemsize;
  for (size_t dim = 0; dim < dims; ++dim) {
    if (sizes[dim] == 0) {
      return {};
    }
    Int way = (sizes[dim] - 1) * strides[dim] * unit;
    (way < 0 ? begin : end) += way;
  }
  return {begin, end};
}

Bytes bytes_of(PyObject* value) {
  if (is_tensor(value)) {
    const c10::TensorImpl& impl = impl_of(value);
    if (raw_layout(impl) != c10::kStrided || impl.has_symbolic_sizes_strides() || !impl.has_storage()) {
      return {};
    }
    const c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
    if (!storage->data_ptr().device().is_cpu() || storage->data_ptr().get() == nullptr) {
      return {};
    }
    size_t itemsize = impl.dtype().itemsize();
    const char* data = static_cast<const char*>(storage->data_ptr().get());
    auto sizes = impl.sizes_default();
    auto strides = impl.strides_default();
    return reach<int64_t>(
        data + impl.storage_offset_default() * itemsize, itemsize, sizes.size(), sizes.data(),
        strides.data(), static_cast<int64_t>(itemsize));
  }
  Py_buffer buffer;
  if (PyObject_GetBuffer(value, &buffer, PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return {};
  }
  Bytes found = reach<Py_ssize_t>(
      buffer.buf, buffer.itemsize, buffer.ndim, buffer.shape, buffer.strides, 1);
  PyBuffer_Release(&buffer);
  return found;
}

}  // namespace

bool lie_apart(PyObject* left, PyObject* right) {
  Bytes mine = bytes_of(left);
  Bytes others = bytes_of(right);
  if (mine.begin == mine.end || others.begin == others.end) {
    return true;
  }
  return mine.end <= others.begin || others.end <= mine.begin;
}

int64_t offset_of(PyObject* tensor) {
  const c10::TensorImpl& impl = impl_of(tensor);
  bool strided = raw_layout(impl) == c10::kStrided && !impl.has_symbolic_sizes_strides();
  return strided ? impl.storage_offset_default() : -1;
}

int64_t nbytes_of(PyObject* tensor) {
  const c10::TensorImpl& impl = impl_of(tensor);
  if (raw_layout(impl) != c10::kStrided || !impl.has_storage()) {
    return -1;
  }
  auto known = impl.unsafe_storage().sym_nbytes().maybe_as_int();
  return known.has_value() ? *known : -1;
}

PyObject* grad_of(PyObject* tensor) {
  try {
    // The impl's, because Tensor::grad() warns about tensors that aren't leaves.
    const at::Tensor& grad = impl_of(tensor).grad();
    return grad.defined() ? THPVariable_Wrap(grad) : Py_NewRef(Py_None);
  } catch (...) {
    PyErr_Clear();
    return nullptr;
  }
}

TensorSpec::TensorSpec(PyObject* tensor, Dims dynamic, Dims free_strides)
    : type_(PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(tensor)))) {
  const c10::TensorImpl& impl = impl_of(tensor);
  keys_ = impl.key_set();
  if (keys_.has(c10::DispatchKey::NestedTensor) && !keys_.has(c10::DispatchKey::Python)) {
    throw std::invalid_argument("the sizes of a strided nested tensor can't be described");
  }
  dtype_ = impl.dtype();
  device_ = raw_device(impl);
  layout_ = raw_layout(impl);
  requires_grad_ = impl.requires_grad();
  symbolic_ = impl.has_symbolic_sizes_strides();
  note_sizes(impl, dynamic);
  if (has_strides()) {
    c10::IntArrayRef strides = impl.strides_default();
    strides_.assign(strides.begin(), strides.end());
    if (!dynamic.empty() || !free_strides.empty()) {
      links_ = stride_order(impl.sizes_default(), free_strides);
    }
  }
}

void TensorSpec::note_sizes(const c10::TensorImpl& impl, Dims dynamic) {
  c10::SymIntArrayRef sizes = impl.sym_sizes_default();
  for (int64_t dim : dynamic) {
    if (dim < 0 || dim >= static_cast<int64_t>(sizes.size())) {
      throw std::invalid_argument("dynamic: no dimension " + std::to_string(dim));
    }
  }
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    bool free = std::find(dynamic.begin(), dynamic.end(), int64_t(dim)) != dynamic.end();
    if (!free && sizes[dim].is_heap_allocated()) {
      throw std::invalid_argument(
          "symbolic size at index " + std::to_string(dim) + " must be dynamic");
    }
    sizes_.push_back(free ? FREE : sizes[dim].as_int_unchecked());
  }
}

TensorSpec::Links TensorSpec::stride_order(c10::IntArrayRef sizes, Dims free_strides) const {
  std::vector<uint32_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  // Where strides tie, a dimension of size 1 is the inner one, then the later one.
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    bool a_wide = sizes[a] != 1;
    bool b_wide = sizes[b] != 1;
    return std::tie(strides_[a], a_wide, b) < std::tie(strides_[b], b_wide, a);
  });
  auto is_free = [&](int64_t dim) {
    return std::find(free_strides.begin(), free_strides.end(), dim) != free_strides.end();
  };
  Links links;
  std::optional<int64_t> next;
  for (uint32_t dim : order) {
    links.push_back(
        {dim, strides_[dim] == next ? Stride::DENSE : is_free(dim) ? Stride::FREE : Stride::FIXED});
    next = extent(sizes[dim], strides_[dim]);
  }
  return links;
}

bool TensorSpec::matches(PyObject* value) const {
  if (Py_TYPE(value) != type()) {
    return false;
  }
  const c10::TensorImpl& impl = impl_of(value);
  return impl.key_set() == keys_ && impl.dtype() == dtype_ && raw_device(impl) == device_ &&
      impl.requires_grad() == requires_grad_ &&
      // Equal keys mean equal layouts, but for the kinds of compressed sparse tensors.
      (layout_ == c10::kStrided || raw_layout(impl) == layout_) && shape_matches(impl);
}

bool TensorSpec::operator==(const TensorSpec& other) const {
  auto facts = [](const TensorSpec& spec) {
    return std::tie(
        spec.keys_, spec.dtype_, spec.device_, spec.layout_, spec.requires_grad_, spec.symbolic_,
        spec.sizes_, spec.strides_, spec.links_);
  };
  return type() == other.type() && facts(*this) == facts(other);
}

bool TensorSpec::shape_matches(const c10::TensorImpl& impl) const {
  if (impl.has_symbolic_sizes_strides() != symbolic_) {
    return false;
  }
  if (!has_strides()) {
    return sizes_match(impl);
  }
  if (links_.empty()) {
    return impl.sizes_default() == c10::IntArrayRef(sizes_) &&
        impl.strides_default() == c10::IntArrayRef(strides_);
  }
  return sizes_match(impl) && strides_match(impl.sizes_default(), impl.strides_default());
}

bool TensorSpec::sizes_match(const c10::TensorImpl& impl) const {
  c10::SymIntArrayRef sizes = impl.sym_sizes_default();
  if (sizes.size() != sizes_.size()) {
    return false;
  }
  for (size_t dim = 0; dim < sizes_.size(); ++dim) {
    if (sizes_[dim] != FREE && !size_is(sizes[dim], sizes_[dim])) {
      return false;
    }
  }
  return true;
}

template <class Report>
void TensorSpec::compare_strides(
    c10::IntArrayRef sizes, c10::IntArrayRef strides, Report report) const {
  if (links_.empty()) {
    for (size_t dim = 0; dim < strides_.size(); ++dim) {
      if (strides[dim] != strides_[dim] && !report(dim, strides_[dim])) {
        return;
      }
    }
    return;
  }
  int64_t next = 0;
  for (StrideLink link : links_) {
    int64_t expected = link.kind == Stride::DENSE ? next : strides_[link.dim];
    if (link.kind != Stride::FREE && strides[link.dim] != expected && !report(link.dim, expected)) {
      return;
    }
    next = extent(sizes[link.dim], strides[link.dim]);
  }
}

bool TensorSpec::strides_match(c10::IntArrayRef sizes, c10::IntArrayRef strides) const {
  bool match = true;
  compare_strides(sizes, strides, [&](size_t, int64_t) { return match = false; });
  return match;
}

PyObject* TensorSpec::shape_diff(const c10::TensorImpl& impl) const {
  c10::SymIntArrayRef found = impl.sym_sizes_default();
  if (found.size() != sizes_.size()) {
    return difference(TensorFact::DIM, int64_t(sizes_.size()), int64_t(found.size()));
  }
  for (size_t dim = 0; dim < sizes_.size(); ++dim) {
    if (sizes_[dim] != FREE && !size_is(found[dim], sizes_[dim])) {
      return difference(TensorFact::SIZE, sizes_[dim], found[dim], dim);
    }
  }
  if (impl.has_symbolic_sizes_strides() != symbolic_) {
    return difference(TensorFact::SYMBOLIC, symbolic_, !symbolic_);
  }
  PyObject* first = nullptr;
  if (has_strides()) {
    c10::IntArrayRef strides = impl.strides_default();
    compare_strides(impl.sizes_default(), strides, [&](size_t dim, int64_t expected) {
      first = difference(TensorFact::STRIDE, expected, strides[dim], dim);
      return false;
    });
  }
  return first == nullptr && !PyErr_Occurred() ? Py_NewRef(Py_None) : first;
}

PyObject* TensorSpec::diff(PyObject* value) const {
  if (Py_TYPE(value) != type()) {
    return difference(TensorFact::TYPE, type(), Py_TYPE(value));
  }
  const c10::TensorImpl& impl = impl_of(value);
  if (impl.dtype() != dtype_) {
    return difference(TensorFact::DTYPE, dtype_, impl.dtype());
  }
  if (raw_device(impl) != device_) {
    return difference(TensorFact::DEVICE, device_, raw_device(impl));
  }
  if (raw_layout(impl) != layout_) {
    return difference(TensorFact::LAYOUT, layout_, raw_layout(impl));
  }
  if (impl.requires_grad() != requires_grad_) {
    return difference(TensorFact::REQUIRES_GRAD, requires_grad_, impl.requires_grad());
  }
  PyRef first = PyRef::steal(shape_diff(impl));
  if (first.get() == Py_None && impl.key_set() != keys_) {
    return difference(TensorFact::KEYS, keys_, impl.key_set());
  }
  return first.release();
}

std::optional<int64_t> TensorSpec::size(size_t dim) const {
  return sizes_[dim] == FREE ? std::nullopt : std::optional<int64_t>(sizes_[dim]);
}

std::optional<int64_t> TensorSpec::stride(size_t dim) const {
  for (StrideLink link : links_) {
    if (link.dim == dim && link.kind != Stride::FIXED) {
      return std::nullopt;
    }
  }
  return strides_[dim];
}

template <class Report>
void TensorSpec::own_strides(Report report) const {
  if (!has_strides()) {
    return;
  }
  for (StrideLink link : links_.empty() ? stride_order(sizes_, {}) : links_) {
    std::optional<int64_t> stride;
    if (link.kind == Stride::FIXED) {
      stride = strides_[link.dim];
    }
    if (link.kind != Stride::DENSE && !(stride && *stride <= 1)) {
      report(link.dim, stride);
    }
  }
}

std::string TensorSpec::to_string() const {
  auto list = [&](auto number) {
    std::string text = "(";
    for (size_t i = 0; i < dim(); ++i) {
      auto value = number(i);
      text += (i == 0 ? "" : ", ") + (value ? std::to_string(*value) : "*");
    }
    return text + ")";
  };
  std::string text = "TensorSpec(" + type_name(type()) + ", " + dtype_name(dtype_) + ", " +
      (device_ ? device_->str() : "none") + ", sizes=" + list([&](size_t i) { return size(i); });
  if (has_strides()) {
    text += ", strides=" + list([&](size_t i) { return stride(i); });
  } else {
    text += ", layout=" + layout_name(layout_);
  }
  return text + ", requires_grad=" + (requires_grad_ ? "True" : "False") + ")";
}

namespace {

using SpecBox = Box<TensorSpec>;

bool read_dims(PyObject* object, std::vector<int64_t>& dims) {
  if (object == nullptr) {
    return true;
  }
  PyRef sequence = PyRef::steal(PySequence_Fast(object, "expected a sequence of dimensions"));
  if (!sequence) {
    return false;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
    int64_t dim = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(sequence.get(), i));
    if (dim == -1 && PyErr_Occurred()) {
      return false;
    }
    dims.push_back(dim);
  }
  return true;
}

PyObject* spec_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"tensor", "dynamic", "free_strides", nullptr};
  PyObject* tensor;
  PyObject* dynamic = nullptr;
  PyObject* free_strides = nullptr;
  if (!PyArg_ParseTupleAndKeywords(
          args, kwargs, "O|OO:TensorSpec", const_cast<char**>(names), &tensor, &dynamic,
          &free_strides)) {
    return nullptr;
  }
  if (!is_tensor(tensor)) {
    return PyErr_Format(PyExc_TypeError, "expected a tensor, got %s", Py_TYPE(tensor)->tp_name);
  }
  std::vector<int64_t> dims, strides;
  if (!read_dims(dynamic, dims) || !read_dims(free_strides, strides)) {
    return nullptr;
  }
  try {
    return SpecBox::make(TensorSpec(tensor, dims, strides));
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
    return nullptr;
  }
}

PyObject* spec_matches(PyObject* self, PyObject* value) {
  return PyBool_FromLong(SpecBox::of(self).matches(value));
}

PyObject* spec_diff(PyObject* self, PyObject* value) {
  return SpecBox::of(self).diff(value);
}

PyObject* spec_repr(PyObject* self) {
  return PyUnicode_FromString(SpecBox::of(self).to_string().c_str());
}

PyObject* spec_dtype(PyObject* self, void*) {
  return to_python(SpecBox::of(self).dtype());
}

PyObject* spec_device(PyObject* self, void*) {
  return to_python(SpecBox::of(self).device());
}

PyObject* spec_type(PyObject* self, void*) {
  return to_python(SpecBox::of(self).type());
}

PyObject* spec_requires_grad(PyObject* self, void*) {
  return to_python(SpecBox::of(self).requires_grad());
}

// A tuple with None where `number` has nothing to say.
template <class Number>
PyObject* tuple_of(size_t length, Number number) {
  PyRef tuple = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(length)));
  for (size_t i = 0; tuple && i < length; ++i) {
    std::optional<int64_t> value = number(i);
    PyObject* item = value ? PyLong_FromLongLong(*value) : Py_NewRef(Py_None);
    if (item == nullptr) {
      return nullptr;
    }
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item);
  }
  return tuple.release();
}

PyObject* spec_sizes(PyObject* self, void*) {
  const TensorSpec& spec = SpecBox::of(self);
  return tuple_of(spec.dim(), [&](size_t i) { return spec.size(i); });
}

PyObject* spec_strides(PyObject* self, void*) {
  const TensorSpec& spec = SpecBox::of(self);
  if (!spec.has_strides()) {
    Py_RETURN_NONE;
  }
  return tuple_of(spec.dim(), [&](size_t i) { return spec.stride(i); });
}

PyObject* spec_own_strides(PyObject* self, void*) {
  PyRef found = PyRef::steal(PyDict_New());
  bool failed = !found;
  SpecBox::of(self).own_strides([&](uint32_t dim, std::optional<int64_t> stride) {
    PyRef key = PyRef::steal(PyLong_FromLong(dim));
    PyRef value = PyRef::steal(stride ? PyLong_FromLongLong(*stride) : Py_NewRef(Py_None));
    failed = failed || !key || !value || PyDict_SetItem(found.get(), key.get(), value.get()) < 0;
  });
  return failed ? nullptr : found.release();
}

PyMethodDef spec_methods[] = {
    {"matches", spec_matches, METH_O, "Whether a value is a tensor as described."},
    {"diff", spec_diff, METH_O, "The first difference, a TensorDifference, or None."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef spec_properties[] = {
    {"type", spec_type, nullptr, "The exact Python type.", nullptr},
    {"dtype", spec_dtype, nullptr, nullptr, nullptr},
    {"device", spec_device, nullptr, nullptr, nullptr},
    {"requires_grad", spec_requires_grad, nullptr, nullptr, nullptr},
    {"sizes", spec_sizes, nullptr, "None stands for a free dimension.", nullptr},
    {"strides", spec_strides, nullptr,
     "None stands for a stride that is free or follows from sizes; None altogether without strides.",
     nullptr},
    {"own_strides", spec_own_strides, nullptr,
     "By dimension, those that follow from nothing, but for 0 and 1; None for a free one.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot spec_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(spec_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(SpecBox::dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(SpecBox::traverse)},
    {Py_tp_repr, reinterpret_cast<void*>(spec_repr)},
    {Py_tp_methods, spec_methods},
    {Py_tp_getset, spec_properties},
    {0, nullptr},
};

PyType_Spec spec_spec = {
    "framelift._guards.TensorSpec", sizeof(SpecBox), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, spec_slots};

}  // namespace

bool add_tensor_spec_type(PyObject* module) {
  return SpecBox::add_type(module, spec_spec);
}

}  // namespace framelift
