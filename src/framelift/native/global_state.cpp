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

#include "values.h"

namespace framelift {

namespace {

using at::Context;
using c10::DeviceType;

std::string show_bool(int64_t value) {
  return value != 0 ? "True" : "False";
}

std::string show_number(int64_t value) {
  return std::to_string(value);
}

std::string show_dtype(int64_t value) {
  return std::string("torch.") + torch::getTHPDtype(static_cast<c10::ScalarType>(value))->name;
}

std::string show_torch_function(int64_t value) {
  static const char* const NAMES[] = {"enabled", "disabled for subclasses", "disabled"};
  return NAMES[value];
}

std::string show_precision(int64_t value) {
  static const char* const NAMES[] = {"none", "ieee", "tf32", "bf16", "default"};
  return NAMES[value];
}

std::string show_keys(int64_t value) {
  return c10::toString(
      c10::DispatchKeySet(c10::DispatchKeySet::RAW, static_cast<uint64_t>(value)));
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

// Modes of every kind show in the local dispatch keys. So these are checked instead of what they
// imply, and reported only when there is nothing better to report.
enum class Role { PLAIN, SHOWS_IN_KEYS, KEYS };

struct Item {
  const char* name;
  int64_t (*read)();
  std::string (*show)(int64_t);
  Role role = Role::PLAIN;
};

// The likeliest to change come first, the keys last.
const Item ITEMS[] = {
    {"grad mode", [] { return int64_t(c10::AutogradState::get_tls_state().get_grad_mode()); },
     show_bool},
    {"inference mode",
     [] { return int64_t(c10::AutogradState::get_tls_state().get_inference_mode()); }, show_bool},
    {"forward grad mode",
     [] { return int64_t(c10::AutogradState::get_tls_state().get_fw_grad_mode()); }, show_bool},
    {"multithreaded backward",
     [] { return int64_t(c10::AutogradState::get_tls_state().get_multithreading_enabled()); },
     show_bool},
    {"view replay", [] { return int64_t(c10::AutogradState::get_tls_state().get_view_replay_enabled()); },
     show_bool},
    {"autocast enabled (cpu)", autocast_enabled<at::kCPU>, show_bool, Role::SHOWS_IN_KEYS},
    {"autocast enabled (cuda)", autocast_enabled<at::kCUDA>, show_bool, Role::SHOWS_IN_KEYS},
    {"autocast enabled (xpu)", autocast_enabled<at::kXPU>, show_bool, Role::SHOWS_IN_KEYS},
    {"autocast enabled (mps)", autocast_enabled<at::kMPS>, show_bool, Role::SHOWS_IN_KEYS},
    {"autocast dtype (cpu)", autocast_dtype<at::kCPU>, show_dtype},
    {"autocast dtype (cuda)", autocast_dtype<at::kCUDA>, show_dtype},
    {"autocast dtype (xpu)", autocast_dtype<at::kXPU>, show_dtype},
    {"autocast dtype (mps)", autocast_dtype<at::kMPS>, show_dtype},
    {"autocast cache enabled", [] { return int64_t(at::autocast::is_autocast_cache_enabled()); },
     show_bool},
    {"default dtype", [] { return int64_t(c10::get_default_dtype_as_scalartype()); }, show_dtype},
    {"torch function", [] { return int64_t(at::impl::PythonTorchFunctionTLS::get_disabled_state()); },
     show_torch_function},
    {"torch dispatch modes", [] { return c10::impl::TorchDispatchModeTLS::stack_len(); },
     show_number},
    {"deterministic algorithms", context_flag<&Context::deterministicAlgorithms>, show_bool},
    {"deterministic algorithms warn only", context_flag<&Context::deterministicAlgorithmsWarnOnly>,
     show_bool},
    {"deterministic fill", context_flag<&Context::deterministicFillUninitializedMemory>, show_bool},
    {"float32 matmul precision (cuda)",
     float32_precision<at::Float32Backend::CUDA, at::Float32Op::MATMUL>, show_precision},
    {"float32 conv precision (cuda)",
     float32_precision<at::Float32Backend::CUDA, at::Float32Op::CONV>, show_precision},
    {"float32 matmul precision (mkldnn)",
     float32_precision<at::Float32Backend::MKLDNN, at::Float32Op::MATMUL>, show_precision},
    {"flash sdp", context_flag<&Context::userEnabledFlashSDP>, show_bool},
    {"memory efficient sdp", context_flag<&Context::userEnabledMemEfficientSDP>, show_bool},
    {"math sdp", context_flag<&Context::userEnabledMathSDP>, show_bool},
    {"cudnn sdp", context_flag<&Context::userEnabledCuDNNSDP>, show_bool},
    {"overrideable sdp", context_flag<&Context::userEnabledOverrideableSDP>, show_bool},
    {"sdp priorities", sdp_priorities, show_number},
    {"cudnn", context_flag<&Context::userEnabledCuDNN>, show_bool},
    {"cudnn benchmark", context_flag<&Context::benchmarkCuDNN>, show_bool},
    {"cudnn deterministic", context_flag<&Context::deterministicCuDNN>, show_bool},
    {"mkldnn", context_flag<&Context::userEnabledMkldnn>, show_bool},
    {"anomaly detection", [] { return int64_t(torch::autograd::AnomalyMode::is_enabled()); },
     show_bool},
    {"anomaly detection checks for NaN",
     [] { return int64_t(torch::autograd::AnomalyMode::should_check_nan()); }, show_bool},
    {"warn always", [] { return int64_t(c10::WarningUtils::get_warnAlways()); }, show_bool},
    {"included dispatch keys",
     [] {
       return int64_t(c10::impl::tls_local_dispatch_key_set().included_.raw_repr());
     },
     show_keys, Role::KEYS},
    {"excluded dispatch keys",
     [] {
       return int64_t(c10::impl::tls_local_dispatch_key_set().excluded_.raw_repr());
     },
     show_keys, Role::KEYS},
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

std::string show_mode(PyObject* mode) {
  std::optional<c10::Device> device = device_of(mode);
  return device ? "device " + device->str() : Py_TYPE(mode)->tp_name;
}

}  // namespace

PyObject* torch_function_mode(int64_t index) {
  return index < at::impl::PythonTorchFunctionTLS::stack_len() ? mode_at(index) : nullptr;
}

GlobalState::GlobalState() {
  for (const Item& item : ITEMS) {
    values_.push_back(item.read());
  }
  for (int64_t i = 0; i < at::impl::PythonTorchFunctionTLS::stack_len(); ++i) {
    modes_.push_back({show_mode(mode_at(i)), device_of(mode_at(i))});
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

std::string GlobalState::modes_diff() const {
  std::string expected, found;
  for (const Mode& each : modes_) {
    expected += (expected.empty() ? "" : ", ") + each.name;
  }
  for (int64_t i = 0; i < at::impl::PythonTorchFunctionTLS::stack_len(); ++i) {
    found += (found.empty() ? "" : ", ") + show_mode(mode_at(i));
  }
  return "torch function modes: expected [" + expected + "], found [" + found + "]";
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

std::vector<std::string> GlobalState::texts() const {
  std::vector<std::string> lines = {"modes: " + std::to_string(modes_.size())};
  for (size_t i = 0; i < ITEM_COUNT; ++i) {
    lines.push_back(std::string(ITEMS[i].name) + ": " + std::to_string(values_[i]));
  }
  return lines;
}

std::vector<std::string> GlobalState::diff() const {
  std::vector<std::string> lines;
  if (!modes_hold()) {
    lines.push_back(modes_diff());
  }
  for (size_t i = 0; i < ITEM_COUNT; ++i) {
    const Item& item = ITEMS[i];
    int64_t found = item.read();
    bool said_otherwise = item.role == Role::KEYS && !lines.empty();
    if (found != values_[i] && !said_otherwise) {
      lines.push_back(
          std::string(item.name) + ": expected " + item.show(values_[i]) + ", found " +
          item.show(found));
    }
  }
  return lines;
}

PyObject* text_list(const std::vector<std::string>& lines) {
  PyRef list = PyRef::steal(PyList_New(0));
  for (const std::string& line : lines) {
    PyRef text = PyRef::steal(PyUnicode_FromString(line.c_str()));
    if (!list || !text || PyList_Append(list.get(), text.get()) != 0) {
      return nullptr;
    }
  }
  return list.release();
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
  return text_list(StateBox::of(self).diff());
}

PyObject* state_texts(PyObject* self, PyObject*) {
  return text_list(StateBox::of(self).texts());
}

PyMethodDef state_methods[] = {
    {"texts", state_texts, METH_NOARGS, "What it is, line by line; of torch function modes, how many."},
    {"diff", state_diff, METH_NOARGS, "\"name: expected X, found Y\" for each item that changed."},
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
