"""Reader of warnings and failures of NCCL and RCCL, versions 2.2 to 2.30.

Source: NVIDIA/nccl, src/misc/{socket,ibvwrap,shmutils,cudawrap}.cc, transport/*.cc, bootstrap.cc, init.cc
of tags 2.4 to 2.30.
"""

import msgspec

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of, reporting
from probes.logs.events.nccl_failure_events import (
    NcclCudaError,
    NcclDriverOld,
    NcclError,
    NcclNotice,
    NcclNvlsBind,
    NcclWarning,
)
from probes.logs.readers.cuda_texts import CODES_OF_TEXTS
from probes.logs.readers.nccl_error_rows import ALSO_INFORMATIVE, DUPLICATE_GPU, FAILURES, RESULTS
from probes.logs.readers.nccl_prefix import Once, is_informative, located, place, read_located, warning
from probes.logs.readers.row_readers import signs
from probes.parsers.tools.nccl_log import read_nccl_line

_NEGLIGIBLE = pattern(
    r"Failed to open libibverbs|Count not open libibverbs|Failed to find"
    r" .{0,60}symbol|Could not find: lib|No plugin found|dlvsym failed|"
    r"Failed to open CUDA library|NVLS multicast support is not available|"
    r"NET/OFI |NET/GPUDirectTCPX|NET/FasTrak|NET/gIB|NET/Plugin|TUNER/Plugin|PROFILER/Plugin|"
    r"Missing \"iommu=pt\"|NUMA auto balancing|HINT|ibv_query_port_speed|cuMem host allocations"
)

_VAGUE = (
    b"Call to ",
    b" event",
    b" -> ",
    b"interface",
    b"SHARP",
    b"XML ",
    b"nccl",
    b"failure ",
    b"onnect to ",
)
SIGNS = (
    *(sign for sign in signs((*FAILURES, *ALSO_INFORMATIVE, *DUPLICATE_GPU)) if sign not in _VAGUE),
    *(b"WARN", b"nterface found", b".cc:", b".cpp:", b".cu:", b"include/", b"Connect to ", b"connect to "),
    *(
        b"Call to recv from ",
        b"Call to send to ",
        b"async event",
        b"async error event",
        b"unknown event type",
    ),
    *(
        b"ncclUnhandledCudaError",
        b"ncclSystemError",
        b"ncclInternalError",
        b"ncclInvalid",
        b"ncclRemoteError",
        b"NCCL failure ",
    ),
)


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the failure that a line reports, if any."""
    text = line.text
    if (located_events := read_located(DUPLICATE_GPU, line)) or (
        located_events := read_located(ALSO_INFORMATIVE, line)
    ):
        return located_events
    if is_informative(text):
        return ()
    if located_events := read_located(FAILURES, line):
        return _completed(located_events[0], text)
    if located_events := read_located(RESULTS, line):
        return located_events
    message = warning(text)
    if message is None or _NEGLIGIBLE.search(message):
        return ()
    sighting = read_nccl_line(text)
    record = NcclWarning if sighting is not None and sighting.fatal else NcclNotice
    return (event_of(record(message=message[:300], file=place(text)), located(line)),)


_NETWORK_LAYER = pattern(r"(?:^|/)net\.(?:cc|h)\b")


class Reader:
    """Reports an error once for each process, and omits the lines of calls that only pass the error on."""

    def __init__(self) -> None:
        self._once = Once()

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """Return the failure that a line reports, if the process has not reported it before."""
        return tuple(event for event in read(line) if self._is_new(event))

    def _is_new(self, event: Event) -> bool:
        match event.what:
            case NcclError(code=code):
                content: tuple[object, ...] = (code, None)
            case NcclNotice(message=message):
                content = (None, message)
            case _:
                return True
        process = (event.host, event.pid, event.rank, event.local_rank)
        return self._once.is_new((*process, *content, is_network_layer(event)))


def is_network_layer(event: Event) -> bool:
    """Return whether an error comes from the part of NCCL that calls network plugins.

    This part of NCCL tries one plugin after the other. Its callers may work without any plugin.
    """
    match event.what:
        case NcclError(file=str(file)) | NcclNotice(file=file):
            return _NETWORK_LAYER.search(file) is not None
    return False


def _completed(event: Event, text: str) -> tuple[Event, ...]:
    """Return all events of a failure: a CUDA error may also be a failure of the driver or of NVLS."""
    match event.what:
        case NcclDriverOld(actual=actual, needed=needed, text=words):
            return (event, reporting(event, NcclCudaError(actual=actual, needed=needed, text=words)))
        case NcclCudaError() as error:
            if error.code is None:
                code = CODES_OF_TEXTS.get((error.text or "").strip())
                error = msgspec.structs.replace(error, code=code)
                event = reporting(event, error)
            if "NVLink SHARP" in text:
                return (
                    event,
                    reporting(event, NcclNvlsBind(code=error.code, text=error.text, file=error.file)),
                )
        case NcclNvlsBind(error=code, text=words, bytes=size):
            return (event, reporting(event, NcclCudaError(code=code, error=code, text=words, bytes=size)))
    return (event,)
