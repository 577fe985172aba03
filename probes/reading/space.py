"""Read how full the filesystems are, for the storage and the limits collectors."""

from __future__ import annotations

from probes.base.record import Reason, Unknown
from probes.parsers.host.mounts import Space, parse_df
from probes.sources.base import Source

DF = ("df", "-Pk")
_DF_LOCAL = ("df", "-Pkl")


def spaces(source: Source) -> dict[str, Space] | Unknown:
    """Return the filesystems by their mount points.

    df blocks at a network filesystem whose server is gone; then only local filesystems are read. Its exit
    code is ignored, because it reports an error if a single filesystem is not readable.
    """
    failure = Unknown(Reason.UNPARSABLE, "no filesystem in the output of df")
    for argv in (DF, _DF_LOCAL):
        result = source.run(argv)
        filesystems = parse_df(result.stdout.decode("utf-8", "replace"))
        if filesystems:
            return {space.path: space for space in filesystems}
        failure = result.failure or failure
        if failure.reason is not Reason.TIMEOUT:
            break
    return failure
