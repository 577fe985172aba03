"""Check the commands of remedies, which people paste into a root shell.

A command names the right device and contains nothing that a device's name smuggles in.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import msgspec
import pytest

from assistant.usecases.check import evidence_under
from probes.base.record import NOT_RECORDED, to_json
from probes.facts import MachineFacts
from probes.judging.check_table import CHECKS
from probes.judging.findings import Finding, Remedy
from probes.judging.reporting import smi_name
from tests.support.check_case import Case
from tests.support.check_cases import CASES
from tests.support.machines import h100, h100_node

ROWS = {row.id: row for row in CHECKS}
EVIL = "-rf $(reboot)`reboot`;reboot|reboot&'\\\""
_NAMES = re.compile(r'"(name|netdev|mount|hostname|path)": ?"(?!NVIDIA|[A-Z][A-Z0-9_]+")([^"\\]+)"')
_SECTIONS = frozenset({
    "MEMORY", "UTILIZATION", "ECC", "TEMPERATURE", "POWER", "CLOCK", "COMPUTE", "PIDS", "PERFORMANCE",
    "SUPPORTED_CLOCKS", "PAGE_RETIREMENT", "ACCOUNTING", "ENCODER_STATS", "VOLTAGE", "FBC_STATS",
    "ROW_REMAPPER", "RESET_STATUS", "GSP_FIRMWARE_VERSION",
})  # fmt: skip
"""Section words of `nvidia-smi -q -d`, from its help."""


def remedies_of(case: Case, facts: MachineFacts) -> Iterator[Remedy]:
    row = ROWS[case.check_id]
    evidence = evidence_under(
        case.policy, facts, today=case.today, measured=case.measured, baselines=case.baselines
    )
    findings: Iterator[Finding] = row.run(evidence)
    for finding in findings:
        if finding.remedy is not None and finding.remedy.command:
            yield finding.remedy


def with_evil_names(facts: MachineFacts) -> MachineFacts:
    evil = msgspec.json.encode(EVIL).decode()[1:-1]
    text = _NAMES.sub(lambda match: f'"{match[1]}":"{match[2]}{evil}"', to_json(facts).decode())
    return msgspec.json.decode(text, type=MachineFacts)


COMMANDS = sorted({remedy.command for case in CASES for remedy in remedies_of(case, case.facts)})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_can_be_pasted(command: str) -> None:
    assert shlex.split(command)
    assert "..." not in command
    assert "\n" not in command
    for sections in re.findall(r"nvidia-smi -q -d (\S+)", command):
        assert set(sections.split(",")) <= _SECTIONS


def test_a_name_does_not_become_a_command() -> None:
    quoted = 0
    for case in CASES:
        for remedy in remedies_of(case, with_evil_names(case.facts)):
            quoted += "reboot" in remedy.command
            rest = [word for word in shlex.split(remedy.command) if EVIL not in word]
            assert remedy.command == "reboot" or not any(
                "$(reboot)" in word or "`" in word for word in rest
            ), remedy.command
            # No part of the hostile name stands outside of single quotes.
            bare = re.sub(r"'[^']*'|\"'\"", "", remedy.command)
            assert "$(reboot)" not in bare, remedy.command
    assert quoted > 10


def test_a_gpu_is_named_by_its_place() -> None:
    assert smi_name(h100(3)) == h100_node().gpus[3].pci_bus_id  # type: ignore[index, union-attr]
    assert smi_name(msgspec.structs.replace(h100(3), pci_bus_id=NOT_RECORDED)) == "3"
    named = [match[1] for command in COMMANDS if (match := re.search(r"nvidia-smi [^|]*-i (\S+)", command))]
    assert len(named) > 5
    assert all(re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:00\.0", name) for name in named), named
