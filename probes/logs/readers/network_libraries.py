"""Reader of the log lines of libfabric, NCCL's plugin for libfabric (aws-ofi-nccl), libibverbs, UCX and UCC.

Variables that the plugin sets are read by the reader `nccl`. Old versions of the plugin begin their lines
with `WARN: Function: f Line: n: `.

Source: aws/aws-ofi-nccl, src/nccl_ofi_net.c, nccl_ofi_rdma.c, nccl_ofi_sendrecv.c, platform-aws.*, of tags
1.1 to 1.17; ofiwg/libfabric, prov/efa; linux-rdma/rdma-core, libibverbs/init.c; openucx/ucx,
src/uct/ib/mlx5/ib_mlx5_log.c; openucx/ucc, src/utils/ucc_log.h (read 2026-11).
"""

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.nccl_network_events import (
    OfiCompletionError,
    OfiFailure,
    OfiLibfabric,
    OfiNoGdr,
    OfiNoProvider,
    OfiPlatform,
    OfiProtocol,
    OfiProvider,
    OfiRegistration,
    OfiVersion,
    OfiWarning,
    UcxCompletionError,
    UcxError,
    VerbsDriverMissing,
    VerbsMemlock,
)
from probes.logs.readers.nccl_prefix import Once, is_informative, read_located
from probes.logs.readers.row_readers import read_rows, row, signs

_FACTS = (
    row(
        OfiVersion,
        "NET/OFI",
        r"NET/OFI (?:Using|Initializing) aws-ofi-nccl v?(?P<version>\d{1,3}\.[\w.+-]{1,30})",
    ),
    row(OfiLibfabric, "NET/OFI", r"NET/OFI Using [Ll]ibfabric version (?P<version>\d{1,3}\.[\w.]{1,20})"),
    row(
        OfiProvider,
        "NET/OFI",
        r"NET/OFI Selected [Pp]rovider is (?P<name>[\w;-]{1,40})(?:, fabric is "
        r"(?P<fabric>[\w.:/-]{1,60}))?(?: \(found (?P<nics>\d{1,4}) nics\))?",
    ),
    row(OfiProtocol, "NET/OFI", r"NET/OFI Using transport protocol (?P<name>\w{1,20})"),
    row(
        OfiPlatform,
        "NET/OFI",
        r"NET/OFI Running on (?P<name>[\w.-]{1,40}) platform"
        r"(?:, Setting NCCL_TOPO_FILE environment variable to (?P<topology>\S{1,300}))?",
    ),
)
_CODE = r"(?:RC|rc): ?(?P<code>-?\d{1,6})"
_FAILURES = (
    row(OfiNoProvider, "optimal provider", r"Couldn't find any optimal provider"),
    row(
        OfiNoProvider,
        "NET/OFI",
        r"NET/OFI (?:No eligible providers|Unable to find (?:a )?(?:suitable|eligible) provider|"
        r"Could not find any)",
    ),
    row(OfiNoProvider, "No eligible providers"),
    row(OfiNoProvider, "fi_getinfo() call failed", r"fi_getinfo\(\) call failed: No data available"),
    row(
        OfiCompletionError,
        "completed with error",
        rf"Request \S{{1,40}} completed with error\. {_CODE}\. Error: "
        r"(?P<reason>[^.\n]{1,160})"
        r"(?:.{0,200}?dev: (?P<device>-?\d{1,4}))?(?:.{0,200}?direction: (?P<direction>\w{1,12}))?",
    ),
    row(
        OfiRegistration,
        "NET/OFI",
        rf"NET/OFI (?:Unable to|Could not) register memory(?:.{{0,120}}?{_CODE})?"
        rf"(?:.{{0,20}}?(?:Error|ERROR): (?P<reason>.{{1,120}}))?",
    ),
    row(OfiFailure, "OFI NCCL failure", r"OFI NCCL failure: (?P<code>-?\d{1,6})"),
    row(
        OfiFailure,
        "NET/OFI",
        r"NET/OFI (?P<reason>Initializing plugin failed|Failed to (?:initialize "
        r"(?!GDRCopy)|create|allocate|select).{0,120}|Only EFA provider is supported|"
        r"Unable to (?:insert|create|open|bind|enable|connect).{0,120}|"
        r"aws-ofi-nccl initialization failed|"
        r"(?:EFA )?[Pp]rovider requires at least libfabric.{0,60}|(?:Creating|"
        r"Could not create).{0,100}fail.{0,60})",
    ),
    row(
        OfiFailure,
        "NET/OFI",
        rf"NET/OFI (?P<reason>Couldn't (?:open|create|enable|bind|get|initialize).{{0,80}}?)\. {_CODE}",
    ),
    row(
        OfiNoGdr,
        "NET/OFI",
        r"NET/OFI (?P<reason>.{0,60}GPUDirect RDMA.{0,40}(?:not|disabled|unavailable).{0,80})",
    ),
    row(OfiWarning, "NET/OFI", r"WARN:?.{0,80}? NET/OFI (?P<message>\S.{0,300})"),
)
_LIBFABRIC = (
    row(
        OfiCompletionError,
        "prov_err: ",
        r"libfabric:\d{1,10}(?::\d{1,12}:[^:\s]{0,40})?:(?P<provider>\w{2,12}):.{0,120}?"
        r"prov_err: (?P<reason>.{2,120}?) \((?P<code>\d{1,6})\)\s*$",
    ),
    row(
        OfiRegistration,
        "Unable to register MR",
        r"libfabric:\d{1,10}:.{0,160}?Unable to register MR(?: of \d{1,18} bytes)?: "
        r"(?P<reason>[A-Z][\w ]{2,80})",
    ),
    row(
        OfiCompletionError,
        ", message: ",
        r"libfabric:\d{1,10}:.{0,40}?:(?P<provider>\w{2,12}):.{0,120}? err: (?P<code>\d{1,6}), message: "
        r"(?P<reason>.{2,200}?)(?: My \w{1,8} addr: | \(\d{1,6}\)\s*$)",
    ),
    row(
        OfiCompletionError,
        "Unresponsive receiver",
        r"(?P<reason>Unresponsive receiver.{0,120})",
    ),
)

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
_VERBS = (
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
_ALIKE = (OfiVersion, OfiLibfabric, OfiProvider, OfiProtocol, OfiPlatform)
SIGNS = (*signs((*_FAILURES, *_LIBFABRIC, *_VERBS)), b"NET/OFI")


class Reader:
    """Reports versions, provider and platform only once for each host, and other events every time."""

    def __init__(self) -> None:
        self._once = Once()

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """Return the new events of a line."""
        return tuple(event for event in read(line) if self._is_new(event))

    def _is_new(self, event: Event) -> bool:
        return not isinstance(event.what, _ALIKE) or self._once.is_new((event.host, event.what))


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the events of a line, first as a line of the plugin or libfabric, then of libibverbs or UCX."""
    return (*_libfabric(line), *_verbs(line))


def _libfabric(line: LogLine) -> tuple[Event, ...]:
    if located_events := read_located(_FACTS, line):
        return located_events
    if is_informative(line.text) or line.text.startswith("INFO: "):
        return ()
    return read_located(_FAILURES, line) or read_located(_LIBFABRIC, line)


def _verbs(line: LogLine) -> tuple[Event, ...]:
    match = _COMPLETION.search(line.text)
    status = _STATUS.get(match["what"]) if match is not None else None
    if match is None or status is None:
        return read_rows(_VERBS, line)
    return (
        event_of(UcxCompletionError(status=status, vendor=int(match["vendor"], 16), hca=match["hca"]), line),
    )
