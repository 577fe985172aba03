"""Test `rigtune tune` with a stand-in interpreter: trials, journal, resume, stop, and the new recipe."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest

from assistant.cli import command_line
from assistant.pages.training.tune_page import tune_page
from assistant.text.plain_writer import text_of
from assistant.usecases.events import Progress, StageFinished, StageStarted
from assistant.usecases.plan import PlanRequest, plan_workload
from assistant.usecases.probe import probe_machine
from assistant.usecases.tune import BEFORE, JOURNAL, TuneRequest, experiment_variables, tune_recipe
from probes.base.errors import ExitCode, OutputError, UsageError, WorkerError
from probes.collect.collecting import CollectOptions
from probes.facts import MachineFacts
from probes.sources.choose import open_source
from recipes.launch.recipe import Command, Environment
from recipes.launch.recipe_file import dump_recipe, load_recipe
from recipes.launch.resolve import recipe_of
from recipes.tuning.variants import BASELINE
from tests.support.clusters import cpu_cluster

PROGRAM = """#!{python} -S
import json, os, sys
report = sys.argv[sys.argv.index("--report") + 1]
layout = json.load(open("workload.json"))["parallelism"]
seconds = 1.0 / layout["micro_batch"] * (1.0 if os.environ.get("OMP_NUM_THREADS") != "2" else 0.5)
lines = [dict(event="start", world_size=2, backend="gloo", device_name="a CPU", torch_version="2")]
{behaviour}
lines += [dict(event="step", step=n, loss=1.0, duration_s=seconds) for n in (1, 2, 3)]
lines.append(dict(event="done", steps=3, interrupted=False, median_step_time_s=seconds,
             peak_memory_bytes=100 * layout["micro_batch"], loss_first=2.0, loss_last=1.0))
open(report, "w").write("".join(json.dumps(line) + "\\n" for line in lines))
"""
SHARDED_HAS_NO_MEMORY = """
if layout["strategy"] == "fsdp":
    print("torch.OutOfMemoryError: out of memory")
    sys.exit(1)
