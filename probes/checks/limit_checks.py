"""Compare facts with the limits of the data rows in `probes/data/limit_checks/`.

Source: each row names its source.
"""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator
from typing import Any

import msgspec

from probes.base.patterns import pattern
from probes.base.record import (
    NOT_RECORDED,
    EvidenceRef,
    Reason,
    Record,
    Unknown,
    first_unknown,
    items_of,
    known,
    value_or,
)
from probes.base.units import duration, gib, percent
from probes.catalogue.check_rows import LimitCheck, LimitRule
from probes.facts import Filesystem, Gpu, MachineFacts, Nic, count_of
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import (
    HOST,
    HasEvidence,
    Judged,
    gpus_of,
    judge_each,
    nics_of,
    smi_name,
    subject_name,
)

_PLACE = pattern(r"\{([a-z][a-z0-9_.\[\]]*)(?::([a-z]+))?\}")
_SYSCTL = "sysctl:"
_SHOWN = 8
"""Maximum number of entries of a list that a finding shows."""

_PROCESSORS = ("x86_64", "aarch64")
_NAMES_OF_CASE = ("value", "limit", "gpu", "subject", "counts")
"""Names in braces that do not refer to facts."""

Subject = Gpu | Nic | Filesystem | MachineFacts


class _Case(Record, kw_only=True):
    """A subject of a check, with the row and the evidence by which it is judged."""

    row: LimitCheck
    evidence: Evidence
    subject: Subject
    peers: tuple[Any, ...] = ()
    """All subjects of the check."""


def check(evidence: Evidence, data: dict[str, Any]) -> Iterator[Finding]:
    """Yield the findings of the row `data`."""
    row = msgspec.convert(data, LimitCheck)
    judge = Judge(check_id=row.id, why=row.why)
    if row.given is not None and not (yield from _ports(judge, evidence)):
        return
    if row.each is not None:
        subjects = yield from _SUBJECTS[row.each](judge, evidence)
        chosen = [subject for subject in subjects if not row.only_known or _knows_any(row, subject)]
        if row.alone and len(subjects) == 1:
            yield judge.skipped(HOST, row.alone)
            return
        if subjects and not chosen:
            yield judge.skipped(HOST, row.only_known)
        case = _Case(row=row, evidence=evidence, subject=evidence.facts, peers=tuple(chosen))

        def verdict_of(subject: Any) -> Judged:
            return _judge(judge, msgspec.structs.replace(case, subject=subject))

        yield from judge_each(judge, chosen, verdict_of, what=row.what, good=row.good)
        return
    case = _Case(row=row, evidence=evidence, subject=evidence.facts)
    # A fact that decides whether the check applies must be known before the check can be skipped.
    unread = first_unknown(*(_read(evidence.facts, path) for path in row.known))
    summary = next((words for where, words in row.skip.items() if _WHERE[where](evidence.facts)), None)
    if unread is None and summary is not None:
        yield judge.skipped(HOST, summary)
        return
    yield _on_host(judge, row, _judge(judge, case), _refs(row, evidence.facts))


def _on_host(judge: Judge, row: LimitCheck, judged: Judged, refs: tuple[EvidenceRef, ...]) -> Finding:
    match judged:
        case Finding():
            return msgspec.structs.replace(judged, evidence=refs + judged.evidence)
        case Unknown(reason=Reason.TOOL_MISSING | Reason.NOT_SUPPORTED) if row.absent:
            return judge.skipped(HOST, row.absent, evidence=refs)
        case Unknown(reason=Reason.NOT_SUPPORTED) if not row.essential:
            return judge.skipped(HOST, f"not supported here: {judged.detail or row.what}", evidence=refs)
        case Unknown():
            return judge.undetermined(HOST, judged, what=row.what, evidence=refs)
    return judge.passed(HOST, row.good, observed=judged, evidence=refs)


def _judge(judge: Judge, case: _Case) -> Judged:
    """Return the finding of the first broken rule, or else what could not be read, or else the good value."""
    row, subject = case.row, case.subject
    unread = first_unknown(*(_read(subject, path) for path in row.known))
    ignored, judged = None, 0
    for rule in row.rules:
        if rule.where is not None and not _WHERE[rule.where](case.evidence.facts):
            continue
        value = _read(subject, rule.fact or row.fact)
        if isinstance(value, str) and value in row.unsupported:
            return Unknown(Reason.NOT_SUPPORTED, f"{row.what} is {value}")
        slack = _number(case, rule.slack)[0]
        bound = _usual(case, rule.as_most) if rule.as_most else _number(case, _given(rule))[0]
        # The first broken rule results in the finding. An unknown value only counts if no later rule is
        # broken.
        unknown = first_unknown(value, bound, slack)
        if unknown is None and not _keeps(rule, value, bound, slack):
            return _finding(judge, case, rule, value, bound)
        if unknown is None:
            judged += 1
        elif not rule.optional:
            unread = unread or unknown
        else:
            ignored = ignored or unknown
    unread = unread or (ignored if not judged else None)
    return unread or _filled(row.seen, case, _read(subject, row.fact), None)


