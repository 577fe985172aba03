"""What differs between machines, or between two moments of one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from probes.base.record import Record, Unknown
from probes.facts import MachineFacts
from probes.facts.flat_facts import HOST, IDENTITY, VOLATILE, Key, Leaf, flat, gpu_key, words_of
from probes.judging.findings import Finding, Status
from probes.judging.reporting import fold_names

Change = Literal["changed", "gone", "appeared", "lost", "learnt"]
"""`lost` and `learnt` are about our knowledge: a value that is not known any more, and one that was not known
before.
"""

SCHEMA_VERSION = 1
_MOST_PAIRS = 6
_PROBLEMS = (Status.FAIL, Status.WARN)


class Difference(Record, kw_only=True):
    """One thing that differs, on all `subjects` alike."""

    change: Change
    subjects: tuple[str, ...]
    """`GPU3`, `mlx5_2`, `host` ..."""
    field: str = ""
    """Its path in the facts; empty where a whole subject came or went."""
    before: str = ""
    after: str = ""
    sentence: str


class FindingChange(Record, kw_only=True):
    """A problem that is there on one side only, or that became better or worse."""

    check_id: str
    subject: str
    before: Status | None
    after: Status | None
    summary: str


class OddOne(Record, kw_only=True):
    """What one of several machines has other than most."""

    machine: str
    subjects: tuple[str, ...]
    field: str
    value: str
    others: str
    sentence: str


class Comparison(Record, kw_only=True):
    """What `rigtune diff` found. With two machines `differences` and `findings`, with more `odd`."""

    schema_version: int = SCHEMA_VERSION
    machines: tuple[str, ...]
    is_one_machine: bool
    """Whether these are moments of one machine, so that serial numbers and addresses should stay as well."""
    differences: tuple[Difference, ...] = ()
    findings: tuple[FindingChange, ...] = ()
    odd: tuple[OddOne, ...] = ()

    @property
    def is_equal(self) -> bool:
        return not (self.differences or self.findings or self.odd)


def is_one_machine(all_facts: Sequence[MachineFacts]) -> bool:
    """Whether all have one host name; or the same GPUs, or one GPU in common where a name is not known."""
    names = {facts.hostname for facts in all_facts}
    is_named = not any(isinstance(name, Unknown) for name in names)
    if is_named and len(names) == 1:
        return True
    all_gpus = [facts.gpus if isinstance(facts.gpus, tuple) else () for facts in all_facts]
    uuids = [{gpu.uuid for gpu in gpus if isinstance(gpu.uuid, str)} for gpus in all_gpus]
    shared = set.intersection(*uuids)
    return bool(shared) and (not is_named or all(each == shared for each in uuids))


def compare(one: MachineFacts, other: MachineFacts, *, everything: bool = False) -> tuple[Difference, ...]:
    """What differs from `one` to `other`, hardware first, knowledge last.

    Values that never stand still are left out unless `everything`, and what tells any two machines apart
    unless `everything` or both are the same machine.
    """
    by = _identity([one, other])
    skip = _skip(everything=everything, same=is_one_machine([one, other]))
    before, after = flat(one, by=by, skip=skip), flat(other, by=by, skip=skip)
    labels = _labels([one, other], by)
    grouped: dict[_Told, list[str]] = {}
    for key in _keys([before, after]):
        change = _change(before, after, key)
        if change is not None:
            subject = _label(key.subject, labels)
            told = _Told(change, key.field, *_texts(before.get(key), after.get(key), change), _class(subject))
            grouped.setdefault(told, []).append(subject)
    return tuple(sorted((_difference(told, subjects) for told, subjects in grouped.items()), key=_rank))


def compare_findings(before: Iterable[Finding], after: Iterable[Finding]) -> tuple[FindingChange, ...]:
    """Problems that came, went, or changed between WARN and FAIL."""
    earlier = {(row.check_id, row.subject): row for row in before if row.status in _PROBLEMS}
    later = {(row.check_id, row.subject): row for row in after if row.status in _PROBLEMS}
    changes: list[FindingChange] = []
    for key in dict.fromkeys((*earlier, *later)):
        was, now = earlier.get(key), later.get(key)
        told = now or was
        if told is not None and (was is None or now is None or was.status is not now.status):
            changes.append(
                FindingChange(
                    check_id=key[0],
                    subject=key[1],
                    before=was.status if was else None,
                    after=now.status if now else None,
                    summary=told.summary,
                )
            )
    return tuple(changes)


def odd_ones(machines: Sequence[tuple[str, MachineFacts]], *, everything: bool = False) -> tuple[OddOne, ...]:
    """Who of three or more has another value than more than half of them.

    A machine that does not know a value is not odd; one that lacks a subject that most have is.
    """
    by = _identity([facts for _, facts in machines])
    skip = _skip(everything=everything, same=False)
    tables = [(name, flat(facts, by=by, skip=skip)) for name, facts in machines]
    labels = _labels([facts for _, facts in machines], by)
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for key in _keys([rows for _, rows in tables]):
        values = {name: value for name, rows in tables if (value := _told(rows, key)) is not None}
        common, votes = Counter(values.values()).most_common(1)[0] if values else ("", 0)
        if votes * 2 <= len(tables):
            continue
        for name, value in values.items():
            if value != common:
                grouped.setdefault((name, key.field, value, common), []).append(_label(key.subject, labels))
    return tuple(
        OddOne(
            machine=name,
            subjects=tuple(subjects),
            field=field,
            value=value,
            others=common,
            sentence=_odd_sentence(subjects, field, value, common),
        )
        for (name, field, value, common), subjects in grouped.items()
    )


class _Told(NamedTuple):
    """What is told once for all subjects of a class on which it is the same."""

    change: Change
    field: str
    before: str
    after: str
    is_set: bool
    of: str


def _skip(*, everything: bool, same: bool) -> frozenset[str]:
    if everything:
        return frozenset()
    return VOLATILE if same else VOLATILE | IDENTITY


def _class(subject: str) -> str:
    """Subjects that are told of together: GPUs, pairs of them, ports, PCI devices."""
    words = re.sub(r"\d+", "", subject).split(" ")
    return (
        words[0]
        if len(words) == 1
        else f"{words[0]} and {words[1]}"
        if subject.startswith("GPU")
        else words[0] + " "
    )


def _identity(all_facts: Sequence[MachineFacts]) -> str:
    """By what GPUs are matched: an address tells one slot of any machine of this kind, an index only the
    driver's order.
    """
    sets: list[set[str | None]] = []
    for facts in all_facts:
        gpus = facts.gpus if isinstance(facts.gpus, tuple) else ()
        sets.append({gpu_key(gpu, "bus") for gpu in gpus})
    shared = set.intersection(*sets) if sets else set()
    known = all(None not in keys for keys in sets)
    return "bus" if known and (shared or all(not keys for keys in sets)) else "index"


def _labels(all_facts: Sequence[MachineFacts], by: str) -> dict[str, str]:
    """`GPU3` for the key of a GPU: the index that the first has which knows it."""
    labels: dict[str, str] = {}
    for facts in all_facts:
        for gpu in facts.gpus if isinstance(facts.gpus, tuple) else ():
            labels.setdefault(f"GPU\0{gpu_key(gpu, by)}", f"GPU{gpu.index}")
    return labels


def _label(subject: str, labels: dict[str, str]) -> str:
    found = re.match(r"GPU\0\S+", subject)
    return labels.get(found[0], "GPU") + subject[found.end() :] if found else subject


def _keys(tables: Sequence[dict[Key, Leaf]]) -> list[Key]:
    return list(dict.fromkeys(key for rows in tables for key in rows))


def _told(rows: dict[Key, Leaf], key: Key) -> str | None:
    """A value in words; None where it is not known, and where the subject itself is missing but for its own
    row.
    """
    value = rows.get(key)
    if value is None:
        return "not there" if not key.field and not _unread(rows, key.subject) else None
    return None if isinstance(value, Unknown) else _text(value)


def _unread(rows: dict[Key, Leaf], subject: str) -> bool:
    """Whether a subject may be missing only since nobody could look: the list that it belongs to is
    unknown.
    """
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
    """A subject that only one side has is told once; one that the other side could not look for is no
    difference.
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
    """Both values in words; of two sets only what one has and the other has not."""
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


