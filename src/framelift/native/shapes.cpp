#include "shapes.h"

#include "python_object.h"
#include "tensor_spec.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

namespace framelift {

namespace {

using Stack = std::vector<Number>;

Number number(int64_t value) {
  return {false, value, 0.0};
}

Number number(double value) {
  return {true, 0, value};
}

// ---- operations on two numbers; there is no result on overflow or outside of the domain ----

using Result = std::optional<Number>;

template <bool (*overflows)(int64_t, int64_t, int64_t*), double (*of_floats)(double, double)>
Result arithmetic(Number a, Number b) {
  if (a.is_float || b.is_float) {
    return number(of_floats(a.as_double(), b.as_double()));
  }
  int64_t result;
  return overflows(a.whole, b.whole, &result) ? Result() : number(result);
}

bool add_overflows(int64_t a, int64_t b, int64_t* result) {
  return __builtin_add_overflow(a, b, result);
}
bool sub_overflows(int64_t a, int64_t b, int64_t* result) {
  return __builtin_sub_overflow(a, b, result);
}
bool mul_overflows(int64_t a, int64_t b, int64_t* result) {
  return __builtin_mul_overflow(a, b, result);
}
double add_floats(double a, double b) {
  return a + b;
}
double sub_floats(double a, double b) {
  return a - b;
}
double mul_floats(double a, double b) {
  return a * b;
}

bool divisible(Number a, Number b) {
  return b.as_double() != 0.0 && !(a.whole == std::numeric_limits<int64_t>::min() && b.whole == -1);
}

// Towards minus infinity, as Python divides.
Result floordiv(Number a, Number b) {
  if (!divisible(a, b)) {
    return {};
  }
  if (a.is_float || b.is_float) {
    return number(std::floor(a.as_double() / b.as_double()));
  }
  int64_t quotient = a.whole / b.whole;
  bool inexact = a.whole % b.whole != 0;
  return number(quotient - (inexact && (a.whole < 0) != (b.whole < 0)));
}

Result mod(Number a, Number b) {
  if (!divisible(a, b) || a.is_float || b.is_float) {
    return {};
  }
  int64_t rest = a.whole % b.whole;
  return number(rest != 0 && (rest < 0) != (b.whole < 0) ? rest + b.whole : rest);
}

constexpr int64_t EXACT = int64_t{1} << 53;  // up to here a double holds any whole number

bool is_exact(Number a) {
  return a.is_float || (-EXACT <= a.whole && a.whole <= EXACT);
}

Result truediv(Number a, Number b) {
  if (b.as_double() == 0.0 || !is_exact(a) || !is_exact(b)) {
    return {};
  }
  return number(a.as_double() / b.as_double());
}

Result power(Number a, Number b) {
  if (a.is_float || b.is_float) {
    double result = std::pow(a.as_double(), b.as_double());
    return std::isfinite(result) ? number(result) : Result();
  }
  if (b.whole < 0) {
    return {};
  }
  int64_t result = 1;
  for (int64_t i = 0; i < b.whole; ++i) {
    if (i > 64 && a.whole != 0 && a.whole != 1 && a.whole != -1) {
      return {};
    }
    if (mul_overflows(result, a.whole, &result)) {
      return {};
    }
  }
  return number(result);
}

// Of numbers below zero too: Python's have as many leading ones as it takes, and these have 64 bits.
template <typename Operation>
Result of_bits(Number a, Number b) {
  return a.is_float || b.is_float ? Result() : number(int64_t{Operation()(a.whole, b.whole)});
}

// -1, 0 or 1; nothing where a NaN or a rounding would decide.
std::optional<int> order(Number a, Number b) {
  if (!a.is_float && !b.is_float) {
    return a.whole < b.whole ? -1 : a.whole > b.whole;
  }
  double x = a.as_double();
  double y = b.as_double();
  if (std::isnan(x) || std::isnan(y) || !is_exact(a) || !is_exact(b)) {
    return {};
  }
  return x < y ? -1 : x > y;
}

template <bool (*holds)(int)>
Result compare(Number a, Number b) {
  std::optional<int> found = order(a, b);
  return found ? number(int64_t{holds(*found)}) : Result();
}

bool is_eq(int order) {
  return order == 0;
}
bool is_ne(int order) {
  return order != 0;
}
bool is_lt(int order) {
  return order < 0;
}
bool is_le(int order) {
  return order <= 0;
}
bool is_gt(int order) {
  return order > 0;
}
bool is_ge(int order) {
  return order >= 0;
}

template <bool (*takes_first)(int)>
Result choose(Number a, Number b) {
  std::optional<int> found = order(a, b);
  return found ? (takes_first(*found) ? a : b) : Result();
}

Result both(Number a, Number b) {
  return a.truth() ? b : a;
}

Result either(Number a, Number b) {
  return a.truth() ? a : b;
}

// ---- operations on one number ----

Result negative(Number a) {
  if (a.is_float) {
    return number(-a.real);
  }
  return a.whole == std::numeric_limits<int64_t>::min() ? Result() : number(-a.whole);
}

Result absolute(Number a) {
  return a.as_double() < 0 ? negative(a) : a;
}

Result opposite(Number a) {
  return number(int64_t{!a.truth()});
}

Result is_nan(Number a) {
  return number(int64_t{a.is_float && std::isnan(a.real)});
}

Result to_float(Number a) {
  return is_exact(a) ? number(a.as_double()) : Result();
}

template <double (*rounds)(double)>
Result rounded(Number a) {
  if (!a.is_float) {
    return a;
  }
  double result = rounds(a.real);
  return std::abs(result) <= static_cast<double>(EXACT) ? number(static_cast<int64_t>(result))
                                                        : Result();
}

// To the nearest even number, as Python rounds.
double half_even(double a) {
  double below = std::floor(a);
  double rest = a - below;
  bool up = rest > 0.5 || (rest == 0.5 && std::fmod(below, 2.0) != 0.0);
  return up ? below + 1.0 : below;
}

Result whole_square_root(Number a) {
  if (a.is_float || a.whole < 0 || !is_exact(a)) {
    return {};
  }
  auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(a.whole)));
  while (root * root > a.whole) {
    --root;
  }
  while ((root + 1) * (root + 1) <= a.whole) {
    ++root;
  }
  return number(root);
}

