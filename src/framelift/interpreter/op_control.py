"""Jumps, iteration, returning."""

from __future__ import annotations

from typing import Any

from framelift.core.sentinels import MISSING, Sentinel
from framelift.interpreter.frame import Frame
from framelift.interpreter.machine import RETURN


def JUMP_FORWARD(f: Frame, target: int) -> int:
    return target


def POP_JUMP_IF_FALSE(f: Frame, target: int) -> int | None:
    value = f.stack[-1]
    jumps = value is False or (value is not True and not f.world.operators.truth(value))
    f.stack.pop()
    return target if jumps else None


def POP_JUMP_IF_TRUE(f: Frame, target: int) -> int | None:
    value = f.stack[-1]
    jumps = value is True or (value is not False and f.world.operators.truth(value))
    f.stack.pop()
    return target if jumps else None


def POP_JUMP_IF_NONE(f: Frame, target: int) -> int | None:
    jumps = f.world.identity.same(f.stack[-1], None)
    f.stack.pop()
    return target if jumps else None


def POP_JUMP_IF_NOT_NONE(f: Frame, target: int) -> int | None:
    stays = f.world.identity.same(f.stack[-1], None)
    f.stack.pop()
    return None if stays else target


def JUMP_IF_FALSE_OR_POP(f: Frame, target: int) -> int | None:
    if not f.world.operators.truth(f.stack[-1]):
        return target
    f.stack.pop()
    return None


def JUMP_IF_TRUE_OR_POP(f: Frame, target: int) -> int | None:
    if f.world.operators.truth(f.stack[-1]):
        return target
    f.stack.pop()
    return None


def GET_ITER(f: Frame, _: Any) -> None:
    f.stack[-1] = f.world.containers.iterate(f.stack[-1])


def FOR_ITER(f: Frame, end: int) -> int | None:
    item = f.world.containers.advance(f.stack[-1])
    if item is MISSING:
        f.stack.pop()
        return end
    f.stack.append(item)
    return None


def END_FOR(f: Frame, _: Any) -> None:
    del f.stack[-2:]


def RETURN_VALUE(f: Frame, _: Any) -> Sentinel:
    f.value = f.stack.pop()
    return RETURN


def RETURN_CONST(f: Frame, value: Any) -> Sentinel:
    f.value = value
    return RETURN
