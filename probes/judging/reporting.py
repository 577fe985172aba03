"""Select the subjects of a check, and create one finding per problem and one for all good subjects."""

import shlex
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec

from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED, EvidenceRef, Reason, Unknown, first_unknown, items_of, known
from probes.facts import Filesystem, Gpu, Interface, LogEvent, MachineFacts, Nic, ToolResult
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy

Judged = Finding | Unknown | str
"""Verdict on one subject: a problem, the reason why it could not be judged, or the good value."""


class HasEvidence(Protocol):
    """A record with references to the texts from which it was read."""

    @property
    def evidence(self) -> tuple[EvidenceRef, ...]: ...


Subject = TypeVar("Subject", Gpu, Nic, Interface, Filesystem)

HOST = "host"
NO_GPU = "this machine has no NVIDIA GPU"
SMI_LINK = (
    "nvidia-smi --query-gpu=pci.bus_id,pcie.link.gen.current,pcie.link.gen.max,"
    "pcie.link.width.current,pcie.link.width.max"
    " --format=csv"
)
"""Query of generation and width of the GPUs' PCIe links; `nvidia-smi -q -d` has no section for them."""
READ_LOG = Remedy(text="Read the kernel log as root.", command="dmesg", needs_root=True)


def subject_name(subject: Gpu | Nic | Interface | Filesystem) -> str:
    """Return the name of a subject: `GPU3`, `mlx5_0`, `mlx4_0:2`, `eth0`, `/scratch`."""
    match subject:
        case Gpu():
            return f"GPU{subject.index}"
        case Nic():
            return subject.name if subject.port == 1 else f"{subject.name}:{subject.port}"
        case Interface():
            return subject.name
        case Filesystem():
            return subject.mount


def smi_name(gpu: Gpu) -> str:
    """Return the PCI address of the GPU for `nvidia-smi -i`, or its index if the address is unknown.

    An index is less reliable: it differs between host and container, and after a GPU is lost or a text was
    cut.
    """
    return shlex.quote(gpu.pci_bus_id) if isinstance(gpu.pci_bus_id, str) else str(gpu.index)


def has_no_gpu(facts: MachineFacts) -> bool:
    """Return whether nothing indicates a GPU.

    A driver that hangs or refuses access indicates a GPU, even if the PCI bus shows none.
    """
    if isinstance(facts.gpus, Unknown):
        is_silent = facts.gpus.reason in (Reason.TIMEOUT, Reason.PERMISSION)
        return facts.attached_gpus == 0 or (facts.pci_gpus == () and not is_silent)
    return not facts.gpus


def accelerator_words(facts: MachineFacts) -> str:
    """Return the accelerators of other vendors (`8 x AMD Instinct MI300X`); empty if there are none."""
    counts = Counter(accelerator.name for accelerator in items_of(facts.accelerators))
    return ", ".join(f"{count} x {name}" for name, count in counts.items())


def is_behind_switch(gpu: Gpu) -> bool:
    """Return whether the NVLinks of a GPU lead to NVSwitches."""
    if known(gpu.fabric_state) and gpu.fabric_state != "not supported":
        return True
    return known(gpu.nvlinks) and any(link.remote == "switch" for link in gpu.nvlinks)


def gpus_of(judge: Judge, evidence: Evidence) -> Generator[Finding, None, tuple[Gpu, ...]]:
    """Return the GPUs to judge, without GPUs that hang, which `gpu-lost` reports.

    If the machine has no GPU, yield one SKIP. If the GPUs could not be read or all hang, yield one UNKNOWN.
    """
    gpus = yield from listed_gpus_of(judge, evidence)
    responsive = responsive_of(gpus)
    if gpus and not responsive:
        silence = Unknown(Reason.TIMEOUT, f"no GPU answers: {gpus[0].hung_call}")
        yield judge.undetermined(HOST, silence, what="the GPUs")
    return responsive


