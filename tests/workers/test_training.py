"""The training benchmarks for real: the reference model and the CNN, the sweep of micro-batches, and steps of
the user's own.
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

import assistant
from assistant.usecases.measure import MeasureOptions, measure_machine
from probes.base.record import to_json
from probes.bench import micro_batch, noise_scale, own_step, train_cnn, train_step
from probes.bench.bench_requests import BenchSettings, FailureLine, SkippedLine, parse_worker_lines
from probes.bench.resnet import RESNET_50, SMALL, forward_flops, parameter_count, training_flops
from recipes.launch.agent import agent_argv
from tests.support.bench_answers import bench_context, the_one
from tests.workers.conftest import DEADLINE_S, TINY
from tests.workers.test_bench import FACTS

MIB = 2**20
EXAMPLE = (
    (Path(assistant.__file__).parent / "docs" / "own_step.md")
    .read_text()
    .split("```python\n")[1]
    .split("```")[0]
)


@pytest.fixture(scope="module")
def answer_of(torch_python, environment, tmp_path_factory):
    """Run the workers of a request; return the lines that they wrote, by rank.

    `script` is the text of a program that starts the worker; by default the worker is started as a module.
    """

    def run(request, script=""):
        folder = tmp_path_factory.mktemp(request.bench_id)
        (folder / "request.json").write_bytes(to_json(request))
        (folder / "script.py").write_text(script)
        start = ("script.py",) if script else ("-m", "rigtune_worker")
        program = (*start, request.bench_id, "--request", "request.json", "--out", str(folder))
        subprocess.run(
            agent_argv(torch_python, request.ranks, program),
            env=environment,
            cwd=folder,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return {
            rank: parse_worker_lines((folder / f"rank{rank}.jsonl").read_bytes())
            for rank in range(request.ranks)
        }

    return run


def tiny(module, ranks=1, budget_s=1.0, step="", folder=Path(), **context):
    """Return the module's last request, on the tiny model."""
    settings = BenchSettings(step=step, folder=str(folder.absolute()))
    request = module.requests(bench_context(ranks=ranks, settings=settings, **context))[-1]
    cases = tuple(
        {**case, "sequence_length": 32} if "sequence_length" in case else case for case in request.cases
    )
    model = request.model if module is train_cnn else TINY
    more = {"trial_s": 0.1} if module is micro_batch else {}
    return msgspec.structs.replace(
        request, cases=cases, model=model, budget_s=budget_s, settings={**request.settings, **more}
    )


def failures(lines_by_rank):
    return [line for lines in lines_by_rank.values() for line in lines if isinstance(line, FailureLine)]


def test_the_networks_parameters_and_operations_are_those_of_the_formulas(in_torch):
    """torch counts the operations that a step really calls."""
    networks = [
        (network.shape, size)
        for network, size in ((RESNET_50, 224), (RESNET_50, 113), (SMALL, 64), (SMALL, 112))
    ]
    code = f"""
import torch
from torch.utils.flop_counter import FlopCounterMode
from rigtune_worker.cnn import CnnShape, ResidualNetwork
answer = []
for shape, size in json.loads({json.dumps(networks)!r}):
    with torch.device("meta"):
        network, images = ResidualNetwork(CnnShape.from_dict(shape)), torch.randn(2, 3, size, size)
    with FlopCounterMode(display=False) as forward:
        logits = network(images)
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    parameters = sum(parameter.numel() for parameter in network.parameters())
    flops = forward.get_total_flops()
    answer.append([parameters, flops, flops + backward.get_total_flops()])
"""
    expected = [
        [parameter_count(network), 2 * forward_flops(network, size), 2 * training_flops(network, size)]
        for network, size in ((RESNET_50, 224), (RESNET_50, 113), (SMALL, 64), (SMALL, 112))
    ]
    assert in_torch(code) == expected
    assert expected[0][0] == 25_557_032


