"""Read the data rows that are part of rigtune, such as limits, models of GPUs and known log messages."""

import functools
import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import probes

try:
    from tomli import loads  # compiled: a check parses its rows in 2 ms instead of 15 (measured 2026-11)
except ImportError:
    from tomllib import loads

RowT = TypeVar("RowT")
_PACKAGES = Path(probes.__file__).parents[1]
"""Folder that contains `probes` and `recipes`. importlib.resources would add several milliseconds to every
start.
"""


def read_rows(name: str, package: str = "probes") -> dict[str, Any]:
    """Return the content of `<package>/data/<name>.toml`."""
    return _parsed(_PACKAGES / package / "data" / f"{name}.toml")


def row_names(name: str) -> tuple[str, ...]:
    """Return the `name` of every row of a table in `probes/data` that has one row per line.

    Every run of `check` needs the names of NCCL's variables, but few runs need the rest of the table. Parsing
    the whole table would add 3 % to the processor time.
    """
    return tuple(re.findall(r'^ *\{ name = "([^"\n]+)"', row_text(name), re.MULTILINE))


def row_text(name: str) -> str:
    """Return the text of `probes/data/<name>.toml`."""
    return (_PACKAGES / "probes" / "data" / f"{name}.toml").read_text("utf-8")


def load_rows(
    package: str, table: str, row_type: type[RowT], *, file: str | None = None, with_words: str = ""
) -> tuple[RowT, ...]:
    """Return the `[[table]]` rows of `<package>/data/<file>.toml`, in order.

    The default file has the name of the table. If `<file>` is a folder, the rows of all its files are read,
    and the fields of `[family]` in a file are added to each of its rows. With `with_words`, only files that
    contain this text (in any case) are parsed, because parsing all GPUs takes longer than most checks.
    """
    path = _PACKAGES / package / "data" / (file or table)
    files = sorted(path.glob("*.toml")) if path.is_dir() else [path.with_name(f"{path.name}.toml")]
    rows: list[dict[str, object]] = []
    for path_of_file in files:
        if not with_words or with_words.lower() in _text(path_of_file):
            content = _content(path_of_file)
            shared = content.get("family", {})
            rows += [{**shared, **row} for row in content[table]]
    return msgspec.convert(rows, tuple[row_type, ...])  # type: ignore[valid-type]


@functools.lru_cache(maxsize=16)
def _text(path: Path) -> str:
    return path.read_text("utf-8").lower()


def _parsed(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = loads(path.read_text("utf-8"))
    return content


_content = functools.lru_cache(maxsize=16)(_parsed)
