#include "global_state.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/Exception.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include "failure.h"
#include "values.h"

namespace framelift {

namespace {

using at::Context;
using c10::DeviceType;

// What is kept as a number, as the Python value that it stands for.

PyObject* to_bool(int64_t value) {
  return PyBool_FromLong(value != 0);
}

PyObject* to_number(int64_t value) {
  return PyLong_FromLongLong(value);
}

PyObject* to_dtype(int64_t value) {
  return Py_NewRef(reinterpret_cast<PyObject*>(torch::getTHPDtype(static_cast<c10::ScalarType>(value))));
}

PyObject* to_torch_function(int64_t value) {
  static const char* const NAMES[] = {"enabled", "disabled for subclasses", "disabled"};
  return PyUnicode_FromString(NAMES[value]);
}

PyObject* to_precision(int64_t value) {
  static const char* const NAMES[] = {"none", "ieee", "tf32", "bf16", "default"};
  return PyUnicode_FromString(NAMES[value]);
}

PyObject* to_keys(int64_t value) {
  c10::DispatchKeySet keys(c10::DispatchKeySet::RAW, static_cast<uint64_t>(value));
  return PyUnicode_FromString(c10::toString(keys).c_str());
}

template <DeviceType device>
int64_t autocast_enabled() {
  return at::autocast::is_autocast_enabled(device);
}

template <DeviceType device>
int64_t autocast_dtype() {
  return static_cast<int64_t>(at::autocast::get_autocast_dtype(device));
}

template <bool (Context::*flag)() const>
int64_t context_flag() {
  return (at::globalContext().*flag)();
}

// Which attention kernels are tried before which, a digit for each.
int64_t sdp_priorities() {
  int64_t found = 0;
  for (auto backend : at::globalContext().sDPPriorityOrder()) {
    found = found * 16 + static_cast<int64_t>(backend);
  }
  return found;
}

// What applies to one operation on one backend, whichever of the old and new switches set it. Only
// operations that compilers write kernels for: the others' kernels look for themselves when they run.
template <at::Float32Backend backend, at::Float32Op op>
int64_t float32_precision() {
  return static_cast<int64_t>(at::globalContext().float32Precision(backend, op));
}

// Every kind of mode shows in the local dispatch keys. So the keys are checked instead of what shows in them,
// and are reported only when nothing else differs.
enum class Role { PLAIN, SHOWS_IN_KEYS, KEYS };

struct Item {
  const char* name;
  int64_t (*read)();
  PyObject* (*to_python)(int64_t);
  Role role = Role::PLAIN;
};

// The likeliest to change come first, the keys last.
const Item ITEMS[] = {
    {"grad mode", [] { return int64_t(c10::AutogradState::get_tls_state().get_grad_mode()); },
     to_bool},
    {"inference mode",
     [] { return int64_t(c10::AutogradState::get_tls_state().get_inference_mode()); }, to_bool},
    {"forward grad mode",
     [] { return int64_t(c10::AutogradState::get_tls_state().get_fw_grad_mode()); }, to_bool},
    {"multithreaded backward",
     [] { return int64_t(c10::AutogradState::get_tls_state().get_multithreading_enabled()); },
     to_bool},
    {"view replay", [] { return int64_t(c10::AutogradState::get_tls_state().get_view_replay_enabled()); },
     to_bool},
    {"autocast enabled (cpu)", autocast_enabled<at::kCPU>, to_bool, Role::SHOWS_IN_KEYS},
    {"autocast enabled (cuda)", autocast_enabled<at::kCUDA>, to_bool, Role::SHOWS_IN_KEYS},
    {"autocast enabled (xpu)", autocast_enabled<at::kXPU>, to_bool, Role::SHOWS_IN_KEYS},
    {"autocast enabled (mps)", autocast_enabled<at::kMPS>, to_bool, Role::SHOWS_IN_KEYS},
    {"autocast dtype (cpu)", autocast_dtype<at::kCPU>, to_dtype},
    {"autocast dtype (cuda)", autocast_dtype<at::kCUDA>, to_dtype},
    {"autocast dtype (xpu)", autocast_dtype<at::kXPU>, to_dtype},
    {"autocast dtype (mps)", autocast_dtype<at::kMPS>, to_dtype},
    {"autocast cache enabled", [] { return int64_t(at::autocast::is_autocast_cache_enabled()); },
     to_bool},
    {"default dtype", [] { return int64_t(c10::get_default_dtype_as_scalartype()); }, to_dtype},
    {"torch function", [] { return int64_t(at::impl::PythonTorchFunctionTLS::get_disabled_state()); },
     to_torch_function},
    {"torch dispatch modes", [] { return c10::impl::TorchDispatchModeTLS::stack_len(); },
     to_number},
    {"deterministic algorithms", context_flag<&Context::deterministicAlgorithms>, to_bool},
    {"deterministic algorithms warn only", context_flag<&Context::deterministicAlgorithmsWarnOnly>,
     to_bool},
    {"deterministic fill", context_flag<&Context::deterministicFillUninitializedMemory>, to_bool},
    {"float32 matmul precision (cuda)",
     float32_precision<at::Float32Backend::CUDA, at::Float32Op::MATMUL>, to_precision},
    {"float32 conv precision (cuda)",
     float32_precision<at::Float32Backend::CUDA, at::Float32Op::CONV>, to_precision},
    {"float32 matmul precision (mkldnn)",
     float32_precision<at::Float32Backend::MKLDNN, at::Float32Op::MATMUL>, to_precision},
    {"flash sdp", context_flag<&Context::userEnabledFlashSDP>, to_bool},
    {"memory efficient sdp", context_flag<&Context::userEnabledMemEfficientSDP>, to_bool},
    {"math sdp", context_flag<&Context::userEnabledMathSDP>, to_bool},
    {"cudnn sdp", context_flag<&Context::userEnabledCuDNNSDP>, to_bool},
    {"overrideable sdp", context_flag<&Context::userEnabledOverrideableSDP>, to_bool},
    {"sdp priorities", sdp_priorities, to_number},
    {"cudnn", context_flag<&Context::userEnabledCuDNN>, to_bool},
    {"cudnn benchmark", context_flag<&Context::benchmarkCuDNN>, to_bool},
    {"cudnn deterministic", context_flag<&Context::deterministicCuDNN>, to_bool},
    {"mkldnn", context_flag<&Context::userEnabledMkldnn>, to_bool},
    {"anomaly detection", [] { return int64_t(torch::autograd::AnomalyMode::is_enabled()); },
     to_bool},
    {"anomaly detection checks for NaN",
     [] { return int64_t(torch::autograd::AnomalyMode::should_check_nan()); }, to_bool},
    {"warn always", [] { return int64_t(c10::WarningUtils::get_warnAlways()); }, to_bool},
    {"included dispatch keys",
     [] {
       return int64_t(c10::impl::tls_local_dispatch_key_set().included_.raw_repr());
     },
     to_keys, Role::KEYS},
    {"excluded dispatch keys",
     [] {
       return int64_t(c10::impl::tls_local_dispatch_key_set().excluded_.raw_repr());
     },
     to_keys, Role::KEYS},
};

constexpr size_t ITEM_COUNT = sizeof(ITEMS) / sizeof(ITEMS[0]);

// ---- torch function modes ----

PyObject* device_context = nullptr;  // the class of the mode that a default device is

PyObject* mode_at(int64_t index) {
  return at::impl::PythonTorchFunctionTLS::get_stack_at(index)->ptr(getPyInterpreter());
}

// What such a mode does is all in its device: `with torch.device(...)` makes a new one each time.
std::optional<c10::Device> device_of(PyObject* mode) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(mode)) != device_context) {
    return std::nullopt;
  }
  static PyObject* const name = PyUnicode_InternFromString("device");
  PyObject* own = instance_dict(mode);
  PyObject* device = own == nullptr ? nullptr : PyDict_GetItemWithError(own, name);
  if (device == nullptr || !THPDevice_Check(device)) {
    return std::nullopt;
  }
  return reinterpret_cast<THPDevice*>(device)->device;
}

