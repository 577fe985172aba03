"""Grammar of the kernel log, which `check` and `explain` share."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

import tests
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import LogEvent
from probes.logs.event import Event
from probes.logs.reading import Reading
from probes.parsers.kernel.kernel_grammar import ROWS, read_message
from probes.sources.loose import open_loose
from tests.support.kernel_lines import ENVELOPES, LINES
from tests.support.kernel_lines_platform import KernelLine
from tests.support.recordings import MACHINES, index, needs_recordings


def of_check(text: str) -> tuple[LogEvent, ...]:
    source = open_loose([("dmesg.txt", text.encode())])
    events = assemble(source.title, gather(source, CollectOptions())).events
    assert isinstance(events, tuple)
    return events


def of_explain(text: str) -> list[Event]:
    reading = Reading()
    source = reading.source("dmesg.txt")
    reading.feed(source, text.encode())
    source.end()
    without_row = {"kernel.unread", "kernel.driver-failed"}
    return [
        event
        for event in reading.events()
        if event.kind.startswith("kernel.") and event.kind not in without_row
    ]


@pytest.mark.parametrize("line", LINES, ids=[line.message[:60] for line in LINES])
def test_both_commands_report_each_kind_of_line(line: KernelLine) -> None:
    text = f"[   11.000000] usb 1-1: new device\n[   12.345678] {line.message}\n"

    assert [(event.kind, event.device) for event in of_check(text)] == [(line.event, line.device)]
    assert [event.kind for event in of_explain(text)] == [line.log_event]


def test_no_field_of_a_line_changes_unnoticed() -> None:
    """RIGTUNE_UPDATE_GOLDEN=1 writes the file anew."""
    file = Path(tests.__path__[0]) / "golden" / "kernel_lines.txt"
    rows = []
    for line in LINES:
        event = read_message(line.message)
        fields = {} if event is None else msgspec.structs.asdict(event)
        known = {name: value for name, value in fields.items() if value not in (None, "", line.message)}
        kind = "none" if event is None else type(event).__name__
        rows.append(
            f"{line.message}\n    {kind} {json.dumps(msgspec.to_builtins(known), ensure_ascii=False)}\n"
        )
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_text("".join(rows), "utf-8")
    assert file.read_text("utf-8") == "".join(rows)


@pytest.mark.parametrize(
    ("bits", "variant", "is_fatal"),
    [
        ((), None, None),
        ((62, 61), None, None),
        ((63,), "bank corrected", False),
        ((63, 62), "bank corrected", False),
        ((63, 61), "bank uncorrected", True),
        ((63, 61, 44), "bank uncorrected", True),
        ((63, 45), "bank corrected", False),
        ((63, 44), "bank deferred", False),
    ],
)
def test_the_status_of_an_error_bank_of_amdgpu(
    bits: tuple[int, ...], variant: str | None, is_fatal: bool | None
) -> None:
    status = sum(1 << bit for bit in bits)
    line = f"amdgpu 0000:68:00.0: amdgpu: {{3}}[Hardware Error]: aca entry[00].STATUS=0x{status:016x}"
    events = [event for row in ROWS if (event := row.read(line)) is not None]
    expected = [] if variant is None else [(variant, is_fatal)]
    assert [(event.variant, event.fatal) for event in events] == expected


def test_every_row_of_the_grammar_has_a_line_here() -> None:
    first_rows = {
        next(place for place, row in enumerate(ROWS) if row.read(line.message) is not None) for line in LINES
    }

    assert [ROWS[place].shape for place in range(len(ROWS)) if place not in first_rows] == []


def test_every_line_contains_a_word_of_its_row() -> None:
    for line in LINES:
        row = next(row for row in ROWS if row.read(line.message) is not None)
        assert any(word in line.message for word in row.words)


def test_the_network_daemon_reports_links_to_both() -> None:
    text = "2026-01-02T03:04:05+00:00 node-a systemd-networkd[12]: ib6: Lost carrier\n"

    assert [(event.kind, event.device) for event in of_check(text)] == [("link-down", "ib6")]
    assert [(event.kind, event.fields) for event in of_explain(text)] == [
        ("kernel.link", {"device": "ib6", "state": "down"})
    ]


def test_a_gpu_that_the_driver_names_over_three_lines_is_known_to_both() -> None:
    text = "\n".join(
        (
            "[ 18.308145] NVRM: The NVIDIA GPU 0000:b3:00.0",
            "               NVRM: (PCI ID: 10de:26b5) installed in this system has",
            "               NVRM: fallen off the bus and is not responding to commands.",
        )
    )

    assert [(event.kind, event.device) for event in of_check(text)] == [("nvrm", "0000:b3:00")]
    assert [(event.kind, event.fields["bus"]) for event in of_explain(text)] == [
        ("kernel.gpu-lost", "0000:b3:00")
    ]


def kinds_of_explain(event: LogEvent) -> set[str]:
    """Return the kinds under which `explain` may report what `check` counts as an event."""
    return {line.log_event for line in LINES if line.event == event.kind}


NO_LOG = "kernel_log/proc-driver-nvidia-version-580.173.02.txt"
"""A file of /proc, which `check` recognises as such."""


@needs_recordings
@pytest.mark.parametrize(
    "path", [path for path, row in index().items() if row["kind"] == "kernel_log" and path != NO_LOG]
)
def test_both_report_the_same_of_a_recorded_log(path: str) -> None:
    text = (MACHINES / path).read_text(encoding="utf-8", errors="replace")
    checked = [event for event in of_check(text) if kinds_of_explain(event)]
    explained = {event.kind for event in of_explain(text)}

    assert all(kinds_of_explain(event) & explained for event in checked)
    assert explained <= {kind for event in checked for kind in kinds_of_explain(event)}


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_both_know_each_form_in_which_lines_are_handed_on(envelope: str) -> None:
    message = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid=7,uid=0"
    text = f"{envelope.format(message)}\n" * 2

    assert [(event.kind, event.count) for event in of_check(text)] == [("out-of-memory", 2)]
    assert [(event.kind, event.count) for event in of_explain(text)] == [("kernel.oom-kill", 2)]
