// The extension module framelift._guards.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "cache.h"
#include "failure.h"
#include "fakes.h"
#include "global_state.h"
#include "operations.h"
#include "program.h"
#include "tensor_spec.h"
#include "torch_state.h"
#include "values.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

namespace framelift {

namespace {

// ---- autograd histories that have no backward ----

struct CapturedBackward : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    TORCH_CHECK(false, "a tensor of a graph being captured has no backward");
  }
  std::string name() const override { return "CapturedBackward"; }
};

struct SpentBackward : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    TORCH_CHECK(false, torch::autograd::ERR_BACKWARD_TWICE);
  }
  std::string name() const override { return "SpentBackward"; }
};

struct LostBackward : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
  std::string name() const override { return "LostBackward"; }
};

// std::shared_ptr<Node> or c10::intrusive_ptr<Node>, depending on torch's version.
using NodePointer = decltype(torch::autograd::Edge::function);

template <class Node, class Pointer = NodePointer>
Pointer make_node() {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<Node>();
  } else {
    return Pointer(c10::make_intrusive<Node>());
  }
}

template <class Node>
PyObject* with_history(PyObject*, PyObject* tensor) {
  HANDLE_TH_ERRORS
  if (!is_tensor(tensor)) {
    return PyErr_Format(PyExc_TypeError, "expected a tensor, got %s", Py_TYPE(tensor)->tp_name);
  }
  const torch::autograd::Variable& variable = THPVariable_Unpack(tensor);
  if constexpr (std::is_same_v<Node, CapturedBackward>) {
    // What torch itself notes of a tensor, but for the device: a fake would have to ask Python for that.
    TORCH_CHECK(torch::autograd::isDifferentiableType(variable.scalar_type()), "integers have no history");
    auto node = make_node<Node>();
    uint32_t number = node->add_input_metadata(
        at::device(at::kMeta).dtype(variable.scalar_type()), variable.sym_sizes(),
        /*is_tensor_subclass=*/true, variable.is_nested(), variable.scalar_type());
    torch::autograd::impl::set_gradient_edge(variable, {std::move(node), number});
  } else {
    torch::autograd::set_history(variable, make_node<Node>());
  }
  return Py_NewRef(tensor);
  END_HANDLE_TH_ERRORS
}

// The first argument's, which leads on to the others: no gradient of theirs is complete without it.
PyObject* spent_history(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count == 0 || !std::all_of(args, args + count, is_tensor)) {
    return PyErr_Format(PyExc_TypeError, "spent_history(tensor, *behind): expected tensors");
  }
  auto node = make_node<SpentBackward>();
  for (Py_ssize_t i = 1; i < count; ++i) {
    const torch::autograd::Variable& behind = THPVariable_Unpack(args[i]);
    if (behind.requires_grad()) {
      node->add_next_edge(torch::autograd::impl::gradient_edge(behind));
    }
  }
  torch::autograd::set_history(THPVariable_Unpack(args[0]), std::move(node));
  return Py_NewRef(args[0]);
  END_HANDLE_TH_ERRORS
}

PyObject* get_has_hooks(PyObject*, PyObject* tensor) {
  HANDLE_TH_ERRORS
  if (!is_tensor(tensor)) {
    return PyErr_Format(PyExc_TypeError, "expected a tensor, got %s", Py_TYPE(tensor)->tp_name);
  }
  return PyBool_FromLong(has_hooks(tensor));
  END_HANDLE_TH_ERRORS
}

// ---- results that one node of autograd gives ----

struct NodeOutput {
  const torch::autograd::Variable* tensor;
  torch::autograd::Node* node;
  uint32_t number;
};

bool is_shared(const NodeOutput& result, const std::vector<NodeOutput>& results) {
  for (const NodeOutput& other : results) {
    if (other.node == result.node && other.number != result.number) {
      return true;
    }
  }
  return false;
}

// What AOTAutograd gives of a graph comes of one node, which is run when any of it is differentiated, and calls the
// hooks of all. With a node of its own in between, a result's hooks are called when a gradient reaches it.
PyObject* registrations(PyObject*, PyObject*) {
  return count_registrations();
}

