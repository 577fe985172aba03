"""Show the GPUs, one line for each GPU or group of equal GPUs, or the reason why no GPU is shown."""

from collections import Counter
from collections.abc import Iterable, Sequence

from assistant.pages.blocks import Cell, Column, Row, Section, Table, plain, words
from assistant.pages.machine.facts_words import cut, ranged
from assistant.pages.terms import STATUS, short
from probes.base.grouping import folded, grouped
from probes.base.record import Reason, Unknown, known, value_or
from probes.base.units import gib, plural
from probes.facts import Gpu, MachineFacts, PcieLink
from probes.judging.findings import WORST_FIRST, Finding, Status
from probes.judging.reporting import accelerator_words, unfolded

_COLUMNS = ("GPU", "state", "memory", "temp", "power", "util", "PCIe", "used by")
_DROPPED_FIRST = ("memory", "temp", "util", "power", "used by", "PCIe")
"""Columns that a narrow panel leaves out, in this order."""
_GAP = 2
_NAME_WIDTH = 15
"""Largest length of a process name; the kernel cuts names at the same length (TASK_COMM_LEN)."""


def gpus_section(
    facts: MachineFacts,
    findings: Sequence[Finding],
    *,
    complete: bool,
    fold: bool,
    width: int,
    reported: tuple[Row, ...] = (),
) -> Section:
    """Return the GPUs, or a statement that there are none, with possible causes.

    For a node of which only the report is known, `reported` replaces the statement.
    """
    if known(facts.gpus) and facts.gpus:
        return Section(
            f"GPUs  {gpu_title(facts.gpus)}", (gpu_table(facts.gpus, findings, fold=fold, width=width),)
        )
    if not complete:
        return Section("GPUs", (Row(words(("reading …", "dim"))),))
    title = "GPUs  unknown" if isinstance(facts.gpus, Unknown) else "GPUs  none"
    return Section(title, reported or no_gpu(facts))


def gpu_table(gpus: Sequence[Gpu], findings: Sequence[Finding], *, fold: bool, width: int) -> Table:
    """Return GPUs with their live readings in `width` cells; with `fold`, equal GPUs share a line."""
    groups = [[gpu] for gpu in gpus]
    if fold:
        alike = grouped(
            ((_worst(gpu, findings), _memory(gpu), _pcie(gpu.pcie), _processes(gpu)), gpu) for gpu in gpus
        )
        groups = list(alike.values())
    rows = [dict(zip(_COLUMNS, _row(group, findings), strict=True)) for group in groups]
    names = _fitting(rows, width, is_mixed=len({_memory(gpu) for gpu in gpus}) > 1)
    return Table(
        tuple(Column(name, fixed=True) for name in names),
        tuple(tuple(row[name] for name in names) for row in rows),
    )


def _fitting(rows: Sequence[dict[str, Cell]], width: int, *, is_mixed: bool) -> list[str]:
    """Return the columns that fit into the width and have at least one known value.

    If all GPUs have the same memory, only the title shows it.
    """
    widths = {
        column: max(len(column), *(len(plain(row[column])) for row in rows)) + _GAP for column in _COLUMNS
    }
    columns = [column for column in _COLUMNS if is_mixed or column != "memory"]
    columns = [column for column in columns if any(plain(row[column]) != "?" for row in rows)]
    for column in _DROPPED_FIRST:
        if sum(widths[name] for name in columns) - _GAP > width and column in columns:
            columns.remove(column)
    return columns


def _row(group: Sequence[Gpu], findings: Sequence[Finding]) -> tuple[Cell, ...]:
    first = group[0]
    status = _worst(first, findings)
    return (
        folded(gpu.index for gpu in group),
        words(("·", "dim")) if status is None else STATUS[status].badge,
        _memory(first),
        _range((gpu.temperature_c for gpu in group), "°C"),
        _power(group),
        _range((gpu.utilization_percent for gpu in group), "%"),
        _pcie(first.pcie),
        _processes(first),
    )


def gpu_title(gpus: Sequence[Gpu]) -> str:
    """Return `8 × NVIDIA H100 80GB HBM3, 79.6 GiB`; different models are counted separately."""
    models = Counter(
        short(gpu.name) + (f", {gib(gpu.memory_bytes)}" if known(gpu.memory_bytes) else "") for gpu in gpus
    )
    return "; ".join(f"{number} × {model}" for model, number in models.items())


def _worst(gpu: Gpu, findings: Sequence[Finding]) -> Status | None:
    """Return the worst status among the findings on this GPU; None if there are no findings yet.

    SKIP counts as PASS.
    """
    made = {finding.status for finding in findings if f"GPU{gpu.index}" in unfolded(finding.subject)}
    if not made:
        return None
    worst = next(status for status in WORST_FIRST if status in made)
    return Status.PASS if worst is Status.SKIP else worst


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
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"{cut(names[0], _NAME_WIDTH)}{more}" if names else "none"


def _range(values: Iterable[int | Unknown], unit: str) -> str:
    return value_or(ranged(values, unit), "?") or "?"


def _power(group: Sequence[Gpu]) -> str:
    drawn = ranged((gpu.power_w for gpu in group), "W")
    limit = short(group[0].power_limit_w, "{:.0f}".format)
    return "?" if isinstance(drawn, Unknown) else f"{drawn.removesuffix(' W')}/{limit} W"


def no_gpu(facts: MachineFacts) -> tuple[Row, ...]:
    """Return why no GPU can be used, possible causes, and what works without a GPU."""
    if isinstance(facts.gpus, Unknown) and facts.gpus.reason is Reason.NOT_RECORDED:
        return (
            Row(words(("Nothing is recorded about GPUs.", "caution"))),
            Row("This source does not report GPUs; a recording made with --record contains them."),
        )
    others = accelerator_words(facts)
    works = "plan and script work" if facts.training.path is None else "benchmarks, plan and script all work"
    rehearsal = Row(words(("Trial on CPUs: ", "strong"), f"{works} on the CPU, with gloo and a small model."))
    return (
        *(_silent_driver(facts, facts.gpus) if isinstance(facts.gpus, Unknown) else _none(facts)),
        *((Row(words((f"{others}: rigtune does not read these.", "caution"))),) if others else ()),
        rehearsal,
    )


def _silent_driver(facts: MachineFacts, silence: Unknown) -> list[Row]:
    """Return a statement that no driver answers, and the GPUs that the PCI bus shows."""
    bus = "There is no GPU here, its driver is not loaded, or this container was started without it."
    if known(facts.pci_gpus) and facts.pci_gpus:
        bus = f"The PCI bus shows {plural(len(facts.pci_gpus), 'NVIDIA GPU')}: {', '.join(facts.pci_gpus)}."
    return [
        Row(words(("No NVIDIA driver answered.", "caution"))),
        Row(bus),
        Row(words((str(silence), "dim"))),
    ]


def _none(facts: MachineFacts) -> list[Row]:
    """Return a statement that there is no usable NVIDIA GPU."""
    driver = facts.software.driver_version
    if known(driver) and driver is not None:
        return [
            Row(words(("The NVIDIA driver answered and shows no GPU.", "caution"))),
            Row("The container or virtual machine was started without a GPU, or the GPU fell off the bus."),
        ]
    return [Row("No NVIDIA GPU is on the PCI bus." if facts.pci_gpus == () else "No NVIDIA GPU was found.")]