def responsive_of(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """Return the GPUs that answered every call of the driver."""
    return tuple(gpu for gpu in gpus if gpu.hung_call is None)


def listed_gpus_of(judge: Judge, evidence: Evidence) -> Generator[Finding, None, tuple[Gpu, ...]]:
    """Return all GPUs that the driver lists, or yield one finding as `gpus_of` does."""
    gpus = evidence.facts.gpus
    if has_no_gpu(evidence.facts):
        yield judge.skipped(HOST, NO_GPU)
        return ()
    if isinstance(gpus, Unknown):
        yield judge.undetermined(HOST, gpus, what="the GPUs")
        return ()
    return gpus


def nics_of(judge: Judge, evidence: Evidence) -> Generator[Finding, None, tuple[Nic, ...]]:
    """Return the RDMA ports to judge, or yield one finding as `gpus_of` does."""
    nics = evidence.facts.nics
    if isinstance(nics, Unknown):
        yield judge.undetermined(HOST, nics, what="the RDMA ports")
        return ()
    if not nics:
        yield judge.skipped(HOST, "this machine has no RDMA port")
    return nics


def events_of(
    judge: Judge, evidence: Evidence, log: str = "kernel-log"
) -> Generator[Finding, None, tuple[LogEvent, ...] | None]:
    """Return the events to judge.

    If no log of the kind was read, yield one SKIP or UNKNOWN and return None.
    """
    events, logs = evidence.facts.events, evidence.facts.logs
    if isinstance(events, Unknown):
        if events.reason is Reason.NOT_RECORDED:
            yield judge.skipped(HOST, "no log was read")
        else:
            yield judge.undetermined(HOST, events, what="the log", remedy=READ_LOG)
        return None
    if not isinstance(logs, Unknown) and log not in logs:
        yield judge.skipped(HOST, f"no {log.replace('-', ' ')} was read")
        return None
    return events


Check = Callable[[Evidence], Iterator[Finding]]
Input = TypeVar("Input")


def given(
    judge: Judge,
    input_of: Callable[[Judge, Evidence], Generator[Finding, None, Input | None]],
) -> Callable[[Callable[[Input, Evidence], Findings]], Check]:
    """Decorate a check so that it receives the result of `input_of`.

    If the result is None, the check does not run, and only the findings that `input_of` yields count."""

    def decorate(function: Callable[[Input, Evidence], Findings]) -> Check:
        def check(evidence: Evidence) -> Iterator[Finding]:
            value = yield from input_of(judge, evidence)
            if value is not None:
                findings = function(value, evidence)
                yield from (findings,) if isinstance(findings, Finding) else findings

        return check

    return decorate


def on_gpus(
    judge: Judge,
    select: Callable[[Judge, Evidence], Generator[Finding, None, tuple[Gpu, ...]]] = gpus_of,
) -> Callable[[Callable[[tuple[Gpu, ...], Evidence], Findings]], Check]:
    """Decorate a check so that it receives the GPUs, at least one."""
    return given(judge, lambda judge, evidence: _some(select(judge, evidence)))


def each_gpu(judge: Judge, *, what: str, good: str) -> Callable[[Callable[[Gpu, Evidence], Judged]], Check]:
    """Decorate a function that judges one GPU, so that it becomes a check of all GPUs (see `judge_each`)."""
    return _each(judge, gpus_of, what=what, good=good)


def each_port(
    judge: Judge, ports_of: Callable[[Evidence], Sequence[Nic]], *, absent: str, what: str, good: str
) -> Callable[[Callable[[Nic, Evidence], Judged]], Check]:
    """Decorate a function that judges one RDMA port, so that it becomes a check of the ports of `ports_of`.

    If the machine has RDMA ports and `ports_of` selects none, the check is skipped as `absent`.
    """

    def select(judge: Judge, evidence: Evidence) -> Generator[Finding, None, Sequence[Nic]]:
        nics = yield from nics_of(judge, evidence)
        ports = ports_of(evidence) if nics else ()
        if nics and not ports:
            yield judge.skipped(HOST, absent)
        return ports

    return _each(judge, select, what=what, good=good)


def _each(
    judge: Judge,
    select: Callable[[Judge, Evidence], Generator[Finding, None, Sequence[Subject]]],
    *,
    what: str,
    good: str,
) -> Callable[[Callable[[Subject, Evidence], Judged]], Check]:
    def decorate(verdict_of: Callable[[Subject, Evidence], Judged]) -> Check:
        def check(evidence: Evidence) -> Iterator[Finding]:
            subjects = yield from select(judge, evidence)
            yield from judge_each(
                judge, subjects, lambda subject: verdict_of(subject, evidence), what=what, good=good
            )

        return check

    return decorate


def on_nics(judge: Judge) -> Callable[[Callable[[tuple[Nic, ...], Evidence], Findings]], Check]:
    """Decorate a check so that it receives the RDMA ports, at least one."""
    return given(judge, lambda judge, evidence: _some(nics_of(judge, evidence)))


def on_events(judge: Judge) -> Callable[[Callable[[tuple[LogEvent, ...], Evidence], Findings]], Check]:
    """Decorate a check so that it receives the events of the kernel log."""
    return given(judge, events_of)


def on_fact(
    judge: Judge, what: str, fact_of: Callable[[MachineFacts], Input | Unknown], part: str = ""
) -> Callable[[Callable[[Input, Evidence], Findings]], Check]:
    """Decorate a check so that it receives one fact.

    If the fact is unknown, the check is UNKNOWN and cites the `part` of the facts."""

    def read(judge: Judge, evidence: Evidence) -> Generator[Finding, None, Input | None]:
        fact = fact_of(evidence.facts)
        if not isinstance(fact, Unknown):
            return fact
        refs = getattr(evidence.facts, part).evidence if part else ()
        yield judge.undetermined(HOST, fact, what=what, evidence=refs)
        return None

    return given(judge, read)


def on_results(judge: Judge) -> Callable[[Callable[[tuple[ToolResult, ...], Evidence], Findings]], Check]:
    """Decorate a check so that it receives the measurements of other tools."""
    return on_fact(judge, "the measurements", lambda facts: facts.tool_results)


def _some(
    subjects: Generator[Finding, None, tuple[Input, ...]],
) -> Generator[Finding, None, tuple[Input, ...] | None]:
    return (yield from subjects) or None


def unknown_among(*values: object) -> Unknown:
    """Return the first unknown value; at least one value must be unknown."""
    return first_unknown(*values) or NOT_RECORDED


def events_in(facts: MachineFacts) -> tuple[LogEvent, ...] | Unknown:
    """Return the events of the logs.

    Unknown if no kernel log was read, for example if only a log of NCCL was given.
    """
    if isinstance(facts.events, Unknown) or isinstance(facts.logs, Unknown) or "kernel-log" in facts.logs:
        return facts.events
    return Unknown(Reason.NOT_RECORDED, "no kernel log was read")


def judge_each(
    judge: Judge,
    subjects: Iterable[Subject],
    verdict_of: Callable[[Subject], Judged],
    *,
    what: str,
    good: str,
) -> Iterator[Finding]:
    """Judge every subject with `verdict_of`.

    Each problem is a separate finding. Subjects that could not be judged for the same reason share one
    finding (SKIP if the device reports that it has no such value), and so do all good subjects. `what`
    completes "... could not be read" and `good` the summary after the names: "GPU0-7: no uncorrected
    errors".
    """
    well: dict[str, list[Subject]] = {}
    unread: dict[Unknown, list[Subject]] = {}
    for subject in subjects:
        judged = verdict_of(subject)
        if isinstance(judged, Finding):
            yield msgspec.structs.replace(judged, evidence=subject.evidence + judged.evidence)
        elif isinstance(judged, Unknown):
            unread.setdefault(judged, []).append(subject)
        else:
            well.setdefault(judged, []).append(subject)
    for unknown, affected in unread.items():
        names = fold_names([subject_name(subject) for subject in affected])
        if unknown.reason is Reason.NOT_SUPPORTED:
            yield judge.skipped(
                names, f"not supported here: {unknown.detail or what}", evidence=evidence_of(affected)
            )
        else:
            yield judge.undetermined(names, unknown, what=what, evidence=evidence_of(affected))
    if well:
        fine = [subject for group in well.values() for subject in group]
        yield judge.passed(
            fold_names([subject_name(subject) for subject in fine]),
            good,
            observed="; ".join(observed for observed in well if observed),
            evidence=evidence_of(fine),
        )


_SINCE_BOOT = pattern(r"[0-9]+\.[0-9]+")


def occurrences(count: int, first: str, last: str) -> str:
    """Return how often and when an event occurred: `5 times, first 12:01:07, last 12:09:30`.

    A kernel log without dates has seconds since the boot. The times are empty if they are unknown.
    """
    first, last = (
        f"{float(time):.0f} s after boot" if _SINCE_BOOT.fullmatch(time) else time for time in (first, last)
    )
    words = "once" if count == 1 else f"{count} times"
    if not first:
        return words
    return f"{words}, at {first}" if first == last or count == 1 else f"{words}, first {first}, last {last}"


def fold_names(names: Iterable[str]) -> str:
    """Return names in natural order with runs of numbers folded: `GPU0-2, GPU5, mlx5_0`."""
    parts: list[str] = []
    first = last = ("", -2)
    for stem, number in sorted(map(_split, names), key=_natural):
        if number >= 0 and (stem, number) == (last[0], last[1] + 1):
            parts[-1] = f"{stem}{first[1]}-{number}"
        else:
            parts.append(f"{stem}{number}" if number >= 0 else stem)
            first = (stem, number)
        last = (stem, number)
    return ", ".join(parts)


_RUN = pattern(r"(.*?)([0-9]{1,4})-([0-9]{1,4})")


def unfolded(names: str) -> list[str]:
    """Return the single names in a text by `fold_names`: four for `GPU0-2, GPU5`."""
    singles: list[str] = []
    for name in names.split(", "):
        run = _RUN.fullmatch(name)
        if run is None or not int(run[2]) < int(run[3]):
            singles.append(name)
        else:
            singles += [f"{run[1]}{number}" for number in range(int(run[2]), int(run[3]) + 1)]
    return singles


def _split(name: str) -> tuple[str, int]:
    """Split `mlx5_10` into (mlx5_, 10); the number is -1 if the name does not end with a plain number."""
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    is_plain = digits[:1] != "0" or digits == "0"
    return (stem, int(digits)) if digits and is_plain and len(digits) < 10 else (name, -1)


_DIGITS = pattern(r"([0-9]{1,9})")


def _natural(name: tuple[str, int]) -> tuple[list[str | int], int]:
    """Return a key that orders numbers inside of a name by their value too: `rdmap6s0` before `rdmap13s0`."""
    stem, number = name
    parts = _DIGITS.split(stem)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], number


def evidence_of(subjects: Iterable[HasEvidence]) -> tuple[EvidenceRef, ...]:
    """Return the evidence of all subjects, each reference once."""
    return tuple(dict.fromkeys(ref for subject in subjects for ref in subject.evidence))