"""


@pytest.fixture
def interpreter(tmp_path):
    """Return a function that writes a program; its step time falls as the micro-batch grows."""

    def make(behaviour=SHARDED_HAS_NO_MEMORY):
        path = tmp_path / "python"
        path.write_text(PROGRAM.format(python=sys.executable, behaviour=behaviour))
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def source(make_recipe, tmp_path):
    """Return the path of a recipe file for a CPU machine."""
    path = tmp_path / "recipe.toml"
    path.write_text(dump_recipe(make_recipe(machine=cpu_cluster())))
    return path


def tune(source, python, *, output=None, is_stopped=lambda: False, **options):
    recipe = load_recipe(source.read_text(), str(source))
    request = TuneRequest(**{"steps": 3, "candidates": 3, "python": python, **options})
    return tune_recipe(
        recipe, source, request, folder=source.parent / "tune", output=output, is_stopped=is_stopped
    )


def result_of(events):
    *_, last = events
    assert isinstance(last, StageFinished)
    return last.result


def trials_in(source):
    lines = (source.parent / "tune" / JOURNAL).read_text().splitlines()
    return [json.loads(line)["trial"] for line in lines[1:]]


def test_the_winner_is_written_into_the_recipe_and_the_old_recipe_is_kept(source, interpreter):
    before = source.read_bytes()
    events = list(tune(source, interpreter()))
    result = result_of(events)
    assert {each.name: each.value for each in result.changes} == {"micro_batch": "4", "grad_accum": "1"}
    assert result.speed_up == pytest.approx(1.0)
    tuned = load_recipe(source.read_text(), "tuned")
    assert tuned.parallelism.micro_batch == 4
    assert tuned.resources.python == ""
    assert "measured" in {each.basis for each in tuned.decisions}
    assert (source.parent / "tune" / BEFORE).read_bytes() == before
    assert (result.written, result.journal) == (str(source), str(source.parent / "tune" / JOURNAL))
    (started,) = [event for event in events if isinstance(event, StageStarted)]
    assert "occupies 2 CPU ranks of 1 node for 20 min 00 s at most" in started.title


def test_a_lack_of_memory_is_a_result_of_the_candidate(source, interpreter):
    (stage,) = result_of(tune(source, interpreter())).stages
    (sharded,) = [each for each in stage.candidates if "fsdp" in each.name]
    assert (sharded.outcome, sharded.rounds, sharded.ratio) == ("out_of_memory", 0, None)
    assert "OutOfMemoryError" in sharded.reason
    (first, *_) = stage.candidates
    assert (first.name, first.peak_memory_bytes) == (BASELINE, 200.0)


def test_a_candidate_that_takes_much_longer_than_the_recipe_is_ended(source, interpreter, monkeypatch):
    monkeypatch.setattr("assistant.usecases.tune._MARGIN_S", 0.1)
    python = interpreter("import time\nif layout['strategy'] == 'fsdp': time.sleep(600)")
    (stage,) = result_of(tune(source, python)).stages
    (sharded,) = [each for each in stage.candidates if "fsdp" in each.name]
    assert (sharded.outcome, sharded.rounds) == ("too_slow", 0)
    assert "did not end within" in sharded.reason


def test_the_winner_is_written_to_the_output_file_and_the_recipe_is_unchanged(source, interpreter, tmp_path):
    before, output = source.read_bytes(), tmp_path / "tuned.toml"
    assert result_of(tune(source, interpreter(), output=output)).written == str(output)
    assert source.read_bytes() == before
    assert load_recipe(output.read_text(), "tuned").parallelism.micro_batch == 4
    output.write_text(output.read_text() + "# mine\n")
    with pytest.raises(OutputError, match="not as rigtune wrote"):
        list(tune(source, interpreter(), output=output, resume=True))


def test_a_recipe_that_changed_meanwhile_is_not_replaced(source, interpreter):
    for event in tune(source, interpreter()):
        if isinstance(event, Progress) and event.message.startswith("round 2"):
            source.write_text(source.read_text() + "# a note of the user\n")
    assert source.read_text().endswith("# a note of the user\n")
    assert load_recipe((source.parent / "tune" / "tuned.toml").read_text(), "t").parallelism.micro_batch == 4


def test_if_nothing_is_faster_the_recipe_stays_as_it_is(source, interpreter):
    before = source.read_bytes()
    result = result_of(tune(source, interpreter("seconds = 1.0 if layout['micro_batch'] == 2 else 1.2")))
    assert (result.changes, result.written, result.is_complete) == ((), "", True)
    assert source.read_bytes() == before


def test_a_baseline_that_fails_ends_the_tune_with_its_reason(source, interpreter):
    with pytest.raises(WorkerError, match="ValueError: bad shape") as caught:
        list(tune(source, interpreter("sys.exit('ValueError: bad shape')")))
    assert caught.value.exit_code == ExitCode.WORKER
    (trial,) = trials_in(source)
    assert (trial["candidate"], trial["outcome"]) == (BASELINE, "failed")
    assert result_of(tune(source, interpreter(), resume=True)).changes


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("seconds = 0.0", r"line 2 of the report .*report.jsonl is wrong: .*duration_s"),
        ("seconds = -1.0", "line 2 .*duration_s"),
        ("seconds = float('nan')", "line 2 .*Expected `float`, got `null`"),
        ("seconds = 1e308", "line 2 .*duration_s"),
        ("seconds = 1e-320", "line 2 .*duration_s"),
        ("lines = [dict(event='\\x1b[31m')]", "line 1 .*is wrong"),
        ("lines = [1, 2, 3]", "line 1 .*is wrong"),
        ("os.mkfifo(report); import time; time.sleep(600)", "is a named pipe"),
        ("os.mkdir(report); import time; time.sleep(600)", "is a folder"),
        ("os.symlink('/dev/zero', report); import time; time.sleep(600)", "is larger than 64 MiB"),
    ],
)
def test_a_report_that_no_training_writes_ends_the_tune_with_its_reason(
    source, interpreter, behaviour, message
):
    with pytest.raises(WorkerError, match=message):
        list(tune(source, interpreter(behaviour)))
    (trial,) = trials_in(source)
    assert (trial["candidate"], trial["outcome"]) == (BASELINE, "failed")


def test_a_recipe_that_hangs_is_ended_with_the_budget(source, interpreter):
    with pytest.raises(WorkerError, match="did not end within 1 s") as caught:
        list(tune(source, interpreter("import time; time.sleep(600)"), budget_s=1.0))
    assert "--budget" in caught.value.hint


def test_a_folder_in_place_of_the_report_is_named(source, interpreter):
    (source.parent / "tune/stage-1/candidate-0/report.jsonl").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"cannot remove .*report\.jsonl"):
        list(tune(source, interpreter()))


def test_a_tune_that_began_before_another_ended_does_not_cut_the_journal(source, interpreter):
    python = interpreter()
    late = tune(source, python)
    for event in late:  # the journal was read as missing, but is not open yet
        if isinstance(event, StageStarted):
            break
    list(tune(source, python))
    before = trials_in(source)
    with pytest.raises(OutputError, match="another rigtune has written"):
        list(late)
    assert trials_in(source) == before


def test_a_stopped_tune_continues_without_repeating_a_trial(source, interpreter):
    python, stops = interpreter(), iter([False] * 9 + [True] * 99)
    stopped = result_of(tune(source, python, is_stopped=lambda: next(stops)))
    assert not stopped.is_complete
    assert stopped.written == ""
    kept = trials_in(source)
    assert 0 < len(kept) == stopped.trials
    result = result_of(tune(source, python, resume=True))
    assert trials_in(source)[: len(kept)] == kept
    runs = [(each["round"], each["candidate"]) for each in trials_in(source)]
    assert len(set(runs)) == len(runs) == result.trials
    assert result.changes


def test_a_journal_that_ends_in_half_a_line_is_continued(source, interpreter):
    python, stops = interpreter(), iter([False] * 9 + [True] * 99)
    list(tune(source, python, is_stopped=lambda: next(stops)))
    journal = source.parent / "tune" / JOURNAL
    count = len(trials_in(source))
    journal.write_bytes(journal.read_bytes()[:-30])
    result_of(tune(source, python, resume=True))
    runs = [(each["round"], each["candidate"]) for each in trials_in(source)]
    assert len(set(runs)) == len(runs) > count


def test_an_earlier_tune_is_neither_overwritten_nor_mixed_with_another_recipe(
    source, interpreter, make_recipe
):
    python, stops = interpreter(), iter([False] * 9 + [True] * 99)
    list(tune(source, python, is_stopped=lambda: next(stops)))
    with pytest.raises(UsageError, match="trials of an earlier tune"):
        list(tune(source, python))
    layout = {"micro_batch": 1, "grad_accum": 4}
    source.write_text(dump_recipe(make_recipe(machine=cpu_cluster(), parallelism=layout)))
    with pytest.raises(UsageError, match="belongs to another recipe"):
        list(tune(source, python, resume=True))


def test_two_tunes_cannot_write_to_one_journal(source, interpreter):
    running = tune(source, interpreter())
    for event in running:
        if isinstance(event, Progress) and event.message.startswith("round 1 "):
            break
    with pytest.raises(OutputError, match="another rigtune writes"):
        list(tune(source, interpreter(), resume=True))
    running.close()


def test_variables_are_measured_after_the_layout(source, interpreter):
    threads = Environment(name="OMP_NUM_THREADS", value="2", why="you asked", source="--try")
    result = result_of(tune(source, interpreter(), variables=(threads,)))
    assert [stage.winner for stage in result.stages] == ["micro_batch 4, grad_accum 1", "OMP_NUM_THREADS=2"]
    (variable,) = load_recipe(source.read_text(), "tuned").environment
    assert (variable.name, variable.value) == ("OMP_NUM_THREADS", "2")


def test_a_dry_run_starts_and_writes_nothing(source, interpreter):
    result = result_of(tune(source, interpreter("sys.exit(1)"), dry_run=True))
    assert result.trials == 0
    assert len(result.stages[0].candidates) > 3
    assert not (source.parent / "tune").exists()
    page = text_of(tune_page(result), width=80)
    assert "predicted step time" in page
    assert "runs" not in page
    assert "micro batch 4, grad accum 1" in page


OWN = """
import json, os, sys, time
with open(os.environ["RIGTUNE_REPORT"], "a") as report:
    for step in range(1, int(sys.argv[2])):
        seconds = 1 / int(sys.argv[1]) if step > 3 else 100.0
        report.write(json.dumps({"event": "step", "step": step, "duration_s": seconds}) + "\\n")
        report.flush()
