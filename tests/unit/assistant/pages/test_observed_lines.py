"""Test the lines about log events, results of other tools, and sources that disagree or were not read."""

from __future__ import annotations

import pytest

from assistant.pages.machine.facts_page import facts_page, panels
from assistant.text.plain_writer import text_of
from probes.base.record import NOT_RECORDED, EvidenceRef
from probes.facts import Contradiction, Diagnosis, LogEvent, MachineFacts, Reading, ToolResult, Unread
from tests.support.tui_text import words

MIB = 2**20


def lines_of(facts: MachineFacts, *, verbose: bool = False) -> list[str]:
    """Return the lines of the facts without their labels."""
    if verbose:
        text = text_of(facts_page(facts, verbose=True), width=400)
        return [line.strip() for line in text.splitlines()]
    return [
        line[11:].strip() for line in words(panels(facts, complete=True)["observed"], width=400).splitlines()
    ]


def tones_of(facts: MachineFacts) -> list[str]:
    section = panels(facts, complete=True)["observed"]
    return [span.tone for row in section.blocks for span in row.text]


def event(message: str = "m", **fields) -> LogEvent:
    return LogEvent(message=message, **{"kind": "xid", **fields})


def result(value: float = 2e9, subject: str = "GPU0", **fields) -> ToolResult:
    return ToolResult(
        subject=subject, value=value, **{"tool": "perf", "test": "read", "metric": "bandwidth", **fields}
    )


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        ([event(code=79, count=1)], ["xid 79: m"]),
        ([event(code=79, count=2), event(code=79, count=3)], ["xid 79 x5: m"]),
        ([event(code=0)], ["xid 0: m"]),
        ([event("a", code=1), event("b", code=1)], ["xid 1 x2: a"]),
        ([event("a", code=1), event("b", code=2)], ["xid 1: a", "xid 2: b"]),
        ([event("a", kind="link-down"), event("b", kind="link-down")], ["link down: a", "link down: b"]),
        ([event(device="d1"), event(device="d0"), event(device="d1"), event()], ["xid x4 on d1, d0: m"]),
        ([event(device=f"d{n}") for n in range(4)], ["xid x4 on d0, d1, d2, d3: m"]),
        ([event(device=f"d{n}") for n in range(5)], ["xid x5 on d0, d1, d2, and 2 more: m"]),
        ([event("w" * 70)], [f"xid: {'w' * 70}"]),
        ([event("w" * 71)], [f"xid: {'w' * 69}…"]),
        ([event(settled=True), event("n")], ["xid: n", "xid: m (settled since)"]),
        ([event(code=1, settled=True), event(code=1)], ["xid 1 x2: m"]),
        ([event("a"), event("b", fatal=False), event("c", fatal=True)], ["xid: c", "xid: a", "xid: b"]),
        ([event("a", fatal=True, settled=True), event("b")], ["xid: b", "xid: a (settled since)"]),
    ],
)
def test_events_are_counted_and_the_worst_come_first(events, lines):
    assert (
        lines_of(MachineFacts(events=(*events, event("last", kind="pcie-error", settled=True))))[:-1] == lines
    )


@pytest.mark.parametrize(
    ("number", "last"), [(6, "xid: 5"), (7, "xid: 6"), (8, "and 2 kinds more")], ids=["6", "7", "8"]
)
def test_of_many_kinds_of_events_the_first_six_are_shown(number, last):
    facts = MachineFacts(events=tuple(event(str(index)) for index in range(number)))
    assert lines_of(facts)[-1] == last
    assert len(lines_of(facts)) == min(number, 7)
    assert f"xid: {number - 1}" in "\n".join(lines_of(facts, verbose=True))


def test_the_tone_of_an_event_is_that_of_its_worst_record():
    facts = MachineFacts(
        events=(
            event(code=1, fatal=True),
            event(code=1),
            event(code=2, fatal=False),
            event(code=3, settled=True),
            event(code=3),
            event(code=4, settled=True, fatal=True),
        )
    )
    assert tones_of(facts) == ["bad", "caution", "caution", "dim"]


@pytest.mark.parametrize(
    ("diagnoses", "lines"),
    [
        ("PASS PASS SKIP", ["diag: 2 PASS, 1 SKIP"]),
        ("WARN FAIL PASS", ["diag: 1 WARN, 1 FAIL, 1 PASS", "FAIL t1 on GPU1: m", "WARN t0 on GPU0: m"]),
        ("UNKNOWN", ["diag: 1 UNKNOWN", "UNKNOWN t0 on GPU0: m"]),
    ],
)
def test_tests_of_other_tools_are_counted_and_those_that_did_not_pass_are_named(diagnoses, lines):
    made = tuple(
        Diagnosis(tool="diag", test=f"t{n}", subject=f"GPU{n}", result=outcome, message="m")
        for n, outcome in enumerate(diagnoses.split())
    )
    assert lines_of(MachineFacts(diagnoses=made)) == lines


def test_one_failed_test_of_many_devices_is_one_line():
    made = tuple(Diagnosis(tool="diag", test="t", subject=f"GPU{n}", result="FAIL") for n in (0, 1, 1, 3))
    assert lines_of(MachineFacts(diagnoses=made)) == ["diag: 4 FAIL", "FAIL t on GPU0-1, GPU3"]


@pytest.mark.parametrize(("number", "shown"), [(5, 5), (6, 5)])
def test_of_many_failed_tests_the_first_four_are_shown(number, shown):
    made = tuple(Diagnosis(tool="d", test=f"t{n}", subject="host", result="FAIL") for n in range(number))
    lines = lines_of(MachineFacts(diagnoses=made))[1:]
    assert len(lines) == shown
    assert ("and 2 more" in lines) is (number == 6)


