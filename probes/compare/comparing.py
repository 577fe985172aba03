"""Compare measurements with published references, equal devices and earlier runs. The functions are pure.

Checks turn the comparisons into findings, and the report shows the comparisons.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from probes.base.record import Record
from probes.base.statistics import Change, compare, outliers
from probes.catalogue.thresholds import Thresholds
from probes.compare.measurement_judgement import Comparison
from probes.compare.reference_values import Reference, reference_of, status_of
from probes.facts.measurements import Baseline, Measurement, Parameter
from probes.judging.findings import Evidence, Status

SWEPT = frozenset({"m", "n", "k", "bytes", "micro_batch", "workers", "num_workers", "queue_depth", "threads"})
"""Parameters that a benchmark varies to find the best value."""
_SECONDARY = frozenset({"algorithm_bandwidth_bytes_per_s", "peak_reserved_bytes"})
"""Metrics that are not compared, because another metric of the same benchmark rises and falls with them."""
_ENDS = frozenset({"numa_node", "memory_node"})

_CREDIBLE = (1e-30, 1e30)
"""Medians outside this range cannot be real, and dividing by them may not give a finite number."""

Worse = Literal["low", "high"]


def worse(measured: Measurement) -> Worse | None:
    """Return whether low or high values are bad; None if neither are, for example for a noise scale."""
    if measured.unit in ("s", "byte"):
        return "high"
    return "low" if measured.unit.endswith("/s") else None


def share_of(measured: float, compared: float, side: Worse) -> float:
    """Return 1.0 for an equal value and less for a worse value, for rates and for times.

    `measured` and `compared` must be positive.
    """
    return measured / compared if side == "low" else compared / measured


def is_sound(measured: Measurement) -> bool:
    """Return whether a measurement can be compared: its median is positive and physically possible."""
    return bool(measured.samples) and _CREDIBLE[0] < measured.median < _CREDIBLE[1]


def is_uncertain(measured: Measurement, limits: Thresholds) -> bool:
    """Return whether the samples scatter too much for a judgement."""
    return measured.spread > limits.uncertain_spread_fraction.value


class Beside(Record, kw_only=True):
    """A measurement with the published value with which it is compared."""

    measured: Measurement
    reference: Reference
    status: Status
    uses_fallback: bool = False
    """True if the reference of the slower algorithm decided the status, because the hardware may also use
    that algorithm.
    """

    @property
    def compared(self) -> Reference:
        """The reference that decided the status."""
        return self.reference.fallback if self.uses_fallback and self.reference.fallback else self.reference

    @property
    def share(self) -> float:
        return self.measured.median / self.compared.value


def beside_references(evidence: Evidence) -> Iterator[Beside]:
    """Yield the best case of every sweep that has a reference. References are rates: more is better."""
    best: dict[object, tuple[Measurement, Reference]] = {}
    for measured in evidence.measurements:
        reference = reference_of(evidence, measured) if is_sound(measured) else None
        key = (measured.bench_id, measured.subject, measured.metric, _sweep_key(measured.parameters))
        if reference is not None and (key not in best or measured.median > best[key][0].median):
            best[key] = (measured, reference)
    for measured, reference in best.values():
        yield _beside(evidence, measured, reference)


def _beside(evidence: Evidence, measured: Measurement, reference: Reference) -> Beside:
    limits = evidence.thresholds
    value = measured.median
    if is_uncertain(measured, limits):
        # A device is certain to be slow only if even its fastest samples are too slow.
        value, slowest = measured.quantile(0.95), reference.fallback or reference
        if status_of(value / slowest.value, limits) is Status.PASS:
            return Beside(measured=measured, reference=reference, status=Status.UNKNOWN)
    status = status_of(value / reference.value, limits)
    if status is Status.PASS:
        return Beside(measured=measured, reference=reference, status=status)
    if reference.fallback is not None:
        status = status_of(value / reference.fallback.value, limits)
        # A ring at full speed is healthy, but slower than the machine can be.
        status = Status.WARN if status is Status.PASS else status
        return Beside(measured=measured, reference=reference, status=status, uses_fallback=True)
    return Beside(measured=measured, reference=reference, status=status if reference.firm else Status.WARN)


class Peers(Record, kw_only=True):
    """The same measurement on several equal subjects."""

    members: tuple[Measurement, ...]
    usual: float
    """Median of the medians."""
    slow: tuple[str, ...]
    """Subjects that are certainly worse than their equals, the worst first."""
    uncertain: frozenset[str] = frozenset()
    """Subjects whose samples scatter too much for a judgement."""
    side: Worse

    def share(self, measured: Measurement) -> float:
        return share_of(measured.median, self.usual, self.side)


def beside_peers(evidence: Evidence) -> Iterator[Peers]:
    """Yield every case of two or more equal subjects: GPUs of one model, ranks, hosts, pairs."""
    groups: dict[object, dict[str, Measurement]] = {}
    for measured in evidence.measurements:
        if is_sound(measured) and worse(measured) is not None and measured.metric not in _SECONDARY:
            # Devices of different models are not compared with each other.
            key = (
                measured.bench_id,
                measured.metric,
                kind_of(measured.subject),
                measured.conditions.get("device_name", ""),
                _peer_key(measured.parameters),
            )
            groups.setdefault(key, {})[measured.subject] = measured
    for members in groups.values():
        side = worse(next(iter(members.values())))
        if len(members) < 2 or side is None:
            continue
        values = {subject: member.median for subject, member in members.items()}
        limits = evidence.thresholds
        least = limits.peer_difference_fraction.value
        uncertain = frozenset(name for name, member in members.items() if is_uncertain(member, limits))
        apart = outliers(values, worse=side, least_difference=least)
        ordered = sorted(values.values())
        middle = len(ordered) // 2
        yield Peers(
            members=tuple(members.values()),
            usual=(ordered[middle] + ordered[~middle]) / 2,
            slow=tuple(outlier.name for outlier in apart if outlier.name not in uncertain),
            uncertain=uncertain,
            side=side,
        )


def kind_of(subject: str) -> str:
    """Return the common name of equal subjects: `GPU#`, `GPU#-GPU#`, `CPU rank #`.

    A leading number that is a count, as in `8 ranks`, is kept.
    """
    return re.sub(r"(?<=\D)\d+", "#", subject)


class Earlier(Record, kw_only=True):
    """A measurement with the same measurement of an earlier run."""

    measured: Measurement
    before: Measurement
    baseline: Baseline
    change: Change | None
    """Statistical comparison; None if the samples do not allow a comparison."""
    side: Worse
    status: Status

    @property
    def share(self) -> float:
        return share_of(self.measured.median, self.before.median, self.side)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % confidence interval of the share; None without a comparison."""
        if self.change is None or not (self.change.low > 0 and math.isfinite(self.change.high)):
            return None
        low, high = self.change.low, self.change.high
        return (low, high) if self.side == "low" else (1 / high, 1 / low)


