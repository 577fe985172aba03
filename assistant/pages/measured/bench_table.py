"""Name measurements in a few words, and show them in a table: one line per case, with its references."""

from collections.abc import Sequence

from assistant.pages.blocks import Cell, Column, Table, Tone, Words, words
from assistant.pages.measured.results import Result
from assistant.pages.terms import STATUS
from probes.base.units import gib, quantity
from probes.compare.measurement_judgement import ComparedTo
from probes.facts.measurements import MeasurementSet, Parameter
from probes.judging.findings import Status

SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Compute", ("gemm", "attention", "launch-latency", "sustained", "cpu-gemm")),
    ("Memory", ("memory-copy", "memory-test")),
    ("Links", ("host-device", "peer-copy")),
    ("Collectives", ("collectives", "isolation", "pairs", "overlap")),
    ("Network", ("network", "across-nodes")),
    ("Host", ("host-memory",)),
    ("Storage", ("storage", "data-loader")),
    ("Training", ("train-step", "train-cnn", "micro-batch", "own-step", "noise-scale")),
)
"""Heading of each section, and the ids of its benchmarks in the order in which they are shown."""
OTHER = "Other"
"""The heading for a benchmark that no section names."""

_METRICS = {
    "gemm_flops_per_s": "GEMM",
    "attention_flops_per_s": "attention",
    "memory_bandwidth_bytes_per_s": "memory",
    "peer_bandwidth_bytes_per_s": "peer copy",
    "collective_time_s": "time of",
    "algorithm_bandwidth_bytes_per_s": "algorithm bandwidth of",
    "bus_bandwidth_bytes_per_s": "bus bandwidth of",
    "pair_bandwidth_bytes_per_s": "pairs",
    "read_rate_per_s": "reads",
    "batch_rate_per_s": "batches",
    "tcp_bandwidth_bytes_per_s": "TCP",
    "model_flops_per_s": "FLOP rate",
    "rank_compute_s": "own work of a rank",
    "sustained_fraction": "rate at the end, as a share of the first rate",
    "sm_clock_hz": "SM clock",
    "noise_scale_sequences": "gradient noise scale, in sequences",
    "noise_scale_low_sequences": "noise scale, low end of its interval",
    "noise_scale_high_sequences": "noise scale, high end of its interval",
    "largest_micro_batch": "largest micro-batch",
    "fastest_micro_batch": "fastest micro-batch",
}
"""Phrases for metrics whose names are unclear."""
_BENCHES = {
    "sustained": "sustained",
    "cpu-gemm": "CPU",
    "host-device": "host copy",
    "host-memory": "host memory",
}
"""Words that distinguish results with the same name in one benchmark."""
SECONDARY = frozenset(
    {
        "algorithm_bandwidth_bytes_per_s",
        "peak_reserved_bytes",
        "pass_time_s",
        "memory_fit_residual",
        "memory_fixed_bytes",
        "memory_per_sample_bytes",
    }
)
"""Metrics of detail beside the main metrics of a benchmark; they are shown only if every case is shown."""
_IMPLIED = frozenset(
    {
        "world_size",
        "backend",
        "model",
        "ranks",
        "collective",
        "m",
        "n",
        "k",
        "batch",
        "heads",
        "head_dim",
        "kernel",
        "seconds",
        "threads",
        "direct",
        "data_path",
        "peer_access",
        "numa_node",
        "memory_node",
        "distance",
        "nodes",
        "image_size",
        "batch_size",
    }
)
"""Parameters that the name of a case leaves out.

The subject, the section or the shape contains them, or they are equal in all cases.
"""
_BOOLEANS = {
    "pinned": ("", "pageable"),
    "near": ("", "far"),
    "both_ways": ("both ways", ""),
    "concurrent": ("all at once", ""),
}
"""Words for true and false; the usual value needs no words."""
_NAMED = {"micro_batch": "micro-batch", "sequence_length": "sequence", "num_workers": "workers"}
_OF_USER = frozenset({"step"})
"""Parameters that the user named; their values are shown unchanged."""
_LAYERS = {
    "all": "over all layers",
    "nvlink": "only over NVLink",
    "host-memory": "only through host memory",
    "nic": "only over NICs",
}
WIDE = 110
"""Minimum page width at which the percentiles and each comparison have their own columns."""