def _keeps(rule: LimitRule, value: Any, bound: Any, slack: Any) -> bool:
    """Return whether `value` obeys the rule. The value `unlimited` is above every number."""
    if value == "unlimited" and rule.at_least is not None:
        return True
    return all(
        (
            rule.at_least is None or value >= bound - slack,
            rule.at_most is None or value <= bound + slack,
            rule.below is None or value < bound + slack,
            rule.one_of is None or value in rule.one_of,
            rule.none_of is None or value not in rule.none_of,
            rule.on is None or value is rule.on,
            rule.as_most is None or value == bound,
            not (rule.empty and value),
        )
    )


def _finding(judge: Judge, case: _Case, rule: LimitRule, value: Any, bound: Any) -> Finding:
    row = case.row
    remedy = rule if rule.fix else row
    texts = " ".join((rule.bad, rule.expected, rule.seen, remedy.fix, remedy.command))
    numbers = (_given(rule), rule.slack, *(path for path, _ in _PLACE.findall(texts)))
    cited = [ref for number in numbers for ref in _number(case, number)[1]]
    return judge.problem(
        HOST if isinstance(case.subject, MachineFacts) else subject_name(case.subject),
        _filled(rule.bad, case, value, bound),
        fails=rule.status == "FAIL",
        expected=_filled(rule.expected or _expected(rule, row), case, value, bound),
        observed=_filled(rule.seen or row.seen, case, value, bound),
        remedy=Remedy(
            text=_filled(remedy.fix, case, value, bound),
            command=_filled(remedy.command, case, value, bound),
            needs_root=remedy.root,
            reversible=remedy.reversible,
        ),
        evidence=tuple(dict.fromkeys(cited)),
    )


def _expected(rule: LimitRule, row: LimitCheck) -> str:
    """Return the expected value as text, derived from the rule, for a row that does not state such a text."""
    if rule.one_of is not None:
        return " or ".join(rule.one_of)
    if rule.on is not None:
        return row.words[rule.on]
    if rule.as_most is not None:
        return "{limit}"
    if rule.at_least is not None:
        return "at least {limit}"
    return "at most {limit}" if rule.at_most is not None else "below {limit}"


def _given(rule: LimitRule) -> float | str:
    """Return the limit of a rule: the name of a threshold, which a policy may change, or a number."""
    numbers = (rule.limit or None, rule.at_least, rule.at_most, rule.below)
    return next((number for number in numbers if number is not None), 0.0)


def _number(case: _Case, given: float | str) -> tuple[Any, tuple[EvidenceRef, ...]]:
    """Return a number as it is, the threshold with this name, or the fact at this path."""
    if not isinstance(given, str) or given in _NAMES_OF_CASE:
        return given, ()
    threshold = getattr(case.evidence.thresholds, given, None)
    return (_read(case.subject, given), ()) if threshold is None else (threshold.value, (threshold.ref,))


def _read(subject: Any, path: str) -> Any:
    """Return the fact at a path.

    Examples: `kernel.uptime_s`, `counters[link_downed]`, `sysctl:net.core.somaxconn`.
    """
    if path.startswith(_SYSCTL):
        settings, name = subject.kernel.sysctls, path.removeprefix(_SYSCTL)
        if isinstance(settings, Unknown):
            return settings
        return next((row.value for row in settings if row.name == name), NOT_RECORDED)
    dotted, _, item = path.partition("[")
    for name in dotted.split("."):
        subject = getattr(subject, name)
        if isinstance(subject, Unknown):
            return subject
    if not item:
        return subject
    counter = item.rstrip("]")
    count = count_of(subject, counter)
    return Unknown(Reason.NOT_SUPPORTED, f"there is no counter {counter}") if count is None else count


def _usual(case: _Case, among: str) -> Any:
    """Return the most frequent known value among all subjects, or among those of the same name (model).

    In a tie, return the first value; without a known value, return NOT_RECORDED.
    """
    values = [
        _read(peer, case.row.fact)
        for peer in case.peers
        if among == "all" or peer.name == getattr(case.subject, "name", None)
    ]
    return next(iter(Counter(filter(known, values)).most_common(1)), (NOT_RECORDED, 0))[0]


