"""Test `rigtune verify` as a whole: smoke test, steps, findings, the stored step, and what --dry-run shows.

The interpreter is a stand-in that writes the reports of the smoke test and of the program.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import click
import jsonschema
import msgspec
import pytest
from click.testing import CliRunner

from assistant.cli.options import facts_of
from assistant.cli.plan_commands import plan_command
from assistant.cli.verify_command import verify_command
from assistant.formats.schemas import schema_for
from assistant.pages.training.verify_page import verify_page, verify_plan_page
from assistant.text.plain_writer import text_of
from assistant.usecases.bench.baseline import save_verified, verified_steps
from assistant.usecases.verify import OUTPUT, VerifyRequest, plan_verification, verify_launch
from probes.base.errors import UsageError, WorkerError
from probes.facts.measurements import Measurement, MeasurementSet
from probes.judging.findings import Status
from recipes.launch.recipe import Command, Fingerprint, Prediction
from recipes.launch.recipe_file import dump_recipe
from recipes.launch.resolve import machine_in_words
from tests.support.clusters import h100_cluster
from tests.support.smoke_ranks import PROVEN, lines_of, rank

STAND_IN = """#!/usr/bin/env python3
import json, os, pathlib, sys, time
words, folder = sys.argv, pathlib.Path(FOLDER)
value = lambda name: words[words.index(name) + 1]
if "rigtune_worker.smoke" in words:
    lines = (folder / "smoke").read_text().replace('"NONCES"', str(2 * int(value("--nonce"))))
    pathlib.Path(value("--report")).write_text(lines)
    sys.exit(int((folder / "code").read_text()))
report = value("--report") if "--report" in words else os.environ["RIGTUNE_REPORT"]
(folder / "words").write_text(json.dumps(words))
pathlib.Path(report).write_text((folder / "report").read_text())
print((folder / "output").read_text(), flush=True)
if "--report" not in words and not (folder / "ends").exists():
    time.sleep(600)  # a training program goes on until rigtune stops the program
"""
SCHEDULER = """#!/usr/bin/env python3
import os, pathlib, sys, time
words, folder = sys.argv[1:], pathlib.Path(sys.argv[0]).parent
if sys.argv[0].endswith("scancel"):
    with (folder / "cancelled").open("a") as file:
        file.write(words[0].removeprefix("--name=") + chr(10))
    sys.exit()
if "--nonce" in words:
    value = lambda name: words[words.index(name) + 1]
    lines = (folder / "smoke").read_text().replace('"NONCES"', str(2 * int(value("--nonce"))))
    pathlib.Path(value("--report")).write_text(lines)
    sys.exit()
option = lambda name: next(word for word in words if word.startswith(name)).removeprefix(name)
(folder / "name").write_text(option("--job-name="))
time.sleep(2.5)  # the job waits in the queue
pathlib.Path(option("--output=")).write_text("the job starts")
pathlib.Path(os.environ["RIGTUNE_REPORT"]).write_text((folder / "report").read_text())
time.sleep(600)
"""
"""Stand-in for sbatch and scancel."""
START = {"event": "start", "world_size": 2, "backend": "gloo", "device_name": "a CPU", "torch_version": "2"}
STEPS = [{"event": "step", "step": number, "loss": 5.0 - number, "duration_s": 0.5} for number in range(1, 9)]
DONE = {
    "event": "done",
    "steps": 8,
    "interrupted": False,
    "median_step_time_s": 0.5,
    "peak_memory_bytes": 1000,
    "peak_reserved_bytes": 1100,
    "loss_first": 4.0,
    "loss_last": 1.0,
}
MACHINE = Fingerprint(machine="node7 (CPU)", facts_sha256="0")
OWN = Command(kind="script", target="/train.py", arguments=("--output_dir", "mine"))


@pytest.fixture
def python(tmp_path, monkeypatch):
    """Return a function that makes a stand-in for the interpreter, which writes the given texts."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def make(*, smoke=None, report=(START, *STEPS, DONE), output="", code=0, ends=False):
        folder = tmp_path / "stand-in"
        folder.mkdir()
        (folder / "smoke").write_text(PROVEN if smoke is None else smoke)
        (folder / "report").write_text(lines_of(*report))
        (folder / "output").write_text(output)
        (folder / "code").write_text(str(code))
        if ends:
            (folder / "ends").touch()
        path = folder / "python"
        path.write_text(STAND_IN.replace("FOLDER", repr(str(folder))))
        path.chmod(0o755)
        return str(path)

    return make


