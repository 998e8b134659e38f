"""Hooks that gradients go through: on tensors (`tensor_hooks`) and on modules (`module_hooks`).

`zero_preserving` tells whether it matters that a compiled backward pass calls a hook that autograd would not.
"""