def test_the_cnn_learns_its_one_batch(in_torch):
    code = f"""
import torch
from rigtune_worker.cnn import CnnShape, CnnTrainer
trainer = CnnTrainer(CnnShape.from_dict({SMALL.shape!r}), micro_batch=8, image_size=32, precision="fp32",
                     device=torch.device("cpu"), world_size=1)
answer = [float(trainer.step()) for _ in range(12)]
"""
    losses = in_torch(code)
    assert losses[-1] < losses[0] / 2


def test_a_step_of_the_cnn_is_timed(answer_of):
    request = tiny(train_cnn)
    measured = train_cnn.interpret(request, answer_of(request))
    assert the_one(measured, "images_per_s").median > 0
    assert the_one(measured, "peak_memory_bytes").median > 4 * 4 * parameter_count(
        SMALL
    )  # weights, gradients, momentum


def test_recomputation_is_a_case_of_its_own(answer_of):
    request = tiny(train_step, suite="full", budget_s=10.0)
    measured = train_step.interpret(request, answer_of(request))
    steps = {
        (m.parameters["activation_checkpointing"], m.parameters["micro_batch"])
        for m in measured
        if m.metric == "step_time_s"
    }
    assert steps == {(mode, size) for mode in ("none", "full") for size in (2, 4)}


EVERY_CASE_HAS_TIME = """
from rigtune_worker import timing
from rigtune_worker.__main__ import main
from rigtune_worker.worker_process import run_and_leave
timing.Budget.next_case = lambda budget: 0.1
run_and_leave(main)
"""


@pytest.mark.slow
def test_all_variants_run_on_two_ranks(answer_of):
    """Give every case the same short time, so that a slow machine skips none of them."""
    request = tiny(train_step, ranks=2, suite="full")
    request = msgspec.structs.replace(request, cases=request.cases[:4])
    measured = train_step.interpret(request, answer_of(request, script=EVERY_CASE_HAS_TIME))
    assert {(m.parameters["strategy"], m.parameters["activation_checkpointing"]) for m in measured} == {
        (strategy, mode) for strategy in ("ddp", "fsdp") for mode in ("none", "full")
    }


@pytest.fixture(scope="module")
def limited_sweep(answer_of):
    """A model whose logits alone take 4 MiB for each sequence."""
    request = tiny(micro_batch, budget_s=100.0)
    cases = tuple({**case, "sequence_length": 256} for case in request.cases)
    settings = {**request.settings, "memory_limit_bytes": 128 * MIB}
    request = msgspec.structs.replace(request, cases=cases, model={**TINY, "vocab": 4096}, settings=settings)
    return request, answer_of(request)


def test_the_sweep_survives_running_out_of_memory_and_finds_the_limit(limited_sweep):
    request, lines = limited_sweep
    assert failures(lines) == []
    measured = micro_batch.interpret(request, lines)
    largest = the_one(measured, "largest_micro_batch")
    assert 2 <= largest.median <= 32
    assert largest.conditions["smallest_that_fails"] == largest.median + 1
    peaks = {m.parameters["micro_batch"]: m.median for m in measured if m.metric == "peak_memory_bytes"}
    assert max(peaks) == largest.median
    # Code of libraries that a step brings into memory counts in the peak, and not in the limit.
    assert peaks[largest.median] < (128 + 128) * MIB
    assert 1 <= the_one(measured, "fastest_micro_batch").median <= largest.median
    assert the_one(measured, "memory_per_sample_bytes").median > 0


def test_a_sweep_without_time_says_what_it_left_out(answer_of):
    request = tiny(micro_batch, budget_s=0.5)
    lines = answer_of(request)
    measured = micro_batch.interpret(request, lines)
    largest = the_one(measured, "largest_micro_batch")
    assert largest.conditions["smallest_that_fails"] == 0
    (skipped,) = [line for line in lines[0] if isinstance(line, SkippedLine)]
    assert skipped.case["micro_batch"] == 2 * largest.median


