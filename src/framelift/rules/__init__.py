"""What is known of callables and types of Python, of the standard library and of torch: an entry for each.

Callables that are called as they are, or refused:
- `natives`: builtins, and functions, types and modules of C
- `torch_functions`: torch

Callables that Framelift does the job of, by a handler:
- `builtins`: builtin functions, and methods of builtin containers, of `object` and of descriptors
- `classes`: `type` and its methods
- `standard_library`: the rest of the standard library, `copy` among it
- `torch_functions`: torch, as above

The other modules have the entries of types: how a value comes in, is shown to C, and is made again.

`interpreter/served.py` has the handlers of what asks about the calling frame, or reads attributes by name.
"""
