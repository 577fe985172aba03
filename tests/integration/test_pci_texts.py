"""Test `rigtune check` on texts about PCI devices whose link is down or that do not answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assistant.cli import command_line

GPU = "3b:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB] (rev a1)\n"
PORT = "3a:00.0 PCI bridge: Intel Corporation Sky Lake-E PCI Express Root Port A (rev 04)\n"
CAPABLE = "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported\n"
LOST = "\t\tLnkSta:\tSpeed 2.5GT/s, Width x0\n"
STATUS = "\t\tUESta:\tDLP- SDES+ TLP- FCP- CmpltTO- CmpltAbrt-\n"
SEVERITY = "\t\tUESvrt:\tDLP+ SDES+ TLP- FCP+ CmpltTO- CmpltAbrt-\n"


@pytest.mark.parametrize(
    "text",
    [
        GPU + CAPABLE + LOST,
        LOST,
        GPU + STATUS,
        STATUS.strip() + "\n",
        "0000:3b:00.0 0302: ffff:ffff (rev ff)\n0000:5e:00.0 0207: 15b3:101b\n",
        "3b:00.0 Unassigned class [ffff]: Illegal Vendor ID Device [ffff:ffff] (rev ff)\n",
        "bus=0000:3b:00.0\nvendor=0xffff\ndevice=0xffff\n",
        "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=FFFF:FFFF\nPCI_SLOT_NAME=0000:3b:00.0\n",
        "PCI_CLASS=30200\nPCI_ID=10DE:20B5\nPCI_SLOT_NAME=0000:3b:00.0\ncurrent_link_width=0\n",
        "/sys/bus/pci/devices/0000:3b:00.0/current_link_width:0\n"
        "/sys/bus/pci/devices/0000:3b:00.0/max_link_width:16\n",
        "bdf=3b:00.0 LnkSta_width=x0 vendor=0x10de\n",
        "bdf=3b:00.0 UESta=DLP-,SDES+,TLP-\n",
    ],
)
def test_a_lost_device_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert "FAIL" in statuses(tmp_path, capsys, text)


@pytest.mark.parametrize(
    "text",
    [
        GPU + CAPABLE + SEVERITY,
        PORT + CAPABLE + LOST,
        GPU + CAPABLE.replace("x16", "x0") + LOST,
        CAPABLE + LOST + CAPABLE + LOST.replace("x0", "x16"),
        "PCI_CLASS=60400\nPCI_ID=8086:2030\nPCI_SLOT_NAME=0000:3a:00.0\ncurrent_link_width=0\n",
        "vendor=0x10de\ndevice=0x20b5\nclass=0x030200\ncurrent_link_width=16\nmax_link_width=16\n",
    ],
)
def test_empty_slots_and_virtual_links_are_no_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert "FAIL" not in statuses(tmp_path, capsys, text)


def statuses(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> set[str]:
    path = tmp_path / "input.txt"
    path.write_text(text)
    command_line(["check", "--from", str(path), "--format", "json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    return {finding["status"] for finding in findings if finding["check_id"] == "pcie-errors"}


ADAPTER = "5e:00.0 Infiniband controller: Mellanox Technologies MT28908 Family [ConnectX-6]\n"
FUNCTION = (
    "5e:00.{} Infiniband controller: Mellanox Technologies MT28908 Family [ConnectX-6 Virtual Function]\n"
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (ADAPTER + FUNCTION.format(1) + FUNCTION.format(2), ["0000:5e:00.0"]),
        (FUNCTION.format(1), ["0000:5e:00.1"]),
    ],
)
def test_virtual_functions_beside_their_card_are_no_nics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, names: list[str]
) -> None:
    path = tmp_path / "input.txt"
    path.write_text(GPU + text)
    assert command_line(["probe", "--from", str(path), "--format", "json"]) == 0
    assert [nic["name"] for nic in json.loads(capsys.readouterr().out)["nics"]] == names