constexpr const char* MODES = "torch function modes";

}  // namespace

PyObject* torch_function_mode(int64_t index) {
  return index < at::impl::PythonTorchFunctionTLS::stack_len() ? mode_at(index) : nullptr;
}

GlobalState::GlobalState() {
  for (const Item& item : ITEMS) {
    values_.push_back(item.read());
  }
  for (int64_t i = 0; i < at::impl::PythonTorchFunctionTLS::stack_len(); ++i) {
    modes_.push_back({Py_TYPE(mode_at(i))->tp_name, device_of(mode_at(i))});
  }
}

bool GlobalState::modes_hold() const {
  int64_t length = at::impl::PythonTorchFunctionTLS::stack_len();
  bool same = length == static_cast<int64_t>(modes_.size());
  for (int64_t i = 0; same && i < length; ++i) {
    same = modes_[i].device == device_of(mode_at(i));
  }
  return same;
}

PyObject* GlobalState::modes_to_python() const {
  PyRef tuple = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(modes_.size())));
  for (size_t i = 0; tuple && i < modes_.size(); ++i) {
    const Mode& mode = modes_[i];
    PyObject* item = mode.device ? THPDevice_New(*mode.device) : PyUnicode_FromString(mode.name.c_str());
    if (item == nullptr) {
      return nullptr;
    }
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item);
  }
  return tuple.release();
}

