"""Test that rigtune and the real `ibstat` read the same values from an invented /sys in a mount namespace."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_sys import FakeHca, FakePort, write_sys

ROOT = Path(__file__).resolve().parents[2]
IBSTAT = shutil.which("ibstat") or "/usr/sbin/ibstat"

pytestmark = pytest.mark.root

NDR = FakePort()
DOWN = FakePort("1: DOWN", "2: Polling", "10 Gb/sec (4X SDR)", lid=0, sm_lid=0)
OFF = FakePort("1: DOWN", "3: Disabled", "40 Gb/sec (4X QDR)", "Ethernet", 0, 0)
INIT = FakePort("2: INIT", "5: LinkUp", "400 Gb/sec (4X NDR)", lid=0, sm_lid=0)
ROCE = FakePort(rate="100 Gb/sec (4X EDR)", link_layer="Ethernet", lid=0, sm_lid=0)
HDR = FakePort(rate="200 Gb/sec (4X HDR)", lid=0x33BF)
EDR = FakePort(rate="100 Gb/sec (4X EDR)", lid=0x33BE, sm_lid=0x14E)

LAYOUTS = {
    "eight NDR ports": tuple(FakeHca(f"mlx5_{n}", (NDR._replace(lid=10 + n),)) for n in range(8)),
    "InfiniBand beside RoCE": (
        *(FakeHca(f"mlx5_{n}", (NDR,)) for n in range(2)),
        FakeHca("mlx5_bond_0", (ROCE,), "MT41692", "32.38.3056"),
        FakeHca("mlx5_4", (OFF,), "MT4125", "22.38.1002"),
    ),
    "ports that are down, waiting, armed": (
        FakeHca("mlx5_0", (INIT,)),
        FakeHca("mlx5_1", (DOWN,)),
        FakeHca("mlx5_2", (NDR._replace(state="3: ARMED"),)),
        FakeHca("mlx5_3", (DOWN._replace(physical_state="1: Sleep"),)),
        FakeHca(
            "mlx5_4", (DOWN._replace(physical_state="6: LinkErrorRecovery", rate="2.5 Gb/sec (1X SDR)"),)
        ),
    ),
    "EDR among HDR": (
        *(FakeHca(f"mlx5_{n}", (HDR,), "MT4123", "20.36.1010") for n in range(3)),
        FakeHca("mlx5_3", (EDR,), "MT4123"),
    ),
    "two ports on a card": (
        FakeHca("mlx4_0", (FakePort(rate="56 Gb/sec (4X FDR)"), DOWN), "MT4099", "2.42.5000"),
    ),
}


def in_namespace(tree: Path, *argv: str) -> str:
    """Return the output of a program that sees `tree` as /sys."""
    script = 'mount --bind "$0" /sys && exec "$@"'
    run = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, tree, *argv],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tree.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if "unshare failed" in run.stderr or "mount:" in run.stderr:
        pytest.skip(f"no mount namespace here: {run.stderr.strip()}")
    assert run.returncode == 0, run.stderr
    return run.stdout


def fields_of_ibstat(text: str) -> list[dict[str, str]]:
    """Return the fields as ibstat prints them, without rigtune's own parser."""
    ports: list[dict[str, str]] = []
    device: dict[str, str] = {}
    for line in text.splitlines():
        if match := re.match(r"CA '(.+)'", line):
            device = {"CA": match[1]}
        elif match := re.match(r"\tPort (\d+):", line):
            ports.append({**device, "Port": match[1]})
        elif match := re.match(r"\t\t(.+?): (.*)", line):
            ports[-1][match[1]] = match[2]
        elif match := re.match(r"\t(.+?): (.*)", line):
            device[match[1]] = match[2]
    return ports


def in_words_of_ibstat(nic: dict[str, Any]) -> dict[str, str]:
    """Return a port as rigtune reads it, in ibstat's words."""
    states = {"ACTIVE": "Active", "INIT": "Initializing", "ARMED": "Armed", "DOWN": "Down"}
    return {
        "CA": nic["name"],
        "CA type": nic["device_type"],
        "Firmware version": nic["firmware_version"],
        "Node GUID": f"0x{nic['node_guid'].replace(':', '')}",
        "Port": str(nic["port"]),
        "State": states[nic["state"]],
        "Physical state": nic["physical_state"],
        "Rate": f"{nic['rate_gbps']:g}",
        "Base lid": str(nic["lid"]),
        "SM lid": str(nic["sm_lid"]),
        "Port GUID": f"0x{nic['port_guid'].replace(':', '')}",
        "Link layer": nic["link_layer"],
    }


@pytest.mark.skipif(not Path(IBSTAT).exists(), reason="infiniband-diags is not installed")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_port_field_agrees(tmp_path: Path, layout: str) -> None:
    tree = write_sys(tmp_path, LAYOUTS[layout])
    printed = fields_of_ibstat(in_namespace(tree, IBSTAT))
    facts = json.loads(in_namespace(tree, sys.executable, "-m", "assistant", "probe", "--format", "json"))
    own = [in_words_of_ibstat(nic) for nic in facts["nics"]]
    assert len(own) == sum(len(device.ports) for device in LAYOUTS[layout])
    assert own == [{field: port[field] for field in own[0]} for port in printed]
