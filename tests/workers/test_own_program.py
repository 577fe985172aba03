"""Test the helper of the user's own program: equal losses however ranks share the work, checkpoints, signals.

The programs are the example of the documentation, a convolutional network, and a Hugging Face model.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assistant
from assistant.cli import command_line
from recipes.launch.agent import agent_argv
from recipes.launch.plan_json import PLAN_FILE, plan_file
from recipes.launch.recipe import Command
from recipes.launch.recipe_file import dump_recipe
from recipes.launch.reference_files import HELPER, helper_file
from tests.workers.conftest import DEADLINE_S

EXAMPLE = re.findall(
    r"```python\n(.*?)```",
    (Path(assistant.__file__).parent / "docs" / "own_program.md").read_text("utf-8"),
    re.DOTALL,
)[-1]
STEPS = 6
STATED = {"micro_batch": 2, "grad_accum": 2, "global_batch": 8, "precision": "fp32"}
"""Settings of every plan unless it states others; the global batch is the same in all plans."""
PLANS: dict[str, dict[str, Any]] = {
    "alone": {"ranks_per_node": 1, "dp": 1, "micro_batch": 4},
    "ddp": {"ranks_per_node": 2, "dp": 2},
    "fsdp": {
        "ranks_per_node": 2,
        "strategy": "fsdp",
        "fsdp": 2,
        "activation_checkpointing": "full",
        "recomputed_share": 0.5,
        "prefetch": 1,
    },
    "tp": {"ranks_per_node": 2, "tp": 2, "dp": 1, "micro_batch": 4},
    "ddp 4": {"ranks_per_node": 4, "dp": 4, "micro_batch": 1},
    "fsdp 4": {"ranks_per_node": 4, "strategy": "fsdp", "fsdp": 4, "grad_accum": 1},
    "hsdp 4": {"ranks_per_node": 4, "strategy": "hsdp", "dp": 2, "fsdp": 2, "micro_batch": 1},
    "tp fsdp": {"ranks_per_node": 4, "strategy": "fsdp", "fsdp": 2, "tp": 2},
    "tp ddp": {"ranks_per_node": 4, "dp": 2, "tp": 2},
}
CNN = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import rigtune_helper

class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.parts = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(2, width), nn.ReLU())

    def forward(self, x):
        return x + self.parts(x)

torch.manual_seed(0)
images = torch.randn(20, 3, 8, 8)
data = TensorDataset(images, images.mean((2, 3)).argmax(1))
model = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.Sequential(Residual(8), Residual(8)),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)
)
plan = rigtune_helper.load()
run = plan.prepare(model, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]))
for step in run.steps(DataLoader(data, plan.micro_batch, sampler=run.sampler(len(data)))):
    pass
"""
LLAMA = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
import rigtune_helper

def make_batch(first, count):
    tokens = (torch.arange(first, first + count)[:, None] + torch.arange(32)) * 7 % 61
    return {"input_ids": tokens, "labels": tokens}

torch.manual_seed(0)
sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "vocab_size": 64}
heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
model = LlamaForCausalLM(LlamaConfig(**sizes, **heads, use_cache=False))
run = rigtune_helper.load().prepare(model)
for step in run.steps(make_batch):
    pass
"""
IN_TURN = """
import os, runpy, sys
for folder in sys.argv[1:]:
    os.chdir(folder)
    os.environ.update(RIGTUNE_RECIPE="plan.json", RIGTUNE_REPORT="report.jsonl")
    runpy.run_path("train.py", run_name="__main__")
"""

STARVED = """
import os, runpy, threading, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

def starve():
    while True:
        for thread in os.listdir("/proc/self/task"):
            try:
                if "gloo_runloop" in open(f"/proc/self/task/{thread}/comm").read():
                    os.setpriority(os.PRIO_PROCESS, int(thread), 19)
            except OSError:
                pass  # the thread has ended
        time.sleep(0.3)

threading.Thread(target=starve, daemon=True).start()
"""
"""Keep Gloo's threads waiting, on one core for all ranks, so that the main thread ends before them."""


