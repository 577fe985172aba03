"""Test short pages and lines: differences, captures, costs of benchmarks, figures of a verification."""

from __future__ import annotations

from typing import Any

import pytest

from assistant.pages.capture_page import capture_page
from assistant.pages.diff_page import diff_page
from assistant.pages.lint_rule_page import explained, rule_text
from assistant.pages.machine.header import interpreter, machine_line, progress, short_name
from assistant.pages.measured.bench_costs import cost, costs_table, list_page, planned
from assistant.pages.training.verify_page import verify_page
from assistant.text.plain_writer import text_of
from assistant.usecases.bench.bench_list import BenchEntry
from probes.base.record import NOT_RECORDED
from probes.base.units import GIB
from probes.compare.differences import Comparison, Deviation, Difference, FindingChange
from probes.judging.findings import Status
from probes.redaction import Manifest, ManifestRow
from recipes.launch.verification import Comparison as Figure
from recipes.launch.verification import Verification
from recipes.lint.rule_table import load_rules
from tests.support.machines import cpu_box, h100_node, with_part
from tests.support.tui_text import words


def lines_of(page: Any) -> list[str]:
    return [" ".join(line.split()) for line in text_of(page, width=300).splitlines() if line.strip()]


def difference(change: str, sentence: str) -> Difference:
    return Difference(change=change, subjects=("GPU0",), sentence=sentence)


def compared(*differences: Difference, **fields: Any) -> Comparison:
    return Comparison(
        **{"machines": ("a", "b"), "is_one_machine": True, "differences": differences, **fields}
    )


def test_differences_are_grouped_by_what_they_mean():
    def changed(before: Status | None, after: Status | None) -> FindingChange:
        return FindingChange(check_id="clock", subject="GPU0", before=before, after=after, summary="slow")

    made = compared(
        difference("changed", "faster"),
        difference("lost", "unknown now"),
        difference("learnt", "known now"),
        findings=(
            changed(None, Status.FAIL),
            changed(Status.FAIL, None),
            changed(Status.FAIL, Status.WARN),
        ),
        odd=(Deviation(machine="c", subjects=(), field="", value="", others="", sentence="is odd"),),
    )
    assert lines_of(diff_page(made)) == [
        "a | b",
        "(one machine at different moments)",
        "changed",
        "faster",
        "findings",
        "new FAIL GPU0: slow (clock)",
        "no more FAIL GPU0: slow (clock)",
        "FAIL -> WARN GPU0: slow (clock)",
        "odd ones",
        "c: is odd",
        "known on one side only",
        "unknown now",
        "known now",
    ]
    other = lines_of(diff_page(compared(is_one_machine=False)))
    assert other[1].startswith("(different machines by their names")
    assert other[2:] == ["no difference"]


@pytest.mark.parametrize(("number", "last"), [(12, "s11"), (13, "and 1 more; -v lists them")])
def test_twelve_facts_of_one_side_are_listed(number, last):
    made = compared(*(difference("lost", f"s{index}") for index in range(number)))
    assert lines_of(diff_page(made))[-1] == last
    assert lines_of(diff_page(made, verbose=True))[-1] == f"s{number - 1}"
    assert len(lines_of(diff_page(made))) == 3 + min(number, 13)


def test_a_capture_counts_what_was_replaced():
    rows = (
        ManifestRow(kind="host", title="host names", values=1, places=1),
        ManifestRow(kind="ip", title="addresses", values=2, places=3),
    )
    assert lines_of(capture_page(Manifest(rows=rows, kept=("users",)), "x.tar"))[:4] == [
        "wrote x.tar, redacted:",
        "host names 1 value in 1 place",
        "addresses 2 different values in 3 places",
        "kept as you asked: users",
    ]
    assert "\n  host names" in text_of(capture_page(Manifest(rows=rows), "x.tar"), width=300)
    assert "nothing was found to replace" in lines_of(capture_page(Manifest(rows=()), "x"))
    assert "without redaction" in lines_of(capture_page(None, "x"))[0]


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("n" * 32, "n" * 32),
        (f"node17.{'x' * 30}", "node17…"),
        ("n" * 33, f"{'n' * 31}…"),
        (f"{'n' * 31}.cluster", f"{'n' * 31}…"),
        (f"{'n' * 32}.cluster", f"{'n' * 31}…"),
    ],
)
def test_a_long_host_name_is_cut_to_its_first_label(host, shown):
    assert short_name(host) == shown


