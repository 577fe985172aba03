"""Judge the driver's messages in the kernel log: Xids, timeouts of the system processor (GSP), and others.

An application's fault is not a fault of the node. A fault is less severe if the machine was booted, the
driver loaded or the GPU recovered afterwards; only a card that falls off the bus repeatedly remains a fault.
Source: NVIDIA Xid catalogue (`probes/data/xid.toml`); gpud and NVSentinel, Xid handling; NVIDIA driver
sources.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from probes.base.record import Record, items_of
from probes.catalogue.xids import Xid, XidClass, load_xids
from probes.facts import Gpu, LogEvent
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, events_of, evidence_of, occurrences, on_events
from probes.parsers.kernel.kernel_gpu import CLEANUP_XID, RECOVERY_XID, cause_of_cleanup, recovery_action

HARDWARE = Judge(
    check_id="xid-hardware", why="A faulty card, slot or link ends every job that is placed on this node."
)
RESET = Judge(check_id="xid-reset", why="Jobs on a GPU that waits for a reset fail or compute wrongly.")
APPLICATION = Judge(
    check_id="xid-application", why="The job that used the GPU has crashed; the GPU itself is healthy."
)
GSP = Judge(
    check_id="gsp-timeout",
    why="Every call to this GPU hangs for seconds or forever, and so do the programs that make these calls.",
)
DRIVER = Judge(
    check_id="driver-messages",
    why="A driver that cannot set up a GPU or loses it leaves the node with fewer GPUs.",
)

FALLEN_OFF = 79
GSP_CODES = frozenset({119, 120})
_SEVERE = (
    "RmInitAdapter failed",
    "rm_init_adapter failed",
    "failed to initialize the adapter",
    "fallen off the bus",
    "API mismatch",
    "not supported",
    "probe routine",
    "None of the NVIDIA",
    "disagrees about version",
    "Unknown symbol",
    "probe of",
    "copy vbios",
    "GPU lost",
    "GPU is lost",
    "global fatal error",
    "Cannot initialize GSP",
)
"""Messages of the driver after which a GPU cannot be used."""
_GRAVITY: dict[XidClass, int] = {"link": 1, "reset": 1, "hardware": 2}
_NO_MEANING = Xid(
    codes=(),
    name="an Xid without a documented meaning",
    kind="driver",
    severity="warn",
    action="Update the driver; report the Xid to NVIDIA if it comes back.",
)


class Case(Record, kw_only=True):
    """All lines of one Xid on one device."""

    device: str
    code: int
    row: Xid
    events: tuple[LogEvent, ...]
    effects: "tuple[Case, ...]" = ()
    """Later Xids of the device that follow from this Xid."""
    recovered: bool = False
    """True if this Xid asks for a reset or another recovery, and the GPU now reports that it needs none.

    The log may not show that the GPU was reset.
    """

    @property
    def count(self) -> int:
        return sum(event.count for event in self.events)

    @property
    def settled(self) -> bool:
        return self.recovered or all(event.settled for event in self.events)

    @property
    def severity(self) -> str:
        """Return the severity (`fail`, `warn` or `none`) of this Xid, or of an effect that is worse."""
        severities = {self._own_severity, *(case._own_severity for case in self.effects)}
        return next(severity for severity in ("fail", "warn", "none") if severity in severities)

    @property
    def _own_severity(self) -> str:
        """Return the severity that the log states (for NVLink), else the severity in the catalogue.

        The severity is one step lower if the fault is settled, unless the GPU repeatedly fell off the bus. An
        action that Xid 154 requests is a failure until it is settled.
        """
        logged = [event.fatal for event in self.events if isinstance(event.fatal, bool)]
        severity = self.row.severity
        if self.code == RECOVERY_XID and any(_requested_action(event) for event in self.events):
            return "none" if self.settled else "fail"
        if self.row.kind == "link" and logged:
            severity = "fail" if any(logged) else "warn"
        if not self.settled or (self.code == FALLEN_OFF and self.count > 1):
            return severity
        return "warn" if severity == "fail" else "none"


def xid_hardware(evidence: Evidence) -> Iterable[Finding]:
    return _by_class(HARDWARE, evidence, {"hardware", "link"}, "no Xid points at hardware")


@on_events(RESET)
def xid_reset(events: tuple[LogEvent, ...], evidence: Evidence) -> Iterable[Finding]:
    cases = [
        case for case in _cases(evidence, events) if case.row.kind == "reset" and case.code not in GSP_CODES
    ]
    return [*_findings(RESET, evidence, cases), *_recovery(evidence, events)] or [
        RESET.passed(HOST, "no Xid asks for a reset", observed=_folded(evidence, events, {"reset"}))
    ]


def xid_application(evidence: Evidence) -> Iterable[Finding]:
    return _by_class(APPLICATION, evidence, {"application"}, "no program crashed on a GPU")


@on_events(GSP)
def gsp_timeout(events: tuple[LogEvent, ...], evidence: Evidence) -> Iterable[Finding]:
    cases = [case for case in _cases(evidence, events) if case.code in GSP_CODES]
    findings = list(_findings(GSP, evidence, cases))
    named = {event.device or HOST for event in events if event.kind == "xid" and event.code in GSP_CODES}
    others = [event for event in events if event.kind == "gsp-timeout"]
    devices: list[str | None] = [*sorted({event.device for event in others if event.device} - named)]
    for device in devices or ([] if named or not others else [None]):
        mine = [event for event in others if event.device in {device, None}]
        if not all(event.settled for event in mine):
            silent = GSP.failed(
                _subject(evidence, device or HOST),
                f"the system processor (GSP) of {device or 'a GPU'} does not answer",
                expected="every call to the GSP is answered",
                observed=_observed(mine),
                remedy=Remedy(
                    text="Drain the node and reset the GPU; if the reset hangs, reboot the node. Update "
                    "the driver if the error comes back."
                ),
                evidence=evidence_of(mine),
            )
            findings.append(silent)
    return findings or [GSP.passed(HOST, "the log reports no lasting timeout of a system processor (GSP)")]


@on_events(DRIVER)
def driver_messages(events: tuple[LogEvent, ...], evidence: Evidence) -> Iterable[Finding]:
    cases = [case for case in _cases(evidence, events) if case.row.kind == "driver"]
    words = [event for event in events if event.kind in {"nvrm", "peermem"}]
    findings = [*_findings(DRIVER, evidence, cases), *(_complaint(evidence, event) for event in words)]
    return findings or [DRIVER.passed(HOST, "the driver reports no other problem")]


def _by_class(judge: Judge, evidence: Evidence, kinds: set[XidClass], good: str) -> Iterator[Finding]:
    events = yield from events_of(judge, evidence)
    if events is not None:
        cases = [case for case in _cases(evidence, events) if case.row.kind in kinds]
        yield from list(_findings(judge, evidence, cases)) or [
            judge.passed(HOST, good, observed=_folded(evidence, events, kinds))
        ]


def _folded(evidence: Evidence, events: Collection[LogEvent], kinds: set[XidClass]) -> str:
    """Return, in words, the Xids of `kinds` that are reported as effects of an earlier Xid."""
    return "; ".join(
        f"Xid {effect.code} of {_subject(evidence, case.device)} is an effect of Xid {case.code}"
        for case in _cases(evidence, events)
        for effect in case.effects
        if effect.row.kind in kinds
    )


def _cases(evidence: Evidence, events: Collection[LogEvent]) -> list[Case]:
    """Return the Xids by device and number, in the order of the log; an effect is listed under its cause."""
    logged = [event for event in events if event.kind == "xid" and event.code is not None]
    codes = {(event.device, event.code) for event in logged}
    roots = {(event.device, event.code) for event in logged if event.after is None}
    groups: dict[tuple[str, int], list[LogEvent]] = {}
    effects: dict[tuple[str, int], dict[int, list[LogEvent]]] = {}
    for event in logged:
        device, code = event.device or HOST, event.code or 0
        cause = cause_of_cleanup(event.message) if code == CLEANUP_XID else None
        if event.after is not None and (event.device, event.after) in roots:
            effects.setdefault((device, event.after), {}).setdefault(code, []).append(event)
        elif cause is None or (event.device, cause) in codes:
            groups.setdefault((device, code), []).append(event)
        else:
            # A cleanup (Xid 45) names the Xid that caused it. If the log lacks that Xid, the cleanup is
            # counted as that Xid.
            groups.setdefault((device, cause), []).append(event)

    def case_of(device: str, code: int, group: list[LogEvent], **further: Any) -> Case:
        row = load_xids().find(code) or _NO_MEANING
        recovered = (row.kind == "reset" or code == RECOVERY_XID) and _needs_nothing(evidence, device)
        return Case(device=device, code=code, row=row, events=tuple(group), recovered=recovered, **further)

    return [
        case_of(
            device,
            code,
            group,
            effects=tuple(
                case_of(device, number, later) for number, later in effects.get((device, code), {}).items()
            ),
        )
        for (device, code), group in groups.items()
    ]


def _needs_nothing(evidence: Evidence, device: str) -> bool:
    gpu = _gpu(evidence, device)
    return gpu is not None and isinstance(gpu.recovery_action, str) and gpu.recovery_action.lower() == "none"


def _findings(judge: Judge, evidence: Evidence, cases: Iterable[Case]) -> Iterator[Finding]:
    for case in cases:
        if case.severity == "none":
            continue
        recurs = case.code == FALLEN_OFF and case.count > 1
        text = (
            f"The error occurred {case.count} times: the card, its power or its slot is at fault. "
            if recurs
            else ""
        )
        codes = sorted({event.sub_code for event in case.events if event.sub_code is not None})
        notes = {load_xids().sub_code(case.code, event.sub_code) for event in case.events}
        text += "".join(f"A sub-code means that {note}. " for note in sorted(filter(None, notes)))
        yield judge.problem(
            _subject(evidence, case.device),
            f"Xid {case.code} on {case.device}: {case.row.name}",
            fails=case.severity == "fail",
            expected=f"no Xid {case.code}",
            observed=(f"sub-code {', '.join(map(str, codes))}; " if codes else "")
            + _observed(case.events)
            + ("; recovery action now: none" if case.recovered else "")
            + "".join(
                f"; then Xid {effect.code} ({effect.row.name}) {_observed(effect.events)}"
                for effect in case.effects
            ),
            remedy=Remedy(text=text + " ".join((case.row.action, *_further_actions(case)))),
            evidence=(*evidence_of(_all_events(case)), load_xids().ref),
        )


def _all_events(case: Case) -> list[LogEvent]:
    return [*case.events, *(event for effect in case.effects for event in effect.events)]


def _further_actions(case: Case) -> Iterator[str]:
    """Yield the driver's requested action, and the actions of effects that are worse than their cause."""
    for effect in case.effects:
        if effect.code == RECOVERY_XID:
            action = _requested_action(effect.events[-1])
            if action is not None:
                yield f"The driver asks for: {action}."
        elif _GRAVITY.get(effect.row.kind, 0) > _GRAVITY.get(case.row.kind, 0):
            yield f"Xid {effect.code}: {effect.row.action}"


