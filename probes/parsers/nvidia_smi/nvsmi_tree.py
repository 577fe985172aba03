"""Values of one GPU's report by path, for the XML and for the indented text of nvidia-smi."""

from __future__ import annotations

import re

_NO_WORD = re.compile(r"[^a-z0-9]+")


def path_word(label: str) -> str:
    """Return a label or tag as part of a path: `t_limit` for `T.Limit`, `cliqueid` for both spellings."""
    return _NO_WORD.sub("_", label.lower()).strip("_")


class Tree:
    """Values by path, such as `ecc_errors/volatile/dram_uncorrectable`.

    Sections that occur several times are numbered: `mig_device#2`.
    """

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._sections: dict[str, int] = {}

    def add(self, path: str, value: str) -> None:
        """Add a value; the first of two equal paths counts."""
        self._values.setdefault(path, value)

    def section(self, path: str) -> str:
        """Return the path for a section that begins, with a number unless it is the first of its name."""
        count = self._sections[path] = self._sections.get(path, 0) + 1
        return path if count == 1 else f"{path}#{count}"

    def text_at(self, path: str) -> str | None:
        """Return the text at `path`; None if there is none.

        If a section on the way contains words in place of values (`GPU is lost`), return those words.
        """
        if path in self._values:
            return self._values[path]
        if path in self._sections:
            return ""
        while "/" in path:
            path = path.rpartition("/")[0]
            if path in self._values:
                return self._values[path]
        return None

    def below(self, path: str) -> list[tuple[str, str]]:
        """Return the name and text of every value in a section and in the sections within it."""
        start = f"{path}/"
        return [
            (key.rpartition("/")[2], value) for key, value in self._values.items() if key.startswith(start)
        ]

    def items(self) -> list[tuple[str, str]]:
        return list(self._values.items())

    def has_section(self, path: str) -> bool:
        return path in self._sections

    def numbered(self, path: str) -> list[str]:
        """Return the paths of all sections of that name."""
        count = self._sections.get(path, 0)
        return [path if number == 1 else f"{path}#{number}" for number in range(1, count + 1)]

    def __bool__(self) -> bool:
        return bool(self._values)
