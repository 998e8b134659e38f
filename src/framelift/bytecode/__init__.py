"""Code objects decoded for the interpreter; what differs between CPython versions."""

from framelift.bytecode.decode import Decoded, Handler, slot_names

__all__ = ["Decoded", "Handler", "slot_names"]