PyObject* disregard(PyObject*, PyObject* before) {
  long count = PyLong_AsLong(before);
  if (count == -1 && PyErr_Occurred()) {
    return nullptr;
  }
  if (!disregard_registrations(count)) {
    PyErr_SetString(PyExc_RuntimeError, "abc.get_cache_token() gives no number");
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* separate_histories(PyObject*, PyObject* outputs) {
  HANDLE_TH_ERRORS
  PyRef sequence = PyRef::steal(PySequence_Fast(outputs, "expected a sequence of tensors"));
  if (!sequence) {
    return nullptr;
  }
  std::vector<NodeOutput> results;
  for (Py_ssize_t n = 0; n < PySequence_Fast_GET_SIZE(sequence.get()); ++n) {
    PyObject* output = PySequence_Fast_GET_ITEM(sequence.get(), n);
    if (is_tensor(output)) {
      const torch::autograd::Variable& tensor = THPVariable_Unpack(output);
      auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
      if (meta != nullptr && meta->grad_fn_ && !meta->is_view_) {
        results.push_back({&tensor, meta->grad_fn_.get(), meta->output_nr_});
      }
    }
  }
  torch::autograd::Node* known = nullptr;
  for (const NodeOutput& result : results) {
    if (!is_shared(result, results)) {
      continue;
    }
    if (result.node != known) {
      if (result.node->name() != "CompiledFunctionBackward") {  // of an input that is given back
        continue;
      }
      known = result.node;
    }
    auto between = make_node<torch::autograd::generated::AliasBackward0>();
    between->add_next_edge(torch::autograd::impl::gradient_edge(*result.tensor));
    uint32_t number = between->add_input_metadata(*result.tensor);
    torch::autograd::impl::set_gradient_edge(*result.tensor, {std::move(between), number});
  }
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

// ---- sentinels ----

struct Sentinel {
  const char* name;
  int traverse(visitproc, void*) { return 0; }
};

PyObject* sentinel_repr(PyObject* self) {
  return PyUnicode_FromString(Box<Sentinel>::of(self).name);
}

PyType_Slot sentinel_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(Box<Sentinel>::dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(Box<Sentinel>::traverse)},
    {Py_tp_repr, reinterpret_cast<void*>(sentinel_repr)},
    {0, nullptr},
};

PyType_Spec sentinel_spec = {
    "framelift._guards.Sentinel", sizeof(Box<Sentinel>), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, sentinel_slots};

bool add_sentinel(PyObject* module, const char* name, PyObject** place) {
  *place = Box<Sentinel>::make({name});
  return *place != nullptr && PyModule_AddObjectRef(module, name, *place) == 0;
}

// ---- module ----

// NumPy's settings for floating-point errors: the variable that they are in, and what says what they are.
PyObject* numpy_variable = nullptr;
PyObject* numpy_describe = nullptr;

PyObject* know_numpy(PyObject*, PyObject* args) {
  PyObject* variable;
  PyObject* describe;
  if (!PyArg_ParseTuple(args, "OO:know_numpy", &variable, &describe)) {
    return nullptr;
  }
  Py_XSETREF(numpy_variable, Py_NewRef(variable));
  Py_XSETREF(numpy_describe, Py_NewRef(describe));
  Py_RETURN_NONE;
}

// A new object is put in the variable when something is set: while it is the one that was seen last, NumPy need
// not be asked.
PyObject* numpy_errors(PyObject*, PyObject*) {
  static PyObject* last = nullptr;
  static PyObject* answer = nullptr;
  if (numpy_variable == nullptr) {
    Py_RETURN_NONE;
  }
  PyObject* held = nullptr;
  if (PyContextVar_Get(numpy_variable, nullptr, &held) < 0) {
    return nullptr;
  }
  PyRef now = PyRef::steal(held);
  if (held != nullptr && held == last) {
    return Py_NewRef(answer);
  }
  PyRef described = PyRef::steal(PyObject_CallNoArgs(numpy_describe));
  PyRef found = PyRef::steal(described ? PyTuple_New(4) : nullptr);
  Py_ssize_t n = 0;
  for (const char* kind : {"divide", "over", "under", "invalid"}) {
    PyObject* how = found ? PyMapping_GetItemString(described.get(), kind) : nullptr;
    if (how == nullptr) {
      return nullptr;
    }
    PyTuple_SET_ITEM(found.get(), n++, how);
  }
  Py_XSETREF(last, now.release());
  Py_XSETREF(answer, Py_NewRef(found.get()));
  return found.release();
}

// What lookups of names on a class find now: MISSING where nothing.
PyObject* look_up(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyType_Check(args[0]) || !PyTuple_CheckExact(args[1])) {
    PyErr_SetString(PyExc_TypeError, "look_up(cls, names): a class and a tuple");
    return nullptr;
  }
  PyRef found = PyRef::steal(PyTuple_New(PyTuple_GET_SIZE(args[1])));
  for (Py_ssize_t i = 0; found && i < PyTuple_GET_SIZE(args[1]); ++i) {
    PyObject* value = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(args[0]), PyTuple_GET_ITEM(args[1], i));
    PyTuple_SET_ITEM(found.get(), i, Py_NewRef(value == nullptr ? missing : value));
  }
  return found.release();
}

