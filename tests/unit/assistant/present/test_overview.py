from __future__ import annotations

import msgspec
import pytest

from assistant.present import overview
from assistant.present.fabric import fabric
from assistant.present.header import machine_line
from assistant.present.machine import host, software
from probes.base.record import Reason, Unknown
from probes.facts import MachineFacts, NvLink
from probes.facts.measurements import MeasurementSet
from probes.judging.findings import Finding, Status
from tests.support.tui_machines import clean_verdict, cpu_box, faulty_server, faulty_verdict, unknown_machine
from tests.support.tui_plans import gpu_plan
from tests.support.tui_text import words

MACHINES = {
    "faulty": faulty_server(),
    "cpu": cpu_box(),
    "unknown": unknown_machine(),
    "empty": MachineFacts(),
}


def test_the_sentence_counts_what_is_wrong():
    verdict = faulty_verdict()
    head = overview.headline(verdict.verdict, verdict.findings, has_gpus=True)
    assert head.status is Status.FAIL
    assert "2 checks failed" in head.words
    assert "3 warnings" in head.words
    assert "1 undecided" in head.words


def test_the_sentence_of_a_good_cpu_machine():
    verdict = clean_verdict()
    assert (
        overview.headline(verdict.verdict, verdict.findings, has_gpus=False).words
        == "Ready to train on its CPU: 3 checks passed."
    )


@pytest.mark.parametrize(
    ("status", "is_live", "has_torch", "has_measurements", "screen"),
    [
        (Status.FAIL, True, True, False, "findings"),
        (Status.PASS, True, True, False, "benchmarks"),
        (Status.PASS, True, True, True, "plan"),
        (Status.PASS, True, False, False, "plan"),
        (Status.WARN, False, True, False, "plan"),
        (None, True, False, False, "plan"),
    ],
)
def test_the_next_step(status, is_live, has_torch, has_measurements, screen):
    step = overview.next_step(status, is_live=is_live, has_torch=has_torch, has_measurements=has_measurements)
    made = overview.next_step(
        status, is_live=is_live, has_torch=has_torch, has_measurements=has_measurements, has_plan=True
    )
    assert made.screen == "recipe"
    assert step.screen == screen


def test_alike_gpus_share_a_line_so_that_the_odd_one_stands_out():
    panel = overview.accelerators(faulty_server(), faulty_verdict().findings, complete=True, fold=True)
    lines = words(panel.body).splitlines()
    assert panel.title == "GPUs  8 × NVIDIA H100 80GB HBM3, 80.0 GiB"
    assert [line.split()[0] for line in lines[1:]] == ["0-1,3-4,7", "2", "5", "6"]
    assert "FAIL" in lines[3]
    assert "Gen5 ×8" in lines[3]
    assert "python3" in lines[4]


@pytest.mark.parametrize("width", range(20, 120, 7))
def test_a_narrow_panel_drops_columns_and_cuts_no_word(width):
    panel = overview.accelerators(
        faulty_server(), faulty_verdict().findings, complete=True, fold=False, width=width
    )
    text = words(panel.body, width=width)
    assert "…" not in text
    assert "FAIL" in text


@pytest.mark.parametrize("width", [40, 56, 76])
def test_summaries_wrap_and_are_not_cut(width):
    text = " ".join(words(overview.finding_counts(faulty_verdict().findings, 10).body, width=width).split())
    assert "✗ FAIL GPU5 PCIe link is x8, the slot allows x16" in text
    assert "fabric manager could not be read" in text


def test_every_gpu_has_its_line_where_there_is_room():
    panel = overview.accelerators(faulty_server(16), (), complete=True, fold=False)
    assert len(words(panel.body).splitlines()) == 17


def test_a_finding_on_several_gpus_counts_for_each_of_them():
    folded = Finding(
        check_id="row-remap", subject="GPU0-2, GPU5", status=Status.WARN, summary="rows wait for a restart"
    )
    panel = overview.accelerators(faulty_server(), (folded,), complete=True, fold=False)
    states = [line.split()[1] for line in words(panel.body).splitlines()[1:]]
    assert states == ["!", "!", "!", "·", "·", "!", "·", "·"]


