"""Gradients that a compiled function computes inside, and `torch.autograd.Function`.

`handlers` serves `torch.autograd.grad`, `backward()` and `retain_grad`; `function` serves `Function.apply`.
"""
