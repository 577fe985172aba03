"""What the overview tells of rails, logs and settings, and what it leaves out."""

from __future__ import annotations

import msgspec
import pytest

from assistant.present import overview
from assistant.present.fabric import fabric
from assistant.present.machine import host, software
from assistant.present.observed import observed
from probes.base.record import NOT_RECORDED, EvidenceRef
from probes.facts import (
    Contradiction,
    Diagnosis,
    Dmi,
    EnvironmentVariable,
    LogEvent,
    MachineFacts,
    Reading,
    ToolResult,
    Unread,
    states,
)
from probes.judging.findings import Finding, Status
from tests.support.machines import cpu_box, h100_node, with_gpus, with_nics, with_part
from tests.support.tui_text import words


def text_of(panel) -> str:
    return words(panel.body, width=160)


def test_the_ports_of_the_gpus_in_a_line_for_each_numa_node():
    text = text_of(fabric(h100_node(), complete=True))
    assert "NUMA 0: GPU0-3 with mlx5_0-3 PIX" in text
    assert "NUMA 1: GPU4-7 with mlx5_4-7 PIX" in text
    assert "4 on the PCI bus, fabric completed" in text


def test_pairs_that_cross_are_listed_one_by_one():
    facts = h100_node()
    rails = [f"mlx5_{index}" for index in range(8)]
    crossed = tuple(
        msgspec.structs.replace(link, b=rails[7 - rails.index(link.b)]) if link.b in rails else link
        for link in facts.links
    )
    nics = tuple(msgspec.structs.replace(nic, numa_node=NOT_RECORDED) for nic in facts.nics)
    text = text_of(fabric(msgspec.structs.replace(facts, links=crossed, nics=nics), complete=True))
    assert "GPU0 mlx5_7, GPU1 mlx5_6, GPU2 mlx5_5, GPU3 mlx5_4 PIX" in text


def test_a_gpu_whose_port_is_down_shows_its_detour():
    text = text_of(fabric(with_nics(h100_node(), "mlx5_3", state="DOWN"), complete=True))
    assert "GPU0 mlx5_0 PIX, GPU1 mlx5_1 PIX, GPU2 mlx5_2 PIX, GPU3 mlx5_0 NODE" in text


def test_ports_that_do_not_train_say_what_they_are_for():
    text = text_of(fabric(h100_node(), complete=True))
    assert next(line for line in text.splitlines() if "for storage or management" in line).startswith("RoCE")
    slow = text_of(fabric(with_nics(h100_node(), "mlx5_3", rate_gbps=200.0), complete=True))
    assert "1 slower" in slow


def test_gpus_outside_of_the_fabric_stand_out():
    text = text_of(fabric(with_gpus(h100_node(), 2, fabric_state="in progress"), complete=True))
    assert "fabric in progress on GPU 2" in text


@pytest.mark.parametrize("facts", [cpu_box(), MachineFacts()], ids=["no GPU", "unknown"])
def test_no_gpu_no_rails(facts):
    text = text_of(fabric(facts, complete=True))
    assert "rails" not in text
    assert "NVSwitch" not in text


def test_logs_tools_and_sources():
    readings = tuple(Reading(value=value, evidence=EvidenceRef(source="command", key="x")) for value in "ab")
    facts = MachineFacts(
        events=(
            LogEvent(kind="link-down", device="eth0", message="down", count=2),
            LogEvent(kind="xid", code=79, device="0000:9b:00", message="fallen off", fatal=True),
            LogEvent(kind="pcie-error", message="old", settled=True),
        ),
        diagnoses=(
            Diagnosis(tool="dcgmi diag", test="memory", subject="GPU2", result="FAIL"),
            Diagnosis(tool="dcgmi diag", test="pcie", subject="GPU2", result="PASS"),
        ),
        tool_results=(
            ToolResult(tool="nvbandwidth", test="x", subject="GPU0", metric="bandwidth", value=1.0),
        ),
        contradictions=(Contradiction(subject="GPU0", field="memory_bytes", readings=readings),),
        unread=(Unread(source="x", why="no matrix"),),
        environment=(EnvironmentVariable(name="NCCL_DEBUG", value="INFO", origin="environment"),),
    )
    panel = observed(facts)
    assert panel is not None
    text = text_of(panel)
    assert "xid 79 on 0000:9b:00, link down ×2 on eth0, 1 settled since" in text
    assert "1 FAIL, 1 PASS  (memory)" in text
    assert "1 of nvbandwidth" in text
    assert "sources on GPU0 memory_bytes" in text
    assert "1 part of the sources, first: no matrix" in text
    assert "NCCL_DEBUG" in text


def test_a_quiet_log_is_worth_a_word_beside_others():
    quiet = MachineFacts(events=(), logs=("kernel-log",))
    panel = observed(msgspec.structs.replace(quiet, unread=(Unread(source="x", why="no matrix"),)))
    assert panel is not None
    assert "nothing in the kernel log" in text_of(panel)
    assert observed(quiet) is None
    assert observed(MachineFacts()) is None


def test_hostile_words_of_a_log_cannot_steer_the_terminal():
    event = LogEvent(kind="xid", code=1, device="\x1b[2J[red]", message="x")
    panel = observed(MachineFacts(events=(event,)))
    assert panel is not None
    assert "\x1b" not in text_of(panel)
    assert "[red]" in text_of(panel)


def test_what_no_source_tells_shares_a_row():
    text = text_of(software(MachineFacts(), complete=True))
    assert text.count("not recorded") < 4
    assert "Slurm, MPI" in text
    assert words(host(MachineFacts(), complete=True).body, width=160).startswith("unknown")
    assert "reading" in text_of(software(MachineFacts(), complete=False))


def test_the_maker_and_the_settings():
    facts = msgspec.structs.replace(h100_node(), dmi=Dmi(system_vendor="NVIDIA", product_name="DGXH100"))
    text = text_of(host(facts, complete=True))
    assert "NVIDIA DGXH100" in text
    assert "IOMMU passthrough, governor performance, clock tsc" in text
    failed = with_part(h100_node(), "software", services=states({"nvidia-dcgm.service": "failed"}))
    assert "nvidia-dcgm.service" in text_of(software(failed, complete=True))


def test_checks_that_could_not_be_made_for_one_reason_share_a_line():
    why = "not recorded"
    open_ones = [
        Finding(check_id=f"c{n}", subject="host", status=Status.UNKNOWN, summary=f"{n}", observed=why)
        for n in range(9)
    ]
    warned = Finding(check_id="nofile", subject="host", status=Status.WARN, summary="few files")
    text = text_of(overview.finding_counts([*open_ones, warned], 3))
    assert "could not be made: not recorded  (9 checks)" in text
    assert text.index("few files") < text.index("could not be made")


def test_readings_that_no_gpu_has_take_no_column():
    facts = with_gpus(h100_node(), temperature_c=NOT_RECORDED, power_w=NOT_RECORDED)
    panel = overview.accelerators(facts, (), complete=True, fold=True)
    heading = text_of(panel).splitlines()[0]
    assert "temp" not in heading
    assert "power" not in heading
    assert "PCIe" in heading
