"""Stack, locals, cells, globals and namespaces; attributes, `super`, imports."""

from __future__ import annotations

import sys
from types import CellType
from typing import Any

from framelift.bytecode.decode import version
from framelift.core.sentinels import MISSING, NULL, UNSET
from framelift.interpreter.frame import Frame
from framelift.interpreter.frame_objects import as_seen
from framelift.interpreter.lookups import builtin_named
from framelift.interpreter.pending import Pending, opened
from framelift.interpreter.served import serve_super, zero_argument_super

# ---- the stack


def NOP(f: Frame, _: Any) -> None:
    pass


RESUME = NOP


def POP_TOP(f: Frame, _: Any) -> None:
    if type(f.stack[-1]) is Pending:
        let_go(f, f.stack[-1])
    f.stack.pop()


def PUSH_NULL(f: Frame, _: Any) -> None:
    f.stack.append(NULL)


def COPY(f: Frame, n: int) -> None:
    f.stack.append(f.stack[-n])


def SWAP(f: Frame, n: int) -> None:
    stack = f.stack
    stack[-1], stack[-n] = stack[-n], stack[-1]


def LOAD_CONST(f: Frame, value: Any) -> None:
    f.stack.append(value)


# ---- locals


def LOAD_FAST(f: Frame, slot: int) -> None:
    value = f.fast[slot]
    if value is UNSET:
        raise unbound_local(f, slot)
    f.stack.append(value)


def STORE_FAST(f: Frame, slot: int) -> None:
    if type(f.fast[slot]) is Pending and f.fast[slot] is not f.stack[-1]:
        f.world.lifetimes.overwriting(f.fast[slot], f)
    f.fast[slot] = f.stack.pop()


def STORE_CELL(f: Frame, slot: int) -> None:
    """Of a variable that an inlined comprehension had one of the same name of: the cell itself comes back."""
    f.fast[slot] = opened(f.stack[-1])  # a resume function has what was on the stack as arguments
    f.stack.pop()


def DELETE_FAST(f: Frame, slot: int) -> None:
    if f.fast[slot] is UNSET:
        raise unbound_local(f, slot)
    if type(f.fast[slot]) is Pending:
        let_go(f, f.fast[slot])
    f.fast[slot] = UNSET


def let_go(f: Frame, value: Pending) -> None:
    """One of the frame's places is to hold it no more."""
    if sum(item is value for item in (*f.fast, *f.stack)) == 1:
        f.world.lifetimes.dropping(value)


def LOAD_FAST_AND_CLEAR(f: Frame, slot: int) -> None:
    f.stack.append(f.fast[slot])
    f.fast[slot] = UNSET


def LOAD_FAST_LOAD_FAST(f: Frame, slots: tuple[int, int]) -> None:
    first, second = slots
    if f.fast[first] is UNSET or f.fast[second] is UNSET:
        raise unbound_local(f, first if f.fast[first] is UNSET else second)
    f.stack += (f.fast[first], f.fast[second])


def STORE_FAST_LOAD_FAST(f: Frame, slots: tuple[int, int]) -> None:
    STORE_FAST(f, slots[0])
    LOAD_FAST(f, slots[1])


def STORE_FAST_STORE_FAST(f: Frame, slots: tuple[int, int]) -> None:
    first, second = slots
    for slot, value in ((first, f.stack[-1]), (second, f.stack[-2])):
        if type(f.fast[slot]) is Pending and f.fast[slot] is not value:
            f.world.lifetimes.overwriting(f.fast[slot], f)
    f.fast[first] = f.stack.pop()
    f.fast[second] = f.stack.pop()


def unbound_local(f: Frame, slot: int) -> UnboundLocalError:
    name = f.code.names[slot]
    return UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")


# ---- cells


def MAKE_CELL(f: Frame, slot: int) -> None:
    value = f.fast[slot]
    f.fast[slot] = CellType() if value is UNSET else CellType(value)


