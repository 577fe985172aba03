"""Test the text for people: its width, its colours, and hostile names."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from assistant.usecases.check import check_machine
from probes.base.record import NOT_RECORDED, EvidenceRef, Reason, Unknown
from probes.facts import (
    Contradiction,
    Diagnosis,
    EnvironmentVariable,
    GpuMemoryHealth,
    LogEvent,
    MachineFacts,
    PciDevice,
    PcieLink,
    Reading,
    ToolResult,
    Unread,
)
from probes.judging.verdict import Verdict
from tests.support.machines import cpu_box, evidence_of, h100, h100_node, with_gpus, with_nics, with_part
from tests.support.machines_pci import bridge_address
from tests.support.texts import render_facts, render_verdict


def verdict_of(facts: MachineFacts) -> Verdict:
    *_, finished = check_machine(evidence_of(facts))
    return finished.result  # type: ignore[attr-defined,no-any-return]


BAD = with_gpus(h100_node(), persistence_mode=False)


@pytest.mark.parametrize(
    "facts", [h100_node(), BAD, cpu_box(), MachineFacts()], ids=["healthy", "bad", "no GPU", "unknown"]
)
def test_lines_fit_80_columns(facts: MachineFacts) -> None:
    texts = (
        render_facts(facts),
        render_verdict(verdict_of(facts)),
        render_verdict(verdict_of(facts), verbose=True),
    )
    lines = [line for text in texts for line in text.splitlines()]
    assert max(len(line) for line in lines if "$ " not in line) <= 80
    assert all(line == line.rstrip() for line in lines)


def test_colour_only_adds_escapes() -> None:
    plain, coloured = render_verdict(verdict_of(BAD)), render_verdict(verdict_of(BAD), colour=True)
    assert "\x1b" not in plain
    assert "\x1b[33m! WARN" in coloured
    for code in ("\x1b[33m", "\x1b[31m", "\x1b[35m", "\x1b[32m", "\x1b[36m", "\x1b[1m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_same_problem_on_all_gpus_is_reported_once() -> None:
    text = render_verdict(verdict_of(BAD))
    assert text.count("persistence mode is off") == 1
    assert "persistence-mode  GPU0-7" in text


def test_alike_problems_show_the_command_of_each() -> None:
    facts = with_gpus(h100_node(), 1, 5, compute_mode="prohibited")
    text = render_verdict(verdict_of(facts))
    assert text.count("Set the default compute mode.") == 1
    assert [line.strip() for line in text.splitlines() if "compute-mode=" in line] == [
        f"$ nvidia-smi -i {h100(index).pci_bus_id} --compute-mode=DEFAULT   # as root" for index in (1, 5)
    ]


def test_hostile_names_cannot_steer_the_terminal() -> None:
    evil = "\x1b]0;pwned\x07\x1b[2J\u202e\r\nPASS"
    facts = with_gpus(h100_node(hostname=evil), 0, name=evil)
    for text in (
        render_facts(facts),
        render_verdict(verdict_of(facts)),
        render_verdict(verdict_of(facts), verbose=True),
    ):
        assert not set(text) & {"\x1b", "\x07", "\r", "\u202e"}


def test_unknown_values_keep_their_reason() -> None:
    """Values that the source lacks are named once, at the end.

    Values that somebody could fix are named in their place.
    """
    silent = render_facts(msgspec.structs.replace(h100_node(), storage=NOT_RECORDED)).splitlines()
    assert silent[-1] == "Unknown    not recorded: Storage (-v names more)"
    denied = Unknown(Reason.PERMISSION, "open: Permission denied")
    text = render_facts(msgspec.structs.replace(h100_node(), storage=denied))
    assert "Storage    unknown (permission: open: Permission denied)" in text
    assert "Unknown    not recorded: everything (-v names more)" in render_facts(MachineFacts())
    verbose = " ".join(
        render_facts(with_part(h100_node(), "software", mpi_version=NOT_RECORDED), verbose=True).split()
    )
    assert "Software: MPI" in verbose


def test_reasons_that_several_values_share_are_reported_once() -> None:
    missing = [Unknown(Reason.TOOL_MISSING, f"/sys/{name}: No such file") for name in ("vendor", "product")]
    text = render_facts(with_part(h100_node(), "dmi", system_vendor=missing[0], product_name=missing[1]))
    assert "maker, model: unknown (tool missing)" in " ".join(text.split())


def test_the_page_of_a_healthy_node_fits_a_terminal() -> None:
    assert len(render_facts(h100_node()).splitlines()) <= 40


def test_roles_of_ports_and_the_map_of_gpus() -> None:
    text = render_facts(with_nics(h100_node(), "mlx5_5", state="DOWN", physical_state="Polling"))
    assert "mlx5_8: storage or management" in text
    assert "GPU5 mlx5_4 NODE" in text
    assert "as mlx5_5 is down" in " ".join(
        render_facts(with_nics(h100_node(), "mlx5_5", state="DOWN"), verbose=True).split()
    )


def test_cpus_that_sockets_take_in_turn_are_reported_in_few_words() -> None:
    odd = ",".join(str(number) for number in range(1, 96, 2))
    assert "CPUs 1-95 (odd ones)" in " ".join(render_facts(with_gpus(h100_node(), cpu_affinity=odd)).split())
    scattered = ",".join(str(number * number) for number in range(40))
    assert "CPUs 0,1,4,9" in (text := render_facts(with_gpus(h100_node(), cpu_affinity=scattered)))
    assert scattered not in text
    assert scattered in render_facts(with_gpus(h100_node(), cpu_affinity=scattered), verbose=True)


def test_the_pcie_tree() -> None:
    facts = h100_node()
    assert isinstance(facts.pci_devices, tuple)
    redirecting = tuple(
        msgspec.structs.replace(device, acs=("request_redirect",))
        if device.bus_id == bridge_address(3)
        else device
        for device in facts.pci_devices
    )
    narrow = msgspec.structs.replace(
        with_gpus(facts, 5, pcie=PcieLink(width=8, width_max=16)), pci_devices=redirecting
    )
    text = render_facts(narrow)
    assert "PCIe x8 of x16" in text
    assert "1 bridge above GPUs and NICs redirects traffic (ACS)" in " ".join(text.split())
    assert "PCIe tree" not in text
    lines = render_facts(narrow, verbose=True).splitlines()
    bridge = next(
        number for number, line in enumerate(lines) if f"{bridge_address(3)} bridge: Gen5 x16" in line
    )
    assert " ".join(lines[bridge : bridge + 2]).split()[-3:] == ["ACS", "request", "redirect"]
    assert any(" GPU3: Gen5 x16" in line for line in lines[bridge:])


@pytest.mark.parametrize(
    ("kind", "driver", "is_shown"),
    [("gpu", None, True), ("rdma", None, True), ("gpu", "nvidia", False), ("nvswitch", None, False)],
)
def test_gpus_and_nics_without_a_driver_are_named(kind: str, driver: str | None, is_shown: bool) -> None:
    """The driver of NVSwitches may be on the host of a virtual machine."""
    device = PciDevice(bus_id="0000:ab:00.0", kind=kind, driver=driver)  # type: ignore[arg-type]
    text = render_facts(MachineFacts(pci_devices=(device,)))
    assert ("without a driver: 0000:ab:00.0" in text) == is_shown


def test_deep_bridges_are_indented_up_to_a_limit() -> None:
    addresses = [f"0000:{bus:02x}:00.0" for bus in range(1, 16)]
    devices = tuple(
        PciDevice(bus_id=address, kind="bridge" if address != addresses[-1] else "gpu", parent=parent)
        for parent, address in zip((None, *addresses), addresses, strict=False)
    )
    lines = render_facts(MachineFacts(pci_devices=devices), verbose=True).splitlines()
    columns = [next(line.index(address) for line in lines if address in line) for address in addresses]
    assert [column - columns[0] for column in columns] == [2 * min(depth, 12) for depth in range(15)]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_errors_of_a_gpus_memory_are_shown_from_the_first(count: int) -> None:
    health = GpuMemoryHealth(remapped_rows_uncorrected=count)
    facts = with_gpus(h100_node(), 2, memory_health=health, ecc_uncorrected_volatile=count)
    text = " ".join(render_facts(facts).split())
    for words in ("remapped rows", "uncorrected ECC errors"):
        assert (words in text) == (count > 0)
        assert count == 0 or f"{words}: {count}" in text


def test_events_tool_results_and_contradictions_are_shown() -> None:
    xid = LogEvent(
        kind="xid", code=79, device="0000:9b:00", message="GPU has fallen off the bus", fatal=True, count=3
    )
    flaps = LogEvent(kind="link-down", device="eth0", message="Link is down", count=2)
    results = tuple(
        ToolResult(
            tool="nvbandwidth",
            test="host_to_device_memcpy_ce",
            subject=f"GPU{index}",
            metric="bandwidth",
            value=55e9 + index,
        )
        for index in range(8)
    )
    said = [
        Reading(value=value, evidence=EvidenceRef(source="command", key=key))
        for value, key in (("1", "a"), ("2", "b"))
    ]
    facts = h100_node(
        events=(flaps, xid),
        diagnoses=(
            Diagnosis(tool="dcgmi diag", test="memory", subject="GPU2", result="FAIL", message="row remap"),
        ),
        tool_results=results,
        contradictions=(Contradiction(subject="GPU0", field="memory_bytes", readings=tuple(said)),),
        unread=(Unread(source="/some/where/dmesg.txt", line=7, text="garbage", why="no event"),),
        environment=(
            EnvironmentVariable(
                name="NCCL_IB_HCA", value="mlx5", origin="/etc/nccl.conf", is_effective=False
            ),
        ),
    )
    text = render_facts(facts)
    assert "Events     xid 79 x3 on 0000:9b:00: GPU has fallen off the bus" in text
    assert "FAIL memory on GPU2: row remap" in text
    assert "nvbandwidth host_to_device_memcpy_ce: 55 GB/s over GPU0-7" in text
    assert "GPU0 memory_bytes: 1 (a) but 2 (b)" in text
    assert "Unread     dmesg.txt:7: no event (garbage)" in text
    assert "/etc/nccl.conf: NCCL_IB_HCA=mlx5 (not effective)" in text


def test_checking_and_rendering_load_nothing_heavy() -> None:
    program = (
        "import sys; from assistant.usecases.check import check_machine; "
        "from assistant.pages.verdict.verdict_page import verdict_page;"
        "from assistant.text.plain_writer import text_of;"
        "from probes.facts import MachineFacts; from probes.judging.findings import Evidence;"
        "from probes.catalogue.hardware import Catalogue;"
        "evidence = Evidence(facts=MachineFacts(), catalogue=Catalogue());"
        "text_of(verdict_page(list(check_machine(evidence))[-1].result));"
        "heavy = {'rich', 'textual', 'jinja2', 'torch', 'dataclasses', 'psutil', 'pynvml'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
