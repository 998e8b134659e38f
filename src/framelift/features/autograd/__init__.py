"""Gradients that are computed inside, and torch.autograd.Function."""
