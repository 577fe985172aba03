"""Test explanations of machines, diagnostics and measurements."""

from __future__ import annotations

import json

import pytest

from tests.support.log_cases.reading import explained, ids

PERFTEST = """                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_4
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             {rate}             {rate}    0.375580
"""
PORT = """Infiniband device 'mlx5_4' port 1 status:
\tstate:\t\t 4: ACTIVE
\trate:\t\t 200 Gb/sec (4X HDR)
"""


def links(gpu: int, *rates: str, name: str = "NVIDIA A100-SXM4-80GB") -> str:
    """Return a block of `nvidia-smi nvlink -s`."""
    lines = "".join(f"\t Link {place}: {rate}\n" for place, rate in enumerate(rates))
    return f"GPU {gpu}: {name} (UUID: GPU-{gpu})\n{lines}"


def test_links_of_gpus_that_are_alike_are_reported_together() -> None:
    explanation = explained("".join(links(gpu, *["25 GB/s"] * 12) for gpu in range(4)))
    assert explanation.state == "healthy"
    assert explanation.facts["nvlinks"] == [
        {
            "gpu": "NVIDIA A100-SXM4-80GB",
            "up": 12,
            "down": 0,
            "disabled": 0,
            "gigabytes_per_s_each": 25.0,
            "gpus": 4,
        }
    ]
    assert (
        explanation.diagnoses[0].summary == "4 GPUs (NVIDIA A100-SXM4-80GB) with 12 NVLinks up, 25 GB/s each"
    )


def test_a_link_that_a_bridge_does_not_use_is_no_fault() -> None:
    half = ["26.562 GB/s", "26.562 GB/s", "<inactive>", "<inactive>"]
    assert not any(each.is_fault for each in explained(links(0, *half, name="NVIDIA H100 NVL")).diagnoses)
    assert ids(explained(links(0, *half, name="NVIDIA H100 80GB HBM3")))[0] == "nvlink-hardware"


def test_why_links_are_not_reported_is_a_fact() -> None:
    explanation = explained(
        "GPU 0: NVIDIA H200 (UUID: GPU-0)\nNvlink queries are not supported for Devices in MIG mode\n"
    )
    assert [*explanation.facts["nvlinks_missing"]] == [
        "NVIDIA H200: Nvlink queries are not supported for Devices in MIG mode"
    ]


def test_xids_are_counted_by_number_and_sub_code() -> None:
    explanation = explained(
        "[ 1.0] NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 06 "
        "(0x025001c6 0x0 0x0 0x0 0x0 0x0)\n"
        "[ 1.1] NVRM: Xid (PCI:0008:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 "
        "(0x0009a0c2 0x8 0x1 0x0 0x0 0x4)\n"
        "[ 1.2] NVRM: Xid (PCI:0000:1b:00): 31, pid=7, name=a, MMU Fault\n"
        "[ 1.3] NVRM: Xid (PCI:0000:1c:00): 31, pid=7, name=a, MMU Fault\n"
    )
    assert explanation.facts["xids"] == {
        "149.37": {"lines": 1, "gpus": ["0008:01:00"], "fatal": True},
        "145": {"lines": 1, "gpus": ["0008:01:00"], "fatal": False},
        "31": {"lines": 2, "gpus": ["0000:1b:00", "0000:1c:00"]},
    }


def test_a_boot_that_finds_nothing_wrong_reports_versions() -> None:
    explanation = explained(
        "[   12.1] mlx5_core 0000:53:00.0: firmware version: 28.39.1002\n"
        "[   12.2] mlx5_core 0000:54:00.0: firmware version: 28.39.1002\n"
        "[   14.1] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build\n"
        "[   20.1] mlx5_core 0000:53:00.0 ens3f0np0: Link up\n"
    )
    assert explanation.facts["nic_firmware"] == {"28.39.1002": 2}
    assert explanation.facts["driver"] == "570.124.06"
    assert "links" not in explanation.facts
    assert explanation.diagnoses[0].summary == "Driver 570.124.06; Network cards of firmware 28.39.1002"


def test_links_that_went_down_are_counted() -> None:
    lines = "".join(
        f"[ {9 + place}.1] mlx5_core 0000:53:00.0 ens3: Link {state}\n"
        for place, state in enumerate(["down", "up"] * 3)
    )
    assert explained(lines).facts["links"] == {"ens3": {"down": 3, "up": 3, "last": "up"}}


def test_a_limited_link_is_reported_with_its_numbers() -> None:
    explanation = explained(
        "[ 10.7] pci 0000:04:00.0: 126.024 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 "
        "link at 0000:01:00.0 "
        "(capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)\n"
    )
    first = explanation.diagnoses[0]
    assert (first.cause_id, first.is_fault) == ("pcie-link", False)
    assert "126.024 Gbit/s of 504.112 by 16.0 GT/s PCIe x8 at 0000:01:00.0" in first.summary


