"""Reader of lines that only RCCL (AMD's version of NCCL), the ROCm runtime and the RAS tools print.

Source: ROCm/rccl, src/init.cc, src/misc/*, of the releases for ROCm 5.4 to 7.1.
"""

from probes.logs.event import Event, LogLine, carries, reporting
from probes.logs.events.nccl_events import NcclVersion, RcclKernelSetting, RcclMsccl, RcclVersion
from probes.logs.events.nccl_failure_events import (
    NcclCudaError,
    RasIncomplete,
    RasMissing,
    RcclHipError,
    RocmGpuFault,
    RocmSmiFailed,
)
from probes.logs.readers.nccl_prefix import read_located
from probes.logs.readers.row_readers import read_rows, row, signs

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

_COLUMNS = r"\s{0,8}(?:\d{1,9}\s{1,16}){3}[\d-]{1,12}\s{1,16}(?:\d{1,9}\s{1,16}){2}[A-Z]{3,12}\s{1,16}"
"""Columns of the table of communicators before its last column."""
_COMMUNICATOR = r"#\d{1,6}-\d{1,6} \([0-9a-f]{4,16}\) "
_TEXTS = (
    row(
        RocmGpuFault,
        "HW Exception by GPU",
        r"HW Exception by GPU node-(?P<node>\d{1,4})\b.{0,120}?reason ?: ?(?P<reason>GPU Hang)",
        what="hang",
    ),
    row(
        RocmGpuFault,
        "HW Exception by GPU",
        r"HW Exception by GPU node-(?P<node>\d{1,4})\b.{0,120}?reason ?: ?(?P<reason>\w[^\n]{1,60})",
        what="exception",
    ),
    row(
        RocmGpuFault,
        "Memory access fault by GPU",
        r"Memory access fault by GPU node-(?P<node>\d{1,4})\b"
        r"(?:.{0,200}?Reason: (?P<reason>[^\n]{1,80}?)\.?$)?",
        what="page fault",
    ),
    row(RocmSmiFailed, "ROCm SMI init failure", r"ROCm SMI init failure\s?(?P<reason>[^\n]{0,120})"),
    row(
        RasMissing,
        "managing GPU",
        r"^\s{1,8}Process (?P<process>\d{1,10}) on node (?P<node>\S{1,80}) managing GPUs? "
        r"(?P<gpu>[\d,-]{1,40})",
    ),
    row(
        RasMissing,
        "managed by process",
        r"^\s{1,8}Rank (?P<rank>\d{1,7}) -- GPU (?P<gpu>\d{1,4}) managed by process (?P<process>\d{1,10}) "
        r"on node (?P<node>\S{1,80})$",
    ),
    row(RasMissing, "The missing rank: ", r"^\s{1,8}The missing rank: (?P<rank>\d{1,7})"),
    *(
        row(
            RasIncomplete,
            status,
            rf"^(?:{_COLUMNS}|{_COMMUNICATOR})?{status}$",
            status=status,
        )
        for status in ("INCOMPLETE", "DEAD", "MISMATCH")
    ),
)
"""Lines without NCCL's prefix, from the ROCm runtime, `ncclras` and `rcclras`."""
SIGNS = signs(_ROWS + _TEXTS)


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the events of a line of RCCL, the ROCm runtime or a RAS tool."""
    if "HSA_NO_SCRATCH_RECLAIM set by environment" in line.text:
        return ()
    if texts := read_rows(_TEXTS, line):
        return texts
    events = read_located(_ROWS, line)
    # HIP's errors have the same texts as CUDA's, but other numbers.
    return (
        *events,
        *(
            reporting(event, NcclCudaError(text=event.what.text))
            for event in events
            if carries(event, RcclHipError)
        ),
    )
