"""Measurements beside what they compare to: published references, equals in this machine, earlier runs. Pure.

Checks make findings of it, and the report shows it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from probes.base.record import Record
from probes.base.statistics import Change, compare, outliers
from probes.compare.expected_rates import status_of
from probes.compare.measurement_judgement import Comparison
from probes.compare.reference_values import Reference, reference_of
from probes.facts.measurements import Baseline, Measurement, Parameter
from probes.judging.findings import Evidence, Status

SWEPT = frozenset({"m", "n", "k", "bytes", "micro_batch", "workers", "num_workers", "queue_depth", "threads"})
"""Parameters of which a benchmark tries several values to find the best."""
_SECONDARY = frozenset({"algorithm_bandwidth_bytes_per_s", "peak_reserved_bytes"})
"""Figures that say the same as another of the benchmark."""
_ENDS = frozenset({"numa_node", "memory_node"})

_SOUND = (1e-30, 1e30)
"""Medians outside are of no clock and no counter; a share of them may not even be a number."""

Worse = Literal["low", "high"]


def worse(measured: Measurement) -> Worse | None:
    """Which side is the bad one, of rates, times and memory; None for all else, such as a noise scale or a
    fraction.
    """
    if measured.unit in ("s", "byte"):
        return "high"
    return "low" if measured.unit.endswith("/s") else None


def share_of(measured: float, compared: float, side: Worse) -> float:
    """1.0 is as good, below is worse, for rates and for times. Both are positive."""
    return measured / compared if side == "low" else compared / measured


def is_sound(measured: Measurement) -> bool:
    """True for what can be compared: a positive number that some clock or counter gives."""
    return bool(measured.samples) and _SOUND[0] < measured.median < _SOUND[1]


class Beside(Record, kw_only=True):
    """A measurement and the published value it compares to."""

    measured: Measurement
    reference: Reference
    status: Status
    uses_fallback: bool = False
    """True where it is judged by the slower way, which the hardware can also go."""

    @property
    def compared(self) -> Reference:
        """What decided."""
        return self.reference.fallback if self.uses_fallback and self.reference.fallback else self.reference

    @property
    def share(self) -> float:
        return self.measured.median / self.compared.value


def beside_references(evidence: Evidence) -> Iterator[Beside]:
    """Of every sweep the best case that has a reference, beside it. References are rates: more is better."""
    best: dict[object, tuple[Measurement, Reference]] = {}
    for measured in evidence.measurements:
        reference = reference_of(evidence, measured) if is_sound(measured) else None
        key = (measured.bench_id, measured.subject, measured.metric, _settled(measured.parameters))
        if reference is not None and (key not in best or measured.median > best[key][0].median):
            best[key] = (measured, reference)
    for measured, reference in best.values():
        yield _beside(evidence, measured, reference)


def _beside(evidence: Evidence, measured: Measurement, reference: Reference) -> Beside:
    limits = evidence.thresholds
    status = status_of(measured.median / reference.value, limits)
    if status is Status.PASS:
        return Beside(measured=measured, reference=reference, status=status)
    if reference.fallback is not None:
        slower = status_of(measured.median / reference.fallback.value, limits)
        # A ring at full speed is sound, and still not what this machine can do.
        found = Status.WARN if slower is Status.PASS else slower
        return Beside(measured=measured, reference=reference, status=found, uses_fallback=True)
    return Beside(measured=measured, reference=reference, status=status if reference.firm else Status.WARN)


class Peers(Record, kw_only=True):
    """The same measurement on several equal subjects."""

    members: tuple[Measurement, ...]
    usual: float
    """Median of the medians."""
    slow: tuple[str, ...]
    """Subjects that are worse than their equals, worst first."""
    side: Worse

    def share(self, measured: Measurement) -> float:
        return share_of(measured.median, self.usual, self.side)


def beside_peers(evidence: Evidence) -> Iterator[Peers]:
    """Every case that two or more equal subjects have: GPUs of one model, ranks, hosts, pairs."""
    groups: dict[object, dict[str, Measurement]] = {}
    for measured in evidence.measurements:
        if is_sound(measured) and worse(measured) is not None and measured.metric not in _SECONDARY:
            # The name tells unlike devices apart, of which one is not to be blamed for being another.
            device = measured.conditions.get("device_name", "")
            key = (
                measured.bench_id,
                measured.metric,
                _kind(measured.subject),
                device,
                _unlike(measured.parameters),
            )
            groups.setdefault(key, {})[measured.subject] = measured
    for members in groups.values():
        side = worse(next(iter(members.values())))
        if len(members) < 2 or side is None:
            continue
        values = {subject: member.median for subject, member in members.items()}
        least = evidence.thresholds.peer_difference_fraction.value
        ordered = sorted(values.values())
        middle = len(ordered) // 2
        yield Peers(
            members=tuple(members.values()),
            usual=(ordered[middle] + ordered[~middle]) / 2,
            slow=tuple(one.name for one in outliers(values, worse=side, least_difference=least)),
            side=side,
        )


def _kind(subject: str) -> str:
    """What alike subjects have in common: `GPU#`, `GPU#-GPU#`, `CPU rank #`. The number of `8 ranks` counts
    them.
    """
    return re.sub(r"(?<=\D)\d+", "#", subject)


class Earlier(Record, kw_only=True):
    """A measurement beside the same one of an earlier run."""

    measured: Measurement
    before: Measurement
    baseline: Baseline
    change: Change | None
    """None where the samples do not allow a comparison."""
    side: Worse
    status: Status

    @property
    def share(self) -> float:
        return share_of(self.measured.median, self.before.median, self.side)

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval of the share."""
        if self.change is None or not (self.change.low > 0 and math.isfinite(self.change.high)):
            return None
        low, high = self.change.low, self.change.high
        return (low, high) if self.side == "low" else (1 / high, 1 / low)