def verified(recipe, python, tmp_path, **options):
    request = VerifyRequest(steps=8, python=python, **options)
    return list(verify_launch(recipe, request, tmp_path / "run"))[-1].result


def by_check(result):
    return {finding.check_id: finding for finding in result.findings}


def test_a_proven_launch_is_measured_and_the_step_is_stored(make_recipe, python, tmp_path):
    predicted = Prediction(
        step_time_s=0.5, step_time_low_s=0.4, step_time_high_s=0.6, peak_memory_bytes=1000.0
    )
    result = verified(make_recipe(made_for=MACHINE, predicted=predicted), python(), tmp_path)
    assert {finding.status for finding in result.findings} == {Status.PASS}
    assert (result.program, result.steps, result.step_time_s.measured) == ("reference", 8, 0.5)
    assert {"verify-world", "verify-step-time", "verify-allocated"} <= by_check(result).keys()
    times, memory = verified_steps("node7 (CPU)")
    assert (times.bench_id, times.median, times.samples) == ("verify", 0.5, (0.5,) * 5)
    assert times.parameters["program"] == "reference"
    assert times.conditions["threads"] == 3
    assert (memory.metric, memory.median) == ("peak_memory_bytes", 1000)
    text = text_of(verify_page(result), width=100)
    assert "The launch of mini is proven with torchrun" in text
    assert result.stored.endswith("verified.json")


def test_the_smoke_test_is_not_reported_as_a_program_that_ignores_the_plan(make_recipe, python, tmp_path):
    request = VerifyRequest(steps=8, python=python())
    events = list(verify_launch(make_recipe(program="own"), request, tmp_path / "run"))
    assert not [event for event in events if "Warning: rigtune_worker" in str(event)]


def test_a_second_verification_replaces_the_step_of_its_job_only(make_recipe, python, tmp_path):
    interpreter = python()
    recipe = make_recipe(made_for=MACHINE)
    other = make_recipe(made_for=MACHINE, parallelism={"micro_batch": 4, "grad_accum": 1})
    for each in (recipe, other, recipe):
        verified(each, interpreter, tmp_path)
    assert [each.metric for each in verified_steps("node7 (CPU)")].count("step_time_s") == 2


def test_a_recipe_without_a_machine_is_not_stored(make_recipe, python, tmp_path):
    result = verified(make_recipe(), python(), tmp_path)
    assert result.stored == ""
    assert any("does not name the machine" in note for note in result.notes)


_UNSET = object()


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ((3.0, _UNSET, _UNSET, 2.0, _UNSET, _UNSET, _UNSET, _UNSET), ""),
        ((3.0, _UNSET, _UNSET, 4.0, _UNSET, _UNSET, _UNSET, _UNSET), "did not fall"),
        ((3.0, _UNSET, _UNSET, None, _UNSET, _UNSET, _UNSET, _UNSET), "diverged"),
        ((_UNSET,) * 8, ""),
    ],
)
def test_only_a_loss_that_the_program_writes_is_judged(make_recipe, python, tmp_path, losses, words):
    report = [
        {"event": "step", "step": number, "duration_s": 0.5} | ({} if loss is _UNSET else {"loss": loss})
        for number, loss in enumerate(losses, 1)
    ]
    result = verified(make_recipe(command=OWN), python(report=report), tmp_path)
    judged = [note for note in result.notes if "The loss" in note]
    assert (words in judged[0]) if words else not judged


