"""The answer of a run over a fleet: every wanted node once, what differs, and lists to paste."""

from collections.abc import Iterator

from probes.base.grouping import first_names, grouped
from probes.base.record import Record
from probes.base.units import plural
from probes.fleet.advancing import FleetStates
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.comparing.limits import limit
from probes.fleet.node_report import NodeReport, Outcome, Reason, disputed_parts
from probes.fleet.states import OUT_OF_SERVICE, Condition
from probes.judging.findings import Status

SCHEMA_VERSION = 1
GROUP_KINDS = ("common-cause", "common-mode", "two-humps", "minority", "mixed", "mixed-within-node")
"""Kinds of findings about causes that nodes share, and about attributes that differ."""

CONDEMNING = ("slow-part", "slower-than-before")
"""Kinds of findings that take a node off the list of good nodes; a suspect is measured again first."""


class NodeResult(Record, kw_only=True):
    """One wanted node."""

    node: str
    outcome: Outcome
    verdict: Status | None = None
    reasons: tuple[Reason, ...] = ()
    detail: str = ""
    """Reason why there is no verdict, or a remark about an odd answer."""
    group: str = ""
    """Kind of the node: GPU model and power cap."""
    places: dict[str, str] = {}
    """Place of the node by name: `rack`, `switch`, `pdu` ..."""
    condition: Condition = "healthy"
    """State of the node after all runs in the store, including runs after this run."""
    state_reason: str = ""
    """Reason of this state; empty for a healthy node."""
    version: str = ""
    """Version and commit of rigtune on the node, as `rigtune --version` writes them."""
    clock_offset_s: float | None = None
    """Seconds by which the node's clock is ahead of the head's clock; negative if it is behind."""


class FleetResult(Record, kw_only=True):
    """The result of `rigtune fleet check`; its JSON is the output of `--format json`."""

    schema_version: int = SCHEMA_VERSION
    engine: str
    engine_reason: str = ""
    wanted: tuple[str, ...]
    nodes: tuple[NodeResult, ...]
    outliers: tuple[FleetFinding, ...] = ()
    """Findings about slow parts, and about groups that are too small for a comparison."""
    common_causes: tuple[FleetFinding, ...] = ()
    """Causes that slow nodes share, and inconsistencies of hardware and firmware."""
    notes: tuple[str, ...] = ()
    states: FleetStates | None = None
    """Changes and states that matter now; None if no store of states was used."""

    def named(self, *verdicts: Status) -> tuple[str, ...]:
        """Return the nodes with one of these verdicts."""
        return tuple(node.node for node in self.nodes if node.verdict in verdicts)

    def slow_by_node(self) -> dict[str, list[FleetFinding]]:
        """Return the findings about the parts of each node, without those about groups that are too small."""
        return grouped(
            (node, finding)
            for finding in self.outliers
            if finding.kind != "few-peers"
            for node in finding.nodes
        )

    @property
    def good(self) -> tuple[str, ...]:
        """Nodes that may train: fit by their own checks, without a slow part, and not out of service."""
        out = set(self.out)
        return tuple(node for node in self._fit if node not in out)

    @property
    def _fit(self) -> tuple[str, ...]:
        slow = {node for finding in self.outliers if finding.kind in CONDEMNING for node in finding.nodes}
        return tuple(node for node in self.named(Status.PASS, Status.WARN) if node not in slow)

    @property
    def out(self) -> tuple[str, ...]:
        """Nodes that are fit in this run, but wait for a repair or for the tests after one."""
        out = {node.node for node in self.nodes if node.condition in OUT_OF_SERVICE}
        return tuple(node for node in self._fit if node in out)

    @property
    def bad(self) -> tuple[str, ...]:
        """Nodes that must not train: they failed, or have a slow part."""
        good, failed = set(self._fit), set(self.named(Status.FAIL))
        return tuple(
            node.node
            for node in self.nodes
            if node.node in failed or (node.verdict in (Status.PASS, Status.WARN) and node.node not in good)
        )

    @property
    def silent(self) -> tuple[str, ...]:
        """Nodes without a verdict or with the verdict UNKNOWN, which are neither good nor bad."""
        return tuple(node.node for node in self.nodes if node.verdict in (None, Status.UNKNOWN))


