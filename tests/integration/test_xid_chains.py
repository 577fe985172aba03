"""Test `check` and `explain` on chains of Xids: both name the same root, to which each effect belongs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from assistant.cli import command_line
from probes.catalogue.xids import load_xids
from probes.parsers.kernel.kernel_log import parse_kernel_log

A, B = "0000:17:00", "0000:9b:00"
ASKS = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
SETTLES = "GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"
XID_CHECKS = ("xid-hardware", "xid-reset", "xid-application", "gsp-timeout", "driver-messages")


def line(at: float | str, code: int, words: str = "pid=7, name=python3, words", gpu: str = A) -> str:
    stamp = f"[{at:12.6f}] " if isinstance(at, float) else f"{at} node1 kernel: " if at else ""
    return f"{stamp}NVRM: Xid (PCI:{gpu}): {code}, {words}"


def answer(capsys: pytest.CaptureFixture[str], command: str, path: Path) -> dict[str, Any]:
    source = ("--from", str(path)) if command == "check" else (str(path),)
    command_line([command, *source, "--format", "json"])
    output: dict[str, Any] = json.loads(capsys.readouterr().out)
    return output


def problems(verdict: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        finding
        for finding in verdict["findings"]
        if finding["check_id"] in XID_CHECKS and finding["status"] in ("FAIL", "WARN")
    ]


CHAINS = {
    "off the bus": (
        [(10.0, 79), (10.1, 154, ASKS), (11.0, 45), (4000.0, 119), (4001.0, 74)],
        ["FAIL xid-hardware Xid 79"],
        "gpu-lost",
    ),
    "double bit": ([(10.0, 48), (10.1, 63), (10.2, 94), (10.3, 45)], ["FAIL xid-reset Xid 48"], "ecc"),
    "NVLink": ([(10.0, 74), (10.1, 31), (10.2, 45)], ["FAIL xid-hardware Xid 74"], "nvlink-hardware"),
    "system processor": (
        [(10.0, 119), (15.0, 109), (16.0, 8), (17.0, 154, ASKS)],
        ["FAIL gsp-timeout Xid 119"],
        "gpu-xid",
    ),
    "program": ([(10.0, 31), (10.1, 43), (10.2, 45)], ["WARN xid-application Xid 31"], "gpu-xid"),
    "contained, and a reset is asked for": (
        [(10.0, 94), (10.1, 63), (10.2, 154, ASKS)],
        ["FAIL xid-application Xid 94"],
        "ecc",
    ),
    "an effect of an effect": (
        [(10.0, 62), (200.0, 119), (450.0, 109)],
        ["FAIL xid-reset Xid 62"],
        "gpu-xid",
    ),
}


@pytest.mark.parametrize(("xids", "expected", "cause"), CHAINS.values(), ids=CHAINS)
def test_the_root_of_a_chain_includes_its_effects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], xids: list[Any], expected: list[str], cause: str
) -> None:
    path = tmp_path / "dmesg.txt"
    path.write_text("".join(f"{line(*each)}\n" for each in xids))
    [finding] = problems(answer(capsys, "check", path))
    root = f"Xid {xids[0][1]}"
    assert [f"{finding['status']} {finding['check_id']} {root}"] == expected
    assert finding["summary"].startswith(f"{root} on {A}")
    for number, (_, code, *_words) in enumerate(xids, 1):
        assert f"{code}, " in finding["observed"]
        assert any(reference["detail"] == f"line {number}" for reference in finding["evidence"])
    if ASKS in str(xids):
        assert "The driver asks for: Node Reboot Required." in finding["remedy"]["text"]
    diagnosis = answer(capsys, "explain", path)["diagnoses"][0]
    assert diagnosis["cause_id"] == cause
    effects = ", ".join(str(code) for _, code, *_words in xids[1:])
    assert f"followed by Xid {effects}" in diagnosis["summary"]


APART = {
    "another GPU": [line(10.0, 79), line(10.1, 31, gpu=B)],
    "too late": [line(10.0, 74), line(311.0, 31)],
    "before the root": [line(10.0, 31), line(10.1, 74)],
    "after a reset": [line(10.0, 119), line(11.0, 154, SETTLES), line(12.0, 45)],
    "after a boot": [line(10.0, 74), "[    0.000000] Linux version 6.8.0", line(11.0, 31)],
    "after a load of the driver": [
        line(10.0, 74),
        "[   11.000000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54  Mon",
        line(12.0, 31),
    ],
    "GPUs without an address": [line(10.0, 74, gpu="<redacted>"), line(10.1, 31, gpu="<redacted>")],
    "no effect": [line(10.0, 79), line(10.1, 54)],
    "too late by the calendar": [line("2025-03-01T10:00:00+0000", 74), line("2025-03-01T10:06:00+0000", 31)],
}


@pytest.mark.parametrize("lines", APART.values(), ids=APART)
def test_an_unrelated_xid_is_no_effect_of_a_root(lines: list[str]) -> None:
    events = [event for event in parse_kernel_log("\n".join(lines)).events if event.kind == "xid"]
    assert len([event for event in events if event.code != 154]) == 2
    assert all(event.after is None for event in events)


@pytest.mark.parametrize(
    "stamps",
    [
        ("2025-03-01T10:00:00+0000", "2025-03-01T10:00:09+0000"),
        ("Mar  1 10:00:00", "Mar  1 10:04:00"),
        (10.0, 300.0),
        ("", ""),
    ],
    ids=["ISO", "syslog", "uptime", "no times"],
)
def test_each_form_of_time(stamps: tuple[Any, Any]) -> None:
    text = f"{line(stamps[0], 74)}\n{line(stamps[1], 31)}\n"
    assert [event.after for event in parse_kernel_log(text).events] == [None, 74]


def test_the_same_xid_counts_apart_before_and_after_its_root() -> None:
    text = "\n".join((line(1.0, 31), line(9.0, 74), line(9.1, 31), line(9.2, 31), line(9000.0, 31)))
    events = parse_kernel_log(text).events
    assert sorted((event.code, event.after, event.count) for event in events if event.after) == [(31, 74, 2)]
    assert [(event.code, event.count) for event in events if not event.after] == [(31, 2), (74, 1)]


def test_no_line_of_any_chain_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each Xid of random logs is part of a problem, and a problem fails if and only if an Xid is severe."""
    codes = [code for row in load_xids().xid for code in row.codes if row.severity != "none"]
    for seed in range(25):
        chance = random.Random(seed)  # noqa: S311 - no secret
        chosen = [chance.choice(codes) for _ in range(8)]
        path = tmp_path / f"{seed}.txt"
        path.write_text("".join(f"{line(10.0 + n, code)}\n" for n, code in enumerate(chosen)))
        findings = problems(answer(capsys, "check", path))
        observed = " ".join(finding["observed"] for finding in findings)
        assert all(f"): {code}, " in observed for code in chosen), (seed, chosen)
        severe = any(getattr(load_xids().find(code), "severity", "") == "fail" for code in chosen)
        assert any(finding["status"] == "FAIL" for finding in findings) is severe


def test_chains_of_the_table_have_no_circle_and_known_numbers() -> None:
    rows = load_xids()
    arrows = {(root, code) for chain in rows.chain for root in chain.roots for code in chain.followers}
    assert all(rows.find(code) for arrow in arrows for code in arrow)
    left = set(arrows)
    while ends := {arrow for arrow in left if not any(arrow[1] == other[0] for other in left)}:
        left -= ends
    assert not left