def _refs(row: LimitCheck, facts: MachineFacts) -> tuple[EvidenceRef, ...]:
    """Return the evidence of the part of the machine that the check reads."""
    part: HasEvidence = (
        facts.kernel if row.fact.startswith(_SYSCTL) else getattr(facts, row.fact.partition(".")[0])
    )
    return part.evidence


def _filled(text: str, case: _Case, value: Any, bound: Any) -> str:
    """Return `text` with the names in braces replaced by the values of this case."""

    def words(match: re.Match[str]) -> str:
        path, unit = match[1], match[2] or ""
        subject = case.subject
        if path in ("value", "limit"):
            return _written(value if path == "value" else bound, unit or case.row.unit, case.row.words)
        if path == "counts":
            return _counts(case)
        if path == "gpu":
            return smi_name(subject) if isinstance(subject, Gpu) else ""
        if path == "subject":
            return "" if isinstance(subject, MachineFacts) else shlex.quote(subject_name(subject))
        fact = _number(case, path)[0]
        if unit == "text":
            return str(fact)
        return shlex.quote(fact) if isinstance(fact, str) else _written(fact, unit, case.row.words)

    return _PLACE.sub(words, text)


def _counts(case: _Case) -> str:
    """Return the counters of the rules that are not zero: `link_downed 3`."""
    counts = {rule.fact: _read(case.subject, rule.fact) for rule in case.row.rules}
    return ", ".join(
        f"{path[:-1].partition('[')[2]} {count}" for path, count in counts.items() if known(count) and count
    )


def _written(value: Any, unit: str, words: tuple[str, str]) -> str:
    match value:
        case Unknown():
            return "not known"
        case bool():
            return words[value]
        case str():
            return value
        case tuple():
            return ", ".join(map(str, value[:_SHOWN]))
        case _ if unit in _UNITS:
            return _UNITS[unit](value)
    number = f"{value:.0f}" if isinstance(value, int) or value.is_integer() else f"{value:g}"
    return f"{number} {unit}".rstrip()


def _knows_any(row: LimitCheck, subject: Subject) -> bool:
    return any(known(_read(subject, rule.fact or row.fact)) for rule in row.rules)


def _ports(judge: Judge, evidence: Evidence) -> Generator[Finding, None, bool]:
    """Return whether training ports are up. If none is up, yield one SKIP or UNKNOWN."""
    nics = yield from nics_of(judge, evidence)
    is_any_up = bool(nics and training_rails(evidence.facts).active)
    if nics and not is_any_up:
        yield judge.skipped(HOST, "no RDMA port is up; see nic-state")
    return is_any_up


def _roce_ports(judge: Judge, evidence: Evidence) -> Generator[Finding, None, tuple[Nic, ...]]:
    nics = yield from nics_of(judge, evidence)
    ports = tuple(nic for nic in nics if nic.link_layer == "Ethernet")
    if nics and not ports:
        yield judge.skipped(HOST, "no RDMA port reports Ethernet")
    return ports


def _filesystems(judge: Judge, evidence: Evidence) -> Generator[Finding, None, tuple[Filesystem, ...]]:
    """Return the filesystems to which a job may write.

    Read-only images are left out, as they are full by design.
    """
    storage, images = evidence.facts.storage, evidence.thresholds.read_only_filesystems
    if isinstance(storage, Unknown):
        yield judge.undetermined(HOST, storage, what="the mounted filesystems")
        return ()
    writable = tuple(fs for fs in storage if not (known(fs.kind) and fs.kind in images.value))
    if not writable:
        yield judge.skipped(HOST, "no filesystem was found that a job would write to")
    return writable


_SUBJECTS: dict[str, Callable[[Judge, Evidence], Generator[Finding, None, Collection[Any]]]] = {
    "gpus": gpus_of,
    "nics": nics_of,
    "RoCE ports": _roce_ports,
    "filesystems": _filesystems,
}
_WHERE: dict[str, Callable[[MachineFacts], bool]] = {
    "GPUs": lambda facts: len(items_of(facts.gpus)) > 0,
    "container": lambda facts: isinstance(facts.container.runtime, str),
    "no container": lambda facts: not isinstance(facts.container.runtime, str),
    "x86_64": lambda facts: facts.cpu.architecture == "x86_64",
    "aarch64": lambda facts: facts.cpu.architecture == "aarch64",
    "another processor": lambda facts: value_or(facts.cpu.architecture, "x86_64") not in _PROCESSORS,
    "one NUMA node": lambda facts: len(items_of(facts.numa_nodes)) == 1,
}
_UNITS: dict[str, Callable[[float], str]] = {
    "bytes": gib,
    "fraction": percent,
    "s": duration,
    "W": lambda watts: f"{watts:.0f} W",
    "plain": lambda number: f"{number:.0f}",
}
