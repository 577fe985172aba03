"""Read the processes of the machine. Each takes 20 µs, so only deep checks read them."""

from __future__ import annotations

from probes.base.record import Reason, Unknown, only_known
from probes.parsers.kernel.kernel_files import Process, parse_process
from probes.sources.base import Source, read_text

_MOST = 20_000


def processes(source: Source) -> tuple[Process, ...] | Unknown:
    """Return all processes; those that end meanwhile are left out."""
    names = source.names("/proc")
    if isinstance(names, Unknown):
        return names
    numbers = [name for name in names if name.isdecimal()]
    if not numbers:
        return Unknown(Reason.NOT_RECORDED, "/proc lists no process")
    if len(numbers) > _MOST:
        return Unknown(Reason.ERROR, f"more than {_MOST} processes")
    texts = (read_text(source, f"/proc/{number}/stat") for number in numbers)
    parsed = (parse_process(text) for text in only_known(texts))
    complete = tuple(process for process in parsed if process is not None)
    return complete or Unknown(Reason.NOT_RECORDED, "no process could be read")
