// torch's state, as far as compilers set it: saved, and put back without any Python code being run, so that no
// handler of a signal can come in between. For _frame (interrupts.h says when).
#include <ATen/Context.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ThreadLocalPythonObjects.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/tensor/python_tensor.h>

#include "python_object.h"
#include "torch_state.h"

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

// <ATen/functorch/DynamicLayer.h> includes a header that is not installed with torch.
namespace at::functorch {
TORCH_API void setSingleLevelAutogradFunctionAllowed(bool allowed);
TORCH_API bool getSingleLevelAutogradFunctionAllowed();
TORCH_API void setInplaceRequiresGradAllowed(bool allowed);
TORCH_API bool getInplaceRequiresGradAllowed();
}  // namespace at::functorch

namespace framelift {

namespace {

using at::Context;
using torch::autograd::AnomalyMode;

// ---- switches that all threads see ----

struct Switch {
  bool (Context::*get)() const;
  void (Context::*set)(bool);
};

const Switch SWITCHES[] = {
    {&Context::deterministicFillUninitializedMemory, &Context::setDeterministicFillUninitializedMemory},
    {&Context::userEnabledFlashSDP, &Context::setSDPUseFlash},
    {&Context::userEnabledMemEfficientSDP, &Context::setSDPUseMemEfficient},
    {&Context::userEnabledMathSDP, &Context::setSDPUseMath},
    {&Context::userEnabledCuDNNSDP, &Context::setSDPUseCuDNN},
    {&Context::userEnabledOverrideableSDP, &Context::setSDPUseOverrideable},
    {&Context::userEnabledCuDNN, &Context::setUserEnabledCuDNN},
    {&Context::benchmarkCuDNN, &Context::setBenchmarkCuDNN},
    {&Context::deterministicCuDNN, &Context::setDeterministicCuDNN},
    {&Context::userEnabledMkldnn, &Context::setUserEnabledMkldnn},
    {&Context::deterministicMkldnn, &Context::setDeterministicMkldnn},
};

std::vector<int64_t> sdp_order() {
  std::vector<int64_t> order;
  for (auto backend : at::globalContext().sDPPriorityOrder()) {
    order.push_back(static_cast<int64_t>(backend));
  }
  return order;
}

// There is no reading the depth of autocast's nesting but by changing it.
int autocast_depth() {
  int deeper = at::autocast::increment_nesting();
  at::autocast::decrement_nesting();
  return deeper - 1;
}

void set_autocast_depth(int depth) {
  int now = autocast_depth();
  if (now > depth && depth == 0) {
    at::autocast::clear_cache();
  }
  for (; now > depth; --now) {
    at::autocast::decrement_nesting();
  }
  for (; now < depth; ++now) {
    at::autocast::increment_nesting();
  }
}

// ---- what Python modules know ----

PyObject* tracing_contexts = nullptr;  // torch._guards._TLS, which knows what a thread compiles
PyObject* warnings_scope = nullptr;    // borrowed: the namespace of `warnings`
PyObject* filters_mutated = nullptr;   // warnings._filters_mutated
// What `warnings.catch_warnings` sets.
const char* const WARNING_NAMES[] = {"filters", "showwarning", "_showwarnmsg_impl", "_showwarnmsg"};

PyRef copied_contexts() {
  PyRef own = PyRef::steal(PyObject_GetAttrString(tracing_contexts, "__dict__"));
  return own ? PyRef::steal(PyDict_Copy(own.get())) : PyRef();
}

void put_contexts(PyObject* saved) {
  PyRef own = PyRef::steal(PyObject_GetAttrString(tracing_contexts, "__dict__"));
  if (own && saved != nullptr && PyObject_RichCompareBool(own.get(), saved, Py_EQ) != 1) {
    PyDict_Clear(own.get());
    PyDict_Update(own.get(), saved);
  }
}

// ---- of a thread ----

class ThreadState {
 public:
  ThreadState()
      : depth_(autocast_depth()),
        caches_(at::autocast::is_autocast_cache_enabled()),
        single_level_(at::functorch::getSingleLevelAutogradFunctionAllowed()),
        requires_grad_(at::functorch::getInplaceRequiresGradAllowed()),
        contexts_(copied_contexts()) {}

  void put() const {
    // what modules have left there for threads of autograd's, such as Inductor's CUDA graphs when it is first
    // imported, is not the compilation's to take back
    auto objects = at::impl::ThreadLocalPythonObjects::get_state();
    at::ThreadLocalState::setThreadLocalState(local_);
    at::impl::ThreadLocalPythonObjects::set_state(std::move(objects));
    set_autocast_depth(depth_);
    at::autocast::set_autocast_cache_enabled(caches_);
    // ThreadLocalState copies the stack of functorch's transforms, and not its two permissions
    at::functorch::setSingleLevelAutogradFunctionAllowed(single_level_);
    at::functorch::setInplaceRequiresGradAllowed(requires_grad_);
    put_contexts(contexts_.get());
  }

 private:
  at::ThreadLocalState local_;
  int depth_;
  bool caches_;
  bool single_level_;
  bool requires_grad_;
  PyRef contexts_;
};

// ---- random numbers ----

// Where torch's default generator stands. A fraction of what torch's own ways of asking take, which make a tensor
// of it, or another generator, with a seed of its own.
class RandomState {
 public:
  RandomState() : RandomState(at::detail::getDefaultCPUGenerator()) {}

  void put() const {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    auto* now = at::check_generator<at::CPUGeneratorImpl>(generator);
    now->set_engine(engine_);
    now->set_next_float_normal_sample(float_sample_);
    now->set_next_double_normal_sample(double_sample_);
  }