def test_a_process_that_ended_with_registered_memory_leaves_doubt() -> None:
    explanation = explained(
        "[ 9.1] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping\n" * 2
    )
    assert explanation.state == "unknown"
    assert not any(each.is_fault for each in explanation.diagnoses)
    assert "healthy" not in ids(explanation)


@pytest.mark.parametrize(("rate", "cause"), [("196.95", "healthy"), ("41.20", "busbw-low")])
def test_a_test_is_held_against_the_rate_of_its_port(rate: str, cause: str) -> None:
    explanation = explained(PORT + PERFTEST.format(rate=rate))
    assert ids(explanation)[0] == cause
    assert explanation.facts["port_rates_gbit_per_s"] == {"mlx5_4": 200.0}


def test_a_port_that_is_not_reported_makes_no_test_slow() -> None:
    assert ids(explained(PERFTEST.format(rate="41.20")))[0] == "healthy"
    assert ids(explained(PORT.replace("mlx5_4", "mlx5_0") + PERFTEST.format(rate="41.20")))[0] == "healthy"


def test_passed_health_checks_are_counted() -> None:
    passed = "".join(
        f"SUCCESS:  nhc:  Health check passed:  check_ib_bw_gdr: passed for IB=mlx5_{n}\n" for n in range(8)
    )
    explanation = explained(passed)
    assert explanation.state == "healthy"
    assert explanation.diagnoses[0].summary == "8 health checks passed"
    failed = explained(
        passed
        + "ERROR:  nhc:  Health check failed:  check_ib_link_flapping: multiple flaps of ib3. FaultCode: "
        "NHC2005\n"
    )
    assert ids(failed)[0] == "ib-port-flapping"
    assert failed.facts["health_checks"] == {"passed": 8, "failed": ["check_ib_link_flapping"]}


def test_a_tool_that_refuses_to_run_is_reported_by_its_own_words() -> None:
    refusal = "ERROR: this application must be run on at least 2 nodes\n"
    end = (
        "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to "
        "be terminated.\n"
    )
    explanation = explained(refusal + end)
    assert (explanation.state, ids(explanation)) == ("fault", ["unknown"])
    assert "at least 2 nodes" in explanation.diagnoses[0].summary


def diagnostic(reason: str) -> str:
    """Return `dcgmi diag -j` of DCGM 4 with one failed test."""
    failed = {
        "entity_group": "GPU",
        "entity_id": 2,
        "status": "Fail",
        "warnings": [{"error_id": 29, "warning": reason}],
    }
    tests = [{"name": "software", "results": [failed], "test_summary": {"status": "Fail"}}]
    report = {
        "DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": tests}]},
        "metadata": {"version": "4.2.3"},
    }
    return json.dumps(report, indent=1)


def test_a_setting_that_a_diagnostic_asks_for_is_no_fault_of_the_gpu() -> None:
    setting = explained(
        diagnostic("Persistence mode for GPU 2 is disabled. Enable it by running nvidia-smi -i 2 -pm 1")
    )
    assert setting.state == "unknown"
    assert not any(each.is_fault for each in setting.diagnoses)
    assert ids(explained(diagnostic("GPU 2 failed to reach the target power")))[0] == "gpu-diagnostic"
    assert (
        ids(explained(diagnostic("GPU 2 has uncorrectable memory errors and row remapping is pending")))[0]
        == "ecc"
    )


RUN = """#  Rank  0 Group  0 Pid  {pid} on       n1 device  0 [0x10] NVIDIA A100-SXM4-40GB
  8589934592    2147483648     float     sum      -1   150000   57.27  {rate}      0   150000   57.27  {rate}      0
# Avg bus bandwidth    : {rate}
"""


def test_runs_one_after_the_other_are_no_processes_that_measure_alone() -> None:
    assert "rendezvous-mismatch" not in ids(
        explained(RUN.format(pid=1, rate=200) + RUN.format(pid=2, rate=200))
    )


def test_the_inventory_of_the_fabric_manager_counts_each_device_once() -> None:
    switch = (
        "  Index: 00  Physical Id: {n}  PCI Bus ID: 00000000:8{n}:00.0  Enabled Link Mask: ff  Arch Type: 3\n"
    )
    gpu = "  Physical ID: {n}  Index: {n}  Handle: 00a{n}  PCI Bus ID: 00000000:1{n}:00.0\n"
    inventory = "".join(switch.format(n=n) for n in range(4)) + "".join(gpu.format(n=n) for n in range(8))
    started = (
        "[Jan 02 2025 03:04:05] [INFO] [tid 7] Fabric Manager version 550.90.07 is running with the "
        "following options\n"
    )
    assert explained(started + inventory + started + inventory).facts["fabric"] == {"switches": 4, "gpus": 8}


