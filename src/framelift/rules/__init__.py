"""What is known of callables and types of Python, of the standard library and of torch: an entry for each.

Callables that are called as they are, or refused:
- `natives`: builtins, and functions, types and modules of C
- `torch_modules`: torch

Callables that Framelift does the job of, by a handler:
- `attribute_access`: methods of `object`, and of descriptors
- `builtins`: builtin functions, and methods of builtin containers
- `classes`: `type` and its methods
- `copies`: `copy`, and what an object is copied and pickled by
- `standard_library`: the rest of the standard library
- `torch_functions`: torch

The other modules have the entries of types: how a value comes in, is shown to C, and is made again.

`interpreter/served.py` has the handlers of what asks about the calling frame, or reads attributes by name.
"""
