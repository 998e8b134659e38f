"""Hooks on tensors and modules."""