Result bit_length(Number a) {
  if (a.is_float || !is_exact(a)) {
    return {};
  }
  int64_t bits = 0;
  for (int64_t rest = a.whole < 0 ? -a.whole : a.whole; rest != 0; rest >>= 1) {
    ++bits;
  }
  return number(bits);
}

Result common_divisor(Number a, Number b) {
  if (a.is_float || b.is_float || !is_exact(a) || !is_exact(b)) {
    return {};
  }
  return number(static_cast<int64_t>(std::gcd(a.whole, b.whole)));
}

Result square_root(Number a) {
  return a.as_double() < 0 || !is_exact(a) ? Result() : number(std::sqrt(a.as_double()));
}

template <double (*function)(double)>
Result result_of(Number a) {
  double result = is_exact(a) ? function(a.as_double()) : NAN;
  return std::isfinite(result) ? number(result) : Result();
}

// ---- steps ----

template <Result (*operation)(Number, Number)>
bool binary(const ShapeStep&, Stack& stack) {
  Number b = stack.back();
  stack.pop_back();
  Result result = operation(stack.back(), b);
  stack.back() = result.value_or(Number());
  return result.has_value();
}

template <Result (*operation)(Number)>
bool unary(const ShapeStep&, Stack& stack) {
  Result result = operation(stack.back());
  stack.back() = result.value_or(Number());
  return result.has_value();
}

bool push_constant(const ShapeStep& step, Stack& stack) {
  stack.push_back(step.constant);
  return true;
}