def test_a_job_of_slurm_may_wait_in_the_queue_and_ends_after_the_steps(
    make_recipe, python, tmp_path, monkeypatch
):
    interpreter = python(report=STEPS)
    folder = Path(interpreter).parent
    for name in ("sbatch", "scancel"):
        (folder / name).write_text(SCHEDULER)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    recipe = make_recipe(command=OWN)
    result = verified(recipe, interpreter, tmp_path, launcher="slurm", limit_s=2.0)
    assert (result.program, result.steps) == ("own", 8)
    # The smoke test ended by itself.
    assert (folder / "cancelled").read_text().split() == [(folder / "name").read_text()]


@pytest.mark.parametrize(("launcher", "software"), [("horovodrun", "horovod"), ("ray", "ray")])
def test_a_launcher_of_one_software_is_refused_before_anything_is_written(
    make_recipe, tmp_path, launcher, software
):
    request = VerifyRequest(launcher=launcher)
    for start in (verify_launch, plan_verification):
        with pytest.raises(UsageError, match=f"only programs that use {software}") as caught:
            list(start(make_recipe(), request, tmp_path / "run"))
        assert "torchrun, slurm or mpi" in caught.value.hint
    assert not (tmp_path / "run").exists()


SMOKES = {
    "missing rank": (lines_of(rank(0)), "verify-ranks"),
    "foreign world": (lines_of(rank(0, nonce_sum=5), rank(1, nonce_sum=5)), "verify-all-reduce"),
    "wrong backend": (lines_of(rank(0, backend="mpi"), rank(1, backend="mpi")), "verify-backend"),
    "one process": (lines_of(*[rank(0, world_size=1, rank_sum=1, one_sum=1)] * 2), "verify-world"),
    "nothing": ("", "verify-world"),
    "hostile": ("[" * 100000 + '\n{"event": "rank"}\n\x00', "verify-world"),
}


@pytest.mark.parametrize("name", SMOKES)
def test_after_a_failed_smoke_test_no_step_is_measured(make_recipe, python, tmp_path, name):
    smoke, check_id = SMOKES[name]
    result = verified(make_recipe(made_for=MACHINE), python(smoke=smoke, code=1), tmp_path)
    assert by_check(result)[check_id].status is Status.FAIL
    assert (result.program, result.step_time_s, result.stored) == ("none", None, "")
    assert not (tmp_path / "stand-in" / "words").exists()
    assert "is not what the recipe plans" in text_of(verify_page(result), width=100)


def test_sockets_in_the_log_of_nccl_are_a_failure(make_recipe, python, tmp_path):
    machine = msgspec.structs.replace(h100_cluster(1, 2), fabric="nvlink")
    recipe = make_recipe(resources={"device": "cuda", "backend": "nccl"}, machine=machine)
    log = "[receive] via NET/Socket/0\n[send] via NET/Socket/0"
    smoke = lines_of(*(rank(number, backend="nccl", nccl_log=log) for number in (0, 1)))
    result = verified(recipe, python(smoke=smoke), tmp_path)
    finding = by_check(result)["verify-transport-within"]
    assert (finding.status, finding.observed) == (Status.FAIL, "NET/Socket")
    assert result.transports == ("NET/Socket",)


def test_the_users_program_gets_an_output_folder_and_reports_its_steps(make_recipe, python, tmp_path):
    report = [{**step, "peak_memory_bytes": 900, "peak_reserved_bytes": 950} for step in STEPS]
    result = verified(make_recipe(command=OWN, made_for=MACHINE), python(report=report), tmp_path)
    assert (result.program, result.steps, result.step_time_s.measured) == ("own", 8, 0.5)
    assert (result.peak_memory_bytes.measured, result.reserved_memory_bytes.measured) == (900, 950)
    words = json.loads((tmp_path / "stand-in" / "words").read_text())
    assert words[-1] == str(tmp_path / "run" / OUTPUT)
    assert verified_steps("node7 (CPU)")[0].parameters["program"] == "own"