USERS = '''
import os, signal, sys, time
import torch

def fine(device, micro_batch):
    print('{"outcome": "fits"}', flush=True)
    os.write(1, b"\\x00\\x1b[2J garbage\\n")
    return lambda: {"images": micro_batch}

def fails(device, micro_batch):
    def step():
        raise KeyError("no such layer")
    return step

def leaves(device, micro_batch):
    return lambda: sys.exit(3)

def vanishes(device, micro_batch):
    return lambda: os._exit(7)

def hangs(device, micro_batch):
    return lambda: time.sleep(1000)

def killed(device, micro_batch):
    return lambda: os.kill(os.getpid(), signal.SIGKILL)

def aborts(device, micro_batch):
    return lambda: os.abort()

def eats(device, micro_batch):
    kept = []
    return lambda: kept.append(torch.ones(2**27))

def alone(device):
    return lambda: None

def waits(device):
    def step():
        print("waiting now", flush=True)
        time.sleep(1000)  # here it hangs
    return step

def one_rank_fails(device):
    model = torch.nn.Linear(4, 4)
    if torch.distributed.get_world_size() > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    def step():
        if torch.distributed.get_rank() == 1:
            raise ValueError("only here")
        model(torch.randn(2, 4)).sum().backward()
    return step

def noisy(device, micro_batch=4):
    """Use the gradient (3, 4) with independent noise of deviation 5 in both directions: 2 * 25 / 25 = 2."""
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1, bias=False)
    def backward():
        samples = torch.tensor([3.0, 4.0]) + 5 * torch.randn(micro_batch, 2)
        (model.weight * samples.mean(dim=0)).sum().backward()
    def step():
        backward()
    step.model, step.backward = model, backward
    return step
'''


@pytest.fixture(scope="module")
def users_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    (folder / "users.py").write_text(USERS)
    (folder / "example.py").write_text(EXAMPLE)
    (folder / "broken.py").write_text("def make(device):\n    return (\n")
    (folder / "lacking.py").write_text("import surely_not_installed_anywhere\n")
    return folder


def test_no_end_of_a_trial_takes_the_sweep_down(in_torch, users_folder):
    names = ("fine", "fails", "leaves", "vanishes", "hangs", "killed", "aborts", "eats", "fine")
    request = {
        "device": "cpu",
        "backend": "gloo",
        "settings": {"folder": str(users_folder), "memory_limit_bytes": 256 * MIB},
        "model": {},
    }
    code = f"""
from rigtune_worker.trial import Trials
with Trials({request!r}) as trials:
    answer = []
    for name in {names!r}:
        case = {{"step": "users:" + name, "micro_batch": 4}}
        answer.append(trials.attempt(case, budget_s=0.1, deadline_s=2 if name == "hangs" else 60))
"""
    result = in_torch(code)
    outcomes = [
        "fits",
        "crashed",
        "crashed",
        "crashed",
        "too_slow",
        "out_of_memory",
        "crashed",
        "out_of_memory",
        "fits",
    ]
    assert [single["outcome"] for single in result] == outcomes
    assert result[0]["figures"]["images"] == 4
    line = USERS.splitlines().index('        raise KeyError("no such layer")') + 1
    assert result[1]["message"] == f"KeyError: 'no such layer' ({users_folder}/users.py:{line})"
    assert "sys.exit(3)" in result[2]["message"]
    assert "exit code 7" in result[3]["message"]
    assert "SIGABRT" in result[6]["message"]


@pytest.mark.parametrize(
    ("target", "kind", "words"),
    [
        ("users:nowhere", "unsupported", "users has no function 'nowhere'"),
        ("nobody.py:make", "unsupported", "there is no file {folder}/nobody.py"),
        ("no.such.module:make", "unsupported", "there is no module 'no.such.module' in {folder}"),
        ("users", "unsupported", "there is no step 'users': name it module:function"),
        ("broken.py:make", "crashed", "SyntaxError: '(' was never closed ({folder}/broken.py:2)"),
        (
            "lacking:make",
            "crashed",
            "No module named 'surely_not_installed_anywhere' ({folder}/lacking.py:1)",
        ),
        ("users:os", "unsupported", "users has no function 'os'"),
    ],
)
def test_a_step_that_cannot_be_loaded_is_told_in_one_line(users_steps, users_folder, target, kind, words):
    assert users_steps[target][0] == kind
    assert words.format(folder=users_folder) in users_steps[target][1]
    assert "\n" not in users_steps[target][1]


