"""Modules of torch.nn."""

from mutation_programs.catalogue import program

NET = """
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))
        self.unread_module = torch.nn.Linear(2, 2)
        self.rate, self.unread = 2, 3
    def forward(self, x):
        x = self.linear(x) * self.scale * self.rate
        return x + 1 if self.training else x - 1
torch.manual_seed(0)
net = Block()
def f(x):
    return net(x)
"""

PROGRAMS = [
    program(
        "a module",
        NET,
        read=[
            "net.eval()",
            "net.rate = 3",
            "net.linear.bias = None",
            "net.linear.bias = torch.nn.Parameter(torch.ones(1))",
            "net.linear.weight.requires_grad_(False)",
            "net.linear = torch.nn.Identity()",
            "net.linear = torch.nn.Linear(4, 4, bias=False)",
            "net.linear.forward = lambda x: x + 5",
            "net.scale = torch.ones(1)",
            "net.scale = torch.nn.Buffer(torch.ones(4, dtype=torch.float64))",
            "del net.scale; net.scale = 3",
            "del net.linear",
            "net.double()",
            "net.register_parameter('scale2', None); net._parameters['scale'] = torch.nn.Parameter(torch.ones(4))",
            "Block.forward = lambda self, x: x",
            "Block.__call__ = lambda self, x: x * 7",
            "net.forward = lambda x: x * 9",
            "Block.scale = 3",
            "Block.training = property(lambda self: False)",
            "net.__dict__['linear'] = lambda x: x * 3",
            "patch(torch.nn.Linear, 'forward', lambda self, x: x * 11)",
            "patch(torch.nn.Module, '__call__', lambda self, x: x * 13)",
            "Block._call_impl = lambda self, x: x * 15",
        ],
        unread=[
            "net.unread = 5",
            "net.unread_module = torch.nn.Linear(3, 3)",
            "net.new = torch.nn.Linear(1, 1)",
            "net.linear.bias = torch.nn.Parameter(torch.zeros(4))",
            "net.linear.weight.data.add_(1)",
            "net.scale = torch.zeros(4)",
            "net.linear = torch.nn.Linear(4, 4)",
            "net.linear.eval()",
            "net.unread_module.register_forward_hook(lambda m, i, o: o)",
            "net.register_buffer('more', torch.ones(1))",
            "net.zero_grad()",
            "net.register_load_state_dict_post_hook(lambda m, k: None)",
            "other = Block(); other.rate = 9",
        ],
    ),
    program(
        "hooks of a module",
        NET,
        read=[
            "net.register_forward_hook(lambda m, i, o: o * 2)",
            "net.register_forward_pre_hook(lambda m, i: (i[0] + 1,))",
            "net.linear.register_forward_hook(lambda m, i, o: o * 3)",
            "net.linear.register_forward_pre_hook(lambda m, i: (i[0] + 2,))",
            "net.register_forward_hook(lambda m, i, k, o: o * 4, with_kwargs=True)",
            "net.register_forward_pre_hook(lambda m, i, k: ((i[0] * 5,), k), with_kwargs=True)",
            "net.register_forward_hook(lambda m, i, o: o * 6, always_call=True)",
            "stack.enter_context(torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: o + 1))",
            "stack.enter_context(torch.nn.modules.module.register_module_forward_pre_hook(lambda m, i: (i[0] * 2,)))",
            "stack.enter_context(torch.nn.modules.module.register_module_full_backward_hook(lambda m, i, o: None))",
            "stack.enter_context(torch.nn.modules.module.register_module_full_backward_pre_hook(lambda m, o: None))",
            "net.register_full_backward_hook(lambda m, i, o: None)",
            "net.register_full_backward_pre_hook(lambda m, o: None)",
        ],
        unread=[
            "net.register_state_dict_pre_hook(lambda *a: None)",
            "net._register_load_state_dict_pre_hook(lambda *a: None)",
        ],
    ),
    program(
        "a hook that is there already",
        NET
        + """
rate = 2
def hook(module, args, out):
    return out * rate
handle = net.linear.register_forward_hook(hook)
""",
        read=[
            "handle.remove()",
            "rate = 3",
            "hook.__code__ = (lambda module, args, out: out).__code__",
            "net.linear.register_forward_hook(lambda m, i, o: o * 5)",
            "net.linear._forward_hooks.clear()",
            "net.linear._forward_hooks[handle.id] = lambda m, i, o: o * 7",
        ],
    ),
    program(
        "a sequence of modules",
        """
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Dropout(0.0))
        def f(x):
            return net(x)
        """,
        read=[
            "net[1] = torch.nn.Tanh()",
            "net.append(torch.nn.Tanh())",
            "del net[1]",
            "net._modules['1'], net._modules['0'] = net._modules['0'], net._modules['1']",
            "net._modules.update({'0': net._modules.pop('0')})",
            "net.eval()",
            "net[2].p = 1.0",
            "net.insert(0, torch.nn.Tanh())",
            "net[0].out_features = 4; net[0].weight = torch.nn.Parameter(torch.ones(2, 4)); net[0].bias = None",
        ],
        unread=["net[0].out_features = 9", "net[0] = torch.nn.Linear(4, 4)", "net[1] = torch.nn.ReLU()"],
    ),
    program(
        "lists and dictionaries of modules and parameters",
        """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList([torch.nn.Identity(), torch.nn.ReLU()])
                self.heads = torch.nn.ModuleDict({"a": torch.nn.Identity(), "b": torch.nn.Tanh()})
                self.weights = torch.nn.ParameterList([torch.ones(4), torch.zeros(4)])
            def forward(self, x):
                for layer, weight in zip(self.layers, self.weights):
                    x = layer(x) + weight
                return self.heads["a"](x)
        net = Net()
        def f(x):
            return net(x)
        """,
        read=[
            "net.layers[1] = torch.nn.Tanh()",
            "net.layers.append(torch.nn.Tanh()); net.weights.append(torch.ones(4))",
            "net.layers[0], net.layers[1] = net.layers[1], net.layers[0]",
            "net.weights[0] = torch.nn.Parameter(torch.ones(1))",
            "net.heads['a'] = torch.nn.Tanh()",
            "del net.heads['a']",
            "del net.layers[0]",
        ],
        unread=[
            "net.weights[0] = torch.nn.Parameter(torch.ones(4))",
            "net.heads['b'] = torch.nn.ReLU()",
            "net.heads['c'] = torch.nn.ReLU()",
        ],
    ),
    program(
        "parameters gone over",
        """
        net = torch.nn.Linear(4, 4)
        torch.nn.init.ones_(net.weight); torch.nn.init.ones_(net.bias)
        def f(x):
            return x + sum(p.sum() for p in net.parameters()) + len(list(net.buffers()))
        """,
        read=[
            "net.register_parameter('more', torch.nn.Parameter(torch.ones(2)))",
            "net.bias = None",
            "net.register_buffer('more', torch.ones(2))",
            "net.sub = torch.nn.Linear(1, 1)",
            "net.weight = torch.nn.Parameter(torch.ones(4, 5))",
        ],
        unread=["net.weight = torch.nn.Parameter(torch.ones(4, 4))", "net.other = 5"],
    ),
    program(
        "two modules that share a parameter",
        """
        torch.manual_seed(0)
        a, b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        b.weight = a.weight
        def f(x):
            return a(x) + 1 if a.weight is b.weight else b(a(x))
        """,
        read=[
            "b.weight = torch.nn.Parameter(torch.ones(4, 4))",
            "a.weight = torch.nn.Parameter(torch.ones(4, 4))",
        ],
        unread=["a.weight = b.weight = torch.nn.Parameter(torch.ones(4, 4))", "a.bias = b.bias"],
    ),
    program(
        "batch normalisation",
        """
        args = [torch.arange(8.0).reshape(2, 4)]
        net = torch.nn.BatchNorm1d(4)
        watch = net.running_mean
        def f(x):
            return net(x)
        """,
        read=[
            "net.eval()",
            "net.momentum = 0.5",
            "net.eps = 1.0",
            "net.track_running_stats = False; net.running_mean = net.running_var = None",
            "net.weight = None; net.bias = None",
        ],
        unread=["net.running_mean = torch.ones(4)", "net.weight = torch.nn.Parameter(torch.zeros(4))"],
    ),
    program(
        "a module with a getattr of its own",
        """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Identity()
                self.table = {"a": 2}
            def __getattr__(self, name):
                try:
                    return super().__getattr__(name)
                except AttributeError:
                    return self.table[name]
            def forward(self, x):
                return self.linear(x) * self.a
        net = Net()
        def f(x):
            return net(x)
        """,
        read=[
            "net.table['a'] = 3",
            "net.a = 5",
            "net.linear = torch.nn.Tanh()",
            "net._buffers['a'] = torch.ones(4)",
            "Net.a = 7",
            "Net.__getattr__ = lambda self, name: (lambda x: x) if name == 'linear' else 9",
        ],
        unread=["net.table['b'] = 3", "net.b = 5", "net.other = torch.nn.Tanh()"],
    ),
    program(
        "a parametrised module",
        """
        import torch.nn.utils.parametrize as parametrize
        class Twice(torch.nn.Module):
            by = 2
            def forward(self, w): return w * self.by
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 4)
        parametrize.register_parametrization(net, "weight", Twice())
        def f(x):
            return net(x)
        """,
        read=[
            "Twice.by = 3",
            "net.parametrizations.weight[0].by = 5",
            "parametrize.register_parametrization(net, 'bias', Twice())",
            "parametrize.remove_parametrizations(net, 'weight')",
            "parametrize.register_parametrization(net, 'weight', Twice())",
        ],
        unread=["Twice.unread = 1", "net.unread = 5"],
    ),
    program(
        "a compiled module",
        """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.n, self.unread = 2, 3
            def forward(self, x, m=1):
                return x * self.n + m
        f = Net()
        """,
        read=[
            "f.n = 3",
            "args.append(5)",
            "Net.forward.__defaults__ = (7,)",
            "Net.n = property(lambda self: 5)",
        ],
        unread=["f.unread = 5", "Net.unread = 5", "f.new = 1"],
    ),
]
