"""Reader of libibverbs, whose providers drive HCAs, UCX, through which MPI and plugins use them, and UCC.

Source: linux-rdma/rdma-core, libibverbs/init.c; openucx/ucx, src/uct/ib/mlx5/ib_mlx5_log.c; openucx/ucc,
src/utils/ucc_log.h (read 2026-11).
"""

from __future__ import annotations

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.nccl_network_events import (
    UcxCompletionError,
    UcxError,
    VerbsDriverMissing,
    VerbsMemlock,
)
from probes.logs.readers.row_readers import read_rows, row, signs

_STATUS = {
    "Local length": 1,
    "Local QP operation": 2,
    "Local protection": 4,
    "WR flushed because QP in error state": 5,
    "Memory window bind": 6,
    "Bad response": 7,
    "Local access": 8,
    "Remote invalid request": 9,
    "Remote access": 10,
    "Remote operation": 11,
    "Transport retry count exceeded": 12,
    "RNR retry count exceeded": 13,
}
_COMPLETION = pattern(
    r"UCX {1,2}ERROR (?P<what>[A-Z][\w ]{3,40}?) on (?P<hca>[\w.-]{1,40}:\d{1,3})(?:/\w{1,12})? "
    r"\(synd 0x[0-9a-f]{1,4} vend 0x(?P<vendor>[0-9a-f]{1,4})"
)
_LAYERS = (
    "UCC ",
    "CL_BASIC",
    "CL_HIER",
    "TL_UCP",
    "TL_SHM",
    "TL_CUDA",
    "TL_NCCL",
    "TL_RCCL",
    "TL_SHARP",
    "TL_MLX5",
    "TL_SELF",
)
"""Layers of UCC: collectives and transports."""
_ROWS = (
    *(
        row(UcxError, f"{layer} ERROR ", rf"\.c:\d{{1,6}} {{1,4}}{layer} ERROR (?P<message>\S.{{0,300}})")
        for layer in _LAYERS
    ),
    row(UcxError, "UCX  ERROR", r"UCX {1,2}ERROR (?P<message>\S.{0,300})"),
    row(
        VerbsDriverMissing,
        "libibverbs: Warning: couldn't load driver",
        r"load driver '(?P<driver>[^']{1,80})'",
    ),
    row(VerbsDriverMissing, "libibverbs: Warning: no userspace device-specific driver"),
    row(
        VerbsDriverMissing,
        "does not support the kernel ABI",
        r"libibverbs: Warning: Driver (?P<driver>\w{1,40}) does not support the kernel ABI",
    ),
    row(
        VerbsMemlock, "libibverbs: Warning: RLIMIT_MEMLOCK is", r"RLIMIT_MEMLOCK is (?P<bytes>\d{1,15}) bytes"
    ),
)

SIGNS = signs(_ROWS)


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the complaint of libibverbs or UCX."""
    match = _COMPLETION.search(line.text)
    status = _STATUS.get(match["what"]) if match is not None else None
    if match is None or status is None:
        return read_rows(_ROWS, line)
    return (
        event_of(UcxCompletionError(status=status, vendor=int(match["vendor"], 16), hca=match["hca"]), line),
    )
