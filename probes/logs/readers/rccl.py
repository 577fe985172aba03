"""Reader of RCCL, AMD's NCCL: lines that NCCL does not print.

Source: ROCm/rccl, src/init.cc, src/misc/*, of the releases for ROCm 5.4 to 7.1.
"""

from __future__ import annotations

from probes.logs.event import Event, LogLine, carries, reporting
from probes.logs.events.nccl_events import NcclVersion, RcclKernelSetting, RcclMsccl, RcclVersion
from probes.logs.events.nccl_failure_events import NcclCudaError, RcclHipError
from probes.logs.readers.nccl_prefix import read_located
from probes.logs.readers.row_readers import row, signs

_ROWS = (
    row(
        NcclVersion,
        "RCCL version",
        r"RCCL version ?:? ?(?P<version>\d{1,2}\.\d{1,3}\.\d{1,3})(?:\+hip"
        r"(?P<hip>\d{1,2}\.\d{1,2}))?[\w.:+-]{0,60}",
        flavour="RCCL",
    ),
    row(RcclVersion, "HIP version", r"HIP version {0,4}: (?P<hip>\d{1,2}\.[\w.-]{1,40})"),
    row(RcclVersion, "ROCm version", r"ROCm version {0,4}: (?P<rocm>\d{1,2}\.[\w.]{1,20})"),
    row(RcclVersion, "Librccl path", r"Librccl path {0,4}: (?P<library>/\S{1,300})"),
    row(
        RcclKernelSetting,
        "from kernel command line",
        r"(?P<text>Missing \"(?P<setting>[^\"\n]{2,60})\""
        r" from kernel.{0,160})",
    ),
    row(
        RcclKernelSetting,
        "NUMA auto balancing",
        r"(?P<text>NUMA auto balancing enabled.{0,160})",
        setting="numa_balancing",
    ),
    row(
        RcclKernelSetting,
        "HSA_NO_SCRATCH_RECLAIM",
        r"(?P<text>.{0,60}HSA_NO_SCRATCH_RECLAIM.{0,120})",
        setting="HSA_NO_SCRATCH_RECLAIM",
    ),
    row(RcclHipError, "HIP failure", r"HIP failure(?: (?P<code>\d{1,5}))?:? ?'(?P<text>[^'\n]{1,200})"),
    row(
        RcclHipError,
        "Test HIP failure",
        r"Test HIP failure (?P<file>\S{1,120}:\d{1,6}) '(?P<text>[^'\n]{1,200})",
    ),
    row(RcclMsccl, "MSCCL", r"MSCCL:? (?P<state>.{2,100})"),
)

SIGNS = signs(_ROWS)


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the events of a line of RCCL."""
    if "HSA_NO_SCRATCH_RECLAIM set by environment" in line.text:
        return ()
    events = read_located(_ROWS, line)
    # HIP has the texts of CUDA's errors, but other numbers.
    return (
        *events,
        *(
            reporting(event, NcclCudaError(text=event.what.text))
            for event in events
            if carries(event, RcclHipError)
        ),
    )
