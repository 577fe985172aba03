"""The names of options and settings that each program knows; rigtune emits no other names."""

import functools
from collections.abc import Iterable

import msgspec

from probes.base.nearest import did_you_mean
from probes.base.record import StrictRecord
from probes.base.rows import read_rows


class ProgramNames(StrictRecord, kw_only=True):
    """The names of one program, as its own parser lists them."""

    version: str
    """Versions of the program that know all these names."""
    date: str
    source: str
    """Command or class that lists the names."""
    names: frozenset[str]


@functools.lru_cache(maxsize=16)
def known_names(program_id: str) -> ProgramNames:
    """Return the content of `recipes/data/program_names/<program_id>.toml`."""
    return msgspec.convert(read_rows(f"program_names/{program_id}", "recipes"), ProgramNames)


def require_known(program_id: str, names: Iterable[str]) -> None:
    """Raise LookupError for a name that the program does not know and could silently drop.

    The names come from rigtune's own tables, so an unknown name is an error of rigtune, not of the user.
    """
    known = known_names(program_id)
    for name in names:
        if name not in known.names:
            hint = did_you_mean(
                name, sorted(known.names), f"see recipes/data/program_names/{program_id}.toml"
            )
            raise LookupError(f"{program_id} {known.version} has no setting {name!r}: {hint}")
