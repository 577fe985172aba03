"""Reader of pickles of plain data: it interprets the opcodes that build data, and executes no code.

Python's own `pickle` calls any function that a pickle names. Here only dicts, lists, tuples, strings,
numbers, booleans and None are built; opcodes that name, import or call something, persistent ids, and bytes
raise `RefusedError`. Source: CPython, Lib/pickletools.py (opcodes of protocols 0 to 5); pytorch,
torch/csrc/jit/serialization/pickler.h.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

Plain: TypeAlias = (
    "bool | int | float | str | list[Plain] | tuple[Plain, ...] | dict[str | int, Plain] | None"
)

_MOST_STEPS = 4_000_000
"""Maximum number of opcodes: enough for some thousand collectives with stacks, and bounded for memory."""
_LONGEST_NUMBER = 64
"""Maximum number of bytes of a binary number, or of digits of a number in text."""


class NotPlainError(ValueError):
    """The bytes are not a pickle of plain data: they are damaged or cut, or would execute code."""


class RefusedError(NotPlainError):
    """The pickle requests more than plain data, such as an import, a call or an object of a class."""


class _Mark:
    """Mark before the first item of a container on the stack."""


_MARK = _Mark()


def loads(data: bytes) -> Plain:
    """Return the value of a pickle. Raises NotPlainError, of which RefusedError is a subclass."""
    try:
        return _Machine(data).run()
    except (IndexError, struct.error, UnicodeDecodeError, OverflowError, MemoryError, ValueError) as error:
        if isinstance(error, NotPlainError):
            raise
        raise NotPlainError("the pickle is cut or damaged") from error


class _Machine:
    """Reads opcodes with a stack and a memo, as the format requires."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0
        self.stack: list[Plain | _Mark] = []
        self.memo: dict[int, Plain | _Mark] = {}

    def run(self) -> Plain:
        for _ in range(_MOST_STEPS):
            code = self._data[self._place]
            self._place += 1
            if code == 0x2E:  # STOP
                return self._value(self.stack.pop())
            step = _STEPS.get(code)
            if step is None:
                raise RefusedError(
                    f"the pickle requests more than plain data (opcode {code:#04x}) and was not read"
                )
            step(self)
        raise NotPlainError("the pickle has too many steps")

    # Helpers of opcodes

    def take(self, count: int) -> bytes:
        end = self._place + count
        if count < 0 or end > len(self._data):
            raise NotPlainError("the pickle is cut")
        piece = self._data[self._place : end]
        self._place = end
        return piece

    def unsigned(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def line(self) -> str:
        end = self._data.find(b"\n", self._place)
        if end < 0:
            raise NotPlainError("the pickle is cut")
        piece = self._data[self._place : end]
        self._place = end + 1
        return piece.decode("ascii")

    def number_line(self) -> str:
        text = self.line().rstrip("L")
        if len(text) > _LONGEST_NUMBER:
            raise NotPlainError("a number is too long")
        return text

    def _value(self, item: Plain | _Mark) -> Plain:
        if isinstance(item, _Mark):
            raise NotPlainError("a mark is in the place of a value")
        return item

    def since_mark(self) -> list[Plain]:
        place = len(self.stack) - 1
        while not isinstance(self.stack[place], _Mark):
            place -= 1
            if place < 0:
                raise NotPlainError("no mark")
        items = [self._value(item) for item in self.stack[place + 1 :]]
        del self.stack[place:]
        return items

    def last(self, count: int) -> tuple[Plain, ...]:
        if len(self.stack) < count:
            raise NotPlainError("the stack is too short")
        items = tuple(self._value(item) for item in self.stack[-count:])
        del self.stack[-count:]
        return items

    # Opcodes

    def push(self, value: Plain | _Mark) -> None:
        self.stack.append(value)

    def push_struct(self, form: str) -> None:
        self.push(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def protocol(self) -> None:
        if self.unsigned(1) > 5:
            raise NotPlainError("the protocol is not known")

    def integer(self) -> None:
        text = self.number_line()
        self.push({"00": False, "01": True}[text] if text in {"00", "01"} else int(text))

    def long_bytes(self, width: int) -> None:
        count = self.unsigned(width)
        if count > _LONGEST_NUMBER:
            raise NotPlainError("a number is too long")
        self.push(int.from_bytes(self.take(count), "little", signed=True))

    def text(self, width: int) -> None:
        self.push(self.take(self.unsigned(width)).decode("utf-8", errors="replace"))

    def put(self, key: int) -> None:
        self.memo[key] = self.stack[-1]

    def get(self, key: int) -> None:
        if key not in self.memo:
            raise NotPlainError("the memo has no such entry")
        self.push(self.memo[key])

    def extend(self, items: Iterable[Plain]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise NotPlainError("only lists grow")
        target.extend(items)

    def dict_since_mark(self) -> None:
        items = self.since_mark()
        self.push({})
        self.fill(items)

    def fill(self, items: Sequence[Plain]) -> None:
        """Add keys and values, which alternate in `items`, to the dict on the top of the stack."""
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise NotPlainError("only dicts have keys")
        if len(items) % 2:
            raise NotPlainError("a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | int):
                raise NotPlainError("a key is neither text nor a number")
            target[key] = value


_STEPS: dict[int, Callable[[_Machine], object]] = {
    0x80: _Machine.protocol,
    0x95: lambda machine: machine.take(8),
    0x28: lambda machine: machine.push(_MARK),
    0x30: lambda machine: machine.stack.pop(),
    0x4E: lambda machine: machine.push(None),
    0x88: lambda machine: machine.push(value=True),
    0x89: lambda machine: machine.push(value=False),
    0x49: _Machine.integer,
    0x4C: lambda machine: machine.push(int(machine.number_line())),
    0x4A: lambda machine: machine.push_struct("<i"),
    0x4B: lambda machine: machine.push(machine.unsigned(1)),
    0x4D: lambda machine: machine.push(machine.unsigned(2)),
    0x8A: lambda machine: machine.long_bytes(1),
    0x8B: lambda machine: machine.long_bytes(4),
    0x46: lambda machine: machine.push(float(machine.number_line())),
    0x47: lambda machine: machine.push_struct(">d"),
    0x58: lambda machine: machine.text(4),
    0x8C: lambda machine: machine.text(1),
    0x8D: lambda machine: machine.text(8),
    0x56: lambda machine: machine.push(machine.line()),
    0x7D: lambda machine: machine.push({}),
    0x5D: lambda machine: machine.push([]),
    0x29: lambda machine: machine.push(()),
    0x74: lambda machine: machine.push(tuple(machine.since_mark())),
    0x85: lambda machine: machine.push(machine.last(1)),
    0x86: lambda machine: machine.push(machine.last(2)),
    0x87: lambda machine: machine.push(machine.last(3)),
    0x6C: lambda machine: machine.push(machine.since_mark()),
    0x64: _Machine.dict_since_mark,
    0x61: lambda machine: machine.extend(machine.last(1)),
    0x65: lambda machine: machine.extend(machine.since_mark()),
    0x73: lambda machine: machine.fill(machine.last(2)),
    0x75: lambda machine: machine.fill(machine.since_mark()),
    0x71: lambda machine: machine.put(machine.unsigned(1)),
    0x72: lambda machine: machine.put(machine.unsigned(4)),
    0x70: lambda machine: machine.put(int(machine.number_line())),
    0x94: lambda machine: machine.put(len(machine.memo)),
    0x68: lambda machine: machine.get(machine.unsigned(1)),
    0x6A: lambda machine: machine.get(machine.unsigned(4)),
    0x67: lambda machine: machine.get(int(machine.number_line())),
}
"""The opcodes of plain data; no other opcode is executed."""
