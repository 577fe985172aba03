from __future__ import annotations

import msgspec
import pytest

from assistant.pages.blocks import plain
from assistant.pages.machine.facts_page import panels
from assistant.pages.machine.gpu_table import gpus_section
from assistant.pages.machine.header import machine_line
from assistant.pages.verdict import findings_page
from probes.base.record import Reason, Unknown
from probes.facts import MachineFacts, NvLink
from probes.facts.measurements import MeasurementSet
from probes.judging.findings import Finding, Status
from tests.support.tui_machines import clean_verdict, cpu_box, faulty_server, faulty_verdict, unknown_machine
from tests.support.tui_plans import gpu_plan
from tests.support.tui_text import words


def accelerators(facts, findings, *, complete: bool, fold: bool, width: int = 120):
    return gpus_section(facts, findings, complete=complete, fold=fold, width=width)


MACHINES = {
    "faulty": faulty_server(),
    "cpu": cpu_box(),
    "unknown": unknown_machine(),
    "empty": MachineFacts(),
}


def sentence(verdict, facts) -> str:
    step = findings_page.NextStep("plan", "plan the training of a model")
    options = {"step": step, "key": "5", "title": "Plan", "progress": ""}
    return words(findings_page.verdict_section(verdict, facts, **options), width=200)


def test_the_sentence_counts_what_is_wrong():
    text = sentence(faulty_verdict(), faulty_server())
    assert "is not fit to train: 2 failed (" in text
    assert "3 warned (" in text
    assert "1 could not be checked" in text
    assert "next  5 Plan  plan the training of a model" in text


def test_the_sentence_of_a_good_cpu_machine():
    assert "is fit to train on its CPU: 3 passed, 1 skipped" in sentence(clean_verdict(), cpu_box())


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
    step = findings_page.next_step(
        status, is_live=is_live, has_torch=has_torch, has_measurements=has_measurements
    )
    made = findings_page.next_step(
        status, is_live=is_live, has_torch=has_torch, has_measurements=has_measurements, has_plan=True
    )
    assert made.screen == "recipe"
    assert step.screen == screen


def test_alike_gpus_share_a_line_so_that_the_odd_one_stands_out():
    panel = accelerators(faulty_server(), faulty_verdict().findings, complete=True, fold=True)
    lines = words(panel).splitlines()
    assert plain(panel.title) == "GPUs  8 × NVIDIA H100 80GB HBM3, 80.0 GiB"
    assert [line.split()[0] for line in lines[1:]] == ["0-1,3-4,7", "2", "5", "6"]
    assert "FAIL" in lines[3]
    assert "Gen5 ×8" in lines[3]
    assert "python3" in lines[4]


@pytest.mark.parametrize("width", range(20, 120, 7))
def test_a_narrow_panel_drops_columns_and_cuts_no_word(width):
    panel = accelerators(faulty_server(), faulty_verdict().findings, complete=True, fold=False, width=width)
    text = words(panel, width=width)
    assert "…" not in text
    assert "FAIL" in text


@pytest.mark.parametrize("width", [40, 56, 76])
def test_summaries_wrap_and_are_not_cut(width):
    text = " ".join(words(findings_page.summary(faulty_verdict().findings, 10), width=width).split())
    assert "✗ FAIL GPU5 PCIe link is x8, the slot allows x16" in text
    assert "fabric manager could not be read" in text


def test_every_gpu_has_its_line_where_there_is_room():
    panel = accelerators(faulty_server(16), (), complete=True, fold=False)
    assert len(words(panel).splitlines()) == 17


def test_a_finding_on_several_gpus_counts_for_each_of_them():
    folded = Finding(
        check_id="row-remap", subject="GPU0-2, GPU5", status=Status.WARN, summary="rows wait for a restart"
    )
    panel = accelerators(faulty_server(), (folded,), complete=True, fold=False)
    states = [line.split()[1] for line in words(panel).splitlines()[1:]]
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
    lines = words(findings_page.summary(alike, 3)).splitlines()
    assert [line.strip() for line in lines] == [
        "20 could not be checked",
        "? UNKNOWN 20 checks the GPUs could not be read",
    ]