bool GlobalState::holds() const {
  if (!modes_hold()) {
    return false;
  }
  for (size_t i = 0; i < ITEM_COUNT; ++i) {
    if (ITEMS[i].role != Role::SHOWS_IN_KEYS && ITEMS[i].read() != values_[i]) {
      return false;
    }
  }
  return true;
}

PyObject* GlobalState::values() const {
  PyRef dict = PyRef::steal(PyDict_New());
  auto add = [&](const char* name, PyObject* value) {
    PyRef owned = PyRef::steal(value);
    return owned && PyDict_SetItemString(dict.get(), name, value) == 0;
  };
  bool ok = dict && add(MODES, modes_to_python());
  for (size_t i = 0; ok && i < ITEM_COUNT; ++i) {
    ok = add(ITEMS[i].name, ITEMS[i].to_python(values_[i]));
  }
  return ok ? dict.release() : nullptr;
}

PyObject* GlobalState::diff() const {
  PyRef list = PyRef::steal(PyList_New(0));
  auto add = [&](const char* name, PyObject* expected, PyObject* found) {
    PyRef difference = PyRef::steal(state_difference(name, expected, found));
    return difference && PyList_Append(list.get(), difference.get()) == 0;
  };
  GlobalState now;
  bool ok = list && (modes_hold() || add(MODES, modes_to_python(), now.modes_to_python()));
  for (size_t i = 0; ok && i < ITEM_COUNT; ++i) {
    const Item& item = ITEMS[i];
    bool shows_already = item.role == Role::KEYS && PyList_GET_SIZE(list.get()) > 0;
    if (now.values_[i] != values_[i] && !shows_already) {
      ok = add(item.name, item.to_python(values_[i]), item.to_python(now.values_[i]));
    }
  }
  return ok ? list.release() : nullptr;
}

namespace {

using StateBox = Box<GlobalState>;

PyObject* state_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":GlobalState", const_cast<char**>(names))) {
    return nullptr;
  }
  return StateBox::make(GlobalState());
}

PyObject* state_diff(PyObject* self, PyObject*) {
  return StateBox::of(self).diff();
}

PyObject* state_values(PyObject* self, PyObject*) {
  return StateBox::of(self).values();
}

PyMethodDef state_methods[] = {
    {"values", state_values, METH_NOARGS, "All of it, by name."},
    {"diff", state_diff, METH_NOARGS, "A StateDifference for each item that has another value now."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot state_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(state_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(StateBox::dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(StateBox::traverse)},
    {Py_tp_methods, state_methods},
    {0, nullptr},
};

PyType_Spec state_spec = {
    "framelift._guards.GlobalState", sizeof(StateBox), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, state_slots};

}  // namespace

bool add_global_state_type(PyObject* module) {
  PyRef devices = PyRef::steal(PyImport_ImportModule("torch.utils._device"));
  device_context = devices ? get_attribute(devices.get(), "DeviceContext").release() : nullptr;
  return device_context != nullptr && StateBox::add_type(module, state_spec);
}

}  // namespace framelift