_LONG = 16
"""A description of a case with at least this many characters is not repeated for the next result."""
_ROUND = 10
"""A spread of at least this many percent is written without decimals."""
_KINDS: tuple[tuple[ComparedTo, str], ...] = (
    ("reference", "reference"),
    ("pinned", "pinned"),
    ("previous", "last run"),
    ("peers", "peers"),
)


def section_of(bench_id: str) -> tuple[str, int]:
    """Return the section of a benchmark, and its position there."""
    return next(((heading, ids.index(bench_id)) for heading, ids in SECTIONS if bench_id in ids), (OTHER, 0))


def name_of(bench_id: str, metric: str, parameters: dict[str, Parameter]) -> str:
    """Return the name of the result, without the case: `GEMM`, `bus bandwidth of all-reduce`."""
    phrase = _METRICS.get(metric)
    if phrase is None:
        phrase = metric
        for suffix in ("_bytes_per_s", "_flops_per_s", "_per_s", "_bytes", "_s"):
            phrase = phrase.removesuffix(suffix)
    if bench_id in _BENCHES:
        rest = "" if phrase == "memory" or bench_id in phrase else f" {phrase}"
        phrase = _BENCHES[bench_id] + rest
    phrase = phrase.replace("_", " ")
    if phrase.endswith(" of") and "collective" in parameters:
        phrase += f" {collective_name(parameters['collective'])}"
    return phrase


def case(parameters: dict[str, Parameter]) -> str:
    """Return a short name of the case: `bf16 8192³`, `host→device 512 MiB`."""
    sizes = [str(parameters[name]) for name in ("m", "n", "k") if name in parameters]
    shape = f"{sizes[0]}³" if len(sizes) == 3 and len(set(sizes)) == 1 else "×".join(sizes)
    within = parameters.get("direction") == "device_to_device"
    parts = []
    for name, value in parameters.items():
        if name in _IMPLIED or (within and name == "direction") or (name == "operation" and value == "read"):
            continue
        if name == "pinned" and "work" in parameters:
            continue  # here it is about the CPUs of the ranks, not about memory
        parts.append(_value(name, value))
    return " ".join([*filter(None, parts), *([shape] if shape else [])])


def _value(name: str, value: Parameter) -> str:
    label = _NAMED.get(name, name.replace("_", " "))
    if isinstance(value, bool):
        yes, no = _BOOLEANS.get(name, (label, f"not {label}"))
        return yes if value else no
    if name in _OF_USER:
        return str(value)
    if name == "layers":
        return _LAYERS.get(str(value), str(value))
    if isinstance(value, str):
        return "" if value == "none" else value.replace("_to_", "→").replace("_", " ")
    return gib(value) if name.endswith("bytes") else f"{label} {value}"


def collective_name(value: Parameter) -> str:
    """Return `all-reduce` for `all_reduce`."""
    return "send/recv" if value == "send_recv" else str(value).replace("_", "-")


def surroundings(measured: MeasurementSet) -> list[str]:
    """Return sentences with reasons to doubt the numbers, in addition to the findings."""
    unsettled = sum(bool(each.conditions.get("unsettled")) for each in measured.measurements)
    total = len(measured.measurements)
    return [f"{unsettled} of {total} medians were still changing at the time limit"] * bool(unsettled)