def write_folder(make_recipe, folder: Path, program: str, name: str, **more: Any) -> int:
    """Write the program and the plan of this name into the folder, and return the number of ranks."""
    settings = {**STATED, **PLANS[name], **{key: more.pop(key) for key in tuple(more) if key in STATED}}
    convergence = {"steps": STEPS, "learning_rate": 0.01, "gradient_clipping": 1.0, **more}
    recipe = make_recipe(parallelism=settings)
    recipe = msgspec.structs.replace(
        recipe, convergence=msgspec.structs.replace(recipe.convergence, **convergence)
    )
    checkpoints = {"checkpoint_steps": STEPS // 2}
    folder.mkdir(exist_ok=True)
    plan = json.loads(plan_file(recipe).text) | checkpoints
    (folder / PLAN_FILE).write_text(json.dumps(plan))
    (folder / HELPER).write_text(helper_file().text)
    (folder / "train.py").write_text(program)
    return settings["ranks_per_node"]


@pytest.fixture(scope="module")
def start(torch_python, environment):
    """Return a function that runs the programs of several folders in turn and returns their reports."""

    def run(ranks: int, *folders: Path, python: str = "") -> list[list[dict[str, Any]]]:
        (folders[0] / "in_turn.py").write_text(IN_TURN)
        finished = subprocess.run(
            agent_argv(python or torch_python, ranks, ("in_turn.py", *map(str, folders))),
            env={**environment, "PYTHONPATH": str(folders[0])},
            cwd=folders[0],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr[-3000:]
        reports = [(folder / "report.jsonl").read_text().splitlines() for folder in folders]
        return [[json.loads(line) for line in report] for report in reports]

    return run


@pytest.fixture
def trained(start, make_recipe, tmp_path):
    """Return a function that trains a program by plans for one number of ranks and returns their steps."""

    def run(program: str, *names: str, python: str = "", **more: Any) -> list[list[dict[str, Any]]]:
        folders = [tmp_path / name.replace(" ", "-") for name in names]
        ranks = {
            write_folder(make_recipe, folder, program, name, **more)
            for folder, name in zip(folders, names, strict=True)
        }
        reports = start(ranks.pop(), *folders, python=python)
        return [[line for line in report if line["event"] == "step"] for report in reports]

    return run


def curve(steps: list[dict[str, Any]], name: str = "loss") -> list[float]:
    return [step[name] for step in steps]


def test_two_ranks_have_the_losses_of_one(trained):
    """Each plan divides the work in another way; losses and norms of gradients do not depend on it."""
    (alone,) = trained(EXAMPLE, "alone")
    assert curve(alone)[-1] < curve(alone)[0] - 1
    for shared in trained(EXAMPLE, "ddp", "fsdp", "tp"):
        assert curve(shared) == pytest.approx(curve(alone), abs=1e-4)
        assert curve(shared, "grad_norm") == pytest.approx(curve(alone, "grad_norm"), rel=1e-3)
    assert [step["step"] for step in alone] == list(range(1, STEPS + 1))
    assert all(step["duration_s"] == step["step_time_s"] > 0 for step in alone)
    assert all(step["peak_memory_bytes"] > 2**20 and step["peak_reserved_bytes"] is None for step in alone)
    tokens = [step["tokens_per_s"] * step["step_time_s"] for step in alone]
    assert tokens == pytest.approx([8 * 32] * STEPS)


def test_numbers_that_are_not_finite_are_written_as_null(in_torch):
    code = """
import io, os, types
from rigtune_worker import protocol, rigtune_helper
line, file = {"loss": float("nan"), "grad_norm": float("-inf"), "step": 1, "name": "NaN"}, io.StringIO()
os.environ["RIGTUNE_REPORT"] = "report.jsonl"
rigtune_helper.Run.report(types.SimpleNamespace(rank=0), line)
protocol.dump_line(file, line)
answer = [open("report.jsonl").read(), file.getvalue()]
"""
    written = [json.loads(text, parse_constant=pytest.fail) for text in in_torch(code)]
    assert written == [{"loss": None, "grad_norm": None, "step": 1, "name": "NaN"}] * 2


@pytest.mark.slow
def test_four_ranks_have_the_losses_of_one(trained):
    (alone,) = trained(EXAMPLE, "alone")
    for shared in trained(EXAMPLE, "ddp 4", "fsdp 4", "hsdp 4", "tp fsdp", "tp ddp"):
        assert curve(shared) == pytest.approx(curve(alone), abs=1e-4)
        assert curve(shared, "grad_norm") == pytest.approx(curve(alone, "grad_norm"), rel=1e-3)


@pytest.mark.slow
def test_a_convolutional_network_has_equal_losses_on_one_two_and_four_ranks(trained):
    (alone,) = trained(CNN, "alone")
    for shared in (*trained(CNN, "ddp", "fsdp"), *trained(CNN, "hsdp 4")):
        assert curve(shared) == pytest.approx(curve(alone), abs=1e-4)


@pytest.mark.slow
def test_ranks_end_without_an_abort_where_threads_of_collectives_are_late(trained):
    """Without a wait after the last step, about half of these runs ended in SIGABRT."""
    for name in ("hsdp 4", "fsdp 4", "ddp 4"):
        (steps,) = trained(STARVED + CNN, name)
        assert len(steps) == STEPS


@pytest.mark.slow
def test_a_hugging_face_model_has_equal_losses_on_one_two_and_four_ranks(trained):
    python = os.environ.get("RIGTUNE_TRANSFORMERS_PYTHON", "")
    if not python:
        pytest.skip("RIGTUNE_TRANSFORMERS_PYTHON names no interpreter with torch and transformers")
    (alone,) = trained(LLAMA, "alone", python=python)
    two = trained(LLAMA, "ddp", "fsdp", "tp", python=python)
    for shared in (*two, *trained(LLAMA, "hsdp 4", "tp fsdp", python=python)):
        assert curve(shared) == pytest.approx(curve(alone), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_stays_near(trained, precision):
    (exact,) = trained(EXAMPLE, "alone")
    for near in trained(EXAMPLE, "ddp", "fsdp", "tp", precision=precision):
        assert curve(near) != curve(exact)
        assert curve(near) == pytest.approx(curve(exact), rel=0.01)


@pytest.mark.slow
def test_a_checkpoint_continues_on_other_ranks_and_in_another_layout(start, make_recipe, tmp_path, trained):
    whole = dict(zip(("ddp", "tp"), trained(EXAMPLE, "ddp", "tp"), strict=True))
    written = tmp_path / "ddp" / "checkpoints" / "mini"
    assert sorted(path.name for path in written.iterdir()) == ["latest", "step-00000003", "step-00000006"]
    for first, then in (
        ("ddp", ("alone",)),
        ("tp", ("hsdp 4", "tp fsdp")),
        ("ddp", ("fsdp 4",)),
        ("ddp", ("tp",)),
    ):
        folders = [tmp_path / f"{first}-then-{name}".replace(" ", "-") for name in then]
        for folder, name in zip(folders, then, strict=True):
            ranks = write_folder(make_recipe, folder, EXAMPLE, name)
            shutil.copytree(tmp_path / first / "checkpoints", folder / "checkpoints")
            (folder / "checkpoints" / "mini" / "latest").write_text("step-00000003")
        for report in start(ranks, *folders):
            steps = [line for line in report if line["event"] == "step"]
            assert [step["step"] for step in steps] == [4, 5, 6]
            assert curve(steps) == pytest.approx(curve(whole[first])[3:], abs=1e-4)


@pytest.mark.slow
def test_a_signal_to_one_rank_ends_all_ranks_with_a_checkpoint(
    torch_python, environment, make_recipe, tmp_path
):
    # One write per line: two ranks share the pipe, and an unbuffered print writes its newline apart.
    line = "__import__('sys').stdout.write(f\"{step['step']} {__import__('os').getpid()}\\n\")"
    program = re.sub(r"print\(step,.*\)", lambda _: line, EXAMPLE)
    program += "__import__('sys').stdout.write(f'{run.stopped}\\n')\n"
    ranks = write_folder(make_recipe, tmp_path, program, "fsdp", steps=10**6)
    plan = json.loads((tmp_path / PLAN_FILE).read_text())
    (tmp_path / PLAN_FILE).write_text(json.dumps({**plan, "checkpoint_steps": 10**6}))
    with subprocess.Popen(
        agent_argv(torch_python, ranks, ("train.py",)),
        env={**environment, "RIGTUNE_RECIPE": PLAN_FILE, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        os.kill(int(line.split()[-1]), signal.SIGUSR1)
        rest, _ = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 0
    assert rest.splitlines().count("True") == ranks
    last = max(int(each.split()[0]) for each in (line, *rest.splitlines()) if each != "True")
    assert (tmp_path / "checkpoints" / "mini" / "latest").read_text() == f"step-{last:08d}"


def test_a_setting_that_cannot_be_applied_is_named(in_torch):
    changes = {
        "pp": ({"pp": 2}, "pp is 2, but rigtune_helper can apply only (1,)"),
        "cp": ({"cp": 2}, "cp is 2, but"),
        "ep": ({"ep": 4}, "ep is 4, but"),
        "strategy": (
            {"strategy": "zero1"},
            "strategy is zero1, but rigtune_helper can apply only ('ddp', 'fsdp', 'hsdp')",
        ),
        "precision": ({"precision": "fp8"}, "precision is fp8"),
        "recomputation": ({"activation_checkpointing": "selective"}, "activation_checkpointing is selective"),
        "schedule": ({"schedule": "step"}, "schedule is step"),
        "ranks": ({"dp": 4}, "the plan needs dp 4 x fsdp 1 x tp 1 ranks, but the job has 1: "),
        "tuning": ({"tuning": "lora"}, "tuning is lora: add the adapters"),
        "optimizer": ({"optimizer": "muon"}, "optimizer is muon: give prepare(..., optimizer="),
        "layers": ({"activation_checkpointing": "full"}, "the model repeats no layer: give blocks="),
    }
    code = f"""
import torch
from rigtune_worker.rigtune_helper import Plan, PlanError
answer = {{}}
base = dict(strategy="ddp", dp=1, fsdp=1, precision="fp32", activation_checkpointing="none", tuning="full",
            ramp_samples=0, optimizer="adamw", learning_rate=1e-3, weight_decay=0.1, beta1=0.9, beta2=0.95,
            device="cpu", backend="gloo", global_batch=1)
for name, more in json.loads({json.dumps({name: more for name, (more, _) in changes.items()})!r}).items():
    try:
        Plan(**{{**base, **more}}).prepare(torch.nn.Linear(2, 2), checkpoints="")
    except PlanError as error:
        answer[name] = str(error)
"""
    answers = in_torch(code)
    for name, (_, words) in changes.items():
        assert words in answers.get(name, ""), name


@pytest.mark.slow
def test_layers_without_the_names_of_hugging_face_cannot_be_divided(on_ranks):
    code = """
import torch
from rigtune_worker.rigtune_helper import Layout, Plan, PlanError, join
device, answer = torch.device("cpu"), []
join("gloo", device)
names = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
odd = torch.nn.ModuleDict({name: torch.nn.Linear(3, 3) for name in names})
experts = torch.nn.ModuleList([torch.nn.ModuleDict({name: torch.nn.Linear(4, 4) for name in names})] * 1)
twice = torch.nn.ModuleDict({"a": torch.nn.ModuleDict({n: torch.nn.Linear(4, 4) for n in names}),
                             "b": torch.nn.ModuleDict({n: torch.nn.Linear(4, 4) for n in names})})
for block in (torch.nn.Sequential(torch.nn.Linear(4, 4)), odd, twice):
    try:
        Layout(Plan(strategy="ddp", dp=1, fsdp=1, tp=2), device).divide(block, [block])
    except PlanError as error:
        answer.append(str(error))
"""
    (missing, odd, twice), _ = on_ranks(2, code)
    assert "tp is 2, but Sequential cannot be divided: it has no q_proj, k_proj" in missing
    assert "does not divide the 3 key and value heads" in odd
    assert "several of its layers have one name" in twice


@pytest.mark.slow
def test_a_program_in_another_folder_imports_the_exported_helper(
    torch_python, make_recipe, tmp_path, monkeypatch
):
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder in (project, elsewhere):
        folder.mkdir()
    (project / "train.py").write_text(EXAMPLE + "print(run.step, rigtune_helper.__file__, flush=True)\n")
    recipe = make_recipe(
        command=Command(kind="script", target=str(project / "train.py")),
        resources={"python": torch_python},
        parallelism=PLANS["ddp"] | STATED,
    )
    convergence = msgspec.structs.replace(recipe.convergence, steps=2)
    recipe = msgspec.structs.replace(recipe, convergence=convergence)
    (tmp_path / "recipe.toml").write_text(dump_recipe(recipe))
    monkeypatch.chdir(elsewhere)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("RIGTUNE_PREFLIGHT", "0")
    export = ["export", str(tmp_path / "recipe.toml"), "-q", "--out", str(tmp_path / "launch")]
    assert command_line([*export, "--helper"]) == 0
    script = (tmp_path / "launch" / "launch.sh").read_text()
    assert command_line(export) == 0  # the helper of an earlier export stays
    assert (tmp_path / "launch" / "launch.sh").read_text() == script
    finished = subprocess.run(
        (str(tmp_path / "launch" / "launch.sh"),),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert finished.stdout.count(f" 2 {tmp_path / 'launch' / HELPER}") == 2