def COPY_FREE_VARS(f: Frame, n: int) -> None:
    f.fast[len(f.fast) - n :] = f.world.functions.cells(f.func)


def LOAD_CLOSURE(f: Frame, slot: int) -> None:
    f.stack.append(opened(f.fast[slot]))  # a resume function has its cells as arguments


def LOAD_DEREF(f: Frame, slot: int) -> None:
    try:
        value = f.fast[slot].cell_contents
    except ValueError:
        value = UNSET
    if value is UNSET:
        raise unbound_cell(f, slot)
    f.stack.append(value)


def STORE_DEREF(f: Frame, slot: int) -> None:
    f.fast[slot].cell_contents = f.stack.pop()


def DELETE_DEREF(f: Frame, slot: int) -> None:
    cell = f.fast[slot]
    if cell == CellType():
        raise unbound_cell(f, slot)
    del cell.cell_contents


def unbound_cell(f: Frame, slot: int) -> NameError:
    if slot < f.code.n_fast - len(f.code.code.co_freevars):
        return unbound_local(f, slot)
    name = f.code.names[slot]
    return NameError(
        f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope",
        name=name,
    )


# ---- globals


def LOAD_GLOBAL(f: Frame, name: str) -> None:
    value = f.names.get(name, MISSING)
    if value is MISSING:
        value = f.world.scopes.load(f.globals, name)
    f.stack.append(value)


def LOAD_GLOBAL_CALLABLE(f: Frame, name: str) -> None:
    value = f.names.get(name, MISSING)
    if value is MISSING:
        value = f.world.scopes.load(f.globals, name)
    f.stack.append(NULL)
    f.stack.append(value)


def STORE_GLOBAL(f: Frame, name: str) -> None:
    f.world.scopes.store(f.globals, name, f.stack[-1])
    f.stack.pop()


def DELETE_GLOBAL(f: Frame, name: str) -> None:
    f.world.scopes.delete(f.globals, name)


# ---- the namespace of class bodies and exec


def LOAD_NAME(f: Frame, name: str) -> None:
    value = from_namespace(f, f.namespace, name)
    if value is MISSING:
        LOAD_GLOBAL(f, name)
    else:
        f.stack.append(value)


def STORE_NAME(f: Frame, name: str) -> None:
    value = f.world.materialize.for_c(f.stack[-1])  # C makes a class of it
    f.world.containers.store(f.namespace, name, value)
    f.stack.pop()


def DELETE_NAME(f: Frame, name: str) -> None:
    try:
        return f.world.containers.delete(f.namespace, name)
    except KeyError:
        pass  # so that the error has no context
    raise NameError(f"name '{name}' is not defined", name=name)


def LOAD_LOCALS(f: Frame, _: Any) -> None:
    f.stack.append(f.namespace)


def LOAD_FROM_NAMESPACE_OR_DEREF(f: Frame, slot: int) -> None:
    value = from_namespace(f, f.namespace, f.code.names[slot])
    if value is MISSING:
        LOAD_DEREF(f, slot)
    else:
        f.stack.append(value)


def LOAD_FROM_MAPPING_OR_DEREF(f: Frame, slot: int) -> None:
    value = from_namespace(f, opened(f.stack[-1]), f.code.names[slot])
    if value is MISSING:
        LOAD_DEREF(f, slot)
        value = f.stack.pop()
    f.stack[-1] = value


def LOAD_FROM_MAPPING_OR_GLOBALS(f: Frame, name: str) -> None:
    value = from_namespace(f, opened(f.stack[-1]), name)
    if value is MISSING:
        LOAD_GLOBAL(f, name)
        value = f.stack.pop()
    f.stack[-1] = value


def SETUP_ANNOTATIONS(f: Frame, _: Any) -> None:
    if from_namespace(f, f.namespace, "__annotations__") is MISSING:
        f.world.containers.store(f.namespace, "__annotations__", {})


