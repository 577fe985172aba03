"""Read a table of cases row by row: a CSV of any size with columns in any order.

A row that cannot be read is returned with its fault, so that each case gets an answer.
"""

import contextlib
import csv
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import cast

from probes.base.errors import InputError
from probes.base.record import Record
from probes.base.units import plural
from probes.sources.base import refuse_named_pipe

_LONGEST_LINE = 2**20
_LONGEST_CELL = 2**17
_REMEDY = "give a CSV (comma, semicolon or tab) whose first line names the columns, including case_id"


class CaseRow(Record, kw_only=True):
    """One row: its cells by column name, and its fault if the row cannot be used."""

    line: int
    """The line of the file on which the row begins, counted from 1."""
    cells: dict[str, str] = {}
    fault: str = ""


def case_rows(
    path: Path, columns: Iterable[str], report_skipped: Callable[[tuple[str, ...]], None] | None = None
) -> Iterator[CaseRow]:
    """Read the columns `columns` of each row of the file at `path`; `-` is standard input.

    Other columns are skipped; `report_skipped` is called once with the names of such columns, if there are
    any. Memory use is constant except for the case ids, which must be unique. Raises InputError if the file
    is not a table of cases.
    """
    with _opened(path) as file:
        lines = _Lines(file, "standard input" if str(path) == "-" else str(path))
        try:
            table = _Table(lines, tuple(columns))
            if report_skipped is not None and table.others:
                report_skipped(table.others)
            yield from table
        finally:
            lines.text.detach()  # a text wrapper that is dropped would close the file


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    if str(path) == "-":
        yield cast("io.BufferedReader", sys.stdin.buffer)
        return
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder, but a file is needed", "name the file itself")
        refuse_named_pipe(path)
        file = path.open("rb")
    except OSError as error:
        raise _unreadable(str(path), error) from error
    with file:
        yield file


def _unreadable(name: str, error: OSError) -> InputError:
    words = os.strerror(error.errno).lower() if error.errno else str(error)
    return InputError(f"cannot read {name}: {words}", "check the path and its permissions")


class _Lines:
    """Iterate over lines as text, without NUL bytes.

    Wrong bytes of a UTF-8 file become surrogates, so that an id is written as it was read; those of a UTF-16
    file become U+FFFD.
    """

    def __init__(self, file: io.BufferedReader, name: str) -> None:
        self.name = name
        self.number = 0
        self._faults: dict[int, str] = {}
        """Faults by line number. A fault is deleted when the row with its line is read."""
        try:
            start = file.peek(2)[:2]
        except OSError as error:
            raise _unreadable(name, error) from error
        encoding = "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        self.text = io.TextIOWrapper(
            file, encoding, "surrogateescape" if encoding == "utf-8-sig" else "replace", newline=""
        )

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._read()
        if not line:
            raise StopIteration
        self.number += 1
        # Only the beginning of an endless line is kept, so that memory use stays constant. The row of this
        # line gets a fault.
        if len(line) >= _LONGEST_LINE and not line.endswith("\n"):
            self._faults[self.number] = f"the line is longer than {_LONGEST_LINE} characters"
            while (more := self._read()) and not more.endswith("\n"):
                if self.number == 1:
                    raise InputError(
                        f"{self.name} is not a table of cases: its first line does not end", _REMEDY
                    )
            line = line[:100].replace('"', "") + "\n"
        if "\x00" in line:
            self._faults[self.number] = "the line has NUL bytes"
            line = line.replace("\x00", "")
        return line

    def _read(self) -> str:
        try:
            return self.text.readline(_LONGEST_LINE)
        except OSError as error:
            raise _unreadable(self.name, error) from error

    def fault_since(self, line: int) -> str:
        """Return the first fault in the lines from `line` on, and delete all stored faults."""
        faults = [words for number, words in self._faults.items() if number >= line]
        self._faults.clear()
        return faults[0] if faults else ""


class _Table:
    """Iterate over lines as rows, with the columns that the first line names."""

    def __init__(self, lines: _Lines, columns: tuple[str, ...]) -> None:
        csv.field_size_limit(_LONGEST_CELL)
        header = next(lines, "")
        if not header.strip():
            raise InputError(
                f"{lines.name} is empty" if not header else f"the first line of {lines.name} is blank",
                _REMEDY,
            )
        names, delimiter = _header(header, lines.name)
        twice = {name for name in names if name in columns and names.count(name) > 1}
        if twice:
            raise InputError(
                f"{lines.name} names the column {', '.join(sorted(twice))} more than once",
                "keep only one of these columns",
            )
        self._lines = lines
        self._reader = csv.reader(lines, delimiter=delimiter)
        self._width = len(names)
        self.others = tuple(dict.fromkeys(name for name in names if name and name not in columns))
        self._places = [(name, names.index(name)) for name in columns if name in names]
        self._line_by_id: dict[str, int] = {}

    def __iter__(self) -> Iterator[CaseRow]:
        while True:
            first = self._lines.number + 1
            try:
                cells = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                self._lines.fault_since(first)
                yield CaseRow(line=first, fault=f"{_span(first, self._lines.number)} cannot be read: {error}")
                continue
            if cells:
                yield self._row(cells, first)

    def _row(self, cells: list[str], first: int) -> CaseRow:
        fault = self._lines.fault_since(first)
        where = _span(first, self._lines.number)
        row = {name: cells[place] for name, place in self._places if place < len(cells)}
        case_id = row.get("case_id", "").strip()
        if fault:
            fault = f"{where} cannot be read: {fault}"
        elif len(cells) != self._width:
            fault = (
                f"{where} has {plural(len(cells), 'cell')}, the header has {self._width}: "
                "check its commas and quotes"
            )
        elif not case_id:
            fault = f"case_id is blank in {where}: give each case its own name"
        elif case_id in self._line_by_id:
            fault = f"case_id is the same as in line {self._line_by_id[case_id]}: give each case its own name"
        else:
            self._line_by_id[case_id] = first
        return CaseRow(line=first, cells=row, fault=fault)


def _span(first: int, last: int) -> str:
    return f"line {first}" if first >= last else f"lines {first} to {last}"


def _header(line: str, name: str) -> tuple[list[str], str]:
    """Return the column names and the delimiter of the header `line`."""
    for delimiter in (",", ";", "\t"):
        try:
            names = [cell.strip().lower() for cell in next(csv.reader([line], delimiter=delimiter), [])]
        except csv.Error:
            continue
        if "case_id" in names:
            return names, delimiter
    shown = line.strip().encode("utf-8", "replace").decode()[:60]
    raise InputError(f"{name} has no column case_id; its first line is {shown!r}", _REMEDY)
