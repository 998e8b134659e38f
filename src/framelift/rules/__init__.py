"""What a trace does with calls of builtins, of the standard library and of torch: an entry for each callable.

What is called as it is, or refused:
- `natives`: builtins, and functions, types and modules of C
- `torch_functions`: torch

What Framelift does itself, by a handler:
- `builtins`: builtin functions, and methods of builtin containers, of `object` and of descriptors
- `classes`: `type` and its methods
- `standard_library`: the rest of the standard library, `copy` among it
- `torch_functions`: torch, as above

`interpreter/served.py` has the handlers of what asks about the calling frame, or reads attributes by name.
"""
