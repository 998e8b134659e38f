"""Changes of what was not read that are noticed all the same, and why that is put up with."""

from __future__ import annotations

EXACT = (
    "what a class has under a name is guarded as such, also where the instance's own attribute is what counts"
)
SPECIAL = "C may look up any special method of an object that it is handed, so all of them are guarded"
IDENTITY = "which object a member of a set is decides whether another one is in there too"
REGISTERED = (
    "CPython counts registrations for all abstract base classes together, and forgets its answers as well"
)
MODES = "modes are compared one by one; that two of them do what one does is not seen"

KNOWN = {
    ("an attribute", "Item.n = 5"): EXACT,
    ("a dataclass", "Config.n = 7"): EXACT,
    ("setattr and delattr of a class", "Item.n = 7"): EXACT,
    ("a data descriptor", "Field.__set__ = lambda self, obj, value: None"): EXACT,
    ("bool, len, eq of a class", "Item.__hash__ = lambda self: 9"): SPECIAL,
    ("operators of a class", "Number.__sub__ = lambda self, other: 1"): SPECIAL,
    ("an abstract base class", "Unrelated.register(Square)"): REGISTERED,
    ("parameters gone over", "net.weight = torch.nn.Parameter(torch.ones(4, 4))"): IDENTITY,
    ("a default device that is there", "stack.enter_context(torch.device('cpu'))"): MODES,
    ("a device context that is there", "stack.enter_context(torch.device('meta'))"): MODES,
}
