"""What a trace does with calls of builtins, of the standard library and of torch: an entry for each callable.

What is called as it is, or refused:
- `natives`: builtins, and functions, types and modules of C
- `torch_modules`: torch

What Framelift does itself, by a handler:
- `attribute_access`: methods of `object`, and of descriptors
- `builtins`: builtin functions, and methods of builtin containers
- `classes`: `type` and its methods
- `copies`: `copy`, and what an object is copied and pickled by
- `standard_library`: the rest of the standard library
- `torch_functions`: torch

`interpreter/served.py` has the handlers of what asks about the calling frame, or reads attributes by name.
"""
