"""Torch's global state."""

from mutation_programs.catalogue import program

MODE = """
from torch.overrides import TorchFunctionMode
class Times(TorchFunctionMode):
    def __init__(self, n):
        super().__init__()
        self.n = n
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * self.n if func is torch.sin else out
"""

PROGRAMS = [
    program(
        "switches of autograd",
        """
        args = [torch.ones(2, 2, requires_grad=True)]
        def f(x):
            return x @ x, torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        """,
        read=[
            "switch(torch.set_grad_enabled, False, True)",
            "stack.enter_context(torch.no_grad())",
            "stack.enter_context(torch.inference_mode())",
            "switch(torch.autograd.set_detect_anomaly, True, False)",
        ],
        unread=["stack.enter_context(torch.enable_grad())"],
    ),
    program(
        "contexts that are made outside",
        """
        weight = torch.ones(2, 2, requires_grad=True)
        with torch.enable_grad():
            grad = torch.set_grad_enabled(False)
        inference, cast = torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16)
        def f(x):
            with grad:
                y = weight * 2
            with inference:
                z = x + 1
            with cast:
                w = x @ x
            return y, z, w
        args = [torch.ones(2, 2)]
        """,
        read=[
            "grad.mode = True",
            "inference.mode = False",
            "cast.fast_dtype = torch.float16",
            "cast._enabled = False",
            "grad = torch.enable_grad()",
        ],
        unread=["cast = torch.autocast('cpu', dtype=torch.bfloat16)", "inference = torch.inference_mode()"],
    ),
    program(
        "anomaly detection asked for",
        """
        def f(x):
            return x + 1 if torch.is_anomaly_enabled() else x - 1
        """,
        read=["stack.enter_context(torch.autograd.detect_anomaly())"],
    ),
    program(
        "autocast",
        """
        args = [torch.ones(2, 2)]
        def f(x):
            return x @ x
        """,
        read=[
            "stack.enter_context(torch.autocast('cpu', dtype=torch.bfloat16))",
            "stack.enter_context(torch.autocast('cpu', dtype=torch.float16))",
            "switch(lambda on: torch.set_autocast_enabled('cpu', on), True, False)",
        ],
        unread=["stack.enter_context(torch.autocast('cpu', enabled=False))"],
    ),
    program(
        "autocast asked for",
        """
        def f(x):
            return x + torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
        """,
        read=[
            "stack.enter_context(torch.autocast('cpu', dtype=torch.bfloat16))",
            "switch(lambda d: torch.set_autocast_dtype('cpu', d), torch.float16, torch.bfloat16)",
            "switch(torch.set_autocast_cache_enabled, False, True)",
        ],
    ),
    program(
        "an autocast that is there",
        """
        args = [torch.ones(2, 2)]
        def f(x):
            return x @ x
        stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        """,
        read=[
            "stack.enter_context(torch.autocast('cpu', enabled=False))",
            "stack.enter_context(torch.autocast('cpu', dtype=torch.float16))",
        ],
        unread=["stack.enter_context(torch.autocast('cpu', dtype=torch.bfloat16))"],
    ),
    program(
        "the default dtype",
        """
        def f(x):
            return x + torch.ones(4), torch.get_default_dtype()
        """,
        read=[
            "switch(torch.set_default_dtype, torch.float64, torch.float32)",
            "switch(torch.set_default_dtype, torch.bfloat16, torch.float32)",
        ],
        unread=["switch(torch.set_default_dtype, torch.float32, torch.float32)"],
    ),
    program(
        "the default device",
        """
        def f(x):
            return x + 1, torch.ones(2), torch.get_default_device(), torch.ones(1).device
        """,
        read=[
            "switch(torch.set_default_device, 'meta', None)",
            "stack.enter_context(torch.device('meta'))",
            "stack.enter_context(torch.device('cpu'))",
        ],
    ),
    program(
        "a default device that is there",
        """
        switch(torch.set_default_device, "cpu", None)
        def f(x):
            return x + 1, torch.ones(2)
        """,
        read=[
            "torch.set_default_device('meta')",
            "torch.set_default_device(None)",
            "stack.enter_context(torch.device('meta'))",
        ],
        unread=["torch.set_default_device('cpu')", "stack.enter_context(torch.device('cpu'))"],
    ),
    program(
        "a device context that is there",
        """
        stack.enter_context(torch.device("meta"))
        def f(x):
            return x + 1, torch.ones(2)
        """,
        read=[
            "stack.enter_context(torch.device('cpu'))",
            "stack.close()",
            "stack.close(); stack.enter_context(torch.device('cpu'))",
        ],
        unread=[
            "stack.close(); stack.enter_context(torch.device('meta'))",
            "stack.enter_context(torch.device('meta'))",
        ],
    ),
    program(
        "torch function modes",
        MODE
        + """
def f(x):
    return torch.sin(x) + 1
""",
        read=[
            "stack.enter_context(Times(2))",
            "stack.enter_context(Times(2)); stack.enter_context(Times(3))",
            "stack.enter_context(torch._C.DisableTorchFunction())",
            "stack.enter_context(torch._C.DisableTorchFunctionSubclass())",
        ],
        unread=["with Times(2): pass"],
    ),
    program(
        "a mode in the place of a device",
        MODE
        + """
stack.enter_context(torch.device("cpu"))
def f(x):
    return torch.sin(x) + torch.ones(4)
""",
        read=[
            "stack.close(); stack.enter_context(Times(2))",
            "stack.close(); stack.enter_context(Times(3))",
            "stack.enter_context(Times(5))",
        ],
        unread=["stack.close(); stack.enter_context(torch.device('cpu'))"],
    ),
    program(
        "torch dispatch modes",
        """
        from torch.utils._python_dispatch import TorchDispatchMode
        seen = watch = []
        class Noting(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append(str(func))
                return func(*args, **(kwargs or {}))
        class Times(TorchDispatchMode):
            def __init__(self, n):
                super().__init__()
                self.n = n
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {})) * self.n
        def f(x):
            return torch.sin(x) + 1
        """,
        read=[
            "stack.enter_context(Noting())",
            "stack.enter_context(Times(2))",
            "stack.enter_context(Times(2)); stack.enter_context(Times(3))",
        ],
        unread=["with Noting(): pass"],
    ),
    program(
        "the fast path of attention",
        """
        def f(x):
            return x + torch.backends.mha.get_fastpath_enabled()
        """,
        read=["switch(torch.backends.mha.set_fastpath_enabled, False, True)"],
    ),
    program(
        "deterministic algorithms",
        """
        def f(x):
            return x + torch.are_deterministic_algorithms_enabled() + torch.is_deterministic_algorithms_warn_only_enabled()
        """,
        read=[
            "switch(torch.use_deterministic_algorithms, True, False)",
            "torch.use_deterministic_algorithms(True, warn_only=True); stack.callback(torch.use_deterministic_algorithms, False)",
        ],
    ),
    program(
        "precision of matrix products",
        """
        def f(x):
            return x + 1 if torch.get_float32_matmul_precision() == "highest" else x - 1
        """,
        read=[
            "switch(torch.set_float32_matmul_precision, 'high', 'highest')",
            "switch(torch.set_float32_matmul_precision, 'medium', 'highest')",
        ],
    ),
    program(
        "flags of the backends",
        """
        def f(x):
            b = torch.backends
            flags = [b.mkldnn.enabled, b.cudnn.enabled, b.cudnn.deterministic, b.cudnn.benchmark, b.cuda.matmul.allow_tf32]
            return x + sum(1 for flag in flags if flag)
        """,
        read=[
            "switch(lambda on: torch._C._set_cudnn_enabled(on), False, True)",
            "switch(lambda on: torch._C._set_cudnn_deterministic(on), True, False)",
            "switch(lambda on: torch._C._set_cudnn_benchmark(on), True, False)",
            "switch(lambda on: setattr(torch.backends.cuda.matmul, 'allow_tf32', on), True, False)",
            "switch(torch._C._set_mkldnn_enabled, False, True)",
        ],
    ),
    program(
        "scaled dot product kernels",
        """
        args = [torch.ones(1, 1, 2, 4)]
        def f(x):
            return torch.nn.functional.scaled_dot_product_attention(x, x, x)
        """,
        read=[
            "switch(torch.backends.cuda.enable_flash_sdp, False, True)",
            "switch(torch.backends.cuda.enable_math_sdp, False, True)",
        ],
    ),
    program(
        "the number of threads",
        """
        def f(x):
            return x + 1
        """,
        read=["args[0] = torch.ones(3)"],
        unread=["switch(torch.set_num_threads, 1, torch.get_num_threads())", "torch.manual_seed(5)"],
    ),
    program(
        "hooks on saved tensors",
        """
        seen = watch = []
        args = [torch.ones(4, requires_grad=True)]
        def f(x):
            return (x * x).sum()
        """,
        read=["args[0] = torch.ones(3)"],
        unread=[
            "stack.enter_context(torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(1) or t, lambda t: t))"
        ],
    ),
    program(
        "random numbers",
        """
        def f(x):
            return x + torch.rand(4)
        """,
        read=["switch(torch.set_default_dtype, torch.float64, torch.float32)"],
        unread=["torch.manual_seed(7)", "torch.rand(3)"],
    ),
    program(
        "whether warnings are always given",
        """
        def f(x):
            return x + 1 if torch.is_warn_always_enabled() else x - 1
        """,
        read=["switch(torch.set_warn_always, True, False)"],
    ),
]
