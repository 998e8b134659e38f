"""The options of `torch._dynamo.config`: what Framelift does with each.

Whoever sets one in `framelift.config`, or in torch's own while Framelift is installed, gets what it means or
a sentence that says why not. `docs/torch_api.md` is made from this table, and a test keeps it complete.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Support(enum.Enum):
    """What comes of an option."""

    HONOURED = "the same option"
    ALWAYS = "always so"
    HARMLESS = "nothing to choose"
    REFUSED = "not offered"
    ELSEWHERE = "not the front end's"


class TorchOption(NamedTuple):
    support: Support
    sentence: str
    name: str = ""
    """Under which it is in `framelift.config`, if by another."""


OPTIONS: dict[str, TorchOption] = {}
"""Option of torch's -> what comes of it."""


def add(support: Support, sentence: str, *names: str) -> None:
    OPTIONS.update((name, TorchOption(support, sentence)) for name in names)


for _torchs, _ours in {
    "cache_size_limit": "recompile_limit",
    "accumulated_cache_size_limit": "accumulated_recompile_limit",
    "fail_on_cache_limit_hit": "fail_on_recompile_limit_hit",
    "debug_dir_root": "debug_dir",
}.items():
    OPTIONS[_torchs] = TorchOption(Support.HONOURED, f"`framelift.config.{_ours}`.", _ours)

