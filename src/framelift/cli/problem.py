"""What is wrong with a command, in a sentence."""

from __future__ import annotations


class Problem(Exception):
    def __init__(self, text: str, code: int = 2) -> None:
        super().__init__(text)
        self.code = code