def test_findings_that_say_the_same_share_a_line():
    alike = [
        Finding(
            check_id=f"check-{number}",
            subject="host",
            status=Status.UNKNOWN,
            summary="the GPUs could not be read",
        )
        for number in range(20)
    ]
    lines = words(overview.finding_counts(alike, 3).body).splitlines()
    assert [line.strip() for line in lines] == [
        "20 unknown",
        "? unknown host the GPUs could not be read  (20 checks)",
    ]


def test_a_long_host_name_hides_nothing_behind_it():
    facts = msgspec.structs.replace(cpu_box(), hostname="node-17." + "very-long-domain." * 14 + "example.org")
    assert machine_line(facts, "live").plain.startswith("node-17…  ·  live  ·  ")
    facts = msgspec.structs.replace(cpu_box(), hostname="x" * 253)
    assert len(machine_line(facts, "live").plain.split("  ·  ")[0]) == 32


def test_no_gpu_is_explained_and_the_cpu_offered():
    panel = overview.accelerators(cpu_box(), (), complete=True, fold=False)
    assert panel.title == "GPUs  none"
    assert "No NVIDIA GPU is on the PCI bus." in words(panel.body)
    assert "driver" not in words(panel.body)
    assert "CPU rehearsal" in words(panel.body)


def test_a_driver_that_is_silent_about_gpus_on_the_bus_is_told_with_both():
    silent = Unknown(Reason.TOOL_MISSING, "libnvidia-ml.so.1 was not found")
    facts = msgspec.structs.replace(cpu_box(), gpus=silent, pci_gpus=("0000:1b:00.0", "0000:43:00.0"))
    text = " ".join(words(overview.accelerators(facts, (), complete=True, fold=False).body).split())
    assert "No NVIDIA driver answered." in text
    assert "The PCI bus shows 2 NVIDIA GPUs: 0000:1b:00.0, 0000:43:00.0." in text
    assert "libnvidia-ml.so.1 was not found" in text


def test_an_unanswered_question_is_not_called_none():
    facts = msgspec.structs.replace(
        cpu_box(), gpus=Unknown(Reason.TIMEOUT, "nvidia-smi took longer than 10 s")
    )
    panel = overview.accelerators(facts, (), complete=True, fold=False)
    assert panel.title == "GPUs  unknown"
    assert "nvidia-smi took longer than 10 s" in words(panel.body)
    assert "Nothing is recorded" in words(
        overview.accelerators(unknown_machine(), (), complete=True, fold=False).body
    )


def test_rows_say_that_they_are_being_read():
    facts = MachineFacts()
    assert "reading" in words(overview.accelerators(facts, (), complete=False, fold=False).body)
    assert "reading" in words(software(facts, complete=False).body)
    assert "reading" not in words(software(facts, complete=True).body)


def test_the_fabric_names_the_port_that_is_down():
    text = words(fabric(faulty_server(), complete=True).body)
    assert "18 of 18 links up on every GPU" in text
    assert "NVLINK between all pairs" in text
    assert "8 × 400 Gb/s  7 ACTIVE  1 DOWN (mlx5_3)" in text
    assert "docker0" not in text


def test_a_gpu_with_fewer_links_is_named():
    gpus = list(faulty_server().gpus)
    gpus[3] = msgspec.structs.replace(
        gpus[3], nvlinks=tuple(NvLink(index=port, active=port != 0) for port in range(18))
    )
    facts = msgspec.structs.replace(faulty_server(), gpus=tuple(gpus))
    assert "17 of 18 links up on GPU 3" in words(fabric(facts, complete=True).body)


@pytest.mark.parametrize("facts", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("width", [40, 78, 138])
def test_every_panel_can_show_every_machine(facts, complete, width):
    panels = (
        overview.accelerators(facts, faulty_verdict().findings, complete=complete, fold=True),
        fabric(facts, complete=complete),
        software(facts, complete=complete),
        host(facts, complete=complete),
    )
    for panel in panels:
        assert words(panel.body, width=width).strip()


def test_the_way_names_the_keys_of_what_is_left():
    steps = overview.milestones(
        faulty_server(), faulty_verdict().findings, MeasurementSet(), None, (), is_live=True
    )
    text = words(overview.way(steps).body)
    assert "✓ check    15 results" in text
    assert "6 Recipe, then e and enter" in text
    steps = overview.milestones(
        faulty_server(), (), MeasurementSet(), gpu_plan(), ("launch/launch.sh",), is_live=False
    )
    text = words(overview.way(steps).body)
    assert "Llama 3 8B: fsdp" in text
    assert "only on the machine itself" in text