def test_the_top_line_names_the_machine_its_source_and_the_interpreter():
    def text(*arguments: Any, **more: Any) -> str:
        return "".join(span.text for span in machine_line(*arguments, **more))

    python = "/opt/train/bin/python (torch 2.6.0+cu124)"
    assert text(h100_node(), "live") == f"node17  ·  live  ·  {python}"
    assert text(h100_node(), "live", trains=False) == "node17  ·  live"
    assert text(None, "live") == "rigtune  ·  live"
    assert interpreter(with_part(h100_node(), "training", path=None)) == "no training python"
    assert interpreter(with_part(h100_node(), "training", path=NOT_RECORDED)) == "training python unknown"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("Reading", "NVLink", 3, 11), "Reading: 3 of 11, NVLink"),
        (("Reading", "", 0, 0), "Reading"),
        (("Reading", "x", 0, 0, 0.2), "Reading, about 1 s left, x"),
        (("Reading", "x", 1, 2, 90.4), "Reading: 1 of 2, about 1 min 30 s left, x"),
    ],
)
def test_progress_states_what_is_left(arguments, text):
    assert progress(*arguments) == text


def entry(name: str, *suites: str, **fields: Any) -> BenchEntry:
    base = {"title": "T", "cost_s": 10.0, "full_cost_s": 100.0, "occupies": "all GPUs", "applies": True}
    return BenchEntry(**{"id": name, "suites": suites, **base, **fields})


ENTRIES = (
    entry("both", "quick", "full"),
    entry("full", "full"),
    entry("asked"),
    entry("other", "quick", "full", applies=False, why_not="no RDMA"),
)


def test_benchmarks_are_listed_with_their_costs():
    lines = lines_of(list_page(ENTRIES, width=120))
    assert lines == [
        "benchmark what suites quick full occupies here",
        "both T quick, full 10 s 100 s all GPUs yes",
        "full T full - 100 s all GPUs yes",
        "asked T on request 10 s 100 s all GPUs yes",
        "other T quick, full 10 s 100 s all GPUs no RDMA",
        "here about 10 s for the quick suite, 200 s for the full one, including the time to start torch",
    ]
    narrow = lines_of(list_page(ENTRIES, width=119))
    assert narrow[:2] == ["benchmark what quick full here", "both T; occupies all GPUs 10 s 100 s yes"]


def test_one_suite_leaves_out_what_is_equal():
    chosen = planned(ENTRIES, "quick")
    assert [each.id for each in chosen] == ["both"]
    table = words(costs_table(chosen, width=120, suites=("quick",)), width=120).splitlines()
    assert [" ".join(line.split()) for line in table] == [
        "benchmark what quick occupies",
        "both T 10 s all GPUs",
    ]


@pytest.mark.parametrize(
    ("facts", "devices"),
    [(h100_node(), "all GPUs"), (cpu_box(), "all CPUs")],
)
def test_the_cost_of_a_run_names_the_devices(facts, devices):
    assert cost(ENTRIES, facts, "full") == f"about 3 min 20 s, occupies {devices}"
    unknown = h100_node(gpus=NOT_RECORDED)
    assert cost(ENTRIES, unknown, "quick") == cost(ENTRIES, None, "quick")
    assert cost(ENTRIES, None, "quick").startswith("about 10 s, occupies ")


def test_figures_of_a_verification_have_the_sign_of_their_error():
    made = Verification(
        name="job",
        steps=20,
        world_size=8,
        backend="nccl",
        device_name="",
        torch_version="2.6",
        step_time_s=Figure(measured=1.0, predicted=1.1, relative_error=0.1, within_range=True),
        peak_memory_bytes=Figure(measured=GIB, predicted=0.9 * GIB, relative_error=-0.1, within_range=False),
        reserved_memory_bytes=Figure(measured=GIB, predicted=GIB, relative_error=0.0),
        worst_memory_bytes=Figure(measured=GIB),
    )
    lines = lines_of(verify_page(made))
    start = lines.index("predicted measured error within its interval")
    assert lines[start - 1 : start + 5] == [
        "job: 20 steps on world size 8, nccl",
        "predicted measured error within its interval",
        "step time 1.1 s 1 s +10 % yes",
        "allocated per rank 922 MiB 1.0 GiB -10 % no",
        "reserved per rank 1.0 GiB 1.0 GiB 0 %",
        "worst case per rank not predicted 1.0 GiB",
    ]


def test_a_rule_is_explained_with_its_examples():
    rules = load_rules()
    safe = next(rule for rule in rules.values() if rule.edit == "safe")
    other = next(rule for rule in rules.values() if rule.edit != "safe")
    assert "--diff" in rule_text(safe)
    assert "the fix is safe" in rule_text(safe)
    assert "the fix is safe" not in rule_text(other)
    for rule in (safe, other):
        lines = rule_text(rule).splitlines()
        assert lines[0] == f"{rule.id}: {rule.title}"
        assert any(line.startswith("  bad (") for line in lines)
        assert explained(rule)["schema_version"] == 1
        assert ("  link " in rule_text(rule)) is bool(explained(rule)["rule"]["link"])