def result_of(
    reports: tuple[NodeReport, ...],
    findings: tuple[FleetFinding, ...],
    *,
    engine: str,
    engine_reason: str,
    own_version: str = "",
    states: FleetStates | None = None,
    notes: tuple[str, ...] = (),
) -> FleetResult:
    """Return the answer for the reports. Notes about oddities of the run are added to `notes`.

    `own_version` is the line of `rigtune --version` on this machine, or empty to compare only the nodes.
    """
    listed = (*states.out, *states.suspects, *states.probation) if states is not None else ()
    known = {state.subject: state for state in listed}
    return FleetResult(
        engine=engine,
        engine_reason=engine_reason,
        wanted=tuple(report.node for report in reports),
        nodes=tuple(
            NodeResult(
                node=report.node,
                outcome=report.outcome,
                verdict=report.verdict,
                reasons=report.reasons,
                detail=report.detail or (f"calls itself {report.claims}" if report.claims else ""),
                group=", ".join(
                    filter(None, (report.attributes.get("gpu_model"), report.attributes.get("power_cap")))
                ),
                places=report.places,
                condition=state.condition if (state := known.get(report.node)) is not None else "healthy",
                state_reason=state.reason if state is not None else "",
                version=_version(report),
                clock_offset_s=report.clock_offset_s,
            )
            for report in reports
        ),
        outliers=tuple(finding for finding in findings if finding.kind not in GROUP_KINDS),
        common_causes=tuple(finding for finding in findings if finding.kind in GROUP_KINDS),
        notes=(*notes, *_notes(reports, own_version, are_names_invented=engine == "exec")),
        states=states,
    )


def _notes_on_parts(answered: list[NodeReport]) -> Iterator[str]:
    """Yield notes on identities that do not identify one part, and on benchmarks without a result."""
    disputed = disputed_parts(answered)
    if disputed:
        part, owners = next(iter(disputed.items()))
        parts = plural(len(disputed), "part")
        yield f"no history for {parts} without a unique identity: {part}: {first_names(owners)}"
    lacking = [report for report in answered if report.unmeasured]
    if lacking:
        first = lacking[0]
        yield f"{plural(len(lacking), 'node')} could not measure everything: {first.node}: {first.unmeasured}"


def _notes_on_names(answered: list[NodeReport], *, are_names_invented: bool) -> Iterator[str]:
    """Yield notes on nodes that report another host name, and on names that lead to the same machine."""
    if are_names_invented:
        return
    strangers = {each.node: each.claims for each in answered if each.claims}
    claimed = set(strangers.values())
    verb = "calls itself" if len(strangers) == 1 else "call themselves"
    if len(claimed) == 1:
        yield f"{plural(len(strangers), 'node')} {verb} {claimed.pop()}: {first_names(list(strangers))}"
    elif claimed:
        names = [f"{node} ({name})" for node, name in strangers.items()]
        yield f"{plural(len(strangers), 'node')} call themselves by other names: {first_names(names)}"
    for gpu, nodes in grouped(
        (identity, report.node)
        for report in answered
        for slot, identity in report.parts.items()
        if slot == "GPU0"
    ).items():
        if len(nodes) > 1:
            yield f"{len(nodes)} names lead to the same machine, because all have {gpu}: {first_names(nodes)}"


def _notes(reports: tuple[NodeReport, ...], own_version: str, *, are_names_invented: bool) -> list[str]:
    notes = []
    answered = [report for report in reports if report.verdict is not None]
    if reports and not answered:
        notes.append("No node answered: this run failed as a whole, and says nothing about the nodes.")
    notes += _notes_on_parts(answered)
    notes += _notes_on_names(answered, are_names_invented=are_names_invented)
    by_version: dict[str, list[str]] = {}
    for report in answered:
        if report.version:
            by_version.setdefault(_version(report), []).append(report.node)
    if own_version:
        for version, nodes in sorted(by_version.items()):
            if version != own_version:
                notes.append(
                    f"{version} runs on {plural(len(nodes), 'node')} instead of {own_version}: "
                    f"{first_names(nodes)}"
                )
    elif len(by_version) > 1:
        notes.append(f"The nodes run {len(by_version)} versions of rigtune: {', '.join(sorted(by_version))}.")
    offsets = {
        report.node: report.clock_offset_s
        for report in answered
        if report.clock_offset_s is not None and abs(report.clock_offset_s) > limit("clock_difference_s")
    }
    if offsets:
        worst = max(offsets.values(), key=abs)
        notes.append(
            f"The clock differs from this one by more than {limit('clock_difference_s'):g} s on "
            f"{plural(len(offsets), 'node')}, at most by {worst:+.0f} s: {first_names(list(offsets))}"
        )
    return notes


def _version(report: NodeReport) -> str:
    commit = f" (commit {report.commit})" if report.commit else ""
    return f"rigtune {report.version}{commit}" if report.version else ""