def results_table(rows: Sequence[Result], *, width: int) -> Table:
    """Return the rows by section; from `WIDE` columns on, each comparison has its own column."""
    is_wide = width >= WIDE
    kinds = [kind for kind in _KINDS if any(row.beside(kind[0]) for row in rows)]
    names = [name for _, name in kinds] if is_wide else ["compared"] * bool(kinds)
    names += ["slowest"] if not kinds and any(row.slowest for row in rows) else []
    columns = (
        Column(least=1, fixed=True),
        Column(least=max(len(name) for name, _ in SECTIONS)),
        Column("on"),
        Column("median", right=True, fixed=True),
        Column("p5 .. p95" if is_wide else "±", right=True, fixed=True),
        *map(Column, names),
    )
    lines: list[tuple[Cell, ...]] = []
    for heading in (*(name for name, _ in SECTIONS), OTHER):
        mine = [row for row in rows if section_of(row.bench_id)[0] == heading]
        mine.sort(key=lambda row: section_of(row.bench_id)[1])
        lines += [()] * bool(mine and lines) + [("", words((heading, "strong")))] * bool(mine)
        before: tuple[str, str] = ("", "")
        for row in mine:
            here = (row.subject, case(row.parameters))
            cells = (
                *_name(row, with_case=here != before or len(here[1]) < _LONG),
                row.subject,
                quantity(row.median, row.unit),
                words((_spread(row, is_wide=is_wide), "dim")),
            )
            if is_wide:
                compared = [tuple(_beside(row, kind, with_value=kind == "reference") for kind, _ in kinds)]
            else:
                compared = [(each,) for each in _all_beside(row, kinds)] or [()]
            last = (words((row.slowest, "caution")),) * (names[-1:] == ["slowest"])
            lines.append((*cells, *compared[0], *last))
            lines += [("",) * len(cells) + more for more in compared[1:]]
            before = here
    return Table(columns, tuple(lines))


def _name(row: Result, *, with_case: bool) -> tuple[Words, Words]:
    """Return the glyph, and the name of the result, followed by its case if `with_case` is set."""
    glyph: tuple[str, Tone] = (
        ("·", "dim") if row.status is None else (STATUS[row.status].glyph, STATUS[row.status].tone)
    )
    return words(glyph), words(
        name_of(row.bench_id, row.metric, row.parameters),
        (f" {case(row.parameters)}" if with_case else "", "dim"),
    )


def _spread(row: Result, *, is_wide: bool) -> str:
    if row.p95 == row.p5:
        return "-"
    if is_wide:
        low, high = quantity(row.p5, row.unit), quantity(row.p95, row.unit)
        same_unit = low.partition(" ")[2] == high.partition(" ")[2]
        return f"{low.partition(' ')[0] if same_unit else low} .. {high}"
    share = row.spread * 100
    return f"{share:.1f} %" if share < _ROUND else f"{share:.0f} %"


def _all_beside(row: Result, kinds: Sequence[tuple[ComparedTo, str]]) -> list[Words]:
    """Return all references of the row; a comparison with peers of equal speed is left out."""
    return [
        _beside(row, kind) + words((f" of {name.removesuffix('erence')}", "dim"))
        for kind, name in kinds
        if row.beside(kind)
        and (kind != "peers" or any(each.status is not Status.PASS for each in row.beside(kind)))
    ]


def _beside(row: Result, kind: ComparedTo, *, with_value: bool = False) -> Words:
    """Return the result as a share of the reference.

    For several devices, return the worst share, and the device's name if the device is slow.
    """
    comparisons = row.beside(kind)
    if not comparisons:
        return words(("-", "dim"))
    worst = min(comparisons, key=lambda comparison: comparison.share)
    name = f"{worst.subject} " if len(comparisons) > 1 and worst.status is not Status.PASS else ""
    tone = STATUS[worst.status].tone if worst.status in (Status.FAIL, Status.WARN) else "good"
    tone = "dim" if worst.status is Status.UNKNOWN else tone
    of = f" of {quantity(worst.value, row.unit)}" if with_value else ""
    here, there = case(row.parameters), case(worst.parameters)
    of += f" at {there}" if there != here else ""
    return words((f"{name}{worst.share * 100:.0f} %", tone), (of, "dim"))


def sources_of(rows: Sequence[Result]) -> list[str]:
    """Return the sources of the references, each once: `reference: H100 SXM, ...`."""
    titles = dict(_KINDS)
    compared = (comparison for row in rows for comparison in row.comparisons if comparison.to != "peers")
    return list(dict.fromkeys(f"{titles[each.to]}: {each.source}" for each in compared))
