"""Which modules of CPython's own tests are run, and which of their tests may differ, with the reason."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

MODULES = """
test_list test_dict test_set test_tuple test_range test_slice test_bool test_int test_long test_float
test_complex test_bytes test_memoryview test_unicode test_string test_format test_fstring test_userdict
test_userlist test_userstring test_dictviews test_dictcomps test_listcomps test_setcomps test_genexps
test_enumerate test_generators test_generator_stop test_coroutines test_asyncgen test_yield_from test_iter
test_iterlen test_itertools test_functools test_contextlib test_collections test_deque test_defaultdict
test_ordered_dict test_enum test_dataclasses test_operator test_math test_cmath test_fractions test_decimal
test_statistics test_numeric_tower test_random test_exceptions test_exception_group test_except_star
test_baseexception test_raise test_with test_patma test_descr test_descrtut test_class test_abc
test_metaclass test_super test_property test_subclassinit test_typing test_types test_genericalias
test_builtin test_binop test_compare test_richcmp test_augassign test_bigaddrspace test_call test_extcall
test_keywordonlyarg test_positional_only_arg test_funcattrs test_scope test_decorators test_unpack
test_unpack_ex test_named_expressions test_opcodes test_grammar test_syntax test_global test_sort test_heapq
test_bisect test_copy test_copyreg test_pickle test_weakref test_weakset test_re test_textwrap test_json
test_datetime test_inspect test_warnings test_logging test_reprlib test_pprint test_string_literals
test_struct test_array test_hash test_index test_contains test_isinstance test_int_literal test_pow
test_module test_dynamic test_dynamicclassattribute test_frame test_traceback test_trace test_sys_settrace
test_code test_eof test_dis test_keyword test_calendar test_colorsys test_difflib test_shlex test_graphlib
test_hmac test_hashlib test_base64 test_binascii test_uuid test_urlparse test_fnmatch test_glob test_pathlib
test_strtod test_atexit test_contextlib_async test_context test_unittest test_doctest test_opcache
test_peepholer
""".split()
"""Those about the language and the pure parts of the library."""


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
"""Those are not even tried."""

KNOWN: list[Known] = []
