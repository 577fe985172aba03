"""The table of all readers of logs. A new reader is a module in `probes/logs/readers` and a row here.

The module has `SIGNS: tuple[bytes, ...]`: every line for the reader contains one of these substrings. It also
has either `read(line: LogLine) -> tuple[Event, ...]` or, if lines belong together, a class `Reader` with
`read` and perhaps `end() -> tuple[Event, ...]`, created once for each source. Neither may raise an exception.

If the module defines `LINES_AFTER: int`, the reader also gets that many lines after each line with a sign,
and the last lines of the log, whatever they contain.

A module may also read whole files that are not logs of lines (a dump, a JSON report). It then has
`DOCUMENT_SIGNS: tuple[bytes, ...]` (the first 64 KiB of such a file contain at least one of them) and
`read_document(name: str, data: bytes) -> tuple[Event, ...]`, which returns nothing for other files.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from probes.base.table_rows import Row
from probes.logs.event import Event, LogLine

READERS: tuple[Row, ...] = (
    Row(id="nccl", title="NCCL: the course of a run", module="probes.logs.readers.nccl"),
    Row(id="nccl-errors", title="NCCL: warnings and failures", module="probes.logs.readers.nccl_errors"),
    Row(
        id="nccl-transports",
        title="NCCL: how ranks reach each other, and distances",
        module="probes.logs.readers.nccl_transport_lines",
    ),
    Row(id="nccl-plugins", title="NCCL's plugins", module="probes.logs.readers.plugins"),
    Row(
        id="network-libraries",
        title="libfabric, libibverbs and UCX",
        module="probes.logs.readers.network_libraries",
    ),
    Row(id="rccl", title="RCCL", module="probes.logs.readers.rccl"),
    Row(
        id="torch",
        title="torch.distributed: watchdog, exceptions, stores",
        module="probes.logs.readers.torch",
    ),
    Row(id="torchrun", title="torchrun and its failure reports", module="probes.logs.readers.torchrun"),
    Row(id="cuda", title="CUDA errors and memory", module="probes.logs.readers.cuda"),
    Row(id="slurm", title="srun and slurmstepd", module="probes.logs.readers.slurm"),
    Row(
        id="frameworks",
        title="Gloo, Ray, Horovod, JAX, Kubernetes, containers",
        module="probes.logs.readers.frameworks",
    ),
    Row(
        id="process",
        title="Python, C++ and MPI: how processes end",
        module="probes.logs.readers.process_ends",
    ),
    Row(id="programs", title="Programs: how they continue and end", module="probes.logs.readers.programs"),
    Row(id="training", title="Training loops: steps, times, losses", module="probes.logs.readers.training"),
    Row(id="kernel", title="The kernel log", module="probes.logs.readers.kernel_lines"),
    Row(
        id="fabric-manager",
        title="The Fabric Manager's log",
        module="probes.logs.readers.fabric_manager_lines",
    ),
    Row(id="nccl-tests", title="nccl-tests and rccl-tests", module="probes.logs.readers.nccl_tests_reader"),
    Row(
        id="bench-tools",
        title="nvbandwidth, perftest and other benchmarks",
        module="probes.logs.readers.bench_tools",
    ),
    Row(
        id="gpu-diagnostics",
        title="DCGM and the states of NVLinks",
        module="probes.logs.readers.gpu_diagnostics",
    ),
    Row(
        id="flight-recorder",
        title="torch's flight recorder, JSON and pickle",
        module="probes.logs.readers.flight_recorder_dumps",
    ),
    Row(
        id="host-tools",
        title="Health checks, lspci, ulimit, df and ibstat",
        module="probes.logs.readers.host_tools",
    ),
)
"""Readers; events that several readers report for one line have the order of this table."""


class LineReader(NamedTuple):
    """A reader that reads one source."""

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


def line_readers(rows: Sequence[Row] = READERS) -> tuple[LineReader, ...]:
    """Return new readers for one source."""
    readers = []
    for row in rows:
        module = row.load()
        if signs := tuple(getattr(module, "SIGNS", ())):
            reader = module.Reader() if hasattr(module, "Reader") else module
            end, lines_after = getattr(reader, "end", tuple), getattr(module, "LINES_AFTER", 0)
            readers.append(LineReader(row.id, signs, reader.read, end, lines_after))
    return tuple(readers)


def document_readers(rows: Sequence[Row] = READERS) -> tuple[DocumentReader, ...]:
    """Return the readers of whole files."""
    modules = [(row.id, row.load()) for row in rows]
    return tuple(
        DocumentReader(name, tuple(module.DOCUMENT_SIGNS), module.read_document)
        for name, module in modules
        if hasattr(module, "read_document")
    )
