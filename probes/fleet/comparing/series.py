"""Values of one quantity over comparable parts, and their robust centre and spread."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from probes.fleet.comparing.limits import limit
from probes.fleet.node_report import Metric, NodeReport

_MAD_TO_SIGMA = 1.4826
"""Standard deviation of normal values divided by their median absolute deviation: 1 / Phi^-1(3/4)."""
GROUP_ATTRIBUTES = ("gpu_model", "gpu_memory", "power_cap", "driver")
"""Attributes that nodes must have in common to be compared with each other."""


class Value(NamedTuple):
    """One quantity of one part of a node. Larger is better: times are stored as their inverse."""

    node: str
    part_id: str
    slot: str
    value: float
    samples: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"{self.node} {self.slot}".strip()


class Series(NamedTuple):
    """One quantity over the parts of one group of nodes."""

    metric: str
    group: tuple[str, ...]
    values: tuple[Value, ...]

    @property
    def group_words(self) -> str:
        return words_of_kind(self.group) or "all nodes"


class Spread(NamedTuple):
    """Robust centre and standard deviation of some values."""

    centre: float
    deviation: float

    def deviations(self, value: float) -> float:
        return (value - self.centre) / self.deviation


def spread_of(values: Sequence[float], centre_size: float | None = None) -> Spread:
    """Return median and scaled median absolute deviation.

    The deviation is at least `smallest_spread` of `centre_size`, by default of the median's size: equal
    values would make any difference an outlier.
    """
    centre = statistics.median(values)
    deviation = _MAD_TO_SIGMA * statistics.median(abs(value - centre) for value in values)
    size = abs(centre) if centre_size is None else centre_size
    return Spread(centre, max(deviation, limit("smallest_spread") * size, 1e-30))


def kind_of(report: NodeReport) -> tuple[str, ...]:
    """Return the attributes that a node shares with its peers; unknown ones are empty."""
    return tuple(report.attributes.get(name, "") for name in GROUP_ATTRIBUTES)


def words_of_kind(kind: tuple[str, ...]) -> str:
    """Return the known attributes of a kind of nodes, separated by commas."""
    return ", ".join(filter(None, kind))


def series_of(reports: Iterable[NodeReport]) -> Iterator[Series]:
    """Yield the values of every quantity, by groups of nodes of the same kind.

    Values of parts in use by others are left out, because they do not show the part's own speed.
    """
    groups: dict[tuple[str, str, str, tuple[str, ...]], list[Value]] = {}
    for report in reports:
        kind = kind_of(report)
        for metric in report.metrics:
            if metric.is_usable:
                key = (metric.metric, metric.part_kind, metric.version, kind)
                groups.setdefault(key, []).append(_value(report.node, metric))
    for (name, _part, _version, kind), values in groups.items():
        yield Series(name, kind, tuple(values))


def _value(node: str, metric: Metric) -> Value:
    samples = metric.samples
    if not metric.is_larger_better:
        samples = tuple(1 / sample for sample in samples if sample > 0)
    value = statistics.median(samples) if samples else 0.0
    return Value(node, metric.part_id, metric.slot, value, samples)