// What was read first lies at the bottom of the stack.
bool push_read(const ShapeStep& step, Stack& stack) {
  stack.push_back(stack[step.constant.whole]);
  return true;
}

struct StepKind {
  const char* name;
  bool (*run)(const ShapeStep&, Stack&);
  int takes;
};

const StepKind STEP_KINDS[] = {
    {"constant", push_constant, 0},
    {"read", push_read, 0},
    {"add", binary<arithmetic<add_overflows, add_floats>>, 2},
    {"sub", binary<arithmetic<sub_overflows, sub_floats>>, 2},
    {"mul", binary<arithmetic<mul_overflows, mul_floats>>, 2},
    {"floordiv", binary<floordiv>, 2},
    {"mod", binary<mod>, 2},
    {"truediv", binary<truediv>, 2},
    {"pow", binary<power>, 2},
    {"bitand", binary<of_bits<std::bit_and<int64_t>>>, 2},
    {"bitor", binary<of_bits<std::bit_or<int64_t>>>, 2},
    {"bitxor", binary<of_bits<std::bit_xor<int64_t>>>, 2},
    {"eq", binary<compare<is_eq>>, 2},
    {"ne", binary<compare<is_ne>>, 2},
    {"lt", binary<compare<is_lt>>, 2},
    {"le", binary<compare<is_le>>, 2},
    {"gt", binary<compare<is_gt>>, 2},
    {"ge", binary<compare<is_ge>>, 2},
    {"min", binary<choose<is_le>>, 2},
    {"max", binary<choose<is_ge>>, 2},
    {"and", binary<both>, 2},
    {"or", binary<either>, 2},
    {"not", unary<opposite>, 1},
    {"neg", unary<negative>, 1},
    {"abs", unary<absolute>, 1},
    {"float", unary<to_float>, 1},
    {"floor", unary<rounded<std::floor>>, 1},
    {"ceil", unary<rounded<std::ceil>>, 1},
    {"trunc", unary<rounded<std::trunc>>, 1},
    {"round", unary<rounded<half_even>>, 1},
    {"sqrt", unary<square_root>, 1},
    {"isqrt", unary<whole_square_root>, 1},
    {"bit_length", unary<bit_length>, 1},
    {"gcd", binary<common_divisor>, 2},
    {"cos", unary<result_of<std::cos>>, 1},
    {"sin", unary<result_of<std::sin>>, 1},
    {"exp", unary<result_of<std::exp>>, 1},
    {"log", unary<result_of<std::log>>, 1},
    {"log2", unary<result_of<std::log2>>, 1},
    {"log10", unary<result_of<std::log10>>, 1},
    {"isnan", unary<is_nan>, 1},
};

const StepKind* step_kind(const char* name) {
  for (const StepKind& kind : STEP_KINDS) {
    if (std::strcmp(kind.name, name) == 0) {
      return &kind;
    }
  }
  return nullptr;
}

// ---- reading what a walk has found ----

Result of_python(PyObject* value) {
  if (PyFloat_CheckExact(value)) {
    return number(PyFloat_AS_DOUBLE(value));
  }
  if (!PyLong_CheckExact(value)) {
    return {};
  }
  int overflow = 0;
  long long result = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow != 0 ? Result() : number(static_cast<int64_t>(result));
}

Result read(const ShapeRead& read, PyObject* value) {
  if (read.kind == ReadKind::NUMBER) {
    return of_python(value);
  }
  if (!is_tensor(value)) {
    return {};
  }
  const c10::TensorImpl& impl = *THPVariable_Unpack(value).unsafeGetTensorImpl();
  if (impl.has_symbolic_sizes_strides()) {
    return {};
  }
  c10::IntArrayRef numbers =
      read.kind == ReadKind::SIZE ? impl.sizes_default() : impl.strides_default();
  return static_cast<size_t>(read.dim) < numbers.size() ? number(numbers[read.dim]) : Result();
}

