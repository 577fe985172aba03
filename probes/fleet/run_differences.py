"""Compare two runs over a fleet: nodes, verdicts, parts, firmware and speed that changed."""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from probes.base.grouping import grouped
from probes.base.record import Record
from probes.base.units import percent, plural
from probes.fleet.comparing.limits import limit
from probes.fleet.node_report import NodeReport
from probes.judging.findings import Status

SCHEMA_VERSION = 1


class VerdictChange(Record, kw_only=True):
    """A node whose verdict or failed checks changed; an empty verdict stands for no answer."""

    node: str
    before: str
    after: str
    new: tuple[str, ...] = ()
    """Failed checks that appeared: `GPU3: summary (check-id)`."""
    gone: tuple[str, ...] = ()


class AttributeChange(Record, kw_only=True):
    """The same change of hardware, firmware, software or place on some nodes."""

    attribute: str
    before: str
    after: str
    nodes: tuple[str, ...]


class PartChange(Record, kw_only=True):
    """A slot that has another part; an empty identity stands for an empty slot."""

    node: str
    slot: str
    before: str
    after: str
    came_from: str = ""
    """Node and slot in which the first run found the new part; empty if it found the part nowhere."""


class RateChange(Record, kw_only=True):
    """Change of one quantity over the parts that both runs measured."""

    metric: str
    parts: int
    change: float
    """Median of the relative changes; negative for slower."""
    slower: tuple[str, ...] = ()
    """Parts whose change is worse than the median change by more than `slow_part_share`."""


class RunComparison(Record, kw_only=True):
    """The result of `rigtune fleet compare`; its JSON is the output of `--format json`."""

    schema_version: int = SCHEMA_VERSION
    runs: tuple[str, str]
    appeared: tuple[str, ...] = ()
    """Nodes that only the second run asked."""
    gone: tuple[str, ...] = ()
    """Nodes that only the first run asked."""
    verdicts: tuple[VerdictChange, ...] = ()
    attributes: tuple[AttributeChange, ...] = ()
    parts: tuple[PartChange, ...] = ()
    rates: tuple[RateChange, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Return whether nothing differs; rates vary, so only slow parts and a shift of all parts count."""
        slower = any(rate.slower or abs(rate.change) > limit("common_mode_share") for rate in self.rates)
        return not (slower or self.appeared or self.gone or self.verdicts or self.attributes or self.parts)


Nodes = Mapping[str, NodeReport]


def compare_runs(
    before: Sequence[NodeReport], after: Sequence[NodeReport], runs: tuple[str, str]
) -> RunComparison:
    """Return what changed from the first run to the second; `runs` are their names."""
    first = {report.node: report for report in before}
    second = {report.node: report for report in after}
    both = [node for node in second if node in first]
    return RunComparison(
        runs=runs,
        appeared=tuple(node for node in second if node not in first),
        gone=tuple(node for node in first if node not in second),
        verdicts=tuple(
            change for node in both if (change := _verdict_change(first[node], second[node])) is not None
        ),
        attributes=tuple(_attribute_changes(both, first, second)),
        parts=tuple(_part_changes(both, first, second)),
        rates=tuple(_rate_changes(before, after)),
    )


def _verdict_change(before: NodeReport, after: NodeReport) -> VerdictChange | None:
    old, new = _problems(before), _problems(after)
    words = [report.verdict.value if report.verdict is not None else "" for report in (before, after)]
    if words[0] == words[1] and old.keys() == new.keys():
        return None
    # Without an answer, no problem is known to have appeared or gone.
    is_known = before.verdict is not None and after.verdict is not None
    return VerdictChange(
        node=after.node,
        before=words[0],
        after=words[1],
        new=tuple(text for key, text in new.items() if key not in old) if is_known else (),
        gone=tuple(text for key, text in old.items() if key not in new) if is_known else (),
    )


def _problems(report: NodeReport) -> dict[tuple[str, str], str]:
    return {
        (reason.check_id, reason.subject): f"{reason.subject}: {reason.summary} ({reason.check_id})"
        for reason in report.reasons
        if reason.status is Status.FAIL
    }


def _attribute_changes(both: Sequence[str], first: Nodes, second: Nodes) -> Iterator[AttributeChange]:
    """Yield each change with its nodes; an attribute that only one run knows has not changed."""
    changes = []
    for node in both:
        old = {**first[node].attributes, **first[node].places}
        new = {**second[node].attributes, **second[node].places}
        changes += [
            ((name, old[name], value), node) for name, value in new.items() if old.get(name, value) != value
        ]
    for (name, before, after), nodes in grouped(changes).items():
        yield AttributeChange(attribute=name, before=before, after=after, nodes=tuple(nodes))


def _part_changes(both: Sequence[str], first: Nodes, second: Nodes) -> Iterator[PartChange]:
    places = {
        identity: f"{report.node} {slot}"
        for report in first.values()
        for slot, identity in report.parts.items()
    }
    for node in both:
        old, new = first[node].parts, second[node].parts
        if not (old and new):
            continue
        for slot in dict.fromkeys((*old, *new)):
            before, after = old.get(slot, ""), new.get(slot, "")
            if before != after:
                came_from = places.get(after, "")
                yield PartChange(node=node, slot=slot, before=before, after=after, came_from=came_from)


def _rate_changes(before: Sequence[NodeReport], after: Sequence[NodeReport]) -> Iterator[RateChange]:
    """Yield the change of each quantity over the same parts in both runs."""
    old = {
        (metric.metric, metric.part_id, metric.version): metric.median
        for report in before
        for metric in report.metrics
        if metric.is_usable
    }
    changes: dict[str, dict[str, float]] = {}
    for report in after:
        for metric in report.metrics:
            base = old.get((metric.metric, metric.part_id, metric.version), 0.0)
            if base > 0 and metric.is_usable:
                ratio = metric.median / base
                if ratio > 0:
                    name = f"{report.node} {metric.slot}".strip()
                    better = ratio if metric.is_larger_better else 1 / ratio
                    changes.setdefault(metric.metric, {})[name] = better - 1
    for name, values in changes.items():
        centre = statistics.median(values.values())
        slower = tuple(part for part, change in values.items() if change - centre < -limit("slow_part_share"))
        yield RateChange(metric=name, parts=len(values), change=centre, slower=slower)


def words_of_rate(rate: RateChange) -> str:
    """Return one line about a rate."""
    direction = "slower" if rate.change < 0 else "faster"
    return f"{rate.metric}: {plural(rate.parts, 'part')}, {percent(abs(rate.change))} {direction} (median)"
