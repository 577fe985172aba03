"""Test how pages state what is unknown: in one line per reason, and in full with -v."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest

from assistant.pages.machine import facts_page as module
from assistant.pages.machine.facts_page import facts_page
from assistant.pages.machine.facts_words import Line, Subject, cut, first, flag, noted, ranged, said, size
from assistant.pages.verdict.verdict_page import problem, verdict_page
from assistant.text.plain_writer import text_of
from probes.base.record import NOT_RECORDED, EvidenceRef, Reason, Unknown
from probes.facts import MachineFacts
from probes.judging.findings import Finding, Remedy, Status
from probes.judging.policies.policy import Waiver
from tests.support.machines import h100_node, with_part
from tests.support.verdicts import verdict_of

DENIED = Unknown(Reason.PERMISSION, "as root only")
LACKS = Unknown(Reason.NOT_SUPPORTED, "[N/A]")


def lines_of(page: Any) -> list[str]:
    return [" ".join(line.split()) for line in text_of(page, width=400).splitlines() if line.strip()]


def page_of(monkeypatch, *subjects: Subject, verbose: bool = False) -> list[str]:
    """Return the overview of a machine that has only these subjects."""
    for name in ("facts_gpu", "facts_network", "facts_pci", "facts_software", "facts_observed"):
        monkeypatch.setattr(f"{module.__name__}.{name}.sections", lambda *_, **__: [])
    monkeypatch.setattr(f"{module.__name__}.facts_host.sections", lambda *_, **__: [])
    monkeypatch.setattr(f"{module.__name__}.facts_host.identity", lambda *_, **__: list(subjects))
    return lines_of(facts_page(MachineFacts(), verbose=verbose))


def subject(label: str, text: str, *unknown: tuple[str, Unknown]) -> Subject:
    return Subject(label, (Line(text, unknown),))


KNOWN = subject("CPU", "two")


def test_what_a_user_can_make_known_stands_beside_the_value(monkeypatch):
    other = Unknown(Reason.PERMISSION, "another reason")
    assert page_of(
        monkeypatch,
        subject("GPU", "one", ("ECC", DENIED), ("MIG", DENIED)),
        subject("NIC", "", ("", DENIED)),
        subject("PCI", "", ("ACS", DENIED), ("slot", other)),
    ) == [
        f"GPU one; ECC, MIG: {DENIED}",
        f"NIC {DENIED}",
        f"PCI ACS, slot: {Unknown(Reason.PERMISSION)}",
    ]


def test_values_that_the_source_lacks_are_counted_or_named(monkeypatch):
    parts = (
        subject("GPU", "one", ("ECC", NOT_RECORDED), ("MIG", LACKS), ("ECC", NOT_RECORDED)),
        subject("NIC", "", ("", NOT_RECORDED)),
        subject("PCI", "", ("", LACKS)),
    )
    assert page_of(monkeypatch, *parts) == [
        "GPU one",
        "Unknown not recorded: NIC",
        "not supported: PCI (-v names more)",
    ]
    assert page_of(monkeypatch, *parts, verbose=True) == [
        "GPU one",
        "Unknown not recorded: NIC; GPU: ECC",
        "not supported: PCI; GPU: MIG",
    ]
    assert page_of(monkeypatch, parts[0])[1:] == [
        "Unknown -v names 2 values that the source does not contain"
    ]
    one = subject("GPU", "one", ("ECC", NOT_RECORDED))
    assert page_of(monkeypatch, one)[1:] == ["Unknown -v names 1 value that the source does not contain"]
    assert page_of(monkeypatch, KNOWN) == ["CPU two"]


@pytest.mark.parametrize(
    ("number", "known", "line"),
    [
        (8, (KNOWN,), "Unknown not recorded: s0, s1, s2, s3, s4, s5, s6, s7"),
        (9, (KNOWN,), "Unknown not recorded: everything else (-v names more)"),
        (9, (), "Unknown not recorded: everything (-v names more)"),
    ],
)
def test_many_unknown_subjects_are_everything_else(monkeypatch, number, known, line):
    silent = [subject(f"s{index}", "", ("", NOT_RECORDED)) for index in range(number)]
    assert page_of(monkeypatch, *known, *silent)[-1] == line
    whole = page_of(monkeypatch, *known, *silent, verbose=True)[-1]
    assert whole == f"Unknown not recorded: {', '.join(f's{index}' for index in range(number))}"


def test_the_source_of_a_recording_is_named():
    assert lines_of(facts_page(h100_node(source="node.tar")))[0] == "Source read from node.tar"
    assert lines_of(facts_page(h100_node()))[0].startswith("Machine node17")
    assert lines_of(facts_page(h100_node(source="")))[0].startswith("Machine node17")


def test_a_limit_names_its_owner_unless_it_is_the_caller():
    facts = with_part(h100_node(), "limits", job_memlock_bytes=65536, job_limits_owner="slurmd {x}")
    for machine, words in (
        (facts, "locked memory 64 KiB (slurmd {x}), "),
        (h100_node(), "locked memory unlimited, "),
    ):
        (line,) = [line for line in lines_of(facts_page(machine)) if line.startswith("Limits")]
        assert line.startswith(f"Limits {words}1048576 open files, ")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (said(5, "{} W"), "5 W"),
        (said(None, "{} W", "none"), "none"),
        (said(DENIED), DENIED),
        (size(2**30, "{} free"), "1.0 GiB free"),
        (size(None, none="-"), "-"),
        (noted(0, 0, form="{} errors"), ""),
        (noted(2, 0, form="{} errors"), "2 errors"),
        (noted(DENIED, 0), DENIED),
        (flag(value=True, yes="on", no="off"), "on"),
        (flag(value=False, yes="on", no="off"), "off"),
        (flag(None, yes="on", no="off"), ""),
        (flag(DENIED), DENIED),
        (ranged((1.4, 1.6), "W"), "1-2 W"),
        (ranged((1.4, 1.4), "W"), "1 W"),
        (ranged((DENIED, 3), "W"), "3 W"),
        (ranged((DENIED,), "W"), DENIED),
        (ranged((), "W"), ""),
        (cut("a  b\nc", 5), "a b c"),
        (cut("abcdef", 5), "abcd…"),
        (first(["a", "b", "c"], 2), ["a", "b", "c"]),
        (first(["a", "b", "c", "d"], 2), ["a", "b", "and 2 more"]),
        (first(["a", "b", "c"], 1, "kinds more"), ["a", "and 2 kinds more"]),
    ],
)
def test_a_value_is_a_text_or_stays_unknown(made, text):
    assert made == text


def finding(check_id: str = "clock", status: Status = Status.FAIL, **fields: Any) -> Finding:
    return Finding(**{"check_id": check_id, "subject": "GPU0", "status": status, "summary": "slow", **fields})


def test_a_problem_has_its_values_its_reason_and_its_remedy():
    undo = Remedy(text="do it", command="x -i 0", needs_root=True, reversible=False)
    same = (
        finding(observed="1", expected="2", why="because", remedy=undo),
        finding(
            subject="GPU1",
            remedy=Remedy(text="do it", command="x -i 1"),
            evidence=(EvidenceRef(source="command", key="smi", detail="line 3"),),
        ),
    )
    short = [
        "✗ FAIL clock GPU0-1",
        "slow",
        "found 1",
        "wanted 2",
        "why because",
        "do do it",
        "$ x -i 0 # as root, cannot be undone",
        "$ x -i 1",
    ]
    assert lines_of([problem(same, verbose=False)]) == short
    assert lines_of([problem(same, verbose=True)]) == [*short, "read command smi (line 3)"]


def test_the_verdict_leads_with_problems_and_counts_the_rest():
    waiver = Waiver(check="fan", subject="GPU1", reason="ordered", expires=datetime.date(2027, 1, 31))
    verdict = verdict_of(
        finding("nofile", Status.WARN),
        finding(),
        finding("fan", waived=waiver),
        finding("a", Status.UNKNOWN, observed="not recorded: x"),
        finding("b", Status.UNKNOWN, observed="not recorded: y"),
        finding("c", Status.UNKNOWN, observed="", summary="no answer"),
        finding("d", Status.PASS, observed="5"),
        finding("e", Status.SKIP, summary="no GPU"),
    )
    short, whole = lines_of(verdict_page(verdict)), lines_of(verdict_page(verdict, verbose=True))
    assert short[0] == "✗ FAIL node17 is not fit to train"
    problems = [line for line in short if line.startswith(("✗", "!"))]
    assert problems[1:] == ["✗ FAIL clock GPU0", "! WARN nofile GPU0", "✗ FAIL fan GPU0 slow"]
    assert "waived until 2027-01-31: ordered" in short
    unknown = [line for line in short if line.startswith("?")]
    assert [line.split("(")[1] for line in unknown] == ["a, b)", "c)"]
    assert "? UNKNOWN no answer (c)" in unknown
    assert short[-2] != whole[-1]
    assert any("-v lists every check" in line for line in short)
    assert not any("-v lists every check" in line for line in whole)
    assert "✓ PASS d GPU0 slow: 5" in whole
    assert "? UNKNOWN a GPU0 slow: not recorded: x" in whole
    assert "- SKIP no GPU (e)" in whole
    assert not [line for line in short if "PASS" in line or "SKIP" in line]


def test_nothing_wrong_in_what_was_read_is_stated():
    read = verdict_of(finding("d", Status.PASS), finding("a", Status.UNKNOWN))
    unknown = msgspec.structs.replace(read, verdict=Status.UNKNOWN)
    assert any(
        line.startswith("nothing wrong in what was read; ") for line in lines_of(verdict_page(unknown))
    )
    warned = verdict_of(finding("d", Status.PASS), finding("w", Status.WARN), finding("a", Status.UNKNOWN))
    warned = msgspec.structs.replace(warned, verdict=Status.UNKNOWN)
    assert not any("nothing wrong in what" in line for line in lines_of(verdict_page(warned)))