def _difference(told: _Told, subjects: list[str]) -> Difference:
    return Difference(
        change=told.change,
        subjects=tuple(subjects),
        field=told.field,
        before=told.before,
        after=told.after,
        sentence=_sentence(told, subjects),
    )


def _sentence(told: _Told, subjects: list[str]) -> str:
    names, several = _names(subjects), len(subjects) > 1
    start = "" if subjects == [HOST] else f"{names}: "
    what = words_of(told.field)
    match told.change:
        case "gone":
            return f"{names} {'are' if several else 'is'} gone"
        case "appeared":
            return f"{names} {'are' if several else 'is'} new"
        case "lost":
            return f"{start}{what or told.field} was {told.before}, and is not known any more ({told.after})"
        case "learnt":
            return f"{start}{what or told.field} is {told.after}, and was not known ({told.before})"
    if told.is_set:
        parts = (("no more ", told.before), ("now also ", told.after))
        return f"{start}{what}: " + "; ".join(word + values for word, values in parts if values != "none")
    return f"{start}{f'{what} ' if what else ''}{told.before} -> {told.after}"


def _names(subjects: list[str]) -> str:
    """Folded names; many pairs are counted, with those that are in them."""
    if len(subjects) > _MOST_PAIRS and all(
        name.startswith("GPU") and name.count(" ") == 1 for name in subjects
    ):
        members = sorted({word for name in subjects for word in name.split(" ")})
        return f"{len(subjects)} pairs of {fold_names(members)}"
    return fold_names(subjects)


def _odd_sentence(subjects: list[str], field: str, value: str, common: str) -> str:
    names = _names(subjects)
    if not field:
        return f"{names}: {value}, and {common} on the others"
    start = "" if subjects == [HOST] else f"{names}: "
    return f"{start}{words_of(field) or field} {value}, the others {common}"


_ORDER: tuple[Change, ...] = ("gone", "appeared", "changed", "lost", "learnt")


def _rank(difference: Difference) -> tuple[int, int]:
    subject = difference.subjects[0]
    kinds = ("GPU", "gpu ", "mlx", "rdma ")
    place = next((number for number, start in enumerate(kinds) if subject.startswith(start)), len(kinds))
    return _ORDER.index(difference.change), place
