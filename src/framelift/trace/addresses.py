"""Addresses: what `id()` gives, which says nothing but which object something is.

An address of the trace is compared and hashed like any integer, and what that finds out is guarded: that two
objects from outside are not one where addresses meet each other, as in the tables of `copy.deepcopy`; that an
object is the very one it was where an address may meet a number from outside, which can be an address too, or
where the program does anything else with it. One that lives on is asked for anew. What else is done with the
address of an object that the program makes ends the trace.
"""

from __future__ import annotations

from typing import Any

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.lookups import stands_for
from framelift.interpreter.pending import Pending
from framelift.trace.materialize import ATOMS
from framelift.trace.part import Part

LEAST_ADDRESS = 1 << 16
"""No object lies below: systems keep the first pages of memory empty."""

FEW_OBJECTS = 32
"""Up to so many objects are kept apart pair by pair; of more, each is kept the object it is."""


def as_number(name: str) -> Any:
    """A method of integers, of the number that an address is."""

    def method(address: Address, *args: Any) -> Any:
        return getattr(int, name)(address.leaks(), *args)

    return method


@stands_for(int)
class Address(int):
    """`id()` of an object, or of the thread."""

    addresses: Addresses
    of: Any
    """The object as the program has it; MISSING: it is a thread's."""
    source: Source | None
    """Where an object from outside is found."""
    asked: Any
    """What gives it of the object; None: it is a thread's."""

    def __eq__(self, other: Any) -> Any:
        return self.addresses.equal(self, other)

    def __ne__(self, other: Any) -> Any:
        equal = self.addresses.equal(self, other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        self.addresses.note_hashed(self)
        return int.__hash__(self)

    def leaks(self) -> int:
        """The number itself, which is looked at: the object is the very one that it was."""
        if self.source is None:
            raise Break(breaks.IDENTITY, "the value of id()")
        self.addresses.fix(self)
        return int.__int__(self)

    for _name in set(vars(int)) - {"__new__", "__eq__", "__ne__", "__hash__", "__bool__", "__doc__"}:
        if callable(vars(int)[_name]) and _name not in ("__getattribute__", "__getnewargs__"):
            locals()[_name] = as_number(_name)


class Addresses(Part):
    """Makes addresses, and guards what is found out by them."""

    def start(self) -> None:
        self.hashed: dict[Source, Address] = {}
        """Addresses of objects from outside that are, or were looked for, in tables."""
        self.meet_numbers = False
        """Whether there are numbers from outside that may be addresses."""

    def of_object(self, value: Any, of_memo: bool = False) -> Address:
        """`id(value)`. `of_memo`: it is looked for in the memo of a copy, which has no constants."""
        if of_memo and type(value.value if type(value) is Pending else value) in ATOMS:
            return self.make(id(value), value, None)
        if type(value) is Pending:
            if value.opened is MISSING and type(value.value) in ATOMS:
                return self.make(id(value.value), value.value, value.source)
            place = value.source if type(value.value) in ATOMS else None
            return self.of_opened(value.open(), place)
        return self.of_opened(value, None)

    def of_opened(self, value: Any, place: Source | None) -> Address:
        place = place or self.world.identity.source_of(value)
        return self.make(id(self.real(value)), value, place)

    def real(self, value: Any) -> Any:
        """The object that is found at run time where the trace has this one."""
        world = self.world
        shadow = world.containers.shadows.get(id(value))
        if shadow is not None:
            return shadow.outside
        known = world.inputs.stand_ins.get(id(value)) or world.inputs.known_of(value)
        return value if known is None else known.value

    def hash_of(self, value: Any) -> Address:
        """`object.__hash__(value)`."""
        address = self.of_object(value)
        number = object.__hash__(self.real(address.of))
        return self.make(number, address.of, address.source, object.__hash__)

    def of_thread(self, number: int) -> Address:
        return self.make(number, MISSING, None, None)

    def make(self, number: int, of: Any, source: Source | None, asked: Any = id) -> Address:
        address = Address(number)
        address.addresses, address.of, address.source, address.asked = self, of, source, asked
        return address

    def equal(self, address: Address, other: Any) -> Any:
        equal = int.__eq__(address, other)
        if type(other) is not Address:
            if equal is not NotImplemented or isinstance(other, (float, complex)):
                self.fix(address)
            return equal
        mine, others = address.source, other.source
        if mine is not None and others is not None and mine is not others:
            if equal:
                self.world.guards.add(mine, Check.SAME_AS, others)
            else:
                self.keep_apart(address, other)
        return equal

    def note_hashed(self, address: Address) -> None:
        source = address.source
        if source is None:
            if self.meet_numbers and address.of is MISSING:
                address.leaks()
            return
        if source in self.hashed:
            return
        if self.meet_numbers:
            self.fix(address)
        elif len(self.hashed) >= FEW_OBJECTS:
            self.meet_number()
            self.fix(address)
        else:
            for other in self.hashed.values():
                kinds = {type(address.of), type(other.of)}
                if len(kinds) == 1 or kinds & ATOMS:  # of these, types may not have been looked at
                    self.equal(address, other)
        self.hashed[source] = address

    def meet_number(self) -> None:
        """A number comes in that may be an address: tables may hold it."""
        if not self.meet_numbers:
            self.meet_numbers = True
            for address in self.hashed.values():
                self.fix(address)

    def fix(self, address: Address) -> None:
        """The object is the very one that it was."""
        source = address.source
        if source is None:
            address.leaks()
        elif source.access not in (Access.CONST, Access.DICT):  # a `__dict__` is made when asked for
            self.world.guards.add(source, Check.IS, self.real(address.of))

    def keep_apart(self, address: Address, other: Address) -> None:
        mine, others = address.source, other.source
        assert mine is not None and others is not None
        if not mine.access is others.access is Access.CONST:
            self.world.guards.add(mine, Check.NOT_SAME_AS, others)