def test_logs_of_an_earlier_run_in_the_same_folder_do_not_count(make_recipe, python, tmp_path):
    old = tmp_path / "run" / OUTPUT
    old.mkdir(parents=True)
    (old / "metrics.csv").write_text("step,train_loss\n9,1.0\n")
    with pytest.raises(WorkerError, match="fewer than 8 steps"):
        verified(make_recipe(command=OWN), python(report=(), ends=True), tmp_path)
    words = json.loads((tmp_path / "stand-in" / "words").read_text())
    assert words[-1] == f"{old}-2"


def test_a_program_without_a_report_is_read_from_its_log(make_recipe, python, tmp_path):
    line = "step: {0:2}  loss:  {1:.4f}  grad_norm:  1.2  memory:  1.00GiB(1.50%)  tps: 640  tflops: 1.1"
    output = "\n".join(line.format(number, 5 - number / 10) for number in range(1, 9))
    result = verified(make_recipe(command=OWN), python(report=(), output=output), tmp_path)
    # 8 sequences of 32 tokens on 2 ranks
    assert result.step_time_s.measured == pytest.approx(8 * 32 / 2 / 640)
    assert (result.loss_first, result.loss_last) == (4.9, 4.2)
    assert result.reserved_memory_bytes.measured == 2**30
    assert any("torchtitan" in note for note in result.notes)


def test_a_program_without_report_and_known_lines_fails_with_the_remedy(make_recipe, python, tmp_path):
    with pytest.raises(WorkerError, match="fewer than 8 steps to the file that RIGTUNE_REPORT names"):
        verified(make_recipe(command=OWN), python(report=(), output="hello", ends=True), tmp_path)


def test_a_program_whose_output_folder_is_unknown_runs_only_on_request(make_recipe, python, tmp_path):
    recipe = make_recipe(command=Command(kind="script", target="/train.py"))
    interpreter = python()
    result = verified(recipe, interpreter, tmp_path)
    assert result.program == "reference"
    assert any("--own runs your program" in note for note in result.notes)
    assert verified(recipe, interpreter, tmp_path, program="own").program == "own"
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert plan["checkpoints"] == str(tmp_path / "run" / OUTPUT)  # the helper reads it there


def test_the_reference_workload_runs_on_request(make_recipe, python, tmp_path):
    result = verified(make_recipe(command=OWN), python(), tmp_path, program="reference")
    assert result.program == "reference"
    assert "not the recipe's own program" in result.notes[0]


def test_a_program_that_rigtune_cannot_start_is_refused(make_recipe, python, tmp_path):
    recipe = make_recipe(program="nanotron", command=Command(kind="program"))
    with pytest.raises(UsageError, match="nanotron"):
        verified(recipe, python(), tmp_path)


def test_a_launcher_without_this_recipe_is_refused(make_recipe, python, tmp_path):
    with pytest.raises(UsageError, match="there is no launcher"):
        verified(make_recipe(), python(), tmp_path, launcher="nonsense")


@pytest.mark.parametrize(
    ("launcher", "first"), [("torchrun", "launch.sh"), ("slurm", "sbatch"), ("mpi", "launch-mpi.sh")]
)
def test_a_dry_run_shows_everything_and_starts_nothing(make_recipe, tmp_path, launcher, first):
    folder = tmp_path / "run"
    planned = plan_verification(make_recipe(command=OWN), VerifyRequest(steps=5, launcher=launcher), folder)
    for command in (planned.smoke_command, planned.command):
        assert command[0].endswith(first)
        assert ("--wait" in command) is (launcher == "slurm")
    assert "--nonce" in planned.smoke_command
    assert (planned.program, planned.steps) == ("own", 5)
    assert {"recipe.toml", "rigtune_helper.py"} <= set(planned.files)
    assert "the world size is 2" in planned.asserted
    assert not folder.exists()
    text = text_of(verify_plan_page(planned), width=200)
    assert shlex.join(planned.smoke_command) in text