PyObject* get_has_begun(PyObject*, PyObject* local) {
  return PyBool_FromLong(has_begun(local));
}

PyObject* lie_apart_in_python(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) {
    PyErr_SetString(PyExc_TypeError, "lie_apart(left, right): two tensors or arrays");
    return nullptr;
  }
  return PyBool_FromLong(lie_apart(args[0], args[1]));
}

PyMethodDef module_methods[] = {
    {"has_begun", get_has_begun, METH_O, "Whether a threading.local was made for this thread already."},
    {"lie_apart", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(lie_apart_in_python)), METH_FASTCALL,
     "lie_apart(left, right, /)\n--\n\nWhether no byte is in the memory of both of two tensors or arrays."},
    {"know_numpy", know_numpy, METH_VARARGS,
     "know_numpy(variable, describe, /)\n--\n\nSays where NumPy has its settings for errors."},
    {"numpy_errors", numpy_errors, METH_NOARGS,
     "What NumPy does about each kind of floating-point error; None if it is not known."},
    {"empty_meta", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(empty_meta)), METH_FASTCALL,
     "empty_meta(sizes, strides, dtype, /)\n--\n\nA fresh tensor on the meta device."},
    {"meta_like", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(meta_like)), METH_FASTCALL,
     "meta_like(tensor, base=None, /)\n--\n\nOne more meta tensor like this, or over the memory of another."},
    {"view_meta", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(view_meta)), METH_FASTCALL,
     "view_meta(base, sizes, strides, offset, /)\n--\n\nA meta tensor over the memory of another."},
    {"as_view", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(as_view)), METH_FASTCALL,
     "as_view(base, tensor, creation, /)\n--\n\nMakes a tensor a view of another to autograd."},
    {"fake_history", with_history<CapturedBackward>, METH_O,
     "Makes a tensor look like the result of a differentiable operation."},
    {"spent_history", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(spent_history)), METH_FASTCALL,
     "spent_history(tensor, *behind): makes it look like one that is derived from others, and whose gradients have\n"
     "been computed already."},
    {"lost_history", with_history<LostBackward>, METH_O,
     "Makes a tensor look like one whose gradients go nowhere."},
    {"has_hooks", get_has_hooks, METH_O, "Whether anything is called when a gradient for a tensor is found."},
    {"look_up", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(look_up)), METH_FASTCALL,
     "look_up(cls, names): what lookups on a class find, MISSING where nothing."},
    {"registrations", registrations, METH_NOARGS,
     "How many classes the program has registered with abstract ones, anywhere."},
    {"disregard_registrations", disregard, METH_O,
     "Counts none of the registrations that were made since there were so many."},
    {"separate_histories", separate_histories, METH_O,
     "Gives each of the tensors that come of one node of AOTAutograd's a node of its own."},
    {"random_state", random_state, METH_NOARGS, "Where torch's default generator of random numbers stands."},
    {"put_random_state", put_random_state, METH_O, "Puts torch's default generator back to where it stood."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "framelift._guards", "Guards and dispatch.", -1, module_methods,
    nullptr, nullptr, nullptr, nullptr};

bool add_dispatch_capsule(PyObject* module) {
  PyRef capsule = PyRef::steal(
      PyCapsule_New(reinterpret_cast<void*>(dispatch), "framelift._guards.dispatch", nullptr));
  return capsule && PyModule_AddObjectRef(module, "dispatch", capsule.get()) == 0;
}

}  // namespace

}  // namespace framelift

PyMODINIT_FUNC PyInit__guards() {
  using namespace framelift;
  // The libraries this module is linked against are torch's, which torch sets up when imported.
  PyRef torch_module = PyRef::steal(PyImport_ImportModule("torch"));
  PyRef module = PyRef::steal(PyModule_Create(&module_definition));
  bool ok = torch_module && module && init_values() &&
      Box<Sentinel>::add_type(module.get(), sentinel_spec) &&
      add_sentinel(module.get(), "MISSING", &missing) &&
      add_sentinel(module.get(), "MISS", &miss) && add_failure_types(module.get()) &&
      add_tensor_spec_type(module.get()) &&
      add_global_state_type(module.get()) && add_program_type(module.get()) &&
      add_cache_types(module.get()) && add_dispatch_capsule(module.get()) &&
      add_torch_state_capsule(module.get());
  return ok ? module.release() : nullptr;
}
