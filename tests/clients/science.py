"""Libraries of which objects are compiled: tensordict, torchdiffeq, gpytorch, pyro, torchao, e3nn."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from clients.how import How, client
from clients.training import batches, perceptron, state

# ---- tensordict


@client("tensordict: made, indexed, stacked, changed", "tensordict")
def tensordict_values(how: How) -> Any:
    from tensordict import TensorDict

    def step(td: Any) -> Any:
        td = td.clone()
        td["sum"] = td["x"] + td["nested", "y"]
        td["nested", "z"] = td["sum"].relu()
        both = torch.stack([td, td * 2], 0)
        return both[0, :2], both.sum(0), td.select("x", ("nested", "z")).to_dict(), td.batch_size

    def made(n: int) -> Any:
        x = torch.arange(n * 3.0).reshape(n, 3)
        return TensorDict({"x": x, "nested": TensorDict({"y": x * 2}, [n])}, [n])

    compiled = how.compile(step)
    found = []
    for n in (4, 4, 5):
        part, total, chosen, size = compiled(made(n))
        found.append((part.to_dict(), total.to_dict(), chosen, tuple(size), part.batch_size))
    return found


@client("tensordict: modules that read and write keys", "tensordict")
def tensordict_modules(how: How) -> Any:
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    torch.manual_seed(0)
    chain = TensorDictSequential(
        TensorDictModule(nn.Linear(3, 4), ["x"], ["hidden"]),
        TensorDictModule(nn.Linear(4, 2), ["hidden"], ["out"]),
    )
    compiled = how.compile(chain)
    found = []
    for _ in range(2):
        out = compiled(TensorDict({"x": torch.ones(5, 3)}, [5]))
        out["out"].sum().backward()
        found.append(out.to_dict())
    return found, [p.grad for p in chain.parameters()]


@client("tensordict: parameters as a tensordict, functional call", "tensordict")
def tensordict_functional(how: How) -> Any:
    from tensordict import TensorDict

    net = perceptron().eval()
    parameters = TensorDict.from_module(net)

    def call(x: torch.Tensor, parameters: Any) -> torch.Tensor:
        with parameters.to_module(net):
            return net(x)

    compiled = how.compile(call)
    x = batches()[0][0]
    return compiled(x, parameters), compiled(x, parameters.data * 2)


# ---- torchdiffeq


@client("torchdiffeq: odeint, adjoint, fixed and adaptive steps", "torchdiffeq")
def ode(how: How) -> Any:
    from torchdiffeq import odeint, odeint_adjoint

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

        def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.net(y**3) * torch.cos(t)

    times = torch.linspace(0, 1, 4)
    found: list[Any] = []
    for solve, method in ((odeint, "rk4"), (odeint, "dopri5"), (odeint_adjoint, "dopri5")):
        field = Field()
        out = solve(how.compile(field), torch.ones(3, 2), times, method=method)
        out.sum().backward()
        found += [out.detach(), [p.grad for p in field.parameters()]]
    field = Field()
    whole = how.compile(lambda y: odeint(field, y, times, method="rk4"))
    found.append(whole(torch.ones(3, 2)).detach())
    return found


# ---- gpytorch


@client("gpytorch: exact regression, trained and asked", "gpytorch")
def gaussian_process(how: How) -> Any:
    import gpytorch

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, x: Any, y: Any, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x = torch.linspace(0, 1, 12)
    y = torch.sin(6 * x)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(x, y, likelihood)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return -objective(model(x), y)

    model.train(), likelihood.train()
    compiled = how.compile(loss_of)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = compiled(x, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval(), likelihood.eval()
    with torch.no_grad():
        asked = how.compile(lambda x: likelihood(model(x)).mean)(x + 0.01)
    return losses, asked, state(model)


# ---- pyro


@client("pyro: SVI steps with a compiled loss", "pyro-ppl")
def variational(how: How) -> Any:
    import pyro
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO
    from pyro.optim import Adam

    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    data = torch.tensor([1.0, 0.5, 1.5, 0.9])

    def model(data: torch.Tensor) -> None:
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("data", len(data)):
            pyro.sample("obs", dist.Normal(mean, 0.5), obs=data)

    def guide(data: torch.Tensor) -> None:
        at = pyro.param("at", torch.tensor(0.0))
        scale = pyro.param("scale", torch.tensor(1.0), constraint=dist.constraints.positive)
        pyro.sample("mean", dist.Normal(at, scale))

    elbo = Trace_ELBO()
    svi = SVI(model, guide, Adam({"lr": 0.1}), loss=how.compile(elbo.loss_and_grads))
    losses = [svi.step(data) for _ in range(4)]
    return losses, pyro.param("at").detach(), pyro.param("scale").detach()


# ---- torchao


@client("torchao: int8 weights, int8 dynamic activations", "torchao")
def quantised(how: How) -> Any:
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8WeightOnlyConfig,
        quantize_,
    )

    found = []
    for config in (Int8WeightOnlyConfig(), Int8DynamicActivationInt8WeightConfig()):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
        quantize_(model, config)
        compiled = how.compile(model)
        with torch.no_grad():
            found.append([compiled(torch.ones(n, 64) / 3) for n in (4, 4, 6)])
    return found


@client("torchao: AdamW with 8-bit state", "torchao")
def eight_bit_optimizer(how: How) -> Any:
    from torchao.optim import AdamW8bit

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    optimizer = AdamW8bit(net.parameters(), 1e-2)
    model = how.compile(net)
    made = torch.Generator().manual_seed(1)
    for _ in range(3):
        model(torch.randn(8, 64, generator=made)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return state(net)


# ---- e3nn


@client("e3nn: spherical harmonics, a tensor product", "e3nn")
def equivariant(how: How) -> Any:
    from e3nn import o3

    torch.manual_seed(0)
    product = o3.FullyConnectedTensorProduct("2x0e+1x1o", "1x0e+1x1o", "2x0e+1x1o")
    linear = o3.Linear("2x0e+1x1o", "2x0e+1x1o")

    def step(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return linear(product(x, o3.spherical_harmonics([0, 1], edges, normalize=True)))

    compiled = how.compile(step)
    made = torch.Generator().manual_seed(1)
    found = []
    for n in (4, 4, 7):
        out = compiled(torch.randn(n, 5, generator=made), torch.randn(n, 3, generator=made))
        out.sum().backward()
        found.append(out.detach())
    return found, [p.grad for p in linear.parameters()]


# ---- torch-geometric


@client("torch-geometric: a GCN and a GAT trained, batches of graphs", "torch-geometric")
def graph_networks(how: How) -> Any:
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GATConv, GCNConv, global_mean_pool

    class Net(nn.Module):
        def __init__(self, kind: Any) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second = kind(4, 8), kind(8, 2)

        def forward(self, x: Any, edge_index: Any, batch: Any) -> torch.Tensor:
            return global_mean_pool(self.second(self.first(x, edge_index).relu(), edge_index), batch)

    made = torch.Generator().manual_seed(1)

    def graph(n: int) -> Any:
        edges = torch.randint(0, n, (2, 3 * n), generator=made)
        return Data(x=torch.randn(n, 4, generator=made), edge_index=edges)

    data = [Batch.from_data_list([graph(n), graph(n + 1)]) for n in (4, 4, 6)]
    found = []
    for kind in (GCNConv, GATConv):
        net = Net(kind)
        compiled = how.compile(net)
        for one in data:
            compiled(one.x, one.edge_index, one.batch).pow(2).sum().backward()
        found.append([p.grad for p in net.parameters()])
    return found


# ---- diffusers


@client("diffusers: steps of a U-Net with a scheduler", "diffusers")
def denoising(how: How) -> Any:
    from diffusers import DDIMScheduler, UNet2DModel

    torch.manual_seed(0)
    channels = {"block_out_channels": (8, 16), "norm_num_groups": 4, "layers_per_block": 1}
    blocks = {"down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2}
    net = UNet2DModel(sample_size=8, in_channels=3, out_channels=3, **channels, **blocks).eval()
    compiled = how.compile(net)
    scheduler = DDIMScheduler(num_train_timesteps=50)
    scheduler.set_timesteps(4)
    sample = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for t in scheduler.timesteps:
            sample = scheduler.step(compiled(sample, t).sample, t, sample).prev_sample
    return sample
