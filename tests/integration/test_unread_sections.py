"""Test a pasted session of several commands: each part that no parser reads is named with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assistant.cli import command_line

KNOWN = "$ ibdev2netdev\nmlx5_0 port 1 ==> ib0 (Up)\n"
KERNEL = "=== dmesg ===\n[   10.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        (KNOWN + KERNEL, []),
        (KNOWN + "root@node1:~# ethtool -S ens3\nrx_discards: 5\n" + KERNEL, [(3, "ethtool -S ens3")]),
        ("[user@login01 ~]$ sudo mytool --all\nstate: bad\n" + KNOWN, [(1, "mytool --all")]),
        (KNOWN + "=== cat /proc/foo ===\nx = 1\n", [(3, "cat /proc/foo")]),
        (KNOWN + "$ cd /tmp\n$ ls\n\n", []),
        (KNOWN + "==============NVSMI LOG==============\n", []),
    ],
)
def test_parts_without_a_reader_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, unread: list[tuple[int, str]]
) -> None:
    path = tmp_path / "session.txt"
    path.write_text(text)
    assert command_line(["probe", "--from", str(path), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["unread"]
    assert [(row["line"], row["text"]) for row in rows] == unread


def test_hostile_sessions_end_soon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "session.txt"
    path.write_text(KNOWN + "".join(f"$ tool{n} {'=' * 300}\n{'-' * 390}\n" for n in range(3000)))
    assert command_line(["probe", "--from", str(path), "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["unread"]) < 250