def test_a_long_host_name_hides_nothing_behind_it():
    facts = msgspec.structs.replace(cpu_box(), hostname="node-17." + "very-long-domain." * 14 + "example.org")
    assert plain(machine_line(facts, "live")).startswith("node-17…  ·  live  ·  ")
    facts = msgspec.structs.replace(cpu_box(), hostname="x" * 253)
    assert len(plain(machine_line(facts, "live")).split("  ·  ")[0]) == 32


def test_no_gpu_is_explained_and_the_cpu_offered():
    panel = accelerators(cpu_box(), (), complete=True, fold=False)
    assert plain(panel.title) == "GPUs  none"
    assert "No NVIDIA GPU is on the PCI bus." in words(panel)
    assert "driver" not in words(panel)
    assert "Trial on CPUs" in words(panel)


def test_a_driver_that_is_silent_about_gpus_on_the_bus_is_reported_with_both():
    silent = Unknown(Reason.TOOL_MISSING, "libnvidia-ml.so.1 was not found")
    facts = msgspec.structs.replace(cpu_box(), gpus=silent, pci_gpus=("0000:1b:00.0", "0000:43:00.0"))
    text = " ".join(words(accelerators(facts, (), complete=True, fold=False)).split())
    assert "No NVIDIA driver answered." in text
    assert "The PCI bus shows 2 NVIDIA GPUs: 0000:1b:00.0, 0000:43:00.0." in text
    assert "libnvidia-ml.so.1 was not found" in text


def test_an_unanswered_question_is_not_called_none():
    facts = msgspec.structs.replace(
        cpu_box(), gpus=Unknown(Reason.TIMEOUT, "nvidia-smi took longer than 10 s")
    )
    panel = accelerators(facts, (), complete=True, fold=False)
    assert plain(panel.title) == "GPUs  unknown"
    assert "nvidia-smi took longer than 10 s" in words(panel)
    assert "Nothing is recorded" in words(accelerators(unknown_machine(), (), complete=True, fold=False))


def test_rows_say_that_they_are_being_read():
    facts = MachineFacts()
    assert "reading" in words(accelerators(facts, (), complete=False, fold=False))
    assert "reading" in words(panels(facts, complete=False)["software"])
    assert "reading" not in words(panels(facts, complete=True)["software"])


def test_the_fabric_names_the_port_that_is_down():
    text = " ".join(words(panels(faulty_server(), complete=True)["fabric"], width=160).split())
    assert "18 NVLinks up" in text
    assert "28 GPU pairs NVLINK" in text
    assert "mlx5_3: " in text
    assert "400 Gb/s, DOWN, Polling" in text
    assert "docker0" not in text


def test_a_gpu_with_fewer_links_is_named():
    gpus = list(faulty_server().gpus)
    gpus[3] = msgspec.structs.replace(
        gpus[3], nvlinks=tuple(NvLink(index=port, active=port != 0) for port in range(18))
    )
    facts = msgspec.structs.replace(faulty_server(), gpus=tuple(gpus))
    lines = words(panels(facts, complete=True)["fabric"], width=200).splitlines()
    assert "17 NVLinks up, 1 down" in next(line for line in lines if "GPU3:" in line)


@pytest.mark.parametrize("facts", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("width", [40, 78, 138])
def test_every_panel_can_show_every_machine(facts, complete, width):
    shown = (
        accelerators(facts, faulty_verdict().findings, complete=complete, fold=True),
        *panels(facts, complete=complete).values(),
    )
    assert all(words(panel, width=width).strip() for panel in shown)


def test_the_steps_to_a_script_name_the_keys_of_unfinished_steps():
    text = words(
        findings_page.way(
            faulty_server(), faulty_verdict().findings, MeasurementSet(), None, (), is_live=True
        )
    )
    assert "✓ check     15 results" in text
    assert "6 Recipe, then e and enter" in text
    written = ("/srv/launch.sh",)
    text = words(findings_page.way(faulty_server(), (), MeasurementSet(), gpu_plan(), written, is_live=False))
    assert "Llama 3 8B: fsdp" in text
    assert "only on the machine itself" in text
