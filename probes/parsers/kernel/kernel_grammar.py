"""Grammar of the kernel log, which `check` and `explain` share: the lines of interest and their meaning.

To add a line of a new kernel or driver, add a row to `kernel_gpu.py`, `kernel_amdgpu.py`,
`kernel_devices.py`, `kernel_network.py`, `kernel_host.py` or `kernel_storage.py`. Both commands then read the
line.
"""

import functools

import msgspec

from probes.parsers.kernel import (
    kernel_amdgpu,
    kernel_devices,
    kernel_gpu,
    kernel_host,
    kernel_network,
    kernel_storage,
)
from probes.parsers.kernel.kernel_events import DriverComplaint, KernelEvent, KernelRow

ROWS: tuple[KernelRow, ...] = (
    *kernel_gpu.ROWS,
    *kernel_devices.DEVICE_ROWS,
    *kernel_amdgpu.ROWS,
    *kernel_host.PCIE_ROWS,
    *kernel_network.LINK_ROWS,
    *kernel_network.CARD_ROWS,
    *kernel_host.HOST_ROWS,
    *kernel_storage.STORAGE_ROWS,
    *kernel_host.CRASH_ROWS,
)
"""All kinds of lines; the first row that matches a line is used."""


def _rows_by_word() -> dict[str, int]:
    bits: dict[str, int] = {}
    for place, row in enumerate(ROWS):
        for word in row.words:
            bits[word] = bits.get(word, 0) | 1 << place
    return bits


ROWS_BY_WORD: dict[str, int] = _rows_by_word()
"""Every line of interest contains one of these words. The value has a bit for each row that requires it.

Bit n is row n.
"""
_WORDS = tuple((word, row) for row in ROWS for word in row.words)
_LINES_ON = 4
"""Number of lines below the name of a GPU in which the driver continues its report."""


@functools.lru_cache(maxsize=1024)
def rows_of(bits: int) -> tuple[KernelRow, ...]:
    """Return the rows that the set bits of a number represent."""
    return tuple(row for place, row in enumerate(ROWS) if bits >> place & 1)


def read_message(message: str) -> KernelEvent | None:
    """Return the event of a kernel message without time and host; None for a message of no interest."""
    for word, row in _WORDS:
        if word in message and (event := row.read(message)) is not None:
            return event
    return None


def read_by(rows: tuple[KernelRow, ...], message: str) -> KernelEvent | None:
    """Return the event of a message by the first row that fits it; None if no row fits."""
    events = (row.read(message) for row in rows)
    return next((event for event in events if event is not None), None)


class NamedGpu:
    """The GPU that the driver names in a line before it continues its report."""

    def __init__(self) -> None:
        self._device, self._line = "", 0

    def complete(self, event: KernelEvent | None, message: str, line: int) -> KernelEvent | None:
        """Return the event of a line; if the line names no GPU, use the GPU of the lines before it."""
        if (device := kernel_gpu.named_gpu(message)) is not None:
            self._device, self._line = device, line
        elif isinstance(event, DriverComplaint) and event.device is None and self._device:
            is_near = line - self._line < _LINES_ON
            return msgspec.structs.replace(event, device=self._device) if is_near else event
        return event
