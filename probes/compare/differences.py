"""Detect differences between machines, or between two moments of one machine."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from probes.base.record import Record, Unknown, items_of, known
from probes.facts import MachineFacts
from probes.facts.flat_facts import HOST, IDENTITY, VOLATILE, Key, Leaf, flat, gpu_key, words_of
from probes.judging.findings import Finding, Status
from probes.judging.reporting import fold_names

Change = Literal["changed", "gone", "appeared", "lost", "learnt"]
"""Kind of change; `lost` and `learnt` are about values that became unknown or known."""

SCHEMA_VERSION = 1
_MOST_PAIRS = 6
_PROBLEMS = (Status.FAIL, Status.WARN)


class Difference(Record, kw_only=True):
    """A difference that is the same for all `subjects`."""

    change: Change
    subjects: tuple[str, ...]
    """Parts of the machine: `GPU3`, `mlx5_2`, `host` and others."""
    field: str = ""
    """Path in the facts; empty if a whole subject was added or removed."""
    before: str = ""
    after: str = ""
    sentence: str


class FindingChange(Record, kw_only=True):
    """A problem that exists on only one side, or that became better or worse."""

    check_id: str
    subject: str
    before: Status | None
    after: Status | None
    summary: str


class Deviation(Record, kw_only=True):
    """A value in which a machine differs from the majority."""

    machine: str
    subjects: tuple[str, ...]
    field: str
    value: str
    others: str
    sentence: str


class Comparison(Record, kw_only=True):
    """The result of `rigtune diff`: `differences` and `findings` for two machines, `odd` for more."""

    schema_version: int = SCHEMA_VERSION
    machines: tuple[str, ...]
    is_one_machine: bool
    """True if both sides are one machine, whose serial numbers and addresses should not change either."""
    differences: tuple[Difference, ...] = ()
    findings: tuple[FindingChange, ...] = ()
    odd: tuple[Deviation, ...] = ()

    @property
    def is_equal(self) -> bool:
        return not (self.differences or self.findings or self.odd)


def is_one_machine(all_facts: Sequence[MachineFacts]) -> bool:
    """Return whether all facts have the same host name, or the same GPUs.

    If a host name is unknown, one common GPU is enough.
    """
    names = {facts.hostname for facts in all_facts}
    is_named = not any(isinstance(name, Unknown) for name in names)
    if is_named and len(names) == 1:
        return True
    uuids = [{gpu.uuid for gpu in items_of(facts.gpus) if known(gpu.uuid)} for facts in all_facts]
    shared = set.intersection(*uuids)
    return bool(shared) and (not is_named or all(each == shared for each in uuids))


def compare(
    before_facts: MachineFacts, after_facts: MachineFacts, *, everything: bool = False
) -> tuple[Difference, ...]:
    """Return the differences from `before_facts` to `after_facts`.

    The order is: subjects that are gone or new, changed values, values that became unknown or known; within
    each kind, GPUs and NICs come first. Volatile values are left out unless `everything`. For different
    machines, serial numbers and addresses are left out unless `everything`.
    """
    by = _identity([before_facts, after_facts])
    skip = _skip(everything=everything, same=is_one_machine([before_facts, after_facts]))
    before, after = flat(before_facts, by=by, skip=skip), flat(after_facts, by=by, skip=skip)
    labels = _labels([before_facts, after_facts], by)
    grouped: dict[_SharedDifference, list[str]] = {}
    for key in dict.fromkeys((*before, *after)):
        change = _change(before, after, key)
        if change is not None:
            subject = _label(key.subject, labels)
            group = _SharedDifference(
                change, key.field, *_texts(before.get(key), after.get(key), change), _class(subject)
            )
            grouped.setdefault(group, []).append(subject)
    return tuple(sorted((_difference(group, subjects) for group, subjects in grouped.items()), key=_rank))


def compare_findings(before: Iterable[Finding], after: Iterable[Finding]) -> tuple[FindingChange, ...]:
    """Return the problems that appeared, disappeared, or changed between WARN and FAIL."""
    earlier = {(row.check_id, row.subject): row for row in before if row.status in _PROBLEMS}
    later = {(row.check_id, row.subject): row for row in after if row.status in _PROBLEMS}
    changes: list[FindingChange] = []
    for key in dict.fromkeys((*earlier, *later)):
        was, now = earlier.get(key), later.get(key)
        shown = now or was
        if shown is not None and (was is None or now is None or was.status is not now.status):
            changes.append(
                FindingChange(
                    check_id=key[0],
                    subject=key[1],
                    before=was.status if was else None,
                    after=now.status if now else None,
                    summary=shown.summary,
                )
            )
    return tuple(changes)


def odd_ones(
    machines: Sequence[tuple[str, MachineFacts]], *, everything: bool = False
) -> tuple[Deviation, ...]:
    """Return the values in which a machine differs from the majority of the machines.

    A value that fewer than half of the machines share is no majority. A machine whose value is unknown is not
    listed; a machine without a subject that most machines have is listed.
    """
    by = _identity([facts for _, facts in machines])
    skip = _skip(everything=everything, same=False)
    tables = [(name, flat(facts, by=by, skip=skip)) for name, facts in machines]
    labels = _labels([facts for _, facts in machines], by)
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for key in dict.fromkeys(key for _, rows in tables for key in rows):
        values = {name: value for name, rows in tables if (value := _value_in_words(rows, key)) is not None}
        common, votes = Counter(values.values()).most_common(1)[0] if values else ("", 0)
        if votes * 2 <= len(tables):
            continue
        for name, value in values.items():
            if value != common:
                grouped.setdefault((name, key.field, value, common), []).append(_label(key.subject, labels))
    return tuple(
        Deviation(
            machine=name,
            subjects=tuple(subjects),
            field=field,
            value=value,
            others=common,
            sentence=_odd_sentence(subjects, field, value, common),
        )
        for (name, field, value, common), subjects in grouped.items()
    )


class _SharedDifference(NamedTuple):
    """The part of a difference that all its subjects of a class share."""

    change: Change
    field: str
    before: str
    after: str
    is_set: bool
    subject_class: str


def _skip(*, everything: bool, same: bool) -> frozenset[str]:
    if everything:
        return frozenset()
    return VOLATILE if same else VOLATILE | IDENTITY


def _class(subject: str) -> str:
    """Return the class of subjects that are reported together: GPUs, pairs, ports, PCI devices."""
    words = re.sub(r"\d+", "", subject).split(" ")
    if len(words) == 1:
        return words[0]
    return f"{words[0]} and {words[1]}" if subject.startswith("GPU") else f"{words[0]} "


def _identity(all_facts: Sequence[MachineFacts]) -> str:
    """Return the key by which GPUs are matched.

    An address identifies a slot; an index is only the driver's order.
    """
    sets = [{gpu_key(gpu, "bus") for gpu in items_of(facts.gpus)} for facts in all_facts]
    is_matching = bool(sets and set.intersection(*sets)) or not any(sets)
    return "bus" if is_matching and not any(None in keys for keys in sets) else "index"


def _labels(all_facts: Sequence[MachineFacts], by: str) -> dict[str, str]:
    """Return the label of each GPU key, such as `GPU3`: the index on the first machine with that GPU."""
    labels: dict[str, str] = {}
    for facts in all_facts:
        for gpu in items_of(facts.gpus):
            labels.setdefault(f"GPU\0{gpu_key(gpu, by)}", f"GPU{gpu.index}")
    return labels


def _label(subject: str, labels: dict[str, str]) -> str:
    key_of_gpu = re.match(r"GPU\0\S+", subject)
    return labels.get(key_of_gpu[0], "GPU") + subject[key_of_gpu.end() :] if key_of_gpu else subject


def _value_in_words(rows: dict[Key, Leaf], key: Key) -> str | None:
    """Return a value as text; None if the value is unknown.

    A missing subject is reported once, in the row of the subject itself; the result for its other rows is
    None.
    """
    value = rows.get(key)
    if value is None:
        return "not there" if not key.field and not _unread(rows, key.subject) else None
    return None if isinstance(value, Unknown) else _text(value)


def _unread(rows: dict[Key, Leaf], subject: str) -> bool:
    """Return whether the list that a subject belongs to is unknown, so that its absence has no meaning."""
    lists = {"GPU\0": "gpus", "mlx": "nics", "interface ": "interfaces", "event ": "events"}
    name = next((field for start, field in lists.items() if subject.startswith(start)), "")
    if not name and re.match(r"(?:gpu|nvswitch|rdma|ethernet|nvme|bridge|other) ", subject):
        name = "pci_devices"
    candidates = (
        [name]
        if name
        else ["nics", "links", "peer_access", "numa_nodes", "storage", "environment", "diagnoses"]
    )
    return any(isinstance(rows.get(Key(HOST, candidate)), Unknown) for candidate in candidates)


def _change(before: dict[Key, Leaf], after: dict[Key, Leaf], key: Key) -> Change | None:
    was, now = before.get(key), after.get(key)
    if was == now:
        return None
    if was is None or now is None:
        return _one_sided(before, after, key)
    if isinstance(was, Unknown) or isinstance(now, Unknown):
        return None if type(was) is type(now) else "learnt" if isinstance(was, Unknown) else "lost"
    return "changed"


def _one_sided(before: dict[Key, Leaf], after: dict[Key, Leaf], key: Key) -> Change | None:
    """Return the change of a row that exists on one side only.

    A missing subject is reported once. A subject that the other side could not detect is not a difference.
    """
    rows = after if key in before else before
    if key.field and key.subject != HOST and Key(key.subject, "") not in rows:
        return None
    if not key.field:
        return None if _unread(rows, key.subject) else "gone" if key in before else "appeared"
    value = before.get(key, after.get(key))
    if isinstance(value, Unknown) or value == ():
        return None
    above = (key.field.rpartition(".")[0], key.field.split(".")[0])
    if any(isinstance(rows.get(Key(key.subject, field)), Unknown) for field in above):
        return "lost" if key in before else "learnt"
    return "changed"


def _texts(was: Leaf | None, now: Leaf | None, change: Change) -> tuple[str, str, bool]:
    """Return both values as text, and whether they are sets.

    For sets, only the elements that differ are listed.
    """
    if change in ("gone", "appeared"):
        return "", "", False
    if isinstance(was, tuple) and isinstance(now, tuple):
        return _text(tuple(sorted(set(was) - set(now)))), _text(tuple(sorted(set(now) - set(was)))), True
    return _text(was), _text(now), False


def _text(value: Leaf | None) -> str:
    match value:
        case None:
            return "none"
        case Unknown():
            return value.words
        case tuple():
            return ", ".join(value) or "none"
    return value


def _difference(shared: _SharedDifference, subjects: list[str]) -> Difference:
    return Difference(
        change=shared.change,
        subjects=tuple(subjects),
        field=shared.field,
        before=shared.before,
        after=shared.after,
        sentence=_sentence(shared, subjects),
    )


def _sentence(shared: _SharedDifference, subjects: list[str]) -> str:
    names, several = _names(subjects), len(subjects) > 1
    start = "" if subjects == [HOST] else f"{names}: "
    label = words_of(shared.field)
    match shared.change:
        case "gone":
            return f"{names} {'are' if several else 'is'} gone"
        case "appeared":
            return f"{names} {'are' if several else 'is'} new"
        case "lost":
            label = label or shared.field
            return f"{start}{label} was {shared.before}, and is now unknown ({shared.after})"
        case "learnt":
            return f"{start}{label or shared.field} is {shared.after}, and was unknown ({shared.before})"
    if shared.is_set:
        parts = (("no more ", shared.before), ("now also ", shared.after))
        return f"{start}{label}: " + "; ".join(word + values for word, values in parts if values != "none")
    return f"{start}{f'{label} ' if label else ''}{shared.before} -> {shared.after}"


def _names(subjects: list[str]) -> str:
    """Return folded names. For many pairs, return their number and their members."""
    if len(subjects) > _MOST_PAIRS and all(
        name.startswith("GPU") and name.count(" ") == 1 for name in subjects
    ):
        members = sorted({word for name in subjects for word in name.split(" ")})
        return f"{len(subjects)} pairs of {fold_names(members)}"
    return fold_names(subjects)


def _odd_sentence(subjects: list[str], field: str, value: str, common: str) -> str:
    start = "" if subjects == [HOST] else f"{_names(subjects)}: "
    if not field:
        return f"{_names(subjects)}: {value}, and {common} on the others"
    return f"{start}{words_of(field) or field} {value}, the others {common}"


_ORDER: tuple[Change, ...] = ("gone", "appeared", "changed", "lost", "learnt")


def _rank(difference: Difference) -> tuple[int, int]:
    subject = difference.subjects[0]
    kinds = ("GPU", "gpu ", "mlx", "rdma ")
    place = next((number for number, start in enumerate(kinds) if subject.startswith(start)), len(kinds))
    return _ORDER.index(difference.change), place