bool holds(const std::vector<ShapeStep>& fact, Stack& stack) {
  size_t before = stack.size();
  for (const ShapeStep& step : fact) {
    if (!step.run(step, stack)) {
      return false;
    }
  }
  bool result = stack.back().truth();
  stack.resize(before);
  return result;
}

// ---- construction ----

bool wrong(const char* what, PyObject* got) {
  PyErr_Format(PyExc_ValueError, "%s: %R", what, got);
  return false;
}

bool take_read(ShapeFacts& facts, PyObject* item, size_t n_nodes) {
  int node, kind, dim;
  if (!PyArg_ParseTuple(item, "iii:read", &node, &kind, &dim)) {
    return false;
  }
  bool known = node >= 0 && static_cast<size_t>(node) < n_nodes && dim >= 0 &&
      kind >= 0 && static_cast<size_t>(kind) < std::size(ReadKindNames);
  if (!known) {
    return wrong("no such thing to read", item);
  }
  facts.reads.push_back({node, static_cast<ReadKind>(kind), dim});
  return true;
}

bool take_step(ShapeFacts& facts, std::vector<ShapeStep>& fact, PyObject* item, int& depth) {
  const char* name;
  PyObject* constant;
  if (!PyArg_ParseTuple(item, "sO:step", &name, &constant)) {
    return false;
  }
  const StepKind* kind = step_kind(name);
  if (kind == nullptr || depth < kind->takes) {
    return wrong("no such step here", item);
  }
  depth += 1 - kind->takes;
  Number operand;
  if (kind->takes == 0) {
    Result given = of_python(constant);
    if (!given) {
      return wrong("not a number of 64 bits", item);
    }
    operand = *given;
  }
  bool reads = kind->run == push_read;
  if (reads && (operand.whole < 0 || static_cast<size_t>(operand.whole) >= facts.reads.size())) {
    return wrong("nothing is read there", item);
  }
  fact.push_back({kind->run, operand});
  return true;
}

template <class Take>
bool for_each_tuple(PyObject* object, Take take) {
  PyRef items = PyRef::steal(PySequence_Tuple(object));
  if (!items) {
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    if (!PyTuple_Check(item)) {
      return wrong("expected a tuple", item);
    }
    if (!take(item)) {
      return false;
    }
  }
  return true;
}

}  // namespace

int ShapeFacts::first_difference(PyObject* const* values) const {
  Stack stack;
  stack.reserve(reads.size() + 8);
  for (const ShapeRead& each : reads) {
    Result found = read(each, values[each.node]);
    if (!found) {
      return 0;
    }
    stack.push_back(*found);
  }
  for (size_t i = 0; i < facts.size(); ++i) {
    if (!holds(facts[i], stack)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

PyObject* ShapeFacts::found(PyObject* const* values) const {
  PyRef tuple = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(reads.size())));
  for (size_t i = 0; tuple && i < reads.size(); ++i) {
    Result number = read(reads[i], values[reads[i].node]);
    if (!number) {
      return Py_NewRef(Py_None);
    }
    PyObject* item =
        number->is_float ? PyFloat_FromDouble(number->real) : PyLong_FromLongLong(number->whole);
    if (item == nullptr) {
      return nullptr;
    }
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item);
  }
  return tuple.release();
}

bool ShapeFacts::set(PyObject* read_items, PyObject* fact_items, size_t n_nodes) {
  ShapeFacts made;
  bool ok = for_each_tuple(read_items, [&](PyObject* item) {
    return take_read(made, item, n_nodes);
  });
  ok = ok && for_each_tuple(fact_items, [&](PyObject* item) {
    int depth = 0;
    std::vector<ShapeStep> fact;
    bool taken = for_each_tuple(item, [&](PyObject* step) {
      return take_step(made, fact, step, depth);
    });
    if (taken && depth != 1) {
      return wrong("an expression that leaves no single result", item);
    }
    made.facts.push_back(std::move(fact));
    return taken;
  });
  if (ok) {
    *this = std::move(made);
  }
  return ok;
}

}  // namespace framelift
