"""Test that `predict`, `plan` and `advise` know every GPU, and that checks use only `checked` rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from assistant.usecases.advise import advise_install
from assistant.usecases.case_rows import CaseRow
from assistant.usecases.check import check_machine
from assistant.usecases.events import StageFinished
from assistant.usecases.listing import list_entries
from assistant.usecases.plan import PlanRequest, plan_workload
from assistant.usecases.predict import CaseAnswered, predict_cases
from probes.base.errors import UsageError
from probes.catalogue.hardware import Catalogue, GpuModel, load_catalogue
from probes.compare.reference_rows import load_bench_references, load_references
from probes.facts import MachineFacts, Software
from probes.judging.findings import Evidence, Finding
from probes.parsers.topology.pci_classes import driver_name
from recipes.job.pins import Pins
from tests.support.machines import h100, h100_node
from tests.support.measured import copies, gemm, host_copies

CATALOGUE = load_catalogue()
IDS = [entry["id"] for entry in list_entries("gpus")]
UNCHECKED = [row for row in CATALOGUE.gpus if not row.checked]
each_row = pytest.mark.parametrize("gpu", CATALOGUE.gpus, ids=lambda row: row.id)
each_unchecked = pytest.mark.parametrize("gpu", UNCHECKED, ids=lambda row: row.id)
ROOT = Path(__file__).resolve().parents[2]


def machine_with(gpu: GpuModel) -> MachineFacts:
    """Return a node of H100s whose driver reports the name and the memory of this model."""
    gpus = tuple(h100(index, name=gpu.driver_name, memory_bytes=gpu.memory_bytes) for index in range(2))
    return h100_node(gpus=gpus)


def test_the_list_has_every_row():
    assert [row.id for row in CATALOGUE.gpus] == IDS
    assert len(set(IDS)) == len(IDS)
    assert "rtx-5080" in IDS


@each_row
def test_a_name_means_the_same_row_everywhere(gpu: GpuModel):
    assert CATALOGUE.gpu(gpu.id) == CATALOGUE.gpu(gpu.driver_name) == CATALOGUE.gpu_named(gpu.id) == gpu
    for device in gpu.pci_device_ids:
        assert driver_name(device) == gpu.driver_name


@each_row
def test_predict_accepts_every_gpu(gpu: GpuModel):
    cells = {
        "case_id": "1",
        "model": "gpt2",
        "gpu": gpu.id,
        "n_gpus": "1",
        "micro_batch": "1",
        "precision": "fp32",
    }
    answers = [
        event.answer
        for event in predict_cases([CaseRow(line=2, cells=cells)])
        if isinstance(event, CaseAnswered)
    ]
    assert [(answer.status, answer.reason) for answer in answers] == [("predicted", "")]


@each_row
def test_plan_recognises_every_gpu_by_the_name_of_the_driver(gpu: GpuModel):
    request = PlanRequest(model="gpt2", pins=Pins(ranks_per_node=1))
    last = list(plan_workload(machine_with(gpu), (), request))[-1]
    assert isinstance(last, StageFinished)
    plan = last.result
    assert plan.cluster.gpu == gpu.id
    assert not [warning for warning in plan.cluster.warnings if "catalogue" in warning]
    assert plan.cluster.peak_flops_per_s


@each_row
def test_advise_knows_every_gpu(gpu: GpuModel):
    facts = MachineFacts(software=Software(operating_system="Ubuntu 24.04"))
    if gpu.architecture in {"kepler", "gaudi", "cdna1", "cdna2", "cdna3", "cdna4"}:
        # The name is known, but rigtune installs no drivers of other makers or for unsupported GPUs.
        with pytest.raises(UsageError, match=f"{gpu.architecture} GPUs"):
            advise_install(facts, CATALOGUE, gpu=gpu.id)
    else:
        assert gpu.title in advise_install(facts, CATALOGUE, gpu=gpu.id).gpus


def findings_of(facts: MachineFacts, catalogue: Catalogue) -> list[Finding]:
    """Return the findings of all checks, with measurements that are compared with references."""
    measurements = (*gemm(300.0, 310.0), *copies(900.0, 910.0), *host_copies(20.0, 21.0))
    evidence = Evidence(facts=facts, catalogue=catalogue, measurements=measurements)
    last = list(check_machine(evidence))[-1]
    assert isinstance(last, StageFinished)
    return list(last.result.findings)


@each_unchecked
def test_checks_judge_an_unchecked_gpu_as_one_without_a_row(gpu: GpuModel):
    without = Catalogue(gpus=tuple(row for row in CATALOGUE.gpus if row.checked), machines=CATALOGUE.machines)
    facts = machine_with(gpu)
    assert findings_of(facts, CATALOGUE) == findings_of(facts, without)


def test_a_checked_row_is_compared_and_the_same_row_unchecked_is_not():
    row = CATALOGUE.gpu("rtx-5080")
    assert row is not None
    facts = machine_with(row)
    statuses = {}
    for checked in (True, False):
        catalogue = Catalogue(gpus=(msgspec.structs.replace(row, checked=checked, pcie_generation=4),))
        findings = findings_of(facts, catalogue)
        statuses[checked] = {
            finding.status.value
            for finding in findings
            if (finding.check_id, finding.subject[:3]) == ("pcie-speed", "GPU")
        }
    assert "PASS" in statuses[True]
    assert not statuses[False] & {"PASS", "WARN", "FAIL"}


def test_references_are_of_checked_gpus_alone():
    bench, tools = load_bench_references(), load_references()
    rows = (*bench.gemm, *bench.memory, *bench.attention, *bench.collective, *tools.switches)
    for gpu in {gpu for row in rows for gpu in row.gpus}:
        assert CATALOGUE.checked_gpu(gpu) is not None, gpu


NVIDIA_SMI = """\
==============NVSMI LOG==============

Driver Version                            : 580.65.06
CUDA Version                              : 13.0

Attached GPUs                             : 1
GPU 00000000:01:00.0
    Product Name                          : NVIDIA GeForce RTX 5080
    FB Memory Usage
        Total                             : 16303 MiB
        Used                              : 300 MiB
        Free                              : 16003 MiB
"""


def test_a_recording_with_an_unchecked_gpu_is_planned_with_a_step_time(tmp_path: Path):
    recording = tmp_path / "nvidia-smi.txt"
    recording.write_text(NVIDIA_SMI)
    command = [
        sys.executable,
        "-m",
        "assistant",
        "plan",
        "gpt2",
        "--from",
        str(recording),
        "--format",
        "json",
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    plan = json.loads(ended.stdout)
    assert plan["chosen"]["predicted"]["step_time_s"]["total"] > 0
    assert "is not in the catalogue" not in ended.stdout
