"""Select rigtune's own measurements for a check, and name and cite them in findings."""

import re
from collections.abc import Collection, Iterable

from probes.base.record import EvidenceRef
from probes.base.units import gib
from probes.facts.measurements import Measurement
from probes.judging.findings import Evidence

MOST_SHOWN = 4
"""Maximum number of measurements that a finding cites."""


def measurements_of(evidence: Evidence, bench_ids: Collection[str], *metrics: str) -> tuple[Measurement, ...]:
    """Return the measurements with samples of some benchmarks, of all metrics or of the named metrics."""
    return tuple(
        row
        for row in evidence.measurements
        if row.bench_id in bench_ids and row.samples and (not metrics or row.metric in metrics)
    )


def words_of(measured: Measurement) -> str:
    """Return the case in a few words: `bf16 8192x8192x8192`, `all reduce 1.0 GiB`."""
    parts = []
    for name, value in measured.parameters.items():
        if name in ("m", "n", "k", "world_size", "backend", "model") or isinstance(value, bool):
            continue
        if name.endswith("bytes") and isinstance(value, (int, float)):
            parts.append(gib(value))
        else:
            parts.append(
                value.replace("_", " ") if isinstance(value, str) else f"{name.replace('_', ' ')} {value}"
            )
    shape = [str(measured.parameters[name]) for name in ("m", "n", "k") if name in measured.parameters]
    return " ".join([*parts, *(["x".join(shape)] if shape else [])])


def gpus_in(subject: str) -> tuple[str, ...]:
    """Return the GPUs that a subject names: one for a device, two for a pair."""
    return tuple(f"GPU{number}" for number in re.findall(r"GPU(\d+)", subject))


def refs_of(measured: Iterable[Measurement]) -> tuple[EvidenceRef, ...]:
    """Return references to the first few measurements."""
    return tuple(dict.fromkeys(_ref(row) for row in list(measured)[:MOST_SHOWN]))


def _ref(measured: Measurement) -> EvidenceRef:
    detail = ", ".join(filter(None, (measured.subject, words_of(measured))))
    return EvidenceRef(source="measurement", key=f"{measured.bench_id} {measured.metric}", detail=detail)
