"""Hooks that gradients go through: on tensors (`tensor_hooks`) and on modules (`module_hooks`)."""
