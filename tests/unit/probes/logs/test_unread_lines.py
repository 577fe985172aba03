"""Test logs of which little or nothing is understood: such a log is never called healthy."""

from __future__ import annotations

import pytest

from tests.support.log_cases.reading import explained, ids

EFA = "[ 100.100000] efa 0000:00:1d.0: Failed to process command REG_MR (opcode 8) err -12\n"
UNKNOWN_DRIVER = "[ 100.100000] shiny 0000:1d:00.0: Failed to start the engine, code 7\n"
UNKNOWN_TROUBLE = "[ 100.100000] shiny: engine fault 0x17 on lane 3\n"
QUIET = "[ 100.100000] usb 1-1: new high-speed USB device number 2 using xhci_hcd\n"
UPLINK = "[ 101.100000] mlx5_core 0000:53:00.0 enp83s0f0np0: Link up\n"
NVLINK = (
    "host-a:10:10 [0] graph/paths.cc:300 NCCL WARN P2P is disabled between NVLINK connected GPUs 1 and 0. "
    "This should not be the case given their connectivity, and is probably due to a hardware issue.\n"
)


@pytest.mark.parametrize(
    ("log", "state"),
    [
        (EFA * 5, "unknown"),
        (UNKNOWN_DRIVER, "unknown"),
        (UNKNOWN_DRIVER + UPLINK, "unknown"),
        (UNKNOWN_TROUBLE, "unknown"),
        (UNKNOWN_TROUBLE + UPLINK, "healthy"),
        (QUIET, "healthy"),
        ("*** Done ***\n", "unknown"),
        ("HSA Agents\nAgent 1\n  Name: AMD EPYC\n", "unknown"),
    ],
    ids=(
        "efa",
        "driver",
        "driver beside a link",
        "trouble",
        "noise beside a link",
        "quiet",
        "end",
        "listing",
    ),
)
def test_a_log_is_healthy_only_if_its_trouble_was_understood(log: str, state: str) -> None:
    assert explained(log).state == state


def test_a_line_of_trouble_is_quoted() -> None:
    assert "engine fault 0x17" in explained(UNKNOWN_TROUBLE).diagnoses[0].summary


def test_a_broken_nvlink_is_named_beside_the_isolation_of_gpus() -> None:
    assert ids(explained(NVLINK))[:2] == ["gpu-isolation", "nvlink-hardware"]


def test_a_healthy_answer_of_the_ras_service_is_no_fault() -> None:
    table = """Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         8         4         1         4        32   RUNNING      OK
"""
    assert explained(table).state != "fault"
    assert explained(table.replace("OK", "INCOMPLETE")).state == "fault"


@pytest.mark.parametrize(
    ("driver", "state"), [("amdgpu", "fault"), ("mlx5_core", "fault"), ("xhci_hcd", "healthy")]
)
def test_a_refused_transfer_is_judged_by_its_device(driver: str, state: str) -> None:
    line = (
        f"[ 1.100000] {driver} 0000:68:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x1 address=0x3f]\n"
    )
    assert explained(line).state == state


def test_a_refused_transfer_after_a_reset_is_its_effect() -> None:
    reset = "[ 1.000000] amdgpu 0000:68:00.0: amdgpu: GPU reset begin!\n"
    refused = "[ 1.100000] AMD-Vi: Event logged [IO_PAGE_FAULT device=68:00.0 domain=0x1 address=0x3f]\n"

    assert ids(explained(reset + refused))[0] == "gpu-hang"
    assert ids(explained(refused))[0] == "acs-enabled"
    assert explained(refused).state == "unknown"
