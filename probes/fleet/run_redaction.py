"""Replace the names, addresses and serial numbers of a whole run, with one mapping for all its nodes.

Reports are redacted before they are compared, so that every later text contains only placeholders.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from probes.fleet.advancing import FleetStates, StateChange
from probes.fleet.comparing.past import Past
from probes.fleet.node_report import Metric, NodeReport
from probes.fleet.states import PartState
from probes.redaction.host_names import HostNames
from probes.redaction.text import TextRedactor

_FEWEST_DIGITS = 3
_VERSIONS = re.compile(r"[\d.]+(?: \| [\d.]+)*")
"""Versions of firmware, some of which look like addresses."""
_GPU = re.compile(r"GPU\d+")


def host_placeholders(nodes: Sequence[str]) -> dict[str, str]:
    """Return `node-001`, `node-002` ... in the order of the nodes."""
    digits = max(_FEWEST_DIGITS, len(str(len(nodes))))
    return {node: f"node-{number:0{digits}d}" for number, node in enumerate(nodes, 1)}


class RunRedactor:
    """Placeholders for everything that identifies the nodes of a run."""

    def __init__(self, reports: Sequence[NodeReport], *, salt: bytes) -> None:
        self._hosts = host_placeholders([report.node for report in reports])
        hosts = HostNames(self._hosts, spares_parts=False)
        self._names = TextRedactor(hashlib.sha256(salt).digest(), trusts_labels=True, hosts=hosts)
        self._texts: dict[str, str] = {}
        self._numbered: dict[tuple[str, str], str] = {}
        self._counts: Counter[str] = Counter()
        for report in reports:
            if report.claims:
                self._names.learn_hosts(report.claims)
            texts = (report.detail, report.unmeasured, *(reason.summary for reason in report.reasons))
            for text in texts:
                self._names.learn(text)

    def text(self, text: str) -> str:
        """Return a text with placeholders."""
        if text not in self._texts:
            self._texts[text] = self._names.text(text)
        return self._texts[text]

    def node(self, name: str) -> str:
        """Return the placeholder of a node, even if the node is not part of the run."""
        return self._hosts.get(name) or self._names.host(name)

    def part(self, identity: str) -> str:
        """Return the placeholder of a part; identities of an unknown form are numbered."""
        changed = self.text(identity)
        return changed if changed != identity else self._number("part", identity)

    def report(self, report: NodeReport) -> NodeReport:
        """Return a report with placeholders."""
        return msgspec.structs.replace(
            report,
            node=self.node(report.node),
            detail=self.text(report.detail),
            unmeasured=self.text(report.unmeasured),
            reasons=tuple(
                msgspec.structs.replace(
                    reason, subject=self._slot(report, reason.subject), summary=self.text(reason.summary)
                )
                for reason in report.reasons
            ),
            attributes={name: self._attribute(value) for name, value in report.attributes.items()},
            places={name: self._number(name, value) for name, value in report.places.items()},
            parts={slot: self.part(identity) for slot, identity in report.parts.items()},
            metrics=tuple(self._metric(report, metric) for metric in report.metrics),
            claims=self.node(report.claims) if report.claims else "",
        )

    def past(self, past: Past) -> Past:
        """Return the medians of earlier runs, by the placeholders of their parts."""
        return {(metric, self.part(part)): values for (metric, part), values in past.items()}

    def states(self, states: FleetStates) -> FleetStates:
        """Return the states with placeholders."""
        return msgspec.structs.replace(
            states,
            changes=tuple(map(self._change, states.changes)),
            out=self._states(states.out),
            suspects=self._states(states.suspects),
            probation=self._states(states.probation),
            lemons=self._states(states.lemons),
            held_back=tuple(map(self.node, states.held_back)),
        )

    def _attribute(self, value: str) -> str:
        return value if _VERSIONS.fullmatch(value) else self.text(value)

    def _subject(self, subject: str) -> str:
        return self._hosts.get(subject) or self.part(subject)

    def _change(self, change: StateChange) -> StateChange:
        reason = self._reason(change.subject, change.reason)
        return msgspec.structs.replace(change, subject=self._subject(change.subject), reason=reason, run="")

    def _reason(self, subject: str, reason: str) -> str:
        """Return the reason with placeholders.

        The reason of a part begins with the name of the node that had the part, perhaps in another run.
        """
        if subject not in self._hosts and " " in reason:
            node, _, rest = reason.partition(" ")
            return f"{self.node(node)} {self.text(rest)}"
        return self.text(reason)

    def _states(self, states: Iterable[PartState]) -> tuple[PartState, ...]:
        return tuple(
            msgspec.structs.replace(
                state,
                subject=self._subject(state.subject),
                reason=self._reason(state.subject, state.reason),
                evidence=(),
            )
            for state in states
        )

    def _metric(self, report: NodeReport, metric: Metric) -> Metric:
        slot = self._slot(report, metric.slot)
        return msgspec.structs.replace(metric, part_id=self.part(metric.part_id), slot=slot)

    def _slot(self, report: NodeReport, subject: str) -> str:
        """Return the subject with placeholders; a slot keeps its name, even if another node has that name."""
        is_slot = subject != report.node and (subject in report.parts or _GPU.fullmatch(subject))
        return subject if is_slot else self.text(subject)

    def _number(self, kind: str, value: str) -> str:
        """Return `rack-1`, `rack-2` ... in the order in which the values appear."""
        if (kind, value) not in self._numbered:
            self._counts[kind] += 1
            self._numbered[kind, value] = f"{kind}-{self._counts[kind]}"
        return self._numbered[kind, value]
