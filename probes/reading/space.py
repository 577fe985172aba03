"""How full the filesystems are; the storage and the limits collectors both ask."""

from __future__ import annotations

from probes.base.record import Reason, Unknown
from probes.parsers.host.mounts import Space, parse_df
from probes.sources.base import Source

DF = ("df", "-Pk")
_DF_LOCAL = ("df", "-Pkl")


def spaces(source: Source) -> dict[str, Space] | Unknown:
    """The filesystems by their mount points.

    df stops at a network filesystem whose server is gone; then only the local ones are asked. It ends with an
    error when it may not look at one of many, so its exit code says nothing.
    """
    failure = Unknown(Reason.UNPARSABLE, "no filesystem in the output of df")
    for argv in (DF, _DF_LOCAL):
        result = source.run(argv)
        found = parse_df(result.stdout.decode("utf-8", "replace"))
        if found:
            return {space.path: space for space in found}
        failure = result.failure or failure
        if failure.reason is not Reason.TIMEOUT:
            break
    return failure
