"""Test checks of GPUs, the host and interfaces at the values where their result changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from probes.base.record import NOT_RECORDED
from probes.facts import GpuProcess, LogEvent, MachineFacts, Power, Unread
from probes.judging.check_table import CHECKS
from probes.judging.findings import Finding
from tests.support.check_cases_interfaces import cabled, fabric, hosts, interface
from tests.support.machines import evidence_of, h100_node, with_gpus, with_part

ROWS = {row.id: row for row in CHECKS}
NODE = h100_node()
ONE = h100_node(gpus=NODE.gpus[:1])  # type: ignore[index]
UNKNOWN_MODEL = "a GPU that the catalogue does not contain"


def findings(check_id: str, facts: MachineFacts) -> list[Finding]:
    return list(ROWS[check_id].run(evidence_of(facts)))


def results(check_id: str, facts: MachineFacts) -> list[str]:
    return [f"{row.status.value} {row.subject}" for row in findings(check_id, facts)]


def running(name: str, sm: int = 0, memory: int = 0) -> MachineFacts:
    process = GpuProcess(pid=7, name=name, sm_percent=sm, memory_percent=memory)
    return with_gpus(ONE, processes=(process,))


@pytest.mark.parametrize(
    ("sm", "memory", "status"), [(95, 0, "WARN"), (94, 0, "PASS"), (95, 1, "PASS"), (100, 0, "WARN")]
)
def test_a_full_load_without_memory_traffic_is_spinning(sm: int, memory: int, status: str) -> None:
    assert results("gpu-spinning", running("python", sm, memory)) == [f"{status} GPU0"]


def test_the_name_of_a_process_is_cut_after_40_characters() -> None:
    (finding,) = findings("gpu-busy", running("/usr/bin/" + "p" * 41))
    assert finding.observed == "p" * 40 + " (pid 7)"


@pytest.mark.parametrize(("capacity_w", "status"), [(6299.5, "WARN"), (6300.0, "PASS"), (6300.5, "PASS")])
def test_supplies_that_just_feed_the_limits_of_the_gpus_and_the_host(capacity_w: float, status: str) -> None:
    """Eight GPUs with 700 W and two sockets with 350 W each need 6300 W."""
    facts = with_gpus(h100_node(power=Power(supply_capacity_w=capacity_w)), power_limit_w=700.0)
    (finding,) = findings("power-headroom", with_part(facts, "cpu", sockets=2))
    assert "GPUs 5600 W and host about 700 W" in finding.observed
    assert finding.status.value == status


@pytest.mark.parametrize(("gpus", "status"), [((), "PASS"), (ONE.gpus, "WARN")])
def test_a_single_gpu_already_needs_the_larger_shared_memory(gpus: Any, status: str) -> None:
    facts = with_part(h100_node(gpus=gpus), "limits", shm_bytes=2 * 2**30, shm_free_bytes=2 * 2**30)
    assert results("shm-size", facts) == [f"{status} host"]


def spread(*places: int | str) -> MachineFacts:
    """Return GPUs on NUMA nodes, or with lists of near CPUs, on a machine with unknown sockets."""
    assert isinstance(NODE.gpus, tuple)
    gpus = tuple(
        msgspec.structs.replace(
            gpu,
            numa_node=place if isinstance(place, int) else NOT_RECORDED,
            cpu_affinity=place if isinstance(place, str) else NOT_RECORDED,
        )
        for gpu, place in zip(NODE.gpus, places, strict=False)
    )
    return with_part(h100_node(gpus=gpus, links=()), "cpu", sockets=NOT_RECORDED)


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        (spread(0, 0, 1, 1), "PASS"),
        (spread(0, 0, 0, 1), "WARN"),
        (spread(0, 1, 2, 2, 2), "WARN"),
        (spread("0-7", "0-7", "8-15", "8-15"), "PASS"),
        (spread("0-7", "0-7", "0-7", "8-15"), "WARN"),
        (spread("0-7", "0-7", "0-7", "8-15", ""), "UNKNOWN"),
        (spread(0, 0, 0, 0), "UNKNOWN"),
    ],
)
def test_the_spread_over_numa_nodes_if_the_sockets_are_unknown(facts: MachineFacts, status: str) -> None:
    assert results("gpu-sockets", facts) == [f"{status} host"]


@pytest.mark.parametrize(("lines", "more"), [(3, ""), (4, ", and 1 more"), (5, ", and 2 more")])
def test_three_unread_lines_are_shown_and_the_others_are_counted(lines: int, more: str) -> None:
    unread = tuple(Unread(source="a.txt", line=number + 1, why="odd") for number in range(lines))
    (finding,) = findings("input-readable", h100_node(unread=unread))
    assert finding.observed == "line 1: odd; line 2: odd; line 3: odd" + more
    assert len(finding.evidence) == 3


@pytest.mark.parametrize(("changes", "expected"), [(20, "PASS eth0"), (21, "WARN eth0")])
def test_changes_of_a_link_since_boot(changes: int, expected: str) -> None:
    facts = hosts(interface("eth0", carrier_changes=changes))
    assert results("link-flapping", facts) == [expected]


@pytest.mark.parametrize(
    ("down_line", "up_line", "count"), [(5, 6, 0), (6, 5, 1)], ids=["it came back", "it did not"]
)
def test_a_link_that_the_log_does_not_show_again_is_down(down_line: int, up_line: int, count: int) -> None:
    events = tuple(
        LogEvent(kind=kind, device="eth0", message=kind, line=line, last_line=line)
        for kind, line in (("link-down", down_line), ("link-up", up_line))
    )
    facts = msgspec.structs.replace(
        hosts(interface("eth0", up=NOT_RECORDED, carrier_changes=0)), events=events, logs=("kernel-log",)
    )
    problems = [row for row in results("link-flapping", facts) if not row.startswith(("PASS", "SKIP"))]
    assert len(problems) == count


def test_an_interface_in_a_subnet_of_its_own_is_fine() -> None:
    apart = [interface(f"eth{n}", addresses=(f"192.0.{n}.1/24",)) for n in range(2)]
    assert [row.split()[0] for row in results("interface-subnets", hosts(*apart))] == ["PASS"]


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        # One rate is unread; the others are alike.
        ([cabled(1), cabled(2), cabled(3, speed=NOT_RECORDED)], []),
        ([cabled(1), cabled(2), cabled(3), cabled(4, speed="HDR")], ["WARN"]),
        # Links between switches have their own usual rate.
        (
            [cabled(1), cabled(2), *(cabled(n, peer=f"spine{n}", speed="HDR") for n in (4, 5, 6))]
            + [cabled(n, node=f"node{n} HCA-1", node_kind="host", peer="leaf1") for n in (1, 2)],
            [],
        ),
    ],
)
def test_links_of_one_kind_are_compared_with_each_other(ports: list[Any], expected: list[str]) -> None:
    statuses = [row.split()[0] for row in results("fabric-speed", fabric(*ports))]
    assert [status for status in statuses if status == "WARN"] == expected


@pytest.mark.parametrize(("attached", "status"), [(1, "SKIP"), (2, "FAIL"), (NOT_RECORDED, "SKIP")])
def test_a_gpu_alone_needs_no_nvlink_unless_the_driver_counts_more(attached: Any, status: str) -> None:
    assert isinstance(ONE.gpus, tuple)
    links = tuple(msgspec.structs.replace(link, active=False) for link in ONE.gpus[0].nvlinks)  # type: ignore[union-attr]
    facts = msgspec.structs.replace(with_gpus(ONE, nvlinks=links), attached_gpus=attached)
    assert results("nvlink-active", facts) == [f"{status} GPU0"]