def _requested_action(event: LogEvent) -> str | None:
    """Return the action that Xid 154 names; None if it names none."""
    action = (recovery_action(event.message) or "").partition("(")[2].removesuffix(")")
    return action if action not in ("", "None") else None


def _recovery(evidence: Evidence, events: Collection[LogEvent]) -> Iterator[Finding]:
    """Yield the last action that Xid 154 requests on each device.

    Actions that are settled, or that the finding on the cause names, are left out.
    """
    last: dict[str, LogEvent] = {}
    folded = [
        event for case in _cases(evidence, events) for effect in case.effects for event in effect.events
    ]
    for event in events:
        if event.kind == "xid" and event.code == RECOVERY_XID and event.device is not None:
            earlier = last.get(event.device)
            if earlier is None or event.last_line >= earlier.last_line:
                last[event.device] = event
    for device, event in last.items():
        action = _requested_action(event)
        if event.settled or action is None or event in folded or _needs_nothing(evidence, device):
            continue
        yield RESET.failed(
            _subject(evidence, device),
            f"the driver asks for a recovery of {device}: {action}",
            expected="recovery action None",
            observed=_observed((event,)),
            remedy=Remedy(text=f"Drain the node, then take the action that the driver names: {action}."),
            evidence=evidence_of((event,)),
        )