add(
    Support.HONOURED,
    "An option of that name and meaning.",
    *("recompile_limit", "accumulated_recompile_limit", "fail_on_recompile_limit_hit", "error_on_recompile"),
    *("automatic_dynamic_shapes", "assume_static_by_default", "specialize_int", "specialize_float"),
    *(
        "force_parameter_static_shapes",
        "force_nn_module_property_static_shapes",
        "suppress_errors",
        "verbose",
    ),
    *("capture_scalar_outputs", "capture_dynamic_output_shape_ops", "trace_numpy", "compiled_autograd"),
    *("verify_correctness", "replay_record_enabled", "optimize_ddp", "raise_on_ctx_manager_usage"),
    *(
        "ignore_logging_functions",
        "ignore_logger_methods",
        "reorderable_logging_functions",
        "cprofile",
        "allow_ignore_mark_dynamic",
        "disable",
    ),
)
add(
    Support.ALWAYS,
    "Framelift does so in any case.",
    *("dynamic_shapes", "guard_nn_modules", "inline_inbuilt_nn_modules", "dead_code_elimination"),
    *("replay_side_effects", "capture_autograd_function", "capture_func_transforms", "trace_autograd_ops"),
    *("capture_profiler_record_function", "enable_trace_contextlib", "enable_trace_load_build_class"),
    *("enable_trace_unittest", "enable_faithful_generator_behavior", "nested_graph_breaks", "allow_rnn"),
    *("rewrite_assert_with_torch_assert", "enable_cpp_guard_manager", "enable_cpp_framelocals_guard_eval"),
    *("enable_cpp_symbolic_shape_guards", "capture_sparse_compute", "allow_empty_graphs"),
    *("constant_fold_autograd_profiler_enabled", "log_compilation_metrics", "report_guard_failures"),
    *("fake_tensor_cache_enabled", "allow_unspec_int_on_nn_module", "use_lazy_graph_module"),
    *("inline_torch_dispatch_torch_compile", "enable_dynamo_decompositions", "wrap_top_frame"),
)
add(
    Support.HARMLESS,
    "It chooses between ways to do a thing in torch's implementation; there is one way here.",
    *("guard_nn_modules_using_dict_tags", "use_recursive_dict_tags_for_guards", "generate_pycode"),
    *("max_saved_pointers_for_recursive_dict_tags_check", "use_lamba_guard_for_object_aliasing"),
    *("automatic_dynamic_exclusion_guard", "invalidate_compile_context_weakrefs", "issue_3_13_0_warning"),
    *("install_free_tensors", "skip_code_recursive_on_recompile_limit_hit", "log_file_name", "base_dir"),
    *("skip_code_recursive_on_cache_limit_hit", "debug_disable_compile_counter", "TYPE_CHECKING"),
    *("record_compile_time_instruction_count", "log_graph_in_out_metadata", "_save_config_ignore"),
    *("fake_tensor_cache_crosscheck_enabled", "fake_tensor_disable_inference_mode", "pt2_compile_id_prefix"),
    *("inject_BUILD_SET_unimplemented_TESTING_ONLY", "track_nodes_for_deduplication", "_custom_ops_profile"),
    *("graph_deduplication_lint", "record_runtime_overhead", "debug_force_nested_calls", "dynamo_profiler"),
    *("debug_force_graph_break_on_leaf_return", "enable_p2p_compilation", "use_graph_deduplication"),
    *("raise_on_unsafe_aot_autograd", "inline_invoke_subgraph", "inline_single_use_invoke_subgraph"),
    *("enable_invoke_subgraph_regional_compile", "skip_torchrec", "leaf_function_validate_outputs"),
    *("force_unspec_int_unbacked_size_like_on_torchrec_kjt", "leaf_function_check_escaped_gradients"),
    *("skip_fwd_side_effects_in_bwd_under_checkpoint", "_autograd_backward_strict_mode_banned_ops"),
    *(
        "run_gc_after_compile",
        "_autograd_backward_strict_mode_conditional_banned_ops",
        "side_effect_replay_policy",
        "_shapes_spec",
    ),
)
add(
    Support.REFUSED,
    "It leaves out guards, and a result may then be one for other values; `guard_filter_fn` says which "
    "guards of one function to leave out.",
    *("skip_fsdp_guards", "skip_nnmodule_hook_guards", "skip_no_tensor_aliasing_guards_on_parameters"),
    *("skip_tensor_guards_with_matching_dict_tags", "skip_guards_on_constant_func_defaults"),
    *("assume_dunder_attributes_remain_unchanged", "_unsafe_skip_fsdp_module_guards"),
    "do_not_emit_runtime_asserts",
)
add(
    Support.REFUSED,
    "Framelift decides by whose code it is; `skip`, `disable` and `allow_in_graph` say otherwise of one.",
    *("skipfiles_inline_module_allowlist", "allowed_functions_module_string_ignorelist", "dont_skip_tracing"),
    *("traceable_tensor_subclasses", "nontraceable_tensor_subclasses", "only_allow_pt2_compliant_ops"),
)
add(
    Support.REFUSED,
    "Functions are compiled when they are first called; the stance `eager_then_compile` waits for one call.",
    "minimum_call_count",
)
add(
    Support.ALWAYS,
    "Random numbers of NumPy are drawn from NumPy's own generators, as plain Python draws them.",
    "use_numpy_random_stream",
)
add(
    Support.REFUSED,
    "NumPy's numbers have the types that NumPy gives them.",
    *("numpy_default_float", "numpy_default_complex", "numpy_default_int"),
)
add(
    Support.REFUSED,
    "What a program relies on is guarded, or checked by the graph where only data decide it.",
    *("prefer_deferred_runtime_asserts_over_guards", "automatic_dynamic_shapes_mark_as"),
)
add(
    Support.REFUSED,
    "A compiled function that another of torch's tools runs is run plainly: the tool sees the program.",
    *("error_on_nested_jit_trace", "error_on_nested_fx_trace", "force_compile_during_fx_trace"),
    "error_on_dynamo_callback_in_fullgraph_compiled_code",
)
add(
    Support.REFUSED,
    "`verify` and `minimise` find the graph, and the operator in it, that a backend does wrong or fails on.",
    *("repro_after", "repro_level", "repro_forward_only", "repro_tolerance", "repro_ignore_non_fp"),
    "same_two_models_use_fp64",
)
add(
    Support.REFUSED,
    "Captures are saved by `framelift.entries(fn)` and ranks share them (`capture_once`); no more.",
    *("caching_precompile", "strict_precompile", "enable_aot_compile", "automatic_dynamic_local_pgo"),
    "automatic_dynamic_remote_pgo",
)
add(
    Support.REFUSED,
    "Ranks agree by `config.rank_agreement`.",
    "enable_compiler_collectives",
)
add(
    Support.REFUSED,
    "A stance with `force_backend` has all compiled functions use another backend.",
    *("debug_backend_override", "debug_inductor_config_override", "debug_dynamo_config_override"),
)
add(
    Support.REFUSED,
    "Parameters that are made in a compiled function are captured, and there is no switch for it.",
    "graph_break_on_nn_param_ctor",
)
add(
    Support.ELSEWHERE,
    "A backend's, or that of torch's exporter, which read it themselves.",
    *("prepare_freezing", "cudagraph_backend_keep_input_mutation", "install_free_tensors_for_export"),
    *("cudagraph_backend_support_input_mutation", "optimize_ddp_lazy_compile"),
    "compiled_autograd_kwargs_override",
)