if sys.argv[2] == "1000":
    time.sleep(600)
"""


@pytest.mark.parametrize("steps", ["1000", "2"])
def test_an_own_program_reports_its_steps_and_is_ended_after_the_last(make_recipe, tmp_path, steps):
    """The stand-in for torchrun starts the program itself."""
    program, python, source = tmp_path / "train.py", tmp_path / "python", tmp_path / "recipe.toml"
    program.write_text(OWN)
    python.write_text(f'#!/usr/bin/env bash\nexec {sys.executable} "${{@: -4}}"\n')
    python.chmod(0o755)
    command = Command(kind="script", target=str(program), arguments=("{micro_batch}", steps, "{grad_accum}"))
    source.write_text(dump_recipe(make_recipe(machine=cpu_cluster(), command=command)))
    if steps == "2":
        with pytest.raises(WorkerError, match="fewer than 3 steps to the file that RIGTUNE_REPORT names"):
            list(tune(source, str(python)))
        return
    result = result_of(tune(source, str(python), candidates=1, steps=6))
    assert result.stages[0].candidates[0].step_time_s == 0.5


def test_the_reference_runs_instead_of_the_own_program_if_asked(make_recipe, interpreter, tmp_path):
    source = tmp_path / "recipe.toml"
    command = Command(kind="script", target="/no/such.py")
    source.write_text(dump_recipe(make_recipe(machine=cpu_cluster(), command=command)))
    result = result_of(tune(source, interpreter(), uses_reference=True))
    assert "not the recipe's own program" in result.notes[0]
    assert load_recipe(source.read_text(), "tuned").command == command
    special = make_recipe(machine=cpu_cluster(), command=command, not_in_reference=("experts 8",))
    source.write_text(dump_recipe(special))
    with pytest.raises(UsageError, match="experts 8"):
        list(tune(source, interpreter(), uses_reference=True))


def command(*words):
    return command_line(["tune", *map(str, words)])


def test_the_command_prints_the_answer_and_every_candidate(source, interpreter, capsys):
    assert command(source, "--python", interpreter(), "--candidates", 3, "--budget", "5m") == ExitCode.OK
    text = capsys.readouterr().out
    assert text.startswith("micro_batch 4, grad_accum 1: 100 % more steps per second")
    unwrapped = "".join(text.split())
    for words in ("the recipe", "out of memory", "p = 0.031", "over 5 paired runs", f"written to {source}"):
        assert "".join(words.split()) in unwrapped
    assert (source.parent / "tune-recipe" / JOURNAL).exists()


def test_the_command_answers_in_json(source, interpreter, capsys):
    words = ("--dry-run", "--format", "json", "--try", "OMP_NUM_THREADS=2")
    assert command(source, "--python", interpreter(), *words) == ExitCode.OK
    answer = json.loads(capsys.readouterr().out)
    assert (answer["name"], answer["trials"], answer["changes"]) == ("mini", 0, [])
    assert answer["stages"][0]["candidates"][0]["name"] == BASELINE
    assert answer["notes"] == ["Then, on top of the winner: OMP_NUM_THREADS=2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--budget", "20"), "is not a time"),
        (("--budget", "m"), "is not a time"),
        (("--try", "NCCL_DEBUG"), "no variable with a value"),
        (("--try", "RANK=1"), "RANK is set by the launch script"),
        (("--steps", "1"), "--steps"),
    ],
)
def test_wrong_options_are_reported(source, interpreter, capsys, words, message):
    assert command(source, "--python", interpreter(), "--dry-run", *words) == ExitCode.USAGE
    assert message in capsys.readouterr().err


def test_an_impossible_number_of_nodes_is_reported_before_anything_starts(make_recipe, tmp_path, capsys):
    source = Path(tmp_path / "recipe.toml")
    source.write_text(dump_recipe(msgspec.structs.replace(make_recipe(nodes=2))))
    assert command(source, "--dry-run") == ExitCode.USAGE
    assert "needs 2 nodes, but names no hosts" in capsys.readouterr().err


def test_variables_of_tier_experiment_are_measured_and_never_planned():
    *_, probed = probe_machine(open_source((), "dgx-h100"), CollectOptions())
    *_, planned = plan_workload(probed.result, (), PlanRequest(model="llama-3-8b", program="reference"))
    recipe = recipe_of(planned.result, name="job", command=Command(kind="reference"), python="")
    assert recipe.parallelism.strategy == "fsdp"
    (variable,) = experiment_variables(recipe, MachineFacts())
    assert (variable.name, variable.value) == ("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    assert variable.name not in {each.name for each in recipe.environment}
    assert experiment_variables(msgspec.structs.replace(recipe, machine=None), MachineFacts()) == ()
