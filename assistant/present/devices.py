"""The GPUs, one line each or one line per group of equals, and what it means that there is none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from rich.table import Table
from rich.text import Text

from assistant.present.text import CAUTION, DIM, STRONG, clean, folded, joined, short, status_text
from probes.base.record import Reason, Unknown, known
from probes.base.units import gib, plural
from probes.facts import Gpu, MachineFacts, PcieLink
from probes.judging.findings import WORST_FIRST, Finding, Status

_COLUMNS = ("GPU", "state", "memory", "temp", "power", "util", "PCIe", "used by")
_DROPPED_FIRST = ("memory", "temp", "util", "power", "used by", "PCIe")
"""Columns that a narrow panel goes without, in this order."""
_GAP = 2
_GPU_NAMES = re.compile(r"GPU([0-9]{1,4})(?:-([0-9]{1,4}))?")
_NAME_WIDTH = 15
"""The kernel cuts process names there too (TASK_COMM_LEN)."""


def gpu_table(gpus: Sequence[Gpu], findings: Sequence[Finding], *, fold: bool, width: int) -> Table:
    """GPUs with their live readings in `width` cells. With `fold`, GPUs alike share a line, so that the odd
    one stands out.
    """
    groups: dict[tuple[object, ...], list[Gpu]] = {}
    for gpu in gpus:
        key = (
            (_worst(gpu, findings), _memory(gpu), _pcie(gpu.pcie), _processes(gpu)) if fold else (gpu.index,)
        )
        groups.setdefault(key, []).append(gpu)
    rows = [dict(zip(_COLUMNS, _row(group, findings), strict=True)) for group in groups.values()]
    columns = _fitting(rows, width, is_mixed=len({_memory(gpu) for gpu in gpus}) > 1)
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style=DIM)
    for column in columns:
        table.add_column(column, no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(row[column] for column in columns))
    return table


def _fitting(rows: Sequence[dict[str, Text]], width: int, *, is_mixed: bool) -> list[str]:
    """The columns that have room and any value. Equal memory stands in the title alone."""
    widths = {column: max(len(column), *(row[column].cell_len for row in rows)) + _GAP for column in _COLUMNS}
    columns = [column for column in _COLUMNS if is_mixed or column != "memory"]
    columns = [column for column in columns if any(row[column].plain != "?" for row in rows)]
    for column in _DROPPED_FIRST:
        if sum(widths[name] for name in columns) - _GAP > width and column in columns:
            columns.remove(column)
    return columns


def _row(group: Sequence[Gpu], findings: Sequence[Finding]) -> tuple[Text, ...]:
    first = group[0]
    status = _worst(first, findings)
    return (
        Text(folded([gpu.index for gpu in group])),
        Text("·", style=DIM) if status is None else status_text(status),
        Text(_memory(first)),
        Text(_range(group, lambda gpu: gpu.temperature_c, "°C")),
        Text(_power(group)),
        Text(_range(group, lambda gpu: gpu.utilization_percent, "%")),
        Text(_pcie(first.pcie)),
        Text(_processes(first)),
    )


def gpu_title(gpus: Sequence[Gpu]) -> str:
    """`8 × NVIDIA H100 80GB HBM3, 80.0 GiB`; several models are counted apart."""
    models = Counter((short(gpu.name), _memory(gpu)) for gpu in gpus)
    return "; ".join(f"{number} × {name}, {memory}" for (name, memory), number in models.items())


def _worst(gpu: Gpu, findings: Sequence[Finding]) -> Status | None:
    """The worst status among the findings on this GPU; None before any was made."""
    made = {finding.status for finding in findings if gpu.index in _indices(finding.subject)}
    if not made:
        return None
    worst = next(status for status in WORST_FIRST if status in made)
    return Status.PASS if worst is Status.SKIP else worst


def _indices(subject: str) -> set[int]:
    """The GPUs that a finding is about; checks fold those alike: `GPU0-2, GPU5`."""
    found: set[int] = set()
    for name in subject.split(", "):
        match = _GPU_NAMES.fullmatch(name)
        if match is not None:
            found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def _memory(gpu: Gpu) -> str:
    return short(gpu.memory_bytes, gib)


def _pcie(link: PcieLink) -> str:
    if isinstance(link.generation, Unknown) and isinstance(link.width, Unknown):
        return "?"
    return f"Gen{short(link.generation)} ×{short(link.width)}"


def _processes(gpu: Gpu) -> str:
    if isinstance(gpu.processes, Unknown):
        return "?"
    names = [short(process.name).rsplit("/", 1)[-1] for process in gpu.processes]
    if not names:
        return "none"
    first = names[0] if len(names[0]) <= _NAME_WIDTH else names[0][: _NAME_WIDTH - 1] + "…"
    return first if len(names) == 1 else f"{first} +{len(names) - 1}"


def _range(group: Sequence[Gpu], of: Callable[[Gpu], int | Unknown], unit: str) -> str:
    values = [value for value in map(of, group) if known(value)]
    if not values:
        return "?"
    low, high = min(values), max(values)
    return f"{low} {unit}" if low == high else f"{low}-{high} {unit}"


def _power(group: Sequence[Gpu]) -> str:
    drawn = [gpu.power_w for gpu in group if known(gpu.power_w)]
    limit = short(group[0].power_limit_w, lambda watts: f"{watts:.0f}")
    if not drawn:
        return "?"
    low, high = f"{min(drawn):.0f}", f"{max(drawn):.0f}"
    return f"{low}/{limit} W" if low == high else f"{low}-{high}/{limit} W"


def no_gpu(facts: MachineFacts) -> Text:
    """The designed empty state: what is missing, what that may mean, and what works all the same."""
    if isinstance(facts.gpus, Unknown) and facts.gpus.reason is Reason.NOT_RECORDED:
        return joined(
            Text("Nothing is recorded about GPUs.", style=CAUTION),
            Text("This source does not tell whether there are any; a recording made with --record does."),
        )
    works = "plan and script work" if facts.training.path is None else "benchmarks, plan and script all work"
    rehearsal = Text.assemble(
        ("CPU rehearsal: ", STRONG), f"{works} on the CPU, with gloo and a small model."
    )
    return joined(
        *(_silent_driver(facts, facts.gpus) if isinstance(facts.gpus, Unknown) else _none(facts)), rehearsal
    )


def _silent_driver(facts: MachineFacts, silence: Unknown) -> list[Text]:
    """Nobody answers for the GPUs; the PCI bus may still tell whether there are any."""
    if known(facts.pci_gpus) and facts.pci_gpus:
        bus = f"The PCI bus shows {plural(len(facts.pci_gpus), 'NVIDIA GPU')}: {', '.join(map(clean, facts.pci_gpus))}."
    else:
        bus = "There is no GPU here, its driver is not loaded, or this container was started without it."
    return [
        Text("No NVIDIA driver answered.", style=CAUTION),
        Text(bus),
        Text(clean(str(silence)), style=DIM),
    ]


def _none(facts: MachineFacts) -> list[Text]:
    """There is no usable GPU, which is known."""
    driver = facts.software.driver_version
    if known(driver) and driver is not None:
        return [
            Text("The NVIDIA driver answered and shows no GPU.", style=CAUTION),
            Text("The container or virtual machine was started without one, or the GPU fell off the bus."),
        ]
    if facts.pci_gpus == ():
        return [Text("No NVIDIA GPU is on the PCI bus.")]
    return [Text("No NVIDIA GPU was found.")]
