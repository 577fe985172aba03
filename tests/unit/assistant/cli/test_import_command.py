"""Test `rigtune import` and `rigtune plan --from-script` as a user calls them."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from assistant.cli import command_line
from assistant.usecases.plan import PlanRequest
from assistant.usecases.script_plan import ScriptQuestion, plan_from_script
from probes.base.errors import UsageError
from recipes.launch.recipe_file import load_recipe
from tests.support.tui_machines import cpu_box

SBATCH = """\
#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
ulimit -n 65536
export NCCL_DEBUG=WARN
TP=8
srun torchrun --nnodes $SLURM_NNODES --nproc-per-node 8 --rdzv-endpoint $HOST:29500 \\
  pretrain_gpt.py --tensor-model-parallel-size $TP --pipeline-model-parallel-size=2 \\
  --micro-batch-size 1 --global-batch-size 128 --seq-length 4096 --num-layers 32 --hidden-size 4096 \\
  --ffn-hidden-size 14336 --num-attention-heads 32 --num-query-groups 8 --bf16 \\
  --tokenizer-model meta-llama/Meta-Llama-3-8B \\
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
"""
LONGEST_OPTION = "--per_device_train_batch_size"
LIMITS = ["--steps", "100", "--learning-rate", "1e-4"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.sbatch").write_text(SBATCH)


def test_no_word_of_a_file_is_broken_at_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    model = "meta-llama/Meta-Llama-3-8B"
    Path("run.sh").write_text(
        f"torchrun --nnodes=2 train.py --model_name_or_path {model} {LONGEST_OPTION} 2 --bf16\n"
    )
    assert command_line(["import", "run.sh"]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[lines.index("Yours") : lines.index("No file states")]
    assert {model, "--model_name_or_path", LONGEST_OPTION} <= set(" ".join(table).split())
    assert max(map(len, table)) <= 80


def test_import_shows_settings_missing_ones_and_kept_parts(capsys):
    assert command_line(["import", "train.sbatch"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Megatron-LM, Megatron-Bridge, NeMo: 2 settings missing for a recipe" in shown
    assert "tp 8 train.sbatch:6" in shown
    assert "NCCL_DEBUG WARN train.sbatch:5" in shown
    assert "learning_rate: no file states the learning rate; give --learning-rate RATE" in shown
    assert "ulimit -n 65536 train.sbatch:4" in shown


def test_import_writes_a_recipe_if_nothing_is_missing(tmp_path, capsys):
    assert command_line(["import", "train.sbatch", "-o", "recipe.toml"]) == 2
    assert "give --steps N --learning-rate RATE" in capsys.readouterr().err.replace(
        "--learning-rate RATE --steps N", "--steps N --learning-rate RATE"
    )
    assert not (tmp_path / "recipe.toml").exists()
    assert command_line(["import", "train.sbatch", *LIMITS, "-o", "recipe.toml"]) == 0
    recipe = load_recipe((tmp_path / "recipe.toml").read_text(), "recipe.toml")
    assert (recipe.parallelism.tp, recipe.parallelism.pp, recipe.parallelism.dp) == (8, 2, 2)
    assert "ulimit -n 65536" in {each.text for each in recipe.kept}


def test_import_as_json_has_the_schema_of_its_record(capsys):
    assert command_line(["import", "train.sbatch", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["program"] == "megatron"
    assert {each["setting"] for each in answer["missing"]} == {"steps", "learning_rate"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("notes.md", "hello", "is not a launch file"),
        ("broken.yaml", "base_model: [", "broken.yaml: line"),
        ("broken.toml", "[training]\nsteps = ", "broken.toml"),
        ("gone.sh", None, "gone.sh"),
    ],
)
def test_files_that_cannot_be_imported_are_named(tmp_path, capsys, name, text, words):
    if text is not None:
        (tmp_path / name).write_text(text)
    assert command_line(["import", name]) == 2
    assert words in capsys.readouterr().err


def test_an_edited_recipe_is_not_replaced(tmp_path, capsys):
    (tmp_path / "recipe.toml").write_text("# mine\n")
    assert command_line(["import", "train.sbatch", *LIMITS, "-o", "recipe.toml"]) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_a_better_plan_is_a_diff_that_patch_applies(tmp_path, capsys):
    assert command_line(["plan", "--from-script", "train.sbatch", "--gpu", "H100", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["is_better"]
    assert answer["speed_up"] > 0.5
    assert answer["fits"]
    subprocess.run(["patch", "-p1"], input=answer["diff"], text=True, cwd=tmp_path, check=True)
    after = (tmp_path / "train.sbatch").read_text()
    best = answer["best"]["chosen"]
    assert f"TP={best['degrees']['tp']}\n" in after
    assert f"--pipeline-model-parallel-size={best['degrees']['pp']} " in after
    if best["activation_checkpointing"] == "none":
        assert "--recompute" not in after
    assert command_line(["import", "train.sbatch", *LIMITS, "-o", "recipe.toml"]) == 0
    layout = load_recipe((tmp_path / "recipe.toml").read_text(), "recipe.toml").parallelism
    assert (layout.strategy, layout.tp, layout.pp) == (
        best["strategy"],
        best["degrees"]["tp"],
        best["degrees"]["pp"],
    )
    assert (layout.micro_batch, layout.grad_accum) == (best["micro_batch"], best["grad_accum"])
    capsys.readouterr()
    assert command_line(["plan", "--from-script", "train.sbatch", "--gpu", "H100"]) == 0
    assert "No plan is predicted to be clearly better than your files" in capsys.readouterr().out


def test_the_page_shows_both_predictions_and_the_diff(capsys):
    assert command_line(["plan", "--from-script", "train.sbatch", "--gpu", "H100"]) == 0
    shown = capsys.readouterr().out
    assert "A better plan would be" in shown
    assert "your files" in shown
    assert "+++ b/train.sbatch" in shown


def test_files_of_a_job_that_does_not_fit_are_reported(tmp_path, capsys):
    (tmp_path / "a.sh").write_text(
        "torchrun --nproc-per-node 8 run_clm.py --model_name_or_path meta-llama/Meta-Llama-3-8B "
        "--per_device_train_batch_size 8 --block_size 8192\n"
    )
    assert command_line(["plan", "--from-script", "a.sh", "--gpu", "H100"]) == 0
    shown = capsys.readouterr().out
    assert "predicted not to fit" in shown
    assert "strategy = ddp: the default of hf-trainer" in shown


def test_options_are_asked_for_where_the_files_lack_a_setting(tmp_path, capsys):
    (tmp_path / "a.sh").write_text("torchrun --nproc-per-node 8 train.py\n")
    assert command_line(["plan", "--from-script", "a.sh", "--gpu", "H100"]) == 2
    error = capsys.readouterr().err
    assert (
        "give MODEL --sequence-length TOKENS --strategy NAME --micro-batch SEQUENCES --global-batch" in error
    )
    assert "--grad-accum" not in error  # an option of `rigtune import` only
    more = ["--sequence-length", "2048", "--strategy", "fsdp", "--micro-batch", "1", "--global-batch", "64"]
    assert command_line(["plan", "llama-3-8b", "--from-script", "a.sh", "--gpu", "H100", *more]) == 0
    assert "your files" in capsys.readouterr().out


def batch_changes(tmp_path, capsys, arguments):
    """Return the answer about a script with these arguments, and the changes in it by setting."""
    text = f"torchrun --nproc-per-node 8 train.py {arguments} --accumulate 16 --lr 1e-4 --seq 2048\n"
    (tmp_path / "a.sh").write_text(text)
    more = ["--strategy", "fsdp", "--micro-batch", "1", "--gpu", "H100"]
    assert command_line(["plan", "llama-3.2-1b", "--from-script", "a.sh", *more, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    return answer, {each["setting"]: each for each in answer["changes"]}


def test_a_diff_never_changes_the_global_batch(tmp_path, capsys):
    answer, batch = batch_changes(tmp_path, capsys, "--batch 1 --bs 1")
    assert batch["micro_batch"]["where"] == batch["grad_accum"]["where"] == ""
    assert "--micro-batch" not in answer["diff"]  # train.py might not have the option
    assert "--accumulate" not in answer["diff"]
    assert any("--batch 1 (a.sh:1) stays as it is written" in note for note in answer["notes"])


def test_a_diff_changes_a_literal_batch_whose_value_only_the_micro_batch_has(tmp_path, capsys):
    answer, batch = batch_changes(tmp_path, capsys, "--batch 1 --workers 1")
    assert batch["micro_batch"]["where"] == batch["grad_accum"]["where"] == "a.sh:1"
    micro, accumulated = batch["micro_batch"]["after"], batch["grad_accum"]["after"]
    assert int(micro) * int(accumulated) == 16
    assert f"train.py --batch {micro} --workers 1 --accumulate {accumulated} " in answer["diff"]


def test_a_better_plan_reads_standard_input_once(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(SBATCH.encode())))
    assert command_line(["plan", "--from-script", "-", "--gpu", "H100", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["files"] == ["standard input"]
    assert "+++ b/standard input" in answer["diff"]


def test_only_one_question_is_answered(capsys):
    assert command_line(["plan", "--from-script", "train.sbatch", "--gpu", "H100", "--sensitivity"]) == 2
    assert "two questions" in capsys.readouterr().err


def test_a_script_for_gpus_is_not_planned_on_a_machine_without_any():
    question = ScriptQuestion(paths=(Path("train.sbatch"),), given={}, request=PlanRequest())
    with pytest.raises(UsageError, match="asks for 8 GPUs per node, and this machine has none") as caught:
        list(plan_from_script(question, cpu_box(), ()))
    assert caught.value.hint == "add --gpu NAME or --machine NAME"
