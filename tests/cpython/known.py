"""Which modules of CPython's own tests are run, and which of their tests may differ, with the reason."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

MODULES = """
test_list test_dict test_set test_tuple test_range test_slice test_bool test_int test_long test_float
test_complex test_bytes test_memoryview test_unicode test_str test_string test_format test_fstring
test_userdict test_userlist test_userstring test_dictviews test_dictcomps test_listcomps test_setcomps
test_genexps test_enumerate test_generators test_generator_stop test_coroutines test_asyncgen
test_yield_from test_iter test_iterlen test_itertools test_functools test_contextlib test_collections
test_deque test_defaultdict test_ordered_dict test_enum test_dataclasses test_operator test_math test_cmath
test_fractions test_decimal test_statistics test_numeric_tower test_random test_exceptions
test_exception_group test_except_star test_baseexception test_raise test_with test_patma test_descr
test_descrtut test_class test_abc test_metaclass test_super test_property test_subclassinit test_typing
test_types test_genericalias test_builtin test_binop test_compare test_richcmp test_augassign test_call
test_extcall test_keywordonlyarg test_positional_only_arg test_funcattrs test_scope test_decorators
test_unpack test_unpack_ex test_named_expressions test_opcodes test_grammar test_syntax test_global
test_sort test_heapq test_bisect test_copy test_copyreg test_pickle test_weakref test_weakset test_re
test_textwrap test_json test_datetime test_inspect test_warnings test_logging test_reprlib test_pprint
test_string_literals test_struct test_array test_hash test_index test_contains test_isinstance
test_int_literal test_pow test_module test_dynamic test_dynamicclassattribute test_frame test_traceback
test_code test_eof test_dis test_keyword test_calendar test_colorsys test_difflib test_shlex test_graphlib
test_hmac test_hashlib test_base64 test_binascii test_uuid test_urlparse test_fnmatch test_glob
test_pathlib test_strtod test_atexit test_contextlib_async test_context test_unittest test_doctest
test_opcache test_peepholer
""".split()
"""Those about the language and the pure parts of the library."""

REPEATS = {
    "test_datetime": "ZoneInfoTest[[]*",  # what `ZoneInfoTest` tests, again for each of 600 time zones
}
"""Module -> classes of tests that it makes by the hundred of one that is run: not run and not counted."""


@dataclass(frozen=True)
class Known:
    """Tests that differ, and why."""

    tests: str
    """`module::Class.method`, with `*` for any."""
    reason: str
    modes: tuple[str, ...] = ("interpreted", "captured")

    def covers(self, module: str, test: str, mode: str) -> bool:
        return mode in self.modes and fnmatch.fnmatchcase(f"{module}::{test}", self.tests)


TOO_SLOW = "takes too long interpreted"
REAL_FRAME = "C code that takes nothing but a frame or a generator of CPython's own"
REAL_STACK = "library code that looks at CPython's own stack, and finds the interpreter's frames there"
OWN_BUILTINS = "replaces builtins that the interpreter itself uses"
NOT_TRIED = (TOO_SLOW, OWN_BUILTINS)
"""Those are not even tried: they keep the others waiting, or leave them without a builtin."""
ALL_OBJECTS = "looks at all objects of the process, and finds the interpreter's"
UNTRACED = "frames that are interpreted are not traced (sys.settrace)"

STANDS_FOR_FRAME = "what stands for a frame of the trace is not to be cleared, and is made anew at a break"

CAPTURED = ("captured",)
ENDS_LATE = "what dies within a captured stretch is finalised at the end of the stretch"
NOT_READ_AGAIN = "after a break a variable that is not read again is gone, unless it holds a watched instance"
HELD = "what can't be weakly referenced, or is C's, is held by the guard that it is this very object"
CALLERS = "of the callers of a frame in a trace, those outside the compiled function are not shown"
ROOM = "C code that a trace calls has more room to recurse: the frames of the interpreter's are not to count"
REFERENCES = "counts references, of which Framelift has some too"


def interpreted(reason: str, *tests: str) -> list[Known]:
    return [Known(pattern, reason, modes=("interpreted",)) for pattern in tests]


KNOWN: list[Known] = [
    Known("test_bytes::ByteArrayTest.test_resize_forbidden", NOT_READ_AGAIN, CAPTURED),
    Known("test_dynamic::RebindBuiltinsTests.test_modify_builtins*", OWN_BUILTINS, CAPTURED),
    Known("test_frame::ClearTest.test_clear_*", STANDS_FOR_FRAME, CAPTURED),
    Known("test_frame::FrameAttrsTest.test_*clear_locals", STANDS_FOR_FRAME, CAPTURED),
    Known("test_frame::ReprTest.test_repr", STANDS_FOR_FRAME, CAPTURED),
    Known("test_frame::TestIncompleteFrameAreInvisible.test_sneaky_frame_object", STANDS_FOR_FRAME, CAPTURED),
    Known("test_module::ModuleTests.test_weakref", HELD, CAPTURED),
    Known("test_pow::PowTest.test_negative_exponent", TOO_SLOW, CAPTURED),
    Known("test_bytes::BytesTest.test_free_after_iterating", HELD, CAPTURED),
    Known("test_coroutines::OriginTrackingTest.test_origin_tracking", CALLERS, CAPTURED),
    Known("test_dict::DictTest.test_splittable_popitem", "a dictionary made anew shares no keys", CAPTURED),
    Known("test_enumerate::TestReversed.test_bug1229429", REFERENCES, CAPTURED),
    Known("test_isinstance::TestIsInstanceIsSubclass.test_*_recursion_limit", ROOM, CAPTURED),
    Known("test_iter::TestCase.test_ref_counting_behavior", ENDS_LATE, CAPTURED),
    Known("test_struct::StructTest.test__struct_reference_cycle_cleaned_up", REFERENCES, CAPTURED),
    Known("test_weakref::FinalizeTestCase.test_finalize", ENDS_LATE, CAPTURED),
    Known("test_weakref::FinalizeTestCase.test_order", ENDS_LATE, CAPTURED),
    Known("test_weakref::ReferencesTestCase.test_callbacks_protected", NOT_READ_AGAIN, CAPTURED),
    Known("test_weakref::ReferencesTestCase.test_cfunction", HELD, CAPTURED),
    Known("test_weakref::ReferencesTestCase.test_ref_reuse", NOT_READ_AGAIN, CAPTURED),
    Known("test_collections::TestCounter.test_multiset_operations_*", TOO_SLOW, CAPTURED),
    Known("test_datetime::IranTest_*", TOO_SLOW, CAPTURED),
    Known("test_datetime::ZoneInfoTest*", TOO_SLOW, CAPTURED),
    Known("test_itertools::RegressionTests.test_long_chain_of_empty_iterables", TOO_SLOW, CAPTURED),
    Known("test_itertools::TestBasicOps.test_tee_del_backward", TOO_SLOW, CAPTURED),
    Known("test_json::TestPyUnicode.test_unicode_decode", TOO_SLOW, CAPTURED),
    Known("test_math::MathTests.testIsqrt", TOO_SLOW, CAPTURED),
    Known("test_math::MathTests.testRemainder", TOO_SLOW, CAPTURED),
    Known("test_range::RangeTest.test_range_iterators", TOO_SLOW, CAPTURED),
    Known("test_set::TestFrozenSet*.test_hash_effectiveness", TOO_SLOW, CAPTURED),
    Known("test_sort::TestBase.testStressfully", TOO_SLOW, CAPTURED),
    Known("test_struct::StructTest.test_integers", TOO_SLOW, CAPTURED),
    Known("test_unicode::UnicodeTest.test_find", TOO_SLOW, CAPTURED),
    Known("test_unicode::UnicodeTest.test_is*_invariant", TOO_SLOW, CAPTURED),
    Known("test_unicode::UnicodeTest.test_rfind", TOO_SLOW, CAPTURED),
    Known("test_userstring::UserStringTest.test_find", TOO_SLOW, CAPTURED),
    Known("test_userstring::UserStringTest.test_rfind", TOO_SLOW, CAPTURED),
    Known("test_weakref::MappingTestCase.test_threaded_weak_valued_*", TOO_SLOW, CAPTURED),
    Known("test_builtin::BuiltinTest.test_filter_dealloc", TOO_SLOW, CAPTURED),
    Known("test_exceptions::ExceptionTests.test_recursion_error_cleanup", TOO_SLOW, CAPTURED),
    Known("test_descr::ClassPropertiesAndMethods.test_slots", REFERENCES, CAPTURED),
    Known("test_descr::SharedKeyTests.test_subclasses", "an instance made anew shares no keys", CAPTURED),
    Known("test_functools::TestLRU*.test_lru_reentrancy_with_len", OWN_BUILTINS, CAPTURED),
    Known("test_functools::TestLRUPy.test_lru_cache_threaded", TOO_SLOW, CAPTURED),
    Known("test_funcattrs::FunctionPropertiesTest.test___builtins__", REAL_STACK, CAPTURED),
    Known("test_pickle::*.test_framed_write_sizes_with_delayed_writer", TOO_SLOW, CAPTURED),
    Known("test_pickle::*.test_framing_many_objects", TOO_SLOW, CAPTURED),
    Known("test_memoryview::*Test.test_getbuffer", REFERENCES, CAPTURED),
    Known("test_memoryview::*Test.test_getitem", REFERENCES, CAPTURED),
    Known("test_memoryview::*Test.test_setitem_readonly", REFERENCES, CAPTURED),
    Known("test_memoryview::*Test.test_setitem_writable", REFERENCES, CAPTURED),
    Known("test_tuple::TupleTest.test_bug7466", TOO_SLOW, CAPTURED),
    Known("test_long::LongTest.test_bit_length", TOO_SLOW, CAPTURED),
    Known("test_long::LongTest.test_bitop_identities", TOO_SLOW, CAPTURED),
    Known("test_bytes::*AsStringTest.test_find", TOO_SLOW, CAPTURED),
    Known("test_bytes::*AsStringTest.test_rfind", TOO_SLOW, CAPTURED),
    Known("test_userstring::UserStringTest.test_count", TOO_SLOW, CAPTURED),
    Known("test_itertools::TestBasicOps.test_combinations_with_replacement", TOO_SLOW, CAPTURED),
    Known("test_deque::TestBasic.test_gc_doesnt_blowup", TOO_SLOW, CAPTURED),
    Known("test_deque::TestBasic.test_index", TOO_SLOW, CAPTURED),
    Known("test_math::MathTests.testDist", TOO_SLOW, CAPTURED),
    Known("test_math::MathTests.test_sumprod_stress", TOO_SLOW, CAPTURED),
    Known("test_statistics::TestNormalDist*.test_inv_cdf", TOO_SLOW, CAPTURED),
    Known("test_statistics::TestNormalDist*.test_overlap", TOO_SLOW, CAPTURED),
    Known("test_statistics::TestQuantiles.test_equal_sized_groups", TOO_SLOW, CAPTURED),
    Known("test_statistics::TestSqrtHelpers.test_integer_sqrt_of_frac_rto", TOO_SLOW, CAPTURED),
    Known("test_patma::TestTracing.*", "captured frames are not traced (sys.settrace)", CAPTURED),
    *interpreted(
        TOO_SLOW,
        "test_builtin::BuiltinTest.test_filter_dealloc",
        "test_bytes::*AsStringTest.test_count",
        "test_bytes::*AsStringTest.test_find",
        "test_bytes::*AsStringTest.test_find_periodic_pattern",
        "test_bytes::*AsStringTest.test_rfind",
        "test_collections::TestCounter.test_multiset_operations_equivalent_to_set_operations",
        "test_decimal::*ContextAPItests.test_pickle",
        "test_decimal::PyIBMTestCases.test_powersqrt",
        "test_decimal::PyIBMTestCases.test_randoms",
        "test_decimal::PyIBMTestCases.test_squareroot",
        "test_decimal::PyUsabilityTest.test_as_integer_ratio",
        "test_deque::TestBasic.test_index",
        "test_descr::ClassPropertiesAndMethods.test_wrapper_segfault",
        "test_itertools::RegressionTests.test_long_chain_of_empty_iterables",
        "test_json::*Unicode.test_unicode_decode",
        "test_long::LongTest.test_bit_length",
        "test_long::LongTest.test_bitop_identities",
        "test_long::LongTest.test_correctly_rounded_true_division",
        "test_long::LongTest.test_mixed_compares",
        "test_math::MathTests.testDist",
        "test_math::MathTests.testFactorial",
        "test_math::MathTests.testFsum",
        "test_math::MathTests.testIsqrt",
        "test_math::MathTests.testRemainder",
        "test_math::MathTests.test_sumprod_extended_precision_accuracy",
        "test_math::MathTests.test_sumprod_stress",
        "test_pickle::PyPicklerUnpicklerObjectTests.test_multiple_unpicklings_*",
        "test_pickle::*.test_framed_write_sizes_with_delayed_writer",
        "test_pickle::*.test_framing_many_objects",
        "test_random::SystemRandom_TestBasicOps.test_bug_9025",
        "test_random::TestDistributions.test_binomialvariate",
        "test_statistics::TestNormalDist*.test_inv_cdf",
        "test_statistics::TestNormalDist*.test_overlap",
        "test_statistics::TestSqrtHelpers.test_float_sqrt_of_frac",
        "test_statistics::TestSqrtHelpers.test_integer_sqrt_of_frac_rto",
        "test_str::*.test_count",
        "test_str::*.test_find",
        "test_str::*.test_find_periodic_pattern",
        "test_str::*.test_isspace_invariant",
        "test_str::*.test_rfind",
        "test_traceback::MiscTest.test_levenshtein_distance_short_circuit",
        "test_unicode::UnicodeTest.test_count",
        "test_unicode::UnicodeTest.test_find",
        "test_unicode::UnicodeTest.test_find_periodic_pattern",
        "test_unicode::UnicodeTest.test_isspace_invariant",
        "test_unicode::UnicodeTest.test_rfind",
        "test_userstring::UserStringTest.test_count",
        "test_userstring::UserStringTest.test_find",
        "test_userstring::UserStringTest.test_find_periodic_pattern",
        "test_userstring::UserStringTest.test_rfind",
        "test_weakref::MappingTestCase.test_threaded_weak_value*",
    ),
    *interpreted(
        REAL_FRAME,
        "test_frame::TestCAPI.test_frame_get_generator",
        "test_frame::TestCAPI.test_frame_getters",
        "test_frame::TestCAPI.test_getvar",
        "test_frame::TestFrameCApi.test_basic",
        "test_frame::TestFrameLocals.test_sizeof",
        "test_generators::SignalAndYieldFromTest.test_raise_and_yield_from",
        "test_traceback::CPythonSuggestionFormattingTests.test_name_error_with_instance",
    ),
    *interpreted(
        REAL_STACK,
        "test_frame::TestIncompleteFrameAreInvisible.test_sneaky_frame_object",
        "test_builtin::BuiltinTest.test_eval_builtins_mapping_reduce",
        "test_functools::TestPartial*.test_partial_as_method",
        "test_funcattrs::FunctionPropertiesTest.test___builtins__",
        "test_re::ImplementationTest.test_deprecated_modules",
        "test_re::ReTests.test_re_groupref_exists_errors",
        "test_traceback::TestStack.test_walk_stack",
        "test_typing::ProtocolTests.test_interaction_with_isinstance_checks_on_superclasses_with_ABCMeta",
        "test_typing::ProtocolTests.test_isinstance_checks_not_at_whim_of_gc",
        "test_typing::ProtocolTests.test_protocols_issubclass_non_callable",
        "test_typing::ProtocolTests.test_protocols_support_register",
        "test_warnings::CFilterTests.test_error_after_default",
        "test_warnings::CFilterTests.test_ignore",
        "test_warnings::CWarnTests.test_exec_filename",
        "test_warnings::CWarnTests.test_filename",
        "test_warnings::CWarnTests.test_stacklevel",
        "test_warnings::*WarnTests.test_stacklevel_import",
        "test_warnings::_WarningsTests.test_show_warning_output",
    ),
    *interpreted(
        OWN_BUILTINS,
        "test_builtin::TestBreakpoint.test_envar_good_path_builtin",
        "test_functools::TestLRU*.test_lru_reentrancy_with_len",
        "test_iter::TestCase.test_reduce_mutating_builtins_iter",
    ),
    *interpreted(
        ALL_OBJECTS,
        "test_descr::ClassPropertiesAndMethods.test_cycle_through_dict",
        "test_descr::ClassPropertiesAndMethods.test_slots",
    ),
    *interpreted(
        UNTRACED,
        "test_patma::TestTracing.*",
    ),
    *interpreted(
        "a tuple that is spread over the arguments of a C function arrives there as another, equal one",
        "test_call::TestPEP590.test_vectorcall_override",
    ),
    *interpreted(
        "a generator that `types.coroutine` marks has `__await__`, or C could not await it",
        "test_collections::TestOneTrickPonyABCs.test_Awaitable",
        "test_collections::TestOneTrickPonyABCs.test_Coroutine",
    ),
    *interpreted(
        "C code of the test changes how functions are called",
        "test_call::TestPEP590.test_setvectorcall",
    ),
    *interpreted(
        "a C function of the test leaves its caller out of the traceback",
        "test_exceptions::ExceptionTests.testSettingException",
    ),
    *interpreted(
        "recurses nearly as deep as C's own count allows",
        "test_functools::TestLRUC.test_lru_recursion",
    ),
    *interpreted(
        "sets the recursion limit by how deep CPython's own stack is",
        "test_exceptions::ExceptionTests.test_recursion_in_except_handler",
    ),
    *interpreted(
        "a frame that is interpreted has an attribute `__module__`",
        "test_inspect::TestRetrievingSourceCode.test_getmodule_file_not_found",
    ),
    *interpreted(
        "names that a generator is given are not checked to be strings",
        "test_generators::GeneratorTest.test_name",
    ),
    *interpreted(
        TOO_SLOW,
        "test_context::HamtTest.test_hamt_stress",
        "test_hashlib::HashLibTestCase.test_sha3_256_update_over_4gb",
    ),
    *interpreted(
        OWN_BUILTINS,
        "test_dynamic::RebindBuiltinsTests.test_load_global_specialization_failure_keeps_oparg",
        "test_dynamic::RebindBuiltinsTests.test_modify_builtins*",
    ),
    *interpreted(
        "builtins are looked for in a function's globals, not in what those held when it was made",
        "test_dynamic::RebindBuiltinsTests.test_cannot_replace_builtins_dict_*",
    ),
    *interpreted(
        "code that no compiler makes is interpreted as far as it goes",
        "test_code::CodeTest.test_invalid_bytecode",
    ),
    *interpreted(
        "CPython does not specialise code that is interpreted",
        "test_dis::Dis*Tests.test_binary_specialize",
        "test_dis::Dis*Tests.test_call_specialize",
        "test_dis::Dis*Tests.test_load_attr_specialize",
    ),
    *interpreted(
        REAL_STACK,
        "test_unittest::Test_TestCase.testAssertWarns*Context",
        "test_unittest::TestObsoleteFunctions.*",
    ),
    *interpreted(
        UNTRACED,
        "test_doctest::test.test_doctest.test_debug",
        "test_doctest::test.test_doctest.test_pdb_set_trace*",
        "test_peepholer::TestMarkingVariablesAsUnKnown.test_*",
    ),
]
