"""Read the data rows that ship beside the code: figures of the world, each with its source and date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import probes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RowT = TypeVar("RowT")
_PACKAGES = Path(probes.__file__).parents[1]
"""The folder of `probes` and `recipes`. By path, since importlib.resources costs every start several
milliseconds.
"""


def read_rows(name: str, package: str = "probes") -> dict[str, Any]:
    """Return the content of `<package>/data/<name>.toml`."""
    return tomllib.loads((_PACKAGES / package / "data" / f"{name}.toml").read_text("utf-8"))


def load_rows(
    package: str, table: str, row_type: type[RowT], *, file: str | None = None, with_words: str = ""
) -> tuple[RowT, ...]:
    """Return the `[[table]]` rows of `<package>/data/<file>.toml`, in order; the file is named after the
    table unless given.

    Where `<file>` is a folder, the rows of all its files count, and what a file says in `[family]` holds for
    each of its rows. Files without the words are left out, in whatever case: parsing all GPUs takes longer
    than most checks do.
    """
    path = _PACKAGES / package / "data" / (file or table)
    files = sorted(path.glob("*.toml")) if path.is_dir() else [path.with_name(f"{path.name}.toml")]
    rows: list[dict[str, object]] = []
    for each in files:
        text = each.read_text("utf-8")
        if with_words.lower() in text.lower():
            content = tomllib.loads(text)
            shared = content.get("family", {})
            rows += [{**shared, **row} for row in content[table]]
    return msgspec.convert(rows, tuple[row_type, ...])  # type: ignore[valid-type]
