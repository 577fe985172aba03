"""Test the parts of a verification: commands that wait, safe output folders, and what to change."""

from __future__ import annotations

import re

import msgspec
import pytest

from probes.base.errors import UsageError
from probes.base.units import GIB
from probes.judging.findings import Finding, Status
from recipes.launch.recipe import Command, Prediction
from recipes.launch.recipe_file import require_valid
from recipes.launch.verification import (
    compare_peak_memory,
    compare_reserved_memory,
    compare_worst_memory,
)
from recipes.launch.verifying.differences import judge_memory, judge_step_time
from recipes.launch.verifying.foreground import cancelling, in_foreground
from recipes.launch.verifying.own_output import with_own_output
from recipes.launch.verifying.smoke_recipe import smoke_files, smoke_recipe
from tests.support.clusters import h100_cluster, measured


def test_sbatch_waits_and_writes_its_output_to_a_known_file():
    command = in_foreground(("sbatch", "/v/train.sbatch", "--", "a"), "slurm", "/v", "/v/job.log")
    name = command[2].removeprefix("--job-name=")
    assert re.fullmatch("rigtune-[0-9a-f]{12}", name)
    assert command == ("sbatch", "--wait", f"--job-name={name}", "--output=/v/job.log", *command[4:])
    assert command[4:] == ("/v/train.sbatch", "--", "a")
    assert cancelling(command) == ("scancel", f"--name={name}")
    other = in_foreground(("sbatch", "/w/train.sbatch"), "slurm", "/w", "/w/job.log")
    assert cancelling(other) != cancelling(command)


@pytest.mark.parametrize("command", [("/v/launch.sh", "--"), ("srun", "x"), ("mpirun", "-n", "2")])
def test_other_starters_end_with_the_job(command):
    assert in_foreground(command, "torchrun", "/v", "/v/job.log") == command
    assert cancelling(command) == ()


def test_a_launcher_that_does_not_wait_is_refused():
    with pytest.raises(UsageError, match="kubernetes does not wait"):
        in_foreground(("kubectl", "apply", "-f", "/v/job.yaml"), "kubernetes", "/v", "/v/job.log")


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (("--output_dir", "mine", "--lr", "1"), ("--output_dir", "/v/{{x}}", "--lr", "1")),
        (("--lr", "1", "--output_dir", "mine"), ("--lr", "1", "--output_dir", "/v/{{x}}")),
        (("--save=mine",), ("--save=/v/{{x}}",)),
        (("--lr", "1"), None),
        (("--output_dir",), None),
        (("--out={output}",), ("--out={output}",)),
        (("--format", "{{output}}"), None),
    ],
)
def test_a_known_output_folder_is_replaced(make_recipe, arguments, changed):
    recipe = make_recipe(command=Command(kind="script", target="train.py", arguments=arguments))
    own = with_own_output(recipe, "/v/{x}")
    assert (None if own is None else own.command.arguments) == changed
    assert own is None or own.slots == {"output": "/v/{x}", "checkpoints": "/v/{x}"}


def test_a_program_with_files_takes_the_slots(make_recipe):
    recipe = make_recipe(command=Command(kind="program"), slots={"output": "/mine", "account": "lab"})
    own = with_own_output(recipe, "/v")
    assert own.slots == {"output": "/v", "checkpoints": "/v", "account": "lab"}


def test_the_smoke_test_keeps_ranks_hosts_and_environment(make_recipe):
    own = Command(kind="script", target="train.py")
    recipe = make_recipe(
        nodes=2,
        command=own,
        resources={"hosts": ("a", "b")},
        parallelism={"strategy": "fsdp"},
        slots={"account": "lab", "workdir": "/project"},
    )
    test = smoke_recipe(recipe, "/v/smoke")
    require_valid(test)
    assert test.resources == recipe.resources
    assert test.slots == {"account": "lab"}
    assert (test.parallelism.nodes, test.parallelism.ranks_per_node) == (2, 2)
    assert (test.command.target, test.command.working_directory) == ("rigtune_worker.smoke", "/v/smoke")
    paths = {artifact.path for artifact in smoke_files()}
    assert {"rigtune_worker/__init__.py", "rigtune_worker/smoke.py"} <= paths
    assert "rigtune_worker/train.py" not in paths