def test_links_with_errors_are_reported_singly() -> None:
    lines = ["Link 0: Replay Errors: 0", "Link 5: Replay Errors: 7", "Link 5: CRC Errors: 2"]
    text = "\n\t ".join(["GPU 3: NVIDIA H100 80GB HBM3 (UUID: GPU-3)", *lines])
    assert explained(text + "\n").facts["nvlink_error_links"] == {"GPU3 link 5": {"crc": 2, "replay": 7}}


def test_a_fabric_manager_that_set_all_up_is_healthy() -> None:
    said = "Successfully configured all the available NVSwitches to route GPU NVLink traffic."
    assert explained(f"Jan 05 14:45:28 n1 nv-fabricmanager[1120]: {said}\n").state == "healthy"


def test_links_that_are_down_leave_doubt_where_the_gpu_is_not_named() -> None:
    explanation = explained(
        "GPUs:\n    gpuId 0:\n        D D D D\nKey: Up=U, Down=D, Disabled=X, Not Supported=_\n"
    )
    assert explanation.state == "unknown"
    assert [(each.cause_id, each.is_fault) for each in explanation.diagnoses] == [("nvlink-hardware", False)]


def test_averages_of_a_network_under_load_are_read_by_their_column() -> None:
    table = (
        "NetworkLoad Tests v1.3\n  Test with 10 MPI ranks (10 nodes)\n"
        "|                Isolated Network Tests                |\n"
        "|                  Name |   Min |   Max |   Avg |   Avg(Worst) |  99% | 99.9% |   Units |\n"
        "| RR Two-sided Lat (8 B) |   1.2 |   3.1 |   1.8 |          2.1 |  2.4 |   2.9 |    usec |\n"
    )
    explanation = explained(table)
    assert explanation.state == "healthy"
    assert [*explanation.facts["measured"].values()] == [{"us": 1.8}]


@pytest.mark.parametrize(
    "line",
    [
        "pcieport 0000:40:01.1: pciehp: Slot(17): Card not present",
        "blk_update_request: I/O error, dev sdb, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
        "critical target error, dev nvme1n1, sector 2048 op 0x9:(WRITE_ZEROES) flags 0x800 phys_seg 0 prio "
        "class 2",
        "mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 9): Detected insufficient power on the PCIe slot "
        "(27W).",
        "nvme nvme0: missing or invalid SUBNQN field.",
        "mce: [Hardware Error]: Machine check events logged",
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x3c5 "
        "offset:0x0 grain:32)",
    ],
)
def test_messages_that_healthy_machines_print_at_boot_are_no_fault(line: str) -> None:
    explanation = explained(
        f"[   12.500000] {line}\n[   13.500000] NET: Registered PF_VSOCK protocol family\n"
    )
    assert not any(each.is_fault for each in explanation.diagnoses)


def test_multicast_teams_that_come_and_go_are_healthy() -> None:
    team = (
        "[Dec 18 2024 19:09:50] [INFO] [tid 4] multicast group 1 is allocated.\n"
        "[Dec 18 2024 19:09:50] [INFO] [tid 4] successfully setup multicast team for request id "
        "930925739311818{n}.\n"
    )
    explanation = explained("".join(team.format(n=n) for n in range(3)))
    assert (explanation.state, explanation.facts["multicast_teams"]) == ("healthy", {"set_up": 3})


def test_a_diagnostic_reports_its_version_and_the_driver() -> None:
    report = diagnostic("GPU 2 failed to reach the target power")
    facts = explained(
        report.replace('"version"', '"Driver Version Detected": "570.86.15",\n  "version"')
    ).facts
    assert (facts["dcgm_version"], facts["driver"]) == ("4.2.3", "570.86.15")
    assert facts["dcgm"]["failed_tests"] == ["software"]


def test_a_warning_of_a_tool_beside_its_results_is_a_note_with_its_line() -> None:
    report = {"nvbandwidth": {"testcases": [{"name": "host_to_device_memcpy_ce", "status": "Waived"}]}}
    explanation = explained("WARNING: could not lock the clocks of device 0\n" + json.dumps(report, indent=1))
    first = explanation.diagnoses[0]
    assert (explanation.state, first.cause_id, first.is_fault) == ("healthy", "gpu-diagnostic", False)
    assert [line.text for line in first.evidence] == ["WARNING: could not lock the clocks of device 0"]


def test_a_severity_that_was_cut_is_not_taken_for_a_fatal_one() -> None:
    def error(severity: str) -> str:
        return f"[  300.500000] {{1}}[Hardware Error]: event severity: {severity}\n"

    assert not any(each.is_fault for each in explained(error("corre")).diagnoses)
    assert ids(explained(error("fatal")))[0] == "host-hardware"


def test_a_report_that_was_cut_leaves_doubt() -> None:
    explanation = explained(diagnostic("GPU 2 failed")[:60])
    assert explanation.state == "unknown"
    assert not any(each.is_fault for each in explanation.diagnoses)