@pytest.fixture(scope="module")
def users_steps(in_torch, users_folder):
    """Return kind and message of the failure when each of these files is loaded."""
    targets = [
        "users:nowhere",
        "nobody.py:make",
        "no.such.module:make",
        "users",
        "broken.py:make",
        "lacking:make",
        "users:os",
    ]
    code = f"""
from rigtune_worker.own import OwnStep
from rigtune_worker.protocol import CaseError, SetupError
answer = {{}}
for target in {targets!r}:
    try:
        OwnStep(target, {str(users_folder)!r})
    except (CaseError, SetupError) as error:
        answer[target] = [getattr(error, "kind", "unsupported"), str(error)]
"""
    return in_torch(code)


def test_a_step_that_counts_nonsense_is_told_so(in_torch):
    result = in_torch("""
from rigtune_worker.own import items_in
from rigtune_worker.protocol import CaseError
answer = []
for tokens in (10**400, float("nan"), -1, "many", [], None):
    try:
        items_in({"tokens": tokens}, "users:step")
    except CaseError as error:
        answer.append(str(error))
""")
    assert len(result) == 6
    assert all("users:step returned" in words and "\n" not in words for words in result)


def test_the_documented_example_is_measured(answer_of, users_folder):
    request = tiny(own_step, step="example.py:make", folder=users_folder)
    measured = own_step.interpret(request, answer_of(request))
    rate = the_one(measured, "samples_per_s")
    assert rate.parameters == {"step": "example.py:make", "world_size": 1, "micro_batch": 8}
    assert rate.median == pytest.approx(8 / the_one(measured, "step_time_s").median, rel=0.5)


@pytest.mark.slow
def test_the_documented_example_on_two_ranks_and_in_the_sweep(answer_of, users_folder):
    request = tiny(own_step, ranks=2, step="example:make", folder=users_folder)
    measured = own_step.interpret(request, answer_of(request))
    rates = [16 / duration_s for duration_s in the_one(measured, "step_time_s").samples]
    assert the_one(measured, "samples_per_s").samples == pytest.approx(rates)
    request = tiny(micro_batch, step="example:make", folder=users_folder, budget_s=10.0)
    measured = micro_batch.interpret(request, answer_of(request))
    assert the_one(measured, "fastest_micro_batch").parameters == {"step": "example:make", "world_size": 1}


def test_a_step_without_micro_batch_leaves_the_sweep_to_the_reference_model(answer_of, users_folder):
    request = tiny(micro_batch, step="users:alone", folder=users_folder, budget_s=0.5)
    lines = answer_of(request)
    assert failures(lines) == []
    assert (
        the_one(micro_batch.interpret(request, lines), "largest_micro_batch").parameters["model"]
        == TINY["id"]
    )


def test_a_step_that_takes_all_memory_is_told_so(answer_of, users_folder):
    request = tiny(own_step, step="users:eats", folder=users_folder, budget_s=60.0)
    request = msgspec.structs.replace(request, settings={**request.settings, "memory_limit_bytes": 256 * MIB})
    (failure,) = failures(answer_of(request))
    assert failure.kind == "out_of_memory"
    assert f"{users_folder}/users.py:" in failure.message