def beside_baselines(evidence: Evidence) -> Iterator[Earlier]:
    """Every measurement beside the same one, all parameters equal, of the pinned run and of the last run
    before it.

    Where these two are one run it counts once, as the pinned one. While others use the machine none fails.
    """
    kept: dict[str, dict[object, tuple[Measurement, Baseline]]] = {}
    for baseline in sorted(
        evidence.baselines, key=lambda baseline: (baseline.kind, baseline.measured.started)
    ):
        sound = filter(is_sound, baseline.measured.measurements)
        kept.setdefault(baseline.kind, {}).update({_identity(one): (one, baseline) for one in sound})
    pinned = kept.get("pinned", {})
    for kind, before in kept.items():
        for measured in evidence.measurements:
            identity, side = _identity(measured), worse(measured)
            if (
                identity not in before
                or side is None
                or not is_sound(measured)
                or measured.metric in _SECONDARY
            ):
                continue
            one, baseline = before[identity]
            if (
                kind == "pinned"
                or identity not in pinned
                or pinned[identity][1].measured.started != baseline.measured.started
            ):
                yield _earlier(evidence, measured, one, baseline, side)


def _earlier(
    evidence: Evidence, measured: Measurement, before: Measurement, baseline: Baseline, side: Worse
) -> Earlier:
    is_positive = all(value > 0 and math.isfinite(value) for value in (*before.samples, *measured.samples))
    change = compare(before.samples, measured.samples) if is_positive else None
    share = share_of(measured.median, before.median, side)
    status = Status.PASS
    if (
        change is not None
        and change.is_significant
        and share < 1 - evidence.thresholds.earlier_difference_fraction.value
    ):
        was_busy = any(one.conditions.get("host_busy") is True for one in (before, measured))
        fails = share < evidence.thresholds.measured_fail_fraction.value and not was_busy
        status = Status.FAIL if fails else Status.WARN
    return Earlier(
        measured=measured, before=before, baseline=baseline, change=change, side=side, status=status
    )


def comparisons(evidence: Evidence) -> Iterator[Comparison]:
    """Everything that is to be shown beside the measurements."""
    for beside in beside_references(evidence):
        # What is sound for the slower way is shown beside what it falls short of.
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
            source = f"median of {others + 1}, itself among them"
            yield _comparison(member, "peers", peers.usual, peers.share(member), status, source)
    earlier_runs = list(beside_baselines(evidence))
    judged = {id(one) for one in judged_cases(earlier_runs)}
    for earlier in earlier_runs:
        measured, before, kind = earlier.measured, earlier.before, earlier.baseline.kind
        low, high = earlier.interval or (None, None)
        source = f"run of {earlier.baseline.measured.started}"
        # Of many cases some are slow by chance: what no finding rests on is no failure.
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
    """Of every sweep the largest case, which shows bandwidth; of the times of collectives the smallest, which
    shows latency.

    Judging all of them would find one that is slow by chance; the best one differs from run to run. Where a
    sweep was stopped after one case, its time says what its bandwidth says.
    """
    sweeps: dict[object, list[Earlier]] = {}
    for one in earlier:
        measured = one.measured
        key = (
            one.baseline.kind,
            measured.bench_id,
            measured.subject,
            measured.metric,
            _settled(measured.parameters),
        )
        sweeps.setdefault(key, []).append(one)
    timed: set[object] = set()
    for sweep in sorted(sweeps.values(), key=lambda sweep: sweep[0].measured.metric != "collective_time_s"):
        ordered = sorted(sweep, key=lambda one: _size(one.measured))
        is_time = ordered[0].measured.metric == "collective_time_s"
        judged = ordered[0 if is_time else -1]
        measured = judged.measured
        case = (judged.baseline.kind, measured.bench_id, measured.subject, _key(measured.parameters))
        if is_time:
            timed.add(case)
        if is_time or case not in timed:
            yield judged


def _size(measured: Measurement) -> float:
    sizes = (measured.parameters.get(name) for name in SWEPT)
    return math.prod(float(size) for size in sizes if isinstance(size, (int, float)))


def _settled(parameters: dict[str, Parameter]) -> object:
    """What identifies a sweep. Where nobody knows a GPU's NUMA node, host copies try them all, and the
    fastest is its own.
    """
    tries_nodes = "direction" in parameters and "near" not in parameters
    return _key(parameters, lambda name: name not in SWEPT and not (tries_nodes and name == "numa_node"))


def _unlike(parameters: dict[str, Parameter]) -> object:
    """What must be the same for subjects to compare. Between two NUMA nodes their numbers only repeat the
    subject.
    """
    repeated = _ENDS if parameters.keys() >= _ENDS else frozenset[str]()
    return _key(parameters, lambda name: name not in repeated)


def _key(
    parameters: dict[str, Parameter], counts: Callable[[str], bool] = lambda _: True
) -> tuple[tuple[str, Parameter], ...]:
    return tuple(sorted((name, value) for name, value in parameters.items() if counts(name)))


def _identity(measured: Measurement) -> object:
    return measured.bench_id, measured.subject, measured.metric, _key(measured.parameters)