 private:
  explicit RandomState(at::Generator generator)
      : RandomState(at::check_generator<at::CPUGeneratorImpl>(generator),
                    std::lock_guard<std::mutex>(generator.mutex())) {}
  RandomState(at::CPUGeneratorImpl* from, const std::lock_guard<std::mutex>&)
      : engine_(from->engine()),
        float_sample_(from->next_float_normal_sample()),
        double_sample_(from->next_double_normal_sample()) {}

  at::mt19937 engine_;
  std::optional<float> float_sample_;
  std::optional<double> double_sample_;
};

const char* const RANDOM_STATE = "framelift._guards.random_state";

// ---- of the process ----

class ProcessState {
 public:
  ProcessState()
      : dtype_(c10::get_default_dtype_as_scalartype()),
        anomaly_(AnomalyMode::is_enabled()),
        checks_nan_(AnomalyMode::should_check_nan()),
        warns_always_(c10::WarningUtils::get_warnAlways()),
        deterministic_(at::globalContext().deterministicAlgorithms()),
        warns_only_(at::globalContext().deterministicAlgorithmsWarnOnly()),
        order_(sdp_order()) {
    for (const Switch& each : SWITCHES) {
      switches_.push_back((at::globalContext().*each.get)());
    }
    for (const char* name : WARNING_NAMES) {
      warnings_.push_back(PyRef::borrow(PyDict_GetItemString(warnings_scope, name)));
    }
  }

  void put() const {
    if (c10::get_default_dtype_as_scalartype() != dtype_) {
      torch::tensors::py_set_default_dtype(reinterpret_cast<PyObject*>(torch::getTHPDtype(dtype_)));
    }
    AnomalyMode::set_enabled(anomaly_, checks_nan_);
    c10::WarningUtils::set_warnAlways(warns_always_);
    Context& context = at::globalContext();
    context.setDeterministicAlgorithms(deterministic_, warns_only_);
    for (size_t i = 0; i < switches_.size(); ++i) {
      if ((context.*SWITCHES[i].get)() != switches_[i]) {
        (context.*SWITCHES[i].set)(switches_[i]);
      }
    }
    if (sdp_order() != order_) {
      context.setSDPPriorityOrder(order_);
    }
    random_.put();
    put_warnings();
  }

 private:
  void put_warnings() const {
    bool changed = false;
    for (size_t i = 0; i < warnings_.size(); ++i) {
      PyObject* now = PyDict_GetItemString(warnings_scope, WARNING_NAMES[i]);
      if (now != warnings_[i].get() && warnings_[i]) {
        PyDict_SetItemString(warnings_scope, WARNING_NAMES[i], warnings_[i].get());
        changed = true;
      }
    }
    if (changed) {
      Py_XDECREF(PyObject_CallNoArgs(filters_mutated));
    }
  }

  c10::ScalarType dtype_;
  bool anomaly_, checks_nan_, warns_always_, deterministic_, warns_only_;
  std::vector<int64_t> order_;
  std::vector<bool> switches_;
  std::vector<PyRef> warnings_;
  RandomState random_;
};

// ---- for _frame ----

template <class State>
void* save() {
  State* made = nullptr;
  try {
    made = new State();
  } catch (...) {
    // there is nobody to be told
  }
  PyErr_Clear();
  return made;
}

template <class State>
void put(const void* saved) {
  try {
    static_cast<const State*>(saved)->put();
  } catch (...) {
    // there is nobody to be told
  }
  PyErr_Clear();
}

template <class State>
void drop(void* saved) {
  delete static_cast<State*>(saved);
}

// As _frame declares it.
struct Functions {
  void* (*save)();
  void (*put)(const void*);
  void (*drop)(void*);
};

const Functions functions[] = {
    {save<ThreadState>, put<ThreadState>, drop<ThreadState>},
    {save<ProcessState>, put<ProcessState>, drop<ProcessState>},
};

}  // namespace

PyObject* random_state(PyObject*, PyObject*) {
  HANDLE_TH_ERRORS
  auto saved = std::make_unique<RandomState>();
  auto drop = [](PyObject* capsule) {
    delete static_cast<RandomState*>(PyCapsule_GetPointer(capsule, RANDOM_STATE));
  };
  PyObject* capsule = PyCapsule_New(saved.get(), RANDOM_STATE, drop);
  if (capsule != nullptr) {
    saved.release();
  }
  return capsule;
  END_HANDLE_TH_ERRORS
}

PyObject* put_random_state(PyObject*, PyObject* capsule) {
  HANDLE_TH_ERRORS
  auto* saved = static_cast<RandomState*>(PyCapsule_GetPointer(capsule, RANDOM_STATE));
  if (saved == nullptr) {
    return nullptr;
  }
  saved->put();
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

bool add_torch_state_capsule(PyObject* module) {
  PyRef guards = PyRef::steal(PyImport_ImportModule("torch._guards"));
  PyRef warnings = PyRef::steal(PyImport_ImportModule("warnings"));
  PyRef capsule = PyRef::steal(
      PyCapsule_New(const_cast<Functions*>(functions), "framelift._guards.torch_state", nullptr));
  if (!guards || !warnings || !capsule) {
    return false;
  }
  tracing_contexts = PyObject_GetAttrString(guards.get(), "_TLS");
  warnings_scope = PyModule_GetDict(warnings.get());
  filters_mutated = PyObject_GetAttrString(warnings.get(), "_filters_mutated");
  return tracing_contexts != nullptr && filters_mutated != nullptr &&
      PyModule_AddObjectRef(module, "torch_state", capsule.get()) == 0;
}

}  // namespace framelift
