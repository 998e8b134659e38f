// The whole extension as one translation unit: torch's headers take far longer to read than this code.
#include "cache.cpp"
#include "fakes.cpp"
#include "global_state.cpp"
#include "guards.cpp"
#include "operations.cpp"
#include "program.cpp"
#include "tensor_spec.cpp"
#include "values.cpp"