@pytest.mark.parametrize(
    ("results", "line"),
    [
        ([result()], "perf read: 2 GB/s on GPU0"),
        ([result(tool="read")], "read: 2 GB/s on GPU0"),
        ([result(subject="host")], "perf read: 2 GB/s"),
        ([result(), result(4e9, "GPU1")], "perf read: 2 to 4 GB/s over GPU0-1"),
        ([result(), result(2e9, "GPU1")], "perf read: 2 GB/s over GPU0-1"),
        ([result(subject="GPU0-GPU1"), result(4e9, "GPU0-GPU2")], "perf read: 2 to 4 GB/s over 2 pairs"),
        ([result(2e-6, unit="s", metric="latency")], "perf read: latency 2 µs on GPU0"),
        ([result(2e-6, unit="s"), result(2e-3, unit="s")], "perf read: 2 µs to 2 ms on GPU0"),
        ([result(5.5, unit="")], "perf read: 5.5 on GPU0"),
        ([result(metric="bus_bandwidth")], "perf read: bus bandwidth 2 GB/s on GPU0"),
        ([result(wrong_values=1)], "perf read: 2 GB/s on GPU0; 1 wrong value"),
        ([result(wrong_values=1), result(wrong_values=2)], "perf read: 2 GB/s on GPU0; 3 wrong values"),
        ([result(message="slow"), result(message="slow")], "perf read: 2 GB/s on GPU0; slow"),
        ([result(message="w" * 71)], f"perf read: 2 GB/s on GPU0; {'w' * 69}…"),
        ([result(1.0, metric="status", message="x")], "perf read: x"),
        ([result(1.0, metric="status", message="x", wrong_values=2)], "perf read: 2 wrong values; x"),
        ([result(NOT_RECORDED, message="no number")], "perf read: no number"),
        ([result(1e9, size_bytes=MIB), result(3e9, size_bytes=8 * MIB)], "perf read: 3 GB/s at 8 MiB"),
        ([result(1e9, size_bytes=MIB), result(3e9)], "perf read: 1 GB/s at 1 MiB"),
        (
            [result(1e9, size_bytes=MIB), result(NOT_RECORDED, size_bytes=8 * MIB)],
            "perf read: 1 GB/s on GPU0",
        ),
        ([result(1e9, size_bytes=MIB), result(3e9, size_bytes=MIB)], "perf read: 1 to 3 GB/s on GPU0"),
    ],
)
def test_the_results_of_a_tool_are_a_range_or_the_result_at_the_largest_size(results, line):
    assert lines_of(MachineFacts(tool_results=tuple(results))) == [line]


def test_a_status_without_words_has_no_line():
    facts = MachineFacts(tool_results=(result(1.0, metric="status"), result()))
    assert lines_of(facts) == ["perf read: 2 GB/s on GPU0"]


@pytest.mark.parametrize(("number", "last"), [(9, "perf t8: 2 GB/s on GPU0"), (10, "and 2 more")])
def test_of_many_results_the_first_eight_are_shown(number, last):
    facts = MachineFacts(tool_results=tuple(result(test=f"t{n}") for n in range(number)))
    assert lines_of(facts)[-1] == last
    assert len(lines_of(facts)) == 9
    assert "perf t9: 2 GB/s on GPU0" in lines_of(facts, verbose=True) or number == 9


@pytest.mark.parametrize(("number", "last"), [(5, "f4: w: why"), (6, "and 2 more")])
def test_of_many_unread_sources_the_first_four_are_shown(number, last):
    facts = MachineFacts(unread=tuple(Unread(source=f"f{n}: w", why="why") for n in range(number)))
    assert lines_of(facts)[-1] == last
    assert len(lines_of(facts)) == 5


@pytest.mark.parametrize(
    ("unread", "line"),
    [
        (Unread(source="/long/path/dmesg.txt", line=12, why="torn"), "dmesg.txt:12: torn"),
        (Unread(source="/long/path/dmesg.txt", why="torn"), "dmesg.txt: torn"),
        (Unread(source="cat /proc/cpuinfo", why="torn", text="abc"), "cat /proc/cpuinfo: torn (abc)"),
        (Unread(source="f", why="w", text="a" * 41), f"f: w ({'a' * 39}…)"),
        (Unread(source="f" * 51, why="w"), f"{'f' * 49}…: w"),
        (Unread(source="f", why="w" * 118), f"f: {'w' * 116}…"),
    ],
)
def test_an_unread_source_is_named_with_its_line_and_the_reason(unread, line):
    assert lines_of(MachineFacts(unread=(unread,))) == [line]


def disagreement(field: str, *values: str) -> Contradiction:
    return Contradiction(
        subject="GPU0",
        field=field,
        readings=tuple(
            Reading(value=value, evidence=EvidenceRef(source="command", key=f"k{n}"))
            for n, value in enumerate(values)
        ),
    )


def test_sources_that_disagree_are_shown_with_their_values():
    long = disagreement("name", "a" * 41, "b" * 40)
    assert lines_of(MachineFacts(contradictions=(long,))) == [
        f"GPU0 name: {'a' * 39}… (k0) but {'b' * 40} (k1)"
    ]
    many = tuple(disagreement(f"f{n}", "a", "b") for n in range(6))
    assert lines_of(MachineFacts(contradictions=many))[-1] == "and 2 more"
    assert len(lines_of(MachineFacts(contradictions=many[:5]))) == 5