def test_a_step_that_hangs_leaves_in_the_log_where(torch_python, environment, users_folder, tmp_path):
    request = tiny(own_step, step="users:waits", folder=users_folder)
    (tmp_path / "request.json").write_bytes(to_json(request))
    argv = (
        torch_python,
        "-m",
        "rigtune_worker",
        "own-step",
        "--request",
        "request.json",
        "--out",
        str(tmp_path),
    )
    with subprocess.Popen(
        argv, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert "waiting now" in running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        _, log = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == -signal.SIGTERM
    line = USERS.splitlines().index("        time.sleep(1000)  # here it hangs") + 1
    # The signal may come before the line after the words has begun.
    assert f'users.py", line {line} in step' in log or f'users.py", line {line - 1} in step' in log


@pytest.mark.slow
def test_the_rank_that_failed_first_is_the_cause_and_not_those_that_lost_it(torch_python, users_folder):
    settings = BenchSettings(step="users:one_rank_fails", folder=str(users_folder))
    options = MeasureOptions(
        python=torch_python, only=("own-step",), force=True, ranks_per_node=2, settings=settings
    )
    result = list(measure_machine(FACTS, options))[-1].result
    line = USERS.splitlines().index('            raise ValueError("only here")') + 1
    assert [failure.message for failure in result.failures] == [
        f"ValueError: only here ({users_folder}/users.py:{line})"
    ]
    assert {m.subject for m in result.measurements} == {"1 rank"}


def test_the_noise_scale_of_a_step_whose_noise_is_known(answer_of, users_folder):
    request = tiny(noise_scale, step="users:noisy", folder=users_folder, budget_s=3.0)
    measured = noise_scale.interpret(request, answer_of(request))
    low, high = (the_one(measured, f"noise_scale_{end}_sequences").median for end in ("low", "high"))
    assert low < the_one(measured, "noise_scale_sequences").median < high
    assert the_one(measured, "noise_scale_sequences").median == pytest.approx(2, rel=0.3)


def test_a_step_without_a_model_has_no_noise_scale(answer_of, users_folder):
    request = tiny(noise_scale, step="users:alone", folder=users_folder)
    (failure,) = failures(answer_of(request))
    assert failure.kind == "unsupported"
    assert "has no `model` and `backward`" in failure.message


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_mean_gradient_is_never_longer_than_the_small_ones(answer_of, ranks):
    request = tiny(noise_scale, ranks=ranks, budget_s=2.0)
    lines = answer_of(request)
    series = next(line.series for line in lines[0] if hasattr(line, "series"))
    pairs = list(zip(series["small_squared_norm"], series["large_squared_norm"], strict=True))
    assert len(pairs) >= 8
    assert all(0 < large <= small for small, large in pairs)


def test_what_control_groups_leave_bounds_the_memory(in_torch, tmp_path):
    """Version 2 with a limit above this process's own group, files in the page cache not counted; and version
    1.
    """
    v2, v1 = tmp_path / "v2", tmp_path / "v1"
    for folder, limit, used in ((v2 / "job", "1000", "700"), (v2 / "job" / "step", "max", "600")):
        folder.mkdir(parents=True)
        (folder / "memory.max").write_text(limit)
        (folder / "memory.current").write_text(used)
        (folder / "memory.stat").write_text("anon 500\ninactive_file 150\n")
    (v1 / "memory" / "job").mkdir(parents=True)
    (v1 / "memory" / "job" / "memory.limit_in_bytes").write_text("5000\n")
    (v1 / "memory" / "job" / "memory.usage_in_bytes").write_text("3000\n")
    (v1 / "memory" / "job" / "memory.stat").write_text("total_inactive_file 1000\n")
    (tmp_path / "groups2").write_text("0::/job/step\n")
    (tmp_path / "groups1").write_text("5:cpu:/x\n4:memory:/job\n0::/\n")
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:       4 kB\n")
    code = f"""
from pathlib import Path
from rigtune_worker import memory_limit as limits
here, answer = Path({str(tmp_path)!r}), []
limits.MEMORY_INFO = str(here / "meminfo")
for groups, tree in (("groups2", "v2"), ("groups1", "v1"), ("none", "none")):
    limits.OWN_GROUPS, limits.GROUPS = str(here / groups), str(here / tree)
    answer.append(limits.available_bytes())
limits.MEMORY_INFO = str(here / "none")
answer.append(limits.available_bytes())
"""
    assert in_torch(code) == [450, 3000, 4096, 0]
