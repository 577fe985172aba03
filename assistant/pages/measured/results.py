"""Fold measurements for display: equal devices share a line, and a sweep is shown by its best case.

A sweep is a series of cases that differ in one size, such as the message size.
"""

import re
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from probes.base.grouping import folded, grouped
from probes.base.units import percent
from probes.compare.comparing import SWEPT, kind_of, size_of, worse
from probes.compare.measurement_judgement import ComparedTo, Comparison
from probes.facts.measurements import Measurement, Parameter
from probes.judging.findings import WORST_FIRST, Status

_ALSO_SWEPT = {
    "attention": frozenset({"sequence_length", "batch", "kernel"}),
    "memory-test": frozenset({"pattern"}),
}
"""Parameters of a benchmark that differ between cases and not between devices."""
_LEADING = ("tokens_per_s", "images_per_s", "samples_per_s")
"""Metrics whose best case is shown for the sweep, with other metrics of this case, such as memory."""
_ODD = 0.05
"""The slowest of several devices is named if it differs from the median by at least this share."""

_COUNTED = frozenset({"memory_errors"})
"""Metrics that count errors: every value above 0 is bad."""

_SIZES = frozenset({"m", "n", "k", "bytes", "sequence_length", "batch", "queue_depth"})
"""Parameters that make a case of a sweep larger or smaller."""

Key = tuple[object, ...]


class Result(NamedTuple):
    """One line of the table."""

    bench_id: str
    metric: str
    unit: str
    subject: str
    """The measured device; several devices such as `GPU0-7` if they ran the same case."""
    median: float
    """Median of the devices' medians."""
    p5: float
    p95: float
    """Percentiles of the device whose samples scatter most."""
    parameters: dict[str, Parameter]
    slowest: str
    """The device that is clearly slower than the others, with the difference; empty if there is none."""
    comparisons: tuple[Comparison, ...]

    @property
    def spread(self) -> float:
        """Half of the range from the 5th to the 95th percentile, divided by the median."""
        return (self.p95 - self.p5) / 2 / abs(self.median) if self.median else 0.0

    @property
    def status(self) -> Status | None:
        """FAIL if errors were counted; else the worst status of the comparisons, None without comparisons."""
        if self.metric in _COUNTED and self.median > 0:
            return Status.FAIL
        statuses = {comparison.status for comparison in self.comparisons}
        return next((status for status in WORST_FIRST if status in statuses), None)

    def beside(self, *kinds: ComparedTo) -> tuple[Comparison, ...]:
        return tuple(comparison for comparison in self.comparisons if comparison.to in kinds)


def results(
    measurements: Sequence[Measurement], comparisons: Iterable[Comparison] = (), *, show_all: bool
) -> tuple[Result, ...]:
    """Return the lines in the order of the measurements; with `show_all`, every case of a sweep has a line.

    A line has the comparisons of the case that it shows. Only the best case of a sweep is compared with a
    published reference. Without `show_all`, a line of another case repeats the comparison of the best case.
    """
    groups = grouped((_group_key(entry), entry) for entry in measurements if entry.samples)
    judged = grouped((_sweep_key(comparison), comparison) for comparison in comparisons)
    cases = [(group, _result(group)) for group in groups.values()]
    if not show_all:
        cases = _best(cases)
    return tuple(
        case._replace(comparisons=_comparisons(group, judged, exact=show_all)) for group, case in cases
    )


def _best(cases: Sequence[tuple[list[Measurement], Result]]) -> list[tuple[list[Measurement], Result]]:
    """Return one case of each sweep, and the cases that the user named.

    If the sweep has a leading metric, this is the case with the best value of that metric. Otherwise it is
    the largest case, or, for times of collectives, the smallest case. This choice is the same in every run,
    while the best of several similar cases would differ from run to run.
    """
    leaders: dict[Key, Result] = {}
    for group, case in cases:
        key = _sweep_of(group[0])
        if case.metric in _LEADING and (key not in leaders or case.median > leaders[key].median):
            leaders[key] = case
    best: dict[Key, tuple[list[Measurement], Result]] = {}
    for group, case in cases:
        leader = leaders.get(_sweep_of(group[0]))
        key = (*_sweep_of(group[0]), case.metric)
        # All metrics of a sweep show the case of the best leading metric, such as memory at the best rate.
        is_with_leader = leader is not None and leader.parameters == case.parameters
        if (
            key not in best
            or is_with_leader
            or (leader is None and _comes_before(group[0], case, best[key][1]))
        ):
            best[key] = (group, case)
    chosen = {id(case) for _, case in best.values()}
    # Results of a sweep stay together, even if they belong to different cases.
    places = {key: place for place, key in enumerate(best)}
    shown = [
        (group, case)
        for group, case in cases
        if id(case) in chosen or group[0].conditions.get("asked") is True
    ]
    return sorted(shown, key=lambda pair: places[(*_sweep_of(pair[0][0]), pair[1].metric)])