PREDICTED = Prediction(step_time_s=1.0, step_time_low_s=0.9, step_time_high_s=1.1)
BROKEN = Finding(
    check_id="verify-transport-between", subject="job", status=Status.FAIL, summary="TCP is used"
)


@pytest.mark.parametrize(
    ("seconds", "options", "status", "words"),
    [
        (0.9, {}, Status.PASS, ""),
        (1.05, {}, Status.PASS, ""),
        (1.1, {}, Status.PASS, ""),
        (1.11, {}, Status.WARN, "does not use measured rates"),
        (0.5, {}, Status.WARN, "plan again"),
        (2.0, {"launch": (BROKEN,)}, Status.WARN, "repair the transport first: TCP is used"),
        (2.0, {"busy": "the CPUs are 90 % busy"}, Status.WARN, "the CPUs are 90 % busy"),
        (2.0, {"is_own": True}, Status.WARN, "waits for data"),
        (2.0, {}, Status.WARN, "does not use measured rates"),
    ],
)
def test_a_slow_step_names_what_to_change(make_recipe, seconds, options, status, words):
    recipe = make_recipe(predicted=PREDICTED)
    finding = judge_step_time(recipe, seconds, 1.0, **{"launch": (), "busy": "", "is_own": False, **options})
    assert finding.status is status
    assert words in (finding.remedy.text if finding.remedy else "")


def test_slow_steps_at_measured_rates_blame_the_machine(make_recipe):
    machine = h100_cluster(1, 2, flops_per_s={"fp32": measured(1e12)})
    recipe = make_recipe(predicted=PREDICTED, machine=machine)
    finding = judge_step_time(recipe, 2.0, 1.0, launch=(), busy="", is_own=False)
    assert finding.remedy.command == "rigtune check"


def test_without_an_interval_the_error_of_anchored_predictions_is_the_limit(make_recipe):
    for incomplete in ({}, {"step_time_low_s": 0.99}, {"step_time_high_s": 1.01}):
        recipe = make_recipe(predicted=Prediction(step_time_s=1.0, **incomplete))
        results = [
            judge_step_time(recipe, seconds, 1.0, launch=(), busy="", is_own=False).status
            for seconds in (0.97, 1.0, 1.03, 3.0)
        ]
        assert results == [Status.PASS, Status.PASS, Status.PASS, Status.WARN]


def memory(allocated, reserved):
    predicted = Prediction(
        peak_memory_bytes=10 * GIB, reserved_memory_bytes=11 * GIB, worst_memory_bytes=14 * GIB
    )
    findings = judge_memory(
        compare_peak_memory(predicted, allocated * GIB),
        compare_reserved_memory(predicted, reserved * GIB),
        compare_worst_memory(predicted, reserved * GIB),
    )
    return {each.check_id: each for each in findings}


@pytest.mark.parametrize(
    ("allocated", "reserved", "first", "second"),
    [
        (10.0, 11.0, "", ""),
        (10.9, 11.5, "", ""),
        (11.1, 11.5, "headroom", ""),
        (8.0, 8.5, "micro_batch", ""),
        (10.0, 12.5, "", "expandable_segments"),
        (10.0, 14.0, "", "expandable_segments"),
        (10.0, 14.1, "", "lower micro_batch"),
    ],
)
def test_each_figure_of_memory_is_judged_by_its_own_prediction(allocated, reserved, first, second):
    findings = memory(allocated, reserved)
    for name, words in (("verify-allocated", first), ("verify-memory", second)):
        finding = findings[name]
        assert finding.status is (Status.WARN if words else Status.PASS)
        assert words in (finding.remedy.text if finding.remedy else "")


def test_reserved_memory_alone_shows_no_fragmentation():
    predicted = Prediction(reserved_memory_bytes=11 * GIB, worst_memory_bytes=14 * GIB)
    reserved = compare_reserved_memory(predicted, 13 * GIB)
    (finding,) = judge_memory(None, reserved, compare_worst_memory(predicted, 13 * GIB))
    assert finding.status is Status.PASS


def test_memory_without_a_prediction_has_no_finding():
    nothing = Prediction()
    figures = (compare_peak_memory(nothing, GIB), compare_reserved_memory(nothing, GIB))
    assert judge_memory(*figures, compare_worst_memory(nothing, GIB)) == ()
    assert msgspec.structs.asdict(figures[0])["relative_error"] is None
