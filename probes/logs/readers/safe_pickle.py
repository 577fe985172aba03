"""Reader of pickles of plain data that executes nothing: a small machine of the opcodes that build the data.

Python's own `pickle` calls whatever a pickle names. Here only dicts, lists, tuples, strings, numbers,
booleans and None are built; an opcode that names, imports or calls something, a persistent id, or bytes end
the reading with `RefusedError`. Source: CPython, Lib/pickletools.py (opcodes of protocols 0 to 5); pytorch,
torch/csrc/jit/serialization/pickler.h.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

Plain: TypeAlias = (
    "bool | int | float | str | list[Plain] | tuple[Plain, ...] | dict[str | int, Plain] | None"
)

_MOST_STEPS = 4_000_000
"""Most opcodes: enough for a dump of some thousand collectives with stacks; the result fits into memory."""
_LONGEST_NUMBER = 64
"""Bytes, or digits of a number that is written as text."""


class NotPlainError(ValueError):
    """The bytes are no pickle of plain data: damaged, cut, or meant to run something."""


class RefusedError(NotPlainError):
    """The pickle requests more than plain data: a name, an import, a call or objects."""


class _Mark:
    """Mark of the first item of a container on the stack."""


_MARK = _Mark()


def loads(data: bytes) -> Plain:
    """Return the value of a pickle. Raises NotPlainError, of which RefusedError is a kind."""
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
        self._stack: list[Plain | _Mark] = []
        self._memo: dict[int, Plain | _Mark] = {}

    def run(self) -> Plain:
        for _ in range(_MOST_STEPS):
            code = self._data[self._place]
            self._place += 1
            if code == 0x2E:  # STOP
                return self._value(self._stack.pop())
            step = _STEPS.get(code)
            if step is None:
                raise RefusedError(
                    f"the pickle asks for more than plain data (opcode {code:#04x}) and was not read"
                )
            step(self)
        raise NotPlainError("the pickle has too many steps")

    # What opcodes need

    def _take(self, count: int) -> bytes:
        end = self._place + count
        if count < 0 or end > len(self._data):
            raise NotPlainError("the pickle is cut")
        piece = self._data[self._place : end]
        self._place = end
        return piece

    def unsigned(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _line(self) -> str:
        end = self._data.find(b"\n", self._place)
        if end < 0:
            raise NotPlainError("the pickle is cut")
        piece = self._data[self._place : end]
        self._place = end + 1
        return piece.decode("ascii")

    def _number_line(self) -> str:
        text = self._line().rstrip("L")
        if len(text) > _LONGEST_NUMBER:
            raise NotPlainError("a number is too long")
        return text

    def _value(self, item: Plain | _Mark) -> Plain:
        if isinstance(item, _Mark):
            raise NotPlainError("a mark stands where a value should be")
        return item

    def _top(self) -> Plain:
        return self._value(self._stack[-1])

    def _since_mark(self) -> list[Plain]:
        place = len(self._stack) - 1
        while not isinstance(self._stack[place], _Mark):
            place -= 1
            if place < 0:
                raise NotPlainError("no mark")
        items = [self._value(item) for item in self._stack[place + 1 :]]
        del self._stack[place:]
        return items

    def _last(self, count: int) -> tuple[Plain, ...]:
        if len(self._stack) < count:
            raise NotPlainError("the stack is too short")
        items = tuple(self._value(item) for item in self._stack[-count:])
        del self._stack[-count:]
        return items

    # Opcodes

    def push(self, value: Plain) -> None:
        self._stack.append(value)

    def protocol(self) -> None:
        if self.unsigned(1) > 5:
            raise NotPlainError("the protocol is not known")

    def frame(self) -> None:
        self._take(8)

    def mark(self) -> None:
        self._stack.append(_MARK)

    def pop(self) -> None:
        self._stack.pop()

    def integer(self) -> None:
        text = self._number_line()
        self.push({"00": False, "01": True}[text] if text in {"00", "01"} else int(text))

    def long_line(self) -> None:
        self.push(int(self._number_line()))

    def int4(self) -> None:
        self.push(int(struct.unpack("<i", self._take(4))[0]))

    def long_bytes(self, width: int) -> None:
        count = self.unsigned(width)
        if count > _LONGEST_NUMBER:
            raise NotPlainError("a number is too long")
        self.push(int.from_bytes(self._take(count), "little", signed=True))

    def float_line(self) -> None:
        self.push(float(self._number_line()))

    def float8(self) -> None:
        self.push(float(struct.unpack(">d", self._take(8))[0]))

    def text(self, width: int) -> None:
        self.push(self._take(self.unsigned(width)).decode("utf-8", errors="replace"))

    def text_line(self) -> None:
        self.push(self._line())

    def tuple_since_mark(self) -> None:
        self.push(tuple(self._since_mark()))

    def list_since_mark(self) -> None:
        self.push(self._since_mark())

    def dict_since_mark(self) -> None:
        items = self._since_mark()
        pairs: dict[str | int, Plain] = {}
        self.push(pairs)
        self._fill(pairs, items)

    def append(self) -> None:
        (value,) = self._last(1)
        self._extend([value])

    def appends(self) -> None:
        self._extend(self._since_mark())

    def set_item(self) -> None:
        self._fill(self._top_dict(2), list(self._last(2)))

    def set_items(self) -> None:
        items = self._since_mark()
        self._fill(self._top_dict(0), items)

    def tuple_of(self, count: int) -> None:
        self.push(self._last(count))

    def memoize(self) -> None:
        self.put(len(self._memo))

    def decimal(self) -> int:
        return int(self._number_line())

    def put(self, key: int) -> None:
        self._memo[key] = self._stack[-1]

    def get(self, key: int) -> None:
        if key not in self._memo:
            raise NotPlainError("the memo has no such entry")
        self._stack.append(self._memo[key])

    def _extend(self, items: list[Plain]) -> None:
        target = self._top()
        if not isinstance(target, list):
            raise NotPlainError("only lists grow")
        target.extend(items)

    def _top_dict(self, below: int) -> dict[str | int, Plain]:
        target = self._value(self._stack[-1 - below])
        if not isinstance(target, dict):
            raise NotPlainError("only dicts take keys")
        return target

    def _fill(self, target: dict[str | int, Plain], items: list[Plain]) -> None:
        if len(items) % 2:
            raise NotPlainError("a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | int):
                raise NotPlainError("a key is neither text nor a number")
            target[key] = value


_STEPS: dict[int, Callable[[_Machine], None]] = {
    0x80: _Machine.protocol,
    0x95: _Machine.frame,
    0x28: _Machine.mark,
    0x30: _Machine.pop,
    0x4E: lambda machine: machine.push(None),
    0x88: lambda machine: machine.push(value=True),
    0x89: lambda machine: machine.push(value=False),
    0x49: _Machine.integer,
    0x4C: _Machine.long_line,
    0x4A: _Machine.int4,
    0x4B: lambda machine: machine.push(machine.unsigned(1)),
    0x4D: lambda machine: machine.push(machine.unsigned(2)),
    0x8A: lambda machine: machine.long_bytes(1),
    0x8B: lambda machine: machine.long_bytes(4),
    0x46: _Machine.float_line,
    0x47: _Machine.float8,
    0x58: lambda machine: machine.text(4),
    0x8C: lambda machine: machine.text(1),
    0x8D: lambda machine: machine.text(8),
    0x56: _Machine.text_line,
    0x7D: lambda machine: machine.push({}),
    0x5D: lambda machine: machine.push([]),
    0x29: lambda machine: machine.push(()),
    0x74: _Machine.tuple_since_mark,
    0x85: lambda machine: machine.tuple_of(1),
    0x86: lambda machine: machine.tuple_of(2),
    0x87: lambda machine: machine.tuple_of(3),
    0x6C: _Machine.list_since_mark,
    0x64: _Machine.dict_since_mark,
    0x61: _Machine.append,
    0x65: _Machine.appends,
    0x73: _Machine.set_item,
    0x75: _Machine.set_items,
    0x71: lambda machine: machine.put(machine.unsigned(1)),
    0x72: lambda machine: machine.put(machine.unsigned(4)),
    0x70: lambda machine: machine.put(machine.decimal()),
    0x94: _Machine.memoize,
    0x68: lambda machine: machine.get(machine.unsigned(1)),
    0x6A: lambda machine: machine.get(machine.unsigned(4)),
    0x67: lambda machine: machine.get(machine.decimal()),
}
"""The opcodes of plain data; there is no other way to build anything here."""