@pytest.mark.parametrize(
    ("program", "has_helper"),
    [("own", True), ("accelerate", False), ("hf-trainer", False), ("lightning", False)],
)
def test_only_a_torch_program_of_the_users_gets_the_helper(
    make_recipe, python, tmp_path, program, has_helper
):
    recipe = make_recipe(program=program, command=OWN)
    planned = plan_verification(recipe, VerifyRequest(), tmp_path / "plan")
    assert ("rigtune_helper.py" in planned.files) is has_helper
    verified(recipe, python(), tmp_path)
    assert (tmp_path / "run" / "rigtune_helper.py").exists() is has_helper
    assert ("PYTHONPATH" in (tmp_path / "run" / "launch.sh").read_text()) is has_helper


@pytest.mark.parametrize(("smoke", "code"), [(None, 0), ("", 1)])
def test_the_exit_code_is_that_of_the_launch(make_recipe, python, tmp_path, smoke, code):
    (tmp_path / "recipe.toml").write_text(dump_recipe(make_recipe()))
    options = (
        "--python",
        python(smoke=smoke),
        "--steps",
        "8",
        "--out",
        str(tmp_path / "run"),
        "--format",
        "json",
    )
    invoked = CliRunner().invoke(
        verify_command, [str(tmp_path / "recipe.toml"), *options], standalone_mode=False
    )
    assert invoked.return_value == code, invoked.output
    answer = json.loads(invoked.stdout)
    assert answer["program"] == ("reference" if code == 0 else "none")
    assert {finding["check_id"] for finding in answer["findings"]} >= {"verify-world", "verify-ranks"}
    jsonschema.validate(answer, json.loads(schema_for("verify")))


def test_the_next_plan_of_the_machine_cites_the_stored_step(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    machine, model = "dgx-h100", "llama-3.2-1b"
    planned = CliRunner().invoke(plan_command, [model, "--machine", machine, "--format", "json"])
    chosen = json.loads(planned.stdout)["chosen"]
    step_s = 1.2 * chosen["predicted"]["step_time_s"]["total"]
    parameters = {
        "model": model,
        "program": "own",
        "tuning": "full",
        "optimizer": "adamw",
        "precision": "bf16",
        "strategy": "ddp",
        "sharding": "none",
        "world_size": 8,
        "copies": 8,
        "shards": 1,
        "grad_accum": 1,
        "micro_batch": chosen["micro_batch"],
        "sequence_length": 4096,
        "activation_checkpointing": "none",
    }
    step = Measurement(
        bench_id="verify",
        subject="8 ranks",
        metric="step_time_s",
        unit="s",
        samples=(step_s,),
        parameters=parameters,
        conditions={"date": "2026-11-23"},
    )
    with click.Context(plan_command):
        name = machine_in_words(facts_of((), machine, None))
    save_verified(MeasurementSet(suite="verify", machine=name, measurements=(step,)))
    again = CliRunner().invoke(plan_command, [model, "--machine", machine])
    assert "measured by verify on 2026-11-23" in " ".join(again.stdout.split())
    other = CliRunner().invoke(plan_command, [model, "--machine", "dgx-a100-80gb"])
    assert "verify" not in other.stdout


def test_the_command_shows_a_dry_run(make_recipe, tmp_path):
    (tmp_path / "recipe.toml").write_text(dump_recipe(make_recipe()))
    options = ("--dry-run", "--launcher", "mpi", "--out", str(tmp_path / "run"))
    invoked = CliRunner().invoke(
        verify_command, [str(tmp_path / "recipe.toml"), *options], standalone_mode=False
    )
    assert invoked.return_value == 0
    assert "launch-mpi.sh" in invoked.stdout
    assert not (tmp_path / "run").exists()