def _complaint(evidence: Evidence, event: LogEvent) -> Finding:
    subject = _subject(evidence, event.device or HOST)
    if event.kind == "peermem":
        lost = "invalid context" in event.message
        return DRIVER.warned(
            subject,
            "a process with GPU memory registered for RDMA died" if lost else "nvidia-peermem failed",
            expected="no error of nvidia-peermem",
            observed=_observed((event,)),
            remedy=Remedy(
                text="Find out what ended the job; nvidia-peermem itself works."
                if lost
                else "Load nvidia-peermem after the RDMA drivers, or use the DMA-BUF path of the open driver."
            ),
            evidence=evidence_of((event,)),
        )
    severe = any(words in event.message for words in _SEVERE) and not event.settled
    return DRIVER.problem(
        subject,
        "the driver cannot use a GPU" if severe else "the driver reports a problem",
        fails=severe,
        expected="no such message",
        observed=_observed((event,)),
        remedy=Remedy(
            text="Check that module, library and firmware are of one version; reset the GPU, then reboot "
            "the node."
            if severe
            else "Compare the time with failed jobs; update the driver if the times match."
        ),
        evidence=evidence_of((event,)),
    )


def _subject(evidence: Evidence, device: str) -> str:
    """Return the subject: `GPU4` if a known GPU has this PCI address, otherwise the address."""
    gpu = _gpu(evidence, device)
    return device if gpu is None else f"GPU{gpu.index}"


def _gpu(evidence: Evidence, device: str) -> Gpu | None:
    gpus = items_of(evidence.facts.gpus)
    return next((gpu for gpu in gpus if str(gpu.pci_bus_id).lower().startswith(device)), None)


def _observed(events: Iterable[LogEvent]) -> str:
    """Return `5 times, first Sun Feb 23 16:24:18 2025, last Sun Feb 23 16:30:13 2025: <first line>`."""
    ordered = sorted(events, key=lambda event: event.line)
    count = sum(event.count for event in ordered)
    first = next((event.first_time for event in ordered if event.first_time), "")
    last = next(
        (event.last_time for event in sorted(ordered, key=lambda event: -event.last_line) if event.last_time),
        "",
    )
    words = occurrences(count, first, last)
    if all(event.settled for event in ordered):
        words += ", before the last boot, load of the driver or recovery"
    return f"{words}: {ordered[0].message}"
