"""torch.distributions: made, sampled and asked in captured code, whole, with the numbers of plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributions as d

import framelift
from framelift.testing.backends import AotEagerAndRecordGraphs

MADE: dict[str, Callable[[Any], d.Distribution]] = {
    "Bernoulli": lambda x: d.Bernoulli(logits=x),
    "Beta": lambda x: d.Beta(x, x + 1),
    "Binomial": lambda x: d.Binomial(5, logits=x),
    "Categorical": lambda x: d.Categorical(logits=x),
    "Cauchy": lambda x: d.Cauchy(x, x),
    "Chi2": lambda x: d.Chi2(x),
    "ContinuousBernoulli": lambda x: d.ContinuousBernoulli(logits=x),
    "Dirichlet": lambda x: d.Dirichlet(x),
    "Exponential": lambda x: d.Exponential(x),
    "FisherSnedecor": lambda x: d.FisherSnedecor(x + 1, x + 2),
    "Gamma": lambda x: d.Gamma(x, x),
    "Geometric": lambda x: d.Geometric(logits=x),
    "Gumbel": lambda x: d.Gumbel(x, x),
    "HalfNormal": lambda x: d.HalfNormal(x),
    "Independent": lambda x: d.Independent(d.Normal(x, x), 1),
    "InverseGamma": lambda x: d.InverseGamma(x, x),
    "Kumaraswamy": lambda x: d.Kumaraswamy(x, x),
    "LKJCholesky": lambda x: d.LKJCholesky(3, 1.5),
    "Laplace": lambda x: d.Laplace(x, x),
    "LogNormal": lambda x: d.LogNormal(x, x),
    "LowRankMultivariateNormal": lambda x: d.LowRankMultivariateNormal(x, torch.ones(3, 1), x),
    "MixtureSameFamily": lambda x: d.MixtureSameFamily(d.Categorical(logits=x), d.Normal(x, x)),
    "Multinomial": lambda x: d.Multinomial(5, logits=x),
    "MultivariateNormal": lambda x: d.MultivariateNormal(x, torch.eye(3)),
    "NegativeBinomial": lambda x: d.NegativeBinomial(5.0, logits=x),
    "Normal, expanded": lambda x: d.Normal(x, 1.0).expand([2, 3]),
    "OneHotCategorical": lambda x: d.OneHotCategorical(logits=x),
    "Pareto": lambda x: d.Pareto(x, x),
    "Poisson": lambda x: d.Poisson(x),
    "RelaxedBernoulli": lambda x: d.RelaxedBernoulli(torch.tensor(0.5), logits=x),
    "StudentT": lambda x: d.StudentT(x + 1),
    "TransformedDistribution": lambda x: d.TransformedDistribution(
        d.Normal(x, x), [d.SigmoidTransform(), d.AffineTransform(1.0, 2.0)]
    ),
    "Uniform": lambda x: d.Uniform(x, x + 1),
    "Weibull": lambda x: d.Weibull(x, x + 1),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", MADE)
def test_a_sample_and_its_probability(name: str, backend: str) -> None:
    def fn(x: Any) -> Any:
        made = MADE[name](x)
        drawn = made.rsample() if made.has_rsample else made.sample()
        return drawn, made.log_prob(drawn.detach()), made.batch_shape

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    found, gradients = [], []
    for call in (fn, compiled):
        torch.manual_seed(3)
        x = torch.tensor([0.3, 0.5, 0.9], requires_grad=True)
        drawn, probability, *shapes = call(x)
        if (drawn + probability.sum()).requires_grad:
            (drawn.sum() + probability.sum()).backward()
        gradients.append(x.grad)
        found.append((drawn, probability, shapes, torch.rand(1)))
    torch.testing.assert_close(found[0], found[1], equal_nan=True)
    torch.testing.assert_close(gradients[0], gradients[1], equal_nan=True)


def test_checks_and_draws_are_not_made_again_for_gradients() -> None:
    def fn(x: Any) -> Any:
        made = d.OneHotCategorical(logits=x)
        drawn = made.sample()
        return drawn, made.log_prob(drawn), torch.nn.functional.one_hot(drawn.long(), 3) * x.exp()

    backend = AotEagerAndRecordGraphs()
    x = torch.tensor([0.3, 0.5, 0.9], requires_grad=True)
    _, probability, product = framelift.compile(fn, backend=backend, fullgraph=True)(x)
    (probability + product.sum()).backward()
    names = {str(node.target) for graph in backend.bw_graphs for node in graph.graph.nodes}
    assert "aten.exp.default" in names
    assert not any("assert" in name or "multinomial" in name for name in names)
    forward = [str(node.target) for graph in backend.fw_graphs for node in graph.graph.nodes]
    assert "aten._assert_async.msg" in forward and forward.count("aten.multinomial.default") == 1
