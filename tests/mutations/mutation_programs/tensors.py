"""Tensors: what is known of them, which of them lie in the same memory."""

from mutation_programs.catalogue import program

SUBCLASS = """
class Tagged(torch.Tensor):
    pass
"""

PROGRAMS = [
    program(
        "a tensor",
        SUBCLASS
        + """
args = [torch.arange(4.0), torch.ones(4)]
def f(x, y):
    return x * 2 + y, y.shape, y.stride(), y.requires_grad, y.dtype
""",
        read=[
            "args[1] = torch.ones(4, dtype=torch.float64)",
            "args[1] = torch.ones(4, dtype=torch.int64)",
            "args[1] = torch.ones(4, dtype=torch.complex64)",
            "args[0] = torch.ones(4, device='meta'); args[1] = torch.ones(4, device='meta')",
            "args[1] = torch.ones(1)",
            "args[1] = torch.ones(1, 4)",
            "args[1] = torch.tensor(1.0)",
            "args[1] = torch.ones(8)[::2]",
            "args[1] = torch.ones(1).expand(4)",
            "args[1] = torch.ones(4, requires_grad=True)",
            "args[1].requires_grad_()",
            "args[1] = torch.nn.Parameter(torch.ones(4))",
            "args[1] = torch.ones(4).as_subclass(Tagged)",
            "args[1] = torch.ones(4).to_sparse()",
            "args[1] = torch.ones(4, dtype=torch.complex64).conj()",
            "args[1] = torch.ones(4, dtype=torch.complex64).conj().imag",
            "args[1] = stack.enter_context(torch.inference_mode()) or torch.ones(4)",
            "args[1] = 1.0",
            "args[1] = None",
            "args[1].resize_(1)",
            "args[1].data = torch.ones(1)",
            "args[1] = torch.ones(4, dtype=torch.bfloat16)",
            "args[1] = torch.ones(4, dtype=torch.bool)",
        ],
        unread=[
            "args[1] = torch.zeros(4)",
            "args[1].add_(1)",
            "args[1] = torch.ones(8)[4:]",
            "args[1] = args[0]",
            "args[1] = args[0].view(4)",
            "args[1].tag = 5",
            "args[1] = torch.ones(2, 2).view(4)",
        ],
    ),
    program(
        "an inference tensor",
        """
        with torch.inference_mode():
            tensor = torch.ones(4)
        args = [torch.arange(4.0), torch.ones(4)]
        def f(x, y):
            return x + y, y.is_inference()
        """,
        read=["args[1] = tensor"],
        unread=["args[1] = tensor.clone()"],
    ),
    program(
        "the offset of a tensor",
        """
        args = [torch.arange(4.0), torch.ones(8)[4:]]
        def f(x, y):
            return x + y.storage_offset()
        """,
        read=["args[1] = torch.ones(8)[:4]", "args[1] = torch.ones(4)", "args[1] = torch.ones(9)[5:]"],
        unread=["args[1] = torch.zeros(8)[4:]", "args[0] = torch.ones(9)[5:]"],
    ),
    program(
        "strides",
        """
        args = [torch.arange(8.0).reshape(2, 4)]
        def f(x):
            return x + 1 if x.is_contiguous() else x - 1
        """,
        read=["args[0] = torch.ones(4, 2).t()", "args[0] = torch.ones(2, 8)[:, ::2]"],
        unread=["args[0] = torch.ones(3, 4)[1:]", "args[0] = torch.ones(2, 4)"],
    ),
    program(
        "a leaf of autograd",
        """
        args = [torch.arange(4.0, requires_grad=True)]
        def f(x):
            return x + 1 if x.is_leaf else x - 1
        """,
        read=["args[0] = args[0] * 2", "args[0] = torch.arange(4.0)"],
        unread=["args[0] = torch.zeros(4, requires_grad=True)"],
    ),
    program(
        "not a leaf of autograd",
        """
        base = torch.arange(4.0, requires_grad=True)
        args = [base * 2]
        def f(x):
            return x + 1 if x.is_leaf else x - 1
        """,
        read=["args[0] = base", "args[0] = base.detach()"],
        unread=["args[0] = base * 3"],
    ),
    program(
        "writing into what may be a leaf",
        """
        base = torch.arange(4.0, requires_grad=True)
        args = [base * 2]
        def f(x):
            return x.mul_(2) + 1
        """,
        read=["args[0] = torch.ones(4)", "args[0] = base.detach()"],
        unread=["args[0] = base * 3", "args[0] = base"],
    ),
    program(
        "the gradient of a tensor",
        """
        args = [torch.arange(4.0, requires_grad=True)]
        def f(x):
            return x * 2 if x.grad is None else x + x.grad
        """,
        read=["args[0].grad = torch.ones(4)", "args[0] = torch.ones(4)", "args[0].sum().backward()"],
        unread=["args[0] = torch.ones(4, requires_grad=True)", "args[0].grad = None"],
    ),
    program(
        "a gradient that is there",
        """
        args = [torch.arange(4.0, requires_grad=True)]
        args[0].grad = torch.ones(4)
        def f(x):
            return x * 2 if x.grad is None else x + x.grad
        """,
        read=[
            "args[0].grad = None",
            "args[0] = torch.ones(4, requires_grad=True)",
            "args[0].grad = torch.ones(8)[::2]",
        ],
        unread=["args[0].grad = torch.zeros(4)", "args[0].grad.add_(1)"],
    ),
    program(
        "attributes of a tensor",
        """
        args = [torch.arange(4.0), torch.ones(4)]
        args[1].tag = 2
        def f(x, y):
            return x * y.tag + hasattr(y, "other")
        """,
        read=["args[1].tag = 3", "del args[1].tag", "args[1].other = 1", "patch(torch.Tensor, 'other', 1)"],
        unread=["args[1].unread = 1", "args[1].add_(1)"],
    ),
    program(
        "tensors written to, which may be one",
        """
        args = [torch.ones(4), torch.ones(4)]
        def f(a, b):
            a.add_(1)
            return a + b
        """,
        read=[
            "args[1] = args[0]",
            "args[1] = args[0].view(4)",
            "base = torch.ones(8); args[:] = [base[:4], base[4:]]",
            "base = torch.ones(6); args[:] = [base[:4], base[2:]]",
        ],
        unread=["args[:] = [torch.zeros(4), torch.ones(4)]", "args[1] = torch.ones(8)[4:]", "args.reverse()"],
    ),
    program(
        "tensors that are views of one memory",
        """
        base = torch.ones(12)
        args = [base[:4], base[4:8]]
        def f(a, b):
            a.add_(1)
            return a + b
        """,
        read=["args[1] = torch.ones(4)", "args[1] = args[0]"],
        unread=["base = torch.ones(12); args[:] = [base[:4], base[4:8]]"],
    ),
    program(
        "whether two tensors are one",
        """
        args = [torch.ones(4), torch.ones(4)]
        def f(a, b):
            return a + 1 if a is b else a + b
        """,
        read=["args[1] = args[0]"],
        unread=["args[1] = args[0].view(4)", "args.reverse()"],
    ),
    program(
        "one tensor by two names",
        """
        args = [torch.ones(4)] * 2
        def f(a, b):
            return a + 1 if a is b else a + b
        """,
        read=["args[1] = torch.ones(4)", "args[1] = args[0].view(4)"],
        unread=["args[:] = [torch.zeros(4)] * 2"],
    ),
    program(
        "a tensor in a global, a cell, a class, a list",
        """
        weight = torch.ones(4)
        class Holder:
            scale = torch.ones(4)
        many = [torch.ones(4)]
        def make():
            cell = torch.ones(4)
            def f(x):
                return x * weight * cell * Holder.scale * many[0]
            def set_cell(value):
                nonlocal cell
                cell = value
            return f, set_cell
        f, set_cell = make()
        """,
        read=[
            "weight = torch.ones(1)",
            "set_cell(torch.ones(1))",
            "Holder.scale = torch.zeros(4)",
            "many[0] = torch.ones(4, dtype=torch.float64)",
            "many.append(1)",
            "weight = 3",
            "Holder.scale.resize_(1)",
            "weight.requires_grad_()",
        ],
        unread=[
            "weight = torch.zeros(4)",
            "set_cell(torch.zeros(4))",
            "many[0] = torch.zeros(4)",
            "Holder.scale.zero_()",
        ],
    ),
    program(
        "methods of torch.Tensor",
        """
        def f(x):
            return x.sin() + x.T.sum() + x.new_ones(4)
        """,
        read=[
            "patch(torch.Tensor, 'sin', lambda self: self)",
            "patch(torch.Tensor, 'new_ones', lambda self, n: self)",
        ],
        unread=["patch(torch.Tensor, 'anything', 1)", "patch(torch.Tensor, 'cos', None)"],
    ),
    program(
        "a parameter's class",
        """
        args = [torch.nn.Parameter(torch.ones(4))]
        def f(x):
            return x + 1 if isinstance(x, torch.nn.Parameter) else x - 1
        """,
        read=[
            "args[0] = torch.ones(4)",
            "args[0] = torch.ones(4, requires_grad=True)",
            "args[0] = torch.nn.Parameter(torch.ones(4), requires_grad=False)",
        ],
        unread=["args[0] = torch.nn.Parameter(torch.zeros(4))"],
    ),
]