def beside_baselines(evidence: Evidence) -> Iterator[Earlier]:
    """Yield every measurement with the measurement of the same parameters in the pinned run and in the
    previous run.

    If both are the same run, the measurement is compared only with the pinned run. If other processes used
    the machine during one of the two measurements, the status is WARN at worst. It is UNKNOWN if the samples
    of one measurement scatter too much, or if chance may explain that the newer one is slower.
    """
    kept: dict[str, dict[object, tuple[Measurement, Baseline]]] = {}
    for baseline in sorted(
        evidence.baselines, key=lambda baseline: (baseline.kind, baseline.measured.started)
    ):
        kept.setdefault(baseline.kind, {}).update(
            (_identity(earlier), (earlier, baseline))
            for earlier in filter(is_sound, baseline.measured.measurements)
        )
    pinned = kept.get("pinned", {})
    for kind, before in kept.items():
        for measured in evidence.measurements:
            identity, side = _identity(measured), worse(measured)
            is_comparable = is_sound(measured) and measured.metric not in _SECONDARY
            if not is_comparable or side is None or identity not in before:
                continue
            earlier, baseline = before[identity]
            if (
                kind == "pinned"
                or identity not in pinned
                or pinned[identity][1].measured.started != baseline.measured.started
            ):
                yield _earlier(evidence, measured, earlier, baseline, side)


def _earlier(
    evidence: Evidence, measured: Measurement, before: Measurement, baseline: Baseline, side: Worse
) -> Earlier:
    is_positive = all(value > 0 and math.isfinite(value) for value in (*before.samples, *measured.samples))
    change = compare(before.samples, measured.samples) if is_positive else None
    share = share_of(measured.median, before.median, side)
    limits, status = evidence.thresholds, Status.PASS
    is_slower = share < 1 - limits.earlier_difference_fraction.value
    if any(is_uncertain(run, limits) for run in (before, measured)):
        status = Status.UNKNOWN
    elif is_slower and (change is None or not change.is_significant):
        status = Status.UNKNOWN  # slower, perhaps by chance
    elif is_slower:
        was_busy = any(run.was_disturbed for run in (before, measured))
        fails = share < limits.measured_fail_fraction.value and not was_busy
        status = Status.FAIL if fails else Status.WARN
    return Earlier(
        measured=measured, before=before, baseline=baseline, change=change, side=side, status=status
    )


