"""Test the main job: what it refuses before measuring, what it measures, and where the results go."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import pytest

from assistant.cli import command_line
from assistant.cli.interrupts import stop_on_signals
from assistant.pages.training.auto_page import auto_page
from assistant.text.plain_writer import text_of
from assistant.usecases import auto as auto_module
from assistant.usecases.auto import AutoOptions, auto
from assistant.usecases.events import Measured, StageFinished
from assistant.usecases.plan import PlanRequest
from probes.base.errors import StoppedError, UsageError
from probes.facts import Scheduler
from probes.facts.measurements import Measurement, MeasurementSet
from probes.facts.named import State
from probes.judging.findings import Status
from probes.sources.choose import open_source
from recipes.launch.recipe import Command


@pytest.mark.parametrize(("model", "ffn_hidden"), [("llama-3-8b", 14336), ("", None)])
def test_the_matrix_products_are_those_of_the_model_that_was_named(monkeypatch, tmp_path, model, ffn_hidden):
    asked = []

    def measure(facts, options, stop):
        asked.append(options)
        yield StageFinished(stage="bench", result=MeasurementSet())

    monkeypatch.setattr(auto_module, "measure_machine", measure)
    *_, finished = auto(
        open_source((), "dgx-h100"), AutoOptions(directory=str(tmp_path), request=PlanRequest(model=model))
    )
    assert asked[0].settings.model.get("ffn_hidden") == ffn_hidden
    assert not model or finished.result.plan.workload.model.id == model


def test_an_unknown_model_is_reported_before_anything_is_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(auto_module, "measure_machine", lambda *_: pytest.fail("measured"))
    with pytest.raises(UsageError, match="no model 'lama'"):
        list(
            auto(
                open_source((), "dgx-h100"),
                AutoOptions(directory=str(tmp_path), request=PlanRequest(model="lama")),
            )
        )


@pytest.mark.parametrize(
    ("program", "message"),
    [("deepspeed", "starts your training script"), ("composer", "not written yet")],
)
def test_a_program_without_files_or_script_is_reported_before_anything_is_measured(
    monkeypatch, tmp_path, program, message
):
    monkeypatch.setattr(auto_module, "measure_machine", lambda *_: pytest.fail("measured"))
    request = PlanRequest(model="llama-3-8b", program=program)
    with pytest.raises(UsageError, match=message):
        list(auto(open_source((), "dgx-h100"), AutoOptions(directory=str(tmp_path), request=request)))


def test_a_program_with_a_command_of_its_own_is_not_replaced_by_the_reference_workload(tmp_path):
    request = PlanRequest(model="llama-3-8b", program="trl")
    options = AutoOptions(directory=str(tmp_path), request=request, measure=False)
    with pytest.raises(UsageError, match="needs --model_name_or_path"):
        list(auto(open_source((), "dgx-h100"), options))
    assert 'kind = "program"' in (tmp_path / "recipe.toml").read_text()


@pytest.mark.parametrize("named", [True, False])
def test_results_go_to_the_named_folder_or_to_a_new_one_of_the_user(monkeypatch, tmp_path, named):
    folders = []

    def without_work(source, options, stoppable):
        folders.append(Path(options.directory))
        raise UsageError("the work is left out", "")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("assistant.usecases.auto.auto", without_work)
    command_line(["auto", "--machine", "dgx-h100", *["--out", str(tmp_path / "run")] * named])
    assert folders[0].parent == (tmp_path if named else tmp_path / "state" / "rigtune" / "runs")


COPY = Measurement(
    bench_id="memory-copy",
    subject="GPU0",
    metric="memory_bandwidth_bytes_per_s",
    unit="byte/s",
    samples=(2e12, 2.1e12),
    parameters={"operation": "copy", "bytes": 2**28},
)


def run_auto(monkeypatch, directory, measured):
    """Run the main job on a catalogue machine whose measurements are `measured`."""

    def measure(facts, options, stop):
        yield StageFinished(stage="bench", result=measured)

    monkeypatch.setattr(auto_module, "measure_machine", measure)
    *_, finished = auto(open_source((), "dgx-h100"), AutoOptions(directory=str(directory)))
    return finished.result


def test_the_plan_reports_a_machine_that_others_used_while_it_was_measured(monkeypatch, tmp_path):
    busy = msgspec.structs.replace(COPY, conditions={"host_busy": True, "others_cpu_share": 0.634})
    for measurement, warns in ((busy, True), (COPY, False)):
        result = run_auto(monkeypatch, tmp_path, MeasurementSet(measurements=(measurement,)))
        words = "others used up to 63 % of the CPUs during memory-copy"
        assert any(words in warning for warning in result.plan.warnings) is warns
        assert (words in text_of(auto_page(result), width=400)) is warns
        assert (words in (tmp_path / "recipe.toml").read_text()) is warns


def test_the_page_names_the_problems_and_no_other_finding(monkeypatch, tmp_path):
    result = run_auto(monkeypatch, tmp_path, MeasurementSet(measurements=(COPY,)))
    text = text_of(auto_page(result), width=400)
    for finding in result.verdict.findings:
        line = f"{finding.status.value} {finding.check_id} {finding.subject}: {finding.summary}"
        assert (line in text) == (finding.status in (Status.FAIL, Status.WARN))
    assert {Status.PASS, Status.UNKNOWN} <= {finding.status for finding in result.verdict.findings}


def test_scripts_that_cannot_start_are_not_offered_as_the_next_step(monkeypatch, tmp_path):
    missing = "no Python interpreter with torch was found: python3 -m pip install torch"
    for hindrance in (missing, ""):
        result = run_auto(monkeypatch, tmp_path, MeasurementSet(hindrance=hindrance))
        text = text_of(auto_page(result), width=400)
        assert ("Start training:" in text) is (not hindrance)
        assert (f"cannot start here yet: {missing}" in text) is bool(hindrance)


def test_scripts_for_a_catalogue_machine_start_on_that_machine(capsys, tmp_path):
    assert command_line(["auto", "--machine", "dgx-h100", "--out", str(tmp_path / "run")]) == 0
    assert "Start training on that machine:" in capsys.readouterr().out


def test_an_interruption_before_the_first_measurement_names_no_results(monkeypatch, tmp_path):
    def measure(facts, options, stop):
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        yield StageFinished(stage="bench", result=MeasurementSet())

    monkeypatch.setattr(auto_module, "measure_machine", measure)
    with pytest.raises(StoppedError, match="no measurement was finished") as caught:
        list(auto(open_source((), "dgx-h100"), AutoOptions(directory=str(tmp_path / "run")), stop_on_signals))
    assert "--measurements" not in caught.value.hint


def test_an_interrupted_measurement_is_saved_and_planned_with(monkeypatch, capsys, tmp_path):
    def measure(facts, options, stop):
        yield Measured(measurement=COPY)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        yield StageFinished(stage="bench", result=MeasurementSet(measurements=(COPY,)))

    run, before = tmp_path / "run", signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(auto_module, "measure_machine", measure)
    with pytest.raises(StoppedError, match=r"1 measurement .*measurements\.json"):
        list(auto(open_source((), "dgx-h100"), AutoOptions(directory=str(run)), stop_on_signals))
    assert signal.getsignal(signal.SIGINT) is before
    assert not (run / "plan.json").exists()
    saved = str(run / "measurements.json")
    assert command_line(["plan", "--machine", "dgx-h100", "--measurements", saved, "--format", "json"]) == 0
    assert "benchmark memory-copy" in capsys.readouterr().out


def test_only_launchers_that_can_start_the_program_get_scripts(tmp_path):
    request = PlanRequest(model="gpt2", program="tensorflow")
    command = Command(kind="script", target="train.py")
    options = AutoOptions(directory=str(tmp_path), request=request, command=command, measure=False)
    *_, finished = auto(open_source((), "dgx-h100"), options)
    names = {Path(script).name for script in finished.result.scripts}
    assert names == {"launch.sh", "train.sbatch", "preflight.sh"}


NO_JOB = Scheduler(kind=None, settings=(State(name="ProctrackType", value="proctrack/cgroup"),))
JOB = Scheduler(kind="slurm", job_id="77", node_count=2)


@pytest.mark.parametrize(
    ("scheduler", "nodes", "words"),
    [
        (Scheduler(kind=None), 1, ("{}/launch.sh", "")),
        (NO_JOB, 1, ("sbatch {}/train.sbatch", "{}/launch.sh starts torchrun without Slurm")),
        (JOB, 1, ("{}/launch.sh", "on this node, one of the job's 2 nodes, inside Slurm job 77. ")),
        (JOB, 1, ("{}/launch.sh", "For a job of its own: sbatch {}/train.sbatch")),
        (JOB, 2, ("sbatch {}/train.sbatch", "To use 2 nodes of Slurm job 77 instead: ")),
        (JOB, 2, ("sbatch {}/train.sbatch", "--ntasks-per-node=1 bash -c 'exec {}/launch.sh $SLURM_NODEID'")),
    ],
)
def test_the_start_on_a_site_with_slurm_is_said(monkeypatch, tmp_path, scheduler, nodes, words):
    def probe(source, options):
        events = list(probe_machine(source, options))
        facts = msgspec.structs.replace(events[-1].result, scheduler=scheduler)
        yield StageFinished(stage="probe", result=facts)

    def measure(facts, options, stop):
        yield StageFinished(stage="bench", result=MeasurementSet())

    probe_machine = auto_module.probe_machine
    monkeypatch.setattr(auto_module, "probe_machine", probe)
    monkeypatch.setattr(auto_module, "measure_machine", measure)
    request = PlanRequest(model="llama-3-8b", nodes=nodes)
    *_, finished = auto(
        open_source((), "dgx-h100"), AutoOptions(directory=str(tmp_path), request=request, measure=True)
    )
    start, remark = (each.format(f"{tmp_path}/launch") for each in words)
    assert finished.result.start == start
    assert remark in finished.result.start_remark
    assert finished.result.start_remark in text_of(auto_page(finished.result)).replace("\n", " ")
