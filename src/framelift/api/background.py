"""What is compiled in the background, by functions that were compiled with `background=True`."""

from __future__ import annotations

from framelift.dispatch.background import pending_compilations as pending_compilations
from framelift.dispatch.background import wait_for_compilations as wait_for_compilations

__all__ = ["pending_compilations", "wait_for_compilations"]