def comparisons(evidence: Evidence) -> Iterator[Comparison]:
    """Yield every comparison that the report shows."""
    for beside in beside_references(evidence):
        # A value that causes only a warning is shown with the reference of the faster algorithm.
        shown = beside.reference if beside.status is Status.WARN else beside.compared
        share = beside.measured.median / shown.value
        yield _comparison(
            beside.measured, "reference", shown.value, share, beside.status, f"{shown.words}; {shown.ref.key}"
        )
    for peers in beside_peers(evidence):
        others = len(peers.members) - 1
        if others < 2:
            continue
        for member in peers.members:
            status = Status.WARN if member.subject in peers.slow else Status.PASS
            source = f"median of all {others + 1}, including this one"
            status = Status.UNKNOWN if member.subject in peers.uncertain else status
            yield _comparison(member, "peers", peers.usual, peers.share(member), status, source)
    earlier_runs = list(beside_baselines(evidence))
    judged = {id(case) for case in judged_cases(earlier_runs)}
    for earlier in earlier_runs:
        measured, before, kind = earlier.measured, earlier.before, earlier.baseline.kind
        low, high = earlier.interval or (None, None)
        source = f"run of {earlier.baseline.measured.started}"
        # Among many cases a few are slow by chance, so only the cases that `judged_cases` yields can fail.
        status = (
            Status.WARN if earlier.status is Status.FAIL and id(earlier) not in judged else earlier.status
        )
        yield _comparison(measured, kind, before.median, earlier.share, status, source, low=low, high=high)


def _comparison(  # noqa: PLR0917 - the fields of a comparison in their order
    measured: Measurement,
    to: Literal["reference", "peers", "previous", "pinned"],
    value: float,
    share: float,
    status: Status,
    source: str,
    *,
    low: float | None = None,
    high: float | None = None,
) -> Comparison:
    return Comparison(
        bench_id=measured.bench_id,
        subject=measured.subject,
        metric=measured.metric,
        parameters=measured.parameters,
        to=to,
        value=value,
        share=share,
        share_low=low,
        share_high=high,
        status=status,
        source=source,
    )


def judged_cases(earlier: Iterable[Earlier]) -> Iterator[Earlier]:
    """Yield the smallest case of every sweep of collective times, and the largest case of other sweeps.

    Judging all cases would report one that is slow by chance, and the best case differs from run to run. If a
    sweep was stopped after one case, time and bandwidth of this case have the same result, so only the time
    is yielded.
    """
    sweeps: dict[object, list[Earlier]] = {}
    for case in earlier:
        measured = case.measured
        key = (
            case.baseline.kind,
            measured.bench_id,
            measured.subject,
            measured.metric,
            _sweep_key(measured.parameters),
        )
        sweeps.setdefault(key, []).append(case)
    timed: set[object] = set()
    for sweep in sorted(sweeps.values(), key=lambda sweep: sweep[0].measured.metric != "collective_time_s"):
        ordered = sorted(sweep, key=lambda entry: size_of(entry.measured.parameters, SWEPT))
        is_time = ordered[0].measured.metric == "collective_time_s"
        judged = ordered[0 if is_time else -1]
        measured = judged.measured
        timed_case = (judged.baseline.kind, measured.bench_id, measured.subject, _key(measured.parameters))
        if is_time:
            timed.add(timed_case)
        if is_time or timed_case not in timed:
            yield judged


def size_of(parameters: dict[str, Parameter], names: frozenset[str]) -> float:
    """Return the product of the named parameters that are numbers."""
    sizes = (parameters.get(name) for name in names)
    return math.prod(float(size) for size in sizes if isinstance(size, (int, float)))


def _sweep_key(parameters: dict[str, Parameter]) -> object:
    """Return the parameters that identify a sweep.

    If a GPU's NUMA node is unknown, host copies try all nodes, and the fastest node is the GPU's.
    """
    tries_nodes = "direction" in parameters and "near" not in parameters
    return _key(parameters, lambda name: name not in SWEPT and not (tries_nodes and name == "numa_node"))


def _peer_key(parameters: dict[str, Parameter]) -> object:
    """Return the parameters that must be equal for subjects to be compared.

    For copies between two NUMA nodes, the subject already contains the node numbers, so they are left out.
    """
    repeated = _ENDS if parameters.keys() >= _ENDS else frozenset[str]()
    return _key(parameters, lambda name: name not in repeated)


def _key(
    parameters: dict[str, Parameter], counts: Callable[[str], bool] = lambda _: True
) -> tuple[tuple[str, Parameter], ...]:
    return tuple(sorted((name, value) for name, value in parameters.items() if counts(name)))


def _identity(measured: Measurement) -> object:
    return measured.bench_id, measured.subject, measured.metric, _key(measured.parameters)
