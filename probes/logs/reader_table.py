"""The table of all readers of logs. A new reader is a module in `probes/logs/readers` and a row here.

The module has `SIGNS: tuple[bytes, ...]`: every line that it wants contains one of these substrings. It also
has either `read(line: LogLine) -> tuple[Event, ...]` or, if lines belong together, a class `Reader` with
`read` and `end() -> tuple[Event, ...]`, created once for each source. Neither raises, whatever the line is.

With `LINES_AFTER: int`, the reader is also given that many lines after a line with a sign, and the last lines
of the log, whatever they contain.

A module may also read whole files that are no logs of lines (a dump, a JSON report). It then has
`DOCUMENT_SIGNS: tuple[bytes, ...]`, one of which the first 64 KiB of such a file contain, and
`read_document(name: str, data: bytes) -> tuple[Event, ...]`, which returns nothing for other files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from probes.base.table_rows import Row
from probes.logs.event import Event, LogLine


class ReaderRow(Row, kw_only=True):
    """A reader of lines, of documents or of both."""


READERS: tuple[ReaderRow, ...] = (
    ReaderRow(id="nccl", title="NCCL: what a run tells of itself", module="probes.logs.readers.nccl"),
    ReaderRow(
        id="nccl-errors", title="NCCL: warnings and failures", module="probes.logs.readers.nccl_errors"
    ),
    ReaderRow(
        id="nccl-transports",
        title="NCCL: how ranks reach each other",
        module="probes.logs.readers.nccl_transport_lines",
    ),
    ReaderRow(
        id="nccl-graph",
        title="NCCL: how far GPUs and adapters are apart",
        module="probes.logs.readers.nccl_graph_reader",
    ),
    ReaderRow(id="nccl-plugins", title="NCCL's plugins", module="probes.logs.readers.plugins"),
    ReaderRow(id="ofi", title="aws-ofi-nccl and libfabric", module="probes.logs.readers.ofi"),
    ReaderRow(id="verbs", title="libibverbs and UCX", module="probes.logs.readers.verbs"),
    ReaderRow(id="rccl", title="RCCL", module="probes.logs.readers.rccl"),
    ReaderRow(
        id="torch",
        title="torch.distributed: watchdog, exceptions, stores",
        module="probes.logs.readers.torch",
    ),
    ReaderRow(id="torchrun", title="torchrun and its failure reports", module="probes.logs.readers.torchrun"),
    ReaderRow(id="gloo", title="Gloo", module="probes.logs.readers.gloo"),
    ReaderRow(id="cuda", title="CUDA errors and memory", module="probes.logs.readers.cuda"),
    ReaderRow(id="slurm", title="srun and slurmstepd", module="probes.logs.readers.slurm"),
    ReaderRow(
        id="frameworks",
        title="Ray, Horovod, JAX, Kubernetes, containers",
        module="probes.logs.readers.frameworks",
    ),
    ReaderRow(
        id="process",
        title="Python, C++ and MPI: how processes end",
        module="probes.logs.readers.process_ends",
    ),
    ReaderRow(id="programs", title="Programs: how they go on and end", module="probes.logs.readers.programs"),
    ReaderRow(id="training", title="Losses that are no numbers", module="probes.logs.readers.training"),
    ReaderRow(id="kernel", title="The kernel log", module="probes.logs.readers.kernel_lines"),
    ReaderRow(
        id="fabric-manager",
        title="The Fabric Manager's log",
        module="probes.logs.readers.fabric_manager_lines",
    ),
    ReaderRow(
        id="nccl-tests", title="nccl-tests and rccl-tests", module="probes.logs.readers.nccl_tests_reader"
    ),
    ReaderRow(id="nvbandwidth", title="nvbandwidth", module="probes.logs.readers.nvbandwidth_reader"),
    ReaderRow(id="perftest", title="perftest", module="probes.logs.readers.perftest_reader"),
    ReaderRow(id="dcgm", title="dcgmi diag and health", module="probes.logs.readers.dcgm"),
    ReaderRow(id="nvlink", title="State and errors of NVLinks", module="probes.logs.readers.nvlink"),
    ReaderRow(
        id="flight-recorder",
        title="torch's flight recorder, JSON and pickle",
        module="probes.logs.readers.flight_recorder_dumps",
    ),
    ReaderRow(id="port-rates", title="ibstat and ibstatus", module="probes.logs.readers.port_rates"),
    ReaderRow(
        id="health-checks", title="Node Health Check and gpu-burn", module="probes.logs.readers.health_checks"
    ),
    ReaderRow(id="host-tools", title="lspci, ulimit and df", module="probes.logs.readers.host_tools"),
    ReaderRow(
        id="bench-tools",
        title="bandwidthTest, SuperBench, fabtests and GPCNeT",
        module="probes.logs.readers.bench_tools",
    ),
)
"""Readers, in the order in which their events of one line follow each other."""


class LineReader(NamedTuple):
    """A reader at work on one source."""

    id: str
    signs: tuple[bytes, ...]
    read: Callable[[LogLine], tuple[Event, ...]]
    end: Callable[[], tuple[Event, ...]]
    lines_after: int = 0


class DocumentReader(NamedTuple):
    """A reader of whole files."""

    id: str
    signs: tuple[bytes, ...]
    read: Callable[[str, bytes], tuple[Event, ...]]


def line_readers(rows: Sequence[ReaderRow] = READERS) -> tuple[LineReader, ...]:
    """Return new readers for one source."""
    readers = []
    for row in rows:
        module = row.load()
        signs = tuple(getattr(module, "SIGNS", ()))
        if not signs:
            continue
        if hasattr(module, "Reader"):
            reader = module.Reader()
            readers.append(
                LineReader(row.id, signs, reader.read, reader.end, getattr(module, "LINES_AFTER", 0))
            )
        else:
            readers.append(LineReader(row.id, signs, module.read, _nothing))
    return tuple(readers)


def document_readers(rows: Sequence[ReaderRow] = READERS) -> tuple[DocumentReader, ...]:
    """Return the readers of whole files."""
    modules = [(row.id, row.load()) for row in rows]
    return tuple(
        DocumentReader(name, tuple(module.DOCUMENT_SIGNS), module.read_document)
        for name, module in modules
        if hasattr(module, "read_document")
    )


def _nothing() -> tuple[Event, ...]:
    return ()
