"""Host and rank from the name of a log file, for lines that do not name them.

Sources: torchrun's `--log-dir` (`attempt_0/3/stderr.log`), DeepSpeed's and Megatron's files of each rank
(`rank_3.log`), the file names of srun (`%N`), and usual names of collected kernel logs (`node12.dmesg`).
"""

from pathlib import PurePath
from typing import NamedTuple

from probes.base.patterns import pattern

_RANK = pattern(r"(?:^|[^A-Za-z])(?:global[_-]?)?rank[_-]?(\d{1,6})(?![\d.]*\d)")
_LOCAL = pattern(r"local[_-]?rank")
_TORCHRUN = pattern(r"(?:^|/)attempt_\d{1,6}/(\d{1,4})/(?:stdout|stderr)(?:\.log)?$")
_HOST = pattern(r"^((?:node|host|nid|cn|compute|worker|dgx|hgx)[A-Za-z-]{0,20}[-_]?\d[\w-]{0,40})(?:\.|$)")


class Writer(NamedTuple):
    """The writer of a log; None for parts that the name does not contain."""

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None


def writer_of(name: str) -> Writer:
    """Return the writer whose host and rank the file name contains.

    If the file name lacks one of them, the name of the folder is searched.
    """
    path = PurePath(name)
    torchrun = _TORCHRUN.search(path.as_posix())
    if torchrun is not None:
        return Writer(local_rank=int(torchrun[1]))
    host = _HOST.match(path.name) or _HOST.match(path.parent.name)
    rank = _RANK.search(path.name) or _RANK.search(path.parent.name)
    number = None if rank is None else int(rank[1])
    if rank is not None and _LOCAL.search(path.name) is not None:
        return Writer(local_rank=number, host=host[1] if host else None)
    return Writer(rank=number, host=host[1] if host else None)
