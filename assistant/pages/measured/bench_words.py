"""Name measurements: sections of the report, metrics, and cases in a few words."""

from __future__ import annotations

from probes.base.units import gib
from probes.facts.measurements import MeasurementSet, Parameter

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
"""Heading, and ids of benchmarks in the order in which they are shown."""
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
    "sustained_fraction": "rate left at the end",
    "sm_clock_hz": "SM clock",
    "noise_scale_sequences": "gradient noise scale, in sequences",
    "noise_scale_low_sequences": "noise scale, low end of its interval",
    "noise_scale_high_sequences": "noise scale, high end of its interval",
    "largest_micro_batch": "largest micro-batch",
    "fastest_micro_batch": "fastest micro-batch",
}
"""Phrases for metrics whose own names are unclear."""
_BENCHES = {
    "sustained": "sustained",
    "cpu-gemm": "CPU",
    "host-device": "host copy",
    "host-memory": "host memory",
}
"""Words that distinguish figures of the same name in one benchmark."""
_SECONDARY = frozenset(
    {
        "algorithm_bandwidth_bytes_per_s",
        "peak_reserved_bytes",
        "pass_time_s",
        "memory_fit_residual",
        "memory_fixed_bytes",
        "memory_per_sample_bytes",
    }
)
"""Metrics that say little more than another of the same benchmark."""
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
"""Parameters that the subject, the section or the shape already contains, or that are alike in all cases."""
_BOOLEANS = {
    "pinned": ("", "pageable"),
    "near": ("", "far"),
    "both_ways": ("both ways", ""),
    "concurrent": ("all at once", ""),
}
"""Words for true and false; the usual value needs none."""
_NAMED = {"micro_batch": "micro-batch", "sequence_length": "sequence", "num_workers": "workers"}
_OF_USER = frozenset({"step"})
"""Parameters that the user named; their values are shown unchanged."""
_SPELLED = {"send_recv": "send/recv"}
_LAYERS = {
    "all": "over all layers",
    "nvlink": "over NVLink alone",
    "host-memory": "through host memory alone",
    "nic": "over NICs alone",
}


def section_of(bench_id: str) -> str:
    return next((heading for heading, ids in SECTIONS if bench_id in ids), OTHER)


def place_of(bench_id: str) -> tuple[int, int]:
    """Return the position of a benchmark in the report."""
    for number, (_, ids) in enumerate(SECTIONS):
        if bench_id in ids:
            return number, ids.index(bench_id)
    return len(SECTIONS), 0


def is_secondary(metric: str) -> bool:
    return metric in _SECONDARY


def name_of(bench_id: str, metric: str, parameters: dict[str, Parameter]) -> str:
    """Return the name of the figure, without the case: `GEMM`, `bus bandwidth of all-reduce`."""
    words = _METRICS.get(metric)
    if words is None:
        words = metric
        for suffix in ("_bytes_per_s", "_flops_per_s", "_per_s", "_bytes", "_s"):
            words = words.removesuffix(suffix)
    if bench_id in _BENCHES:
        words = (
            f"{_BENCHES[bench_id]} {words}"
            if words != "memory" and bench_id not in words
            else _BENCHES[bench_id]
        )
    words = words.replace("_", " ")
    return (
        f"{words} {_spelled(parameters['collective'])}"
        if words.endswith(" of") and "collective" in parameters
        else words
    )


def case(parameters: dict[str, Parameter]) -> str:
    """Return what identifies the case, short: `bf16 8192³`, `host→device pinned 512 MiB`."""
    sizes = [str(parameters[name]) for name in ("m", "n", "k") if name in parameters]
    shape = f"{sizes[0]}³" if len(sizes) == 3 and len(set(sizes)) == 1 else "×".join(sizes)
    within = parameters.get("direction") == "device_to_device"
    words = []
    for name, value in parameters.items():
        if name in _IMPLIED or (within and name == "direction") or (name == "operation" and value == "read"):
            continue
        if name == "pinned" and "work" in parameters:
            continue  # binds ranks to CPUs, not memory
        words.append(_value(name, value))
    return " ".join([*filter(None, words), *([shape] if shape else [])])


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


def _spelled(value: Parameter) -> str:
    name = str(value)
    return _SPELLED.get(name, name.replace("_", "-"))


def surroundings(measured: MeasurementSet) -> list[str]:
    """Return reasons to doubt the numbers, in sentences, besides the findings."""
    unsettled = sum(bool(each.conditions.get("unsettled")) for each in measured.measurements)
    if not unsettled:
        return []
    return [f"{unsettled} of {len(measured.measurements)} medians were still moving when their time was over"]
