"""Stands for the extension `framelift._guards` until it is loaded in its place: see native/guards_build.py.

What the extension has is in `_guards.pyi`.
"""

from __future__ import annotations

import sys

from framelift.native import guards_build

sys.modules[__name__] = guards_build.loaded(__name__)
