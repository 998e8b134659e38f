"""Sources as torch's tools write them: expressions over `L`, the frame's variables, and `G`, its globals.

`L['self']._modules['lin']._parameters['weight']` is where an input of a graph is found; a module is shown by
the path that users know, `L['self'].layers.0`.
"""

from __future__ import annotations

import re

from framelift.core.weakly import there
from framelift.guards.kinds import Access
from framelift.guards.sources import Source, is_namespace
from framelift.guards.value_texts import written

IN_REGISTRY = re.compile(r"\._modules\['([^']*)'\]")


class SourceTexts:
    """The texts of one trace; each source is written once, after its base."""

    def __init__(self) -> None:
        self.known: dict[Source, str] = {}
        self.paths: dict[str, str] = {}
        """Text of a module's source -> its path."""

    def of(self, source: Source) -> str:
        found = self.known.get(source)
        if found is None:
            found = self.known[source] = self.write(source)
        return found

    def module_path(self, source: Source) -> str:
        return self.path(self.of(source))

    def path(self, text: str) -> str:
        found = self.paths.get(text)
        if found is None:
            owner, within, name = text.rpartition("._modules['")
            if within and name.find("'") == len(name) - 2:
                found = f"{self.path(owner)}.{name[:-2]}"
            else:
                found = IN_REGISTRY.sub(r".\1", text)
            self.paths[text] = found
        return found

    def write(self, source: Source) -> str:
        base, access, key = source.base, source.access, source.key
        variable = source.variable
        if variable is not None:
            return f"L[{str(variable)!r}]"
        if access is Access.ARG or access is Access.CELL:
            return f"L[{key[1]!r}]"
        if base is None or access.is_root:
            return str(source)
        if access is Access.CONTENTS and base.variable is not None:
            return f"L[{str(base)!r}]"  # the variable lives in a cell
        if access is Access.KEY:
            if base.access is Access.GLOBALS:
                return f"G[{key!r}]"
            if is_namespace(base) or base.access is Access.DICT:
                owner = base if base.access is not Access.DICT or base.base is None else base.base
                return f"{self.of(owner)}.{there(key)}"
        if access is Access.KEY or access is Access.ITEM or access is Access.DEQUE_ITEM:
            return f"{self.of(base)}[{written(there(key))}]"
        return access.text.format(b=self.of(base), k=there(key))
