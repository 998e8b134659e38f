"""What is known of the program's objects without keeping them alive."""

from __future__ import annotations

from typing import Any

import pytest

from framelift.bytecode.resume import Callee
from framelift.core.weakly import ENDED, there, weakly


@pytest.mark.parametrize("reference", [weakly, lambda value: Callee(value, ENDED)])
def test_references_freed_together_with_their_object_at_any_depth(reference: Any) -> None:
    """CPython puts off freeing what is nested deeply, so that the object can go before the references."""
    for depth in range(30, 70):
        value = eval("lambda: 0")
        nested: Any = (value, *(reference(value) for _ in range(5)))
        for _ in range(depth):
            nested = (nested,)
        assert there(weakly(value)) is value
        del value, nested