def _sweep_of(entry: Measurement) -> Key:
    return entry.bench_id, kind_of(entry.subject), _key(entry.parameters, without=_swept(entry))


def _swept(entry: Measurement | Comparison) -> frozenset[str]:
    also = _ALSO_SWEPT.get(entry.bench_id, frozenset())
    return SWEPT | also | (frozenset({"numa_node"}) if "near" in entry.parameters else frozenset())


def _group_key(entry: Measurement) -> Key:
    # The nearest memory of each GPU is on a different NUMA node, but these GPUs are still equal.
    alike = frozenset({"numa_node"}) if "near" in entry.parameters else frozenset()
    return entry.bench_id, entry.metric, kind_of(entry.subject), _key(entry.parameters, without=alike)


def _sweep_key(entry: Measurement | Comparison) -> Key:
    return entry.bench_id, entry.metric, entry.subject, _key(entry.parameters, without=_swept(entry))


def _key(
    parameters: dict[str, Parameter], without: frozenset[str] = frozenset()
) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in parameters.items() if name not in without))


def _comparisons(
    group: Sequence[Measurement], judged: dict[Key, list[Comparison]], *, exact: bool
) -> tuple[Comparison, ...]:
    chosen = []
    for entry in group:
        near = judged.get(_sweep_key(entry), [])
        same = [comparison for comparison in near if comparison.parameters == entry.parameters]
        best = [] if exact else [comparison for comparison in near if comparison.to == "reference"]
        chosen += same + [comparison for comparison in best if comparison not in same]
    return tuple(chosen)


def _comes_before(kind: Measurement, result: Result, other: Result) -> bool:
    """Return whether `result` is shown for the sweep rather than `other`."""
    size, other_size = (size_of(case.parameters, _SIZES) for case in (result, other))
    if size != other_size:
        return (size < other_size) is (kind.metric == "collective_time_s")
    return _is_better(kind, result, other)


def _is_better(kind: Measurement, result: Result, other: Result) -> bool:
    return result.median < other.median if worse(kind) == "high" else result.median > other.median


def _result(group: Sequence[Measurement]) -> Result:
    if group[0].metric in _COUNTED:
        # A device with errors must not disappear among many devices without errors.
        group = [entry for entry in group if entry.median > 0] or group
    first = group[0]
    middle = statistics.median(entry.median for entry in group)
    widest = max(group, key=lambda entry: entry.quantile(0.95) - entry.quantile(0.05))
    return Result(
        bench_id=first.bench_id,
        metric=first.metric,
        unit=first.unit,
        subject=subjects([entry.subject for entry in group]),
        median=middle,
        p5=widest.quantile(0.05),
        p95=widest.quantile(0.95),
        parameters=first.parameters,
        slowest=_slowest(group, middle),
        comparisons=(),
    )


def subjects(names: Sequence[str]) -> str:
    """Return `GPU0-3,6` or `CPU ranks 0-1` for devices of one kind, and otherwise the list of their names."""
    numbers = [match for name in names if (match := re.fullmatch(r"(\D*)(\d+)", name))]
    if len(numbers) < len(names) or len(names) == 1 or len({match[1] for match in numbers}) > 1:
        return ", ".join(dict.fromkeys(names))
    family = numbers[0][1]
    plural_family = f"{family[:-1]}s " if family.endswith(" ") else family
    return plural_family + folded(int(match[2]) for match in numbers)


def _slowest(group: Sequence[Measurement], middle: float) -> str:
    if len(group) < 2 or not middle or group[0].unit == "byte" or worse(group[0]) is None:
        return ""
    is_high = worse(group[0]) == "high"
    slowest = (max if is_high else min)(group, key=lambda entry: entry.median)
    share = abs(slowest.median - middle) / abs(middle)
    return f"{slowest.subject} {'+' if is_high else '-'}{percent(share)}" if share >= _ODD else ""