def from_namespace(f: Frame, namespace: Any, name: str) -> Any:
    if type(namespace) is dict:
        return namespace.get(name, MISSING)
    try:
        return f.world.containers.load(namespace, name)
    except KeyError:
        return MISSING


# ---- attributes


def LOAD_ATTR(f: Frame, name: str) -> None:
    f.stack[-1] = f.world.attributes.load(f.stack[-1], name)


def LOAD_TB_FRAME(f: Frame, name: str) -> None:
    """The frames in the tracebacks of interpreted code stand for others."""
    f.stack[-1] = as_seen(f.world.attributes.load(f.stack[-1], name))


def LOAD_METHOD(f: Frame, name: str) -> None:
    """Pushes the pair (function, self), or (NULL, attribute)."""
    f.stack[-1:] = f.world.attributes.load_method(f.stack[-1], name)


def STORE_ATTR(f: Frame, name: str) -> None:
    stack = f.stack
    f.world.attribute_writes.store(stack[-1], name, stack[-2])
    stack.pop()
    stack.pop()


def DELETE_ATTR(f: Frame, name: str) -> None:
    f.world.attribute_writes.delete(f.stack[-1], name)
    f.stack.pop()


def LOAD_SUPER_ATTR(f: Frame, argument: tuple[str, bool]) -> None:
    f.stack[-3:] = [super_attribute(f, *argument)]


def LOAD_SUPER_METHOD(f: Frame, argument: tuple[str, bool]) -> None:
    f.stack[-3:] = [NULL, super_attribute(f, *argument)]


def super_attribute(f: Frame, name: str, given: bool) -> Any:
    """An attribute of what `super` makes, with arguments if they were `given`."""
    made_by, cls, start = f.stack[-3:]
    made_by = opened(made_by)
    if made_by is super:
        made = serve_super(f, cls, start) if given else zero_argument_super(f)
    else:
        made = f.world.operators.apply(made_by, *((cls, start) if given else ()))
    return f.world.attributes.load(made, name)


# ---- imports


def IMPORT_NAME(f: Frame, name: str) -> None:
    from_list = opened(f.stack[-1])
    level = opened(f.stack[-2])
    f.stack[-2:] = [f.world.scopes.import_name(name, f.globals, f.namespace, from_list, level)]


def IMPORT_FROM(f: Frame, name: str) -> None:
    module = f.stack[-1]
    try:
        value = f.world.attributes.load(module, name)
    except AttributeError as error:
        if not f.world.errors.catchable(error):
            raise
        value = NULL
    if value is NULL:
        value = submodule(opened(module), name)
    f.stack.append(value)


def submodule(module: Any, name: str) -> Any:
    package = getattr(module, "__name__", None)
    found = sys.modules.get(f"{package}.{name}")
    if found is not None:
        return found
    path = getattr(module, "__file__", None)
    initialising = getattr(getattr(module, "__spec__", None), "_initializing", False)
    if initialising:
        text = (
            f"cannot import name {name!r} from partially initialized module {package!r} "
            f"(most likely due to a circular import) ({path})"
        )
    else:
        module_name, place = package or "<unknown module name>", path or "unknown location"
        text = f"cannot import name {name!r} from {module_name!r} ({place})"
    raise ImportError(text, name=package, path=path, **version.wanted(name))


def IMPORT_STAR(f: Frame, _: Any) -> None:
    module = opened(f.stack[-1])
    names = getattr(module, "__all__", None)
    for name in [n for n in vars(module) if not n.startswith("_")] if names is None else names:
        f.namespace[name] = getattr(module, name)
    f.stack[-1:] = [None] if version.INTRINSICS_PUSH else []


def LOAD_BUILD_CLASS(f: Frame, _: Any) -> None:
    found = builtin_named(f.globals, "__build_class__")
    if found is MISSING:
        raise NameError("__build_class__ not found")
    f.stack.append(found)
