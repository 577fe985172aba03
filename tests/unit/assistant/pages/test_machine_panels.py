"""Test how the overview describes rails, logs and settings, and what it leaves out."""

from __future__ import annotations

import msgspec
import pytest

from assistant.pages.machine.facts_page import facts_page, panels
from assistant.pages.machine.gpu_table import gpus_section
from assistant.pages.verdict import findings_page
from assistant.text.plain_writer import text_of as plain_text
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


def text_of(facts, name: str) -> str:
    """Return the words of a panel on long lines."""
    return words(panels(facts, complete=True)[name], width=400)


def test_a_refused_interpreter_is_listed_beside_the_one_that_was_taken():
    refused = "/shared/bin/python is not started: everybody can write /shared"
    path = "/opt/venv/bin/python"
    text = text_of(with_part(h100_node(), "training", path=path, refused=(refused,)), "software")
    assert path in text
    assert refused in text
    assert "is not started" not in text_of(h100_node(), "software")


def test_the_ports_of_the_gpus_in_a_line_for_each_numa_node():
    text = text_of(h100_node(), "fabric")
    assert "NUMA node 0, CPUs 0-55,112-167: GPU0 mlx5_0, GPU1 mlx5_1, GPU2 mlx5_2, GPU3 mlx5_3 (PIX)" in text
    assert "4 NVSwitches; GPU0-7 fabric completed" in text


def test_pairs_that_cross_are_listed_one_by_one():
    facts = h100_node()
    rails = [f"mlx5_{index}" for index in range(8)]
    crossed = tuple(
        msgspec.structs.replace(link, b=rails[7 - rails.index(link.b)]) if link.b in rails else link
        for link in facts.links
    )
    nics = tuple(msgspec.structs.replace(nic, numa_node=NOT_RECORDED) for nic in facts.nics)
    text = text_of(msgspec.structs.replace(facts, links=crossed, nics=nics), "fabric")
    assert "GPU0 mlx5_7, GPU1 mlx5_6, GPU2 mlx5_5, GPU3 mlx5_4" in text


def test_a_gpu_whose_port_is_down_shows_its_detour():
    text = text_of(with_nics(h100_node(), "mlx5_3", state="DOWN"), "fabric")
    assert "GPU0 mlx5_0 PIX, GPU1 mlx5_1 PIX, GPU2 mlx5_2 PIX, GPU3 mlx5_0 NODE" in text


def test_ports_that_do_not_train_say_what_they_are_for():
    assert "storage or management, Ethernet" in text_of(h100_node(), "fabric")
    assert "slow rail" in text_of(with_nics(h100_node(), "mlx5_3", rate_gbps=200.0), "fabric")


def test_gpus_outside_of_the_fabric_stand_out():
    assert "GPU2 fabric in progress" in text_of(
        with_gpus(h100_node(), 2, fabric_state="in progress"), "fabric"
    )


@pytest.mark.parametrize("facts", [cpu_box(), MachineFacts()], ids=["no GPU", "unknown"])
def test_no_gpu_no_rails(facts):
    text = text_of(facts, "fabric")
    assert "GPU links" not in text
    assert "NVSwitch" not in text


def test_a_bad_fact_is_coloured_in_panels_and_in_text():
    down = with_nics(h100_node(), "mlx5_3", state="DOWN")
    tones = {
        span.tone
        for row in panels(down, complete=True)["fabric"].blocks
        for span in row.text
        if "mlx5_3: " in span.text
    }
    assert tones == {"bad"}
    assert "\x1b[31m" in plain_text(facts_page(down), colour=True)


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
    lines = [line.strip() for line in text_of(facts, "observed").splitlines()]
    assert lines == [
        "Events      xid 79 on 0000:9b:00: fallen off",
        "link down x2 on eth0: down",
        "pcie error: old (settled since)",
        "Tests       dcgmi diag: 1 FAIL, 1 PASS",
        "FAIL memory on GPU2",
        "Results     nvbandwidth x: 1e-09 GB/s on GPU0",
        "Disagree    GPU0 memory_bytes: a (x) but b (x)",
        "Unread      x: no matrix",
    ]
    assert "environment: NCCL_DEBUG=INFO" in text_of(facts, "software")


def test_a_log_without_events_is_named_only_beside_other_rows():
    quiet = MachineFacts(events=(), logs=("kernel-log",))
    assert "none in the kernel log" in text_of(
        msgspec.structs.replace(quiet, unread=(Unread(source="x", why="no matrix"),)), "observed"
    )
    assert "observed" not in panels(quiet, complete=True)
    assert "observed" not in panels(MachineFacts(), complete=True)


def test_hostile_words_of_a_log_cannot_steer_the_terminal():
    event = LogEvent(kind="xid", code=1, device="\x1b[2J[red]", message="x")
    text = text_of(MachineFacts(events=(event,)), "observed")
    assert "\x1b" not in text
    assert "[red]" in text


def test_facts_that_no_source_contains_share_a_row():
    text = text_of(MachineFacts(), "software")
    assert text.startswith("Unknown")
    assert "not recorded: Software, Services, Training, Variables" in text
    assert "reading" in words(panels(MachineFacts(), complete=False)["software"])


def test_the_maker_and_the_settings():
    facts = msgspec.structs.replace(h100_node(), dmi=Dmi(system_vendor="NVIDIA", product_name="DGXH100"))
    text = text_of(facts, "host")
    assert "NVIDIA, DGXH100" in text
    assert "IOMMU passthrough, governor performance" in text
    failed = with_part(h100_node(), "software", services=states({"nvidia-dcgm.service": "failed"}))
    assert "failed: nvidia-dcgm" in text_of(failed, "software")


def test_checks_that_could_not_be_made_for_one_reason_share_a_line():
    why = "not recorded"
    open_ones = [
        Finding(check_id=f"c{n}", subject="host", status=Status.UNKNOWN, summary=f"{n}", observed=why)
        for n in range(9)
    ]
    warned = Finding(check_id="nofile", subject="host", status=Status.WARN, summary="few files")
    text = words(findings_page.summary([*open_ones, warned], 3))
    assert "9 checks not recorded" in text
    assert text.index("few files") < text.index("not recorded")


def test_readings_that_no_gpu_has_take_no_column():
    facts = with_gpus(h100_node(), temperature_c=NOT_RECORDED, power_w=NOT_RECORDED)
    heading = words(gpus_section(facts, (), complete=True, fold=True, width=120)).splitlines()[0]
    assert "temp" not in heading
    assert "power" not in heading
    assert "PCIe" in heading


def test_only_several_ports_have_a_number():
    text = text_of(with_nics(h100_node(), "mlx5_3", state="DOWN"), "fabric")
    assert "mlx5_3: rail, InfiniBand" in text
    assert "mlx5_0-2, mlx5_4-7: 7 x rail, InfiniBand" in text
