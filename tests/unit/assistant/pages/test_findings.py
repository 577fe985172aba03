from __future__ import annotations

import datetime

from assistant.pages.blocks import plain
from assistant.pages.verdict import findings_page as findings
from probes.judging.findings import Finding, Remedy, Status
from probes.judging.policies.policy import Waiver
from tests.support.tui_machines import clean_verdict, faulty_verdict, many_findings
from tests.support.tui_text import words


def test_problems_first_and_passed_ones_hidden():
    listed = faulty_verdict().findings
    statuses = [row.same[0].status for row in findings.rows(listed, show_all=False)]
    assert statuses == [Status.FAIL] * 2 + [Status.WARN] * 3 + [Status.UNKNOWN]
    assert len(findings.rows(listed, show_all=True)) == len(listed)


def test_a_filter_needs_every_word():
    listed = faulty_verdict().findings
    assert [row.same[0].subject for row in findings.rows(listed, show_all=True, query="fail MLX5")] == [
        "mlx5_3"
    ]
    assert findings.rows(listed, show_all=True, query="no such words") == ()


def test_keys_are_unique_even_where_findings_repeat():
    listed = many_findings(300).findings * 2
    keys = [row.key for row in findings.rows(listed, show_all=True)]
    assert len(keys) == len(set(keys)) == 600


def test_hostile_words_are_neither_markup_nor_escape_sequences():
    row = findings.rows(many_findings(3).findings, show_all=True)[0]
    assert "[bold]not markup[/]" in words(row.line)
    assert "\x1b" not in words(row.line)
    assert "\x1b" not in words(findings.detail(row.same))


def test_the_detail_shows_claim_remedy_and_evidence():
    text = words(findings.detail(faulty_verdict().findings[1:2]))
    for part in ("DOWN", "ACTIVE", "ibstat mlx5_3", "as root", "/sys/class/infiniband/mlx5_3/ports/1/state"):
        assert part in text


def test_the_copied_remedy_is_the_command_or_else_the_words():
    by_check = {finding.check_id: finding for finding in faulty_verdict().findings}
    assert findings.remedy([by_check["nic-state"]]) == "ibstat mlx5_3"
    assert findings.remedy([by_check["memlock"]]).startswith("Raise it")
    assert findings.remedy([by_check["fabric-manager"]]) == ""


def test_the_title_shows_what_is_hidden():
    listed = faulty_verdict().findings
    assert (
        findings.title(listed, 6, show_all=False, query="")
        == "2 failed, 3 warned, 1 could not be checked  ·  a shows 9 more"
    )
    assert findings.title(listed, 15, show_all=True, query="").endswith("8 passed, 1 skipped")


def test_the_empty_list_states_why():
    assert "Nothing wrong" in words(findings.nothing(clean_verdict().findings, query="", is_checking=False))
    assert "3 passed, 1 skipped" in words(
        findings.nothing(clean_verdict().findings, query="", is_checking=False)
    )
    assert "running" in words(findings.nothing((), query="", is_checking=True))
    assert "No check" in words(findings.nothing((), query="", is_checking=False))
    failed = Finding(check_id="a", subject="b", status=Status.FAIL, summary="c")
    assert "esc clears" in words(findings.nothing((failed,), query="x", is_checking=False))


def test_the_check_is_named_where_lines_would_say_the_same():
    alike = [
        Finding(check_id=name, subject="host", status=Status.UNKNOWN, summary="not read")
        for name in ("mig", "ecc")
    ]
    other = Finding(check_id="nofile", subject="host", status=Status.WARN, summary="few")
    lines = [" ".join(plain(row.line).split()) for row in findings.rows([*alike, other], show_all=False)]
    assert lines == ["! WARN host few", "? UNKNOWN host not read mig", "? UNKNOWN host not read ecc"]


def test_many_checks_without_an_answer_share_a_line_and_waived_ones_hide():
    open_ones = [
        Finding(check_id=f"c{n}", subject="host", status=Status.UNKNOWN, summary=f"{n}", observed="timeout")
        for n in range(90)
    ]
    waiver = Waiver(check="few", reason="known", expires=datetime.date(2027, 1, 1))
    listed = [
        Finding(check_id="few", subject="host", status=Status.FAIL, summary="few", waived=waiver),
        *open_ones,
    ]
    (row,) = findings.rows(listed, show_all=False)
    assert row.same[0].subject == "90 checks"
    assert "c89" in words(findings.detail(row.same))
    assert (
        len(findings.rows(listed, show_all=True))
        == len(findings.rows(listed, show_all=False, query="host"))
        == 91
    )
    shown = findings.rows(listed, show_all=True)[0]
    assert "waived: few" in plain(shown.line)
    assert "2027-01-01: known" in words(findings.detail(shown.same))


def test_findings_that_differ_only_in_their_subject_share_a_line_and_show_all_their_commands():
    held = [
        Finding(
            check_id="gpu-throttle",
            subject=f"GPU{number}",
            status=Status.FAIL,
            summary="clocks are held down",
            remedy=Remedy(text="Look at the power supply.", command=f"nvidia-smi -q -i {number}"),
        )
        for number in range(8)
    ]
    port = Finding(check_id="nic-state", subject="mlx5_5", status=Status.FAIL, summary="a port is down")
    row, other = findings.rows([*held, port], show_all=False)
    assert "GPU0-7" in plain(row.line)
    assert other.same == (port,)
    assert "gpu-throttle  GPU0-7" in words(findings.detail(row.same))
    assert findings.remedy(row.same).splitlines() == [f"nvidia-smi -q -i {number}" for number in range(8)]
    assert len(findings.rows([*held, port], show_all=True)) == 9
    assert len(findings.rows([*held, port], show_all=False, query="GPU3")) == 1
    assert "mlx5_5" in words(findings.summary([*held, port], 2))


def test_the_detail_of_checks_with_one_reason_names_no_single_check_in_its_heading():
    unread = [
        Finding(check_id=f"c{n}", subject="host", status=Status.UNKNOWN, summary=f"{n}", observed="not read")
        for n in range(5)
    ]
    (row,) = findings.rows(unread, show_all=False)
    assert words(findings.detail(row.same)).splitlines()[0].split() == ["?", "UNKNOWN", "5", "checks"]
