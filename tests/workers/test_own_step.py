"""Test the benchmarks with training steps of the user's own, also with steps that fail."""

from __future__ import annotations

import signal
import subprocess

import msgspec
import pytest

from assistant.usecases.measure import MeasureOptions, measure_machine
from probes.base.record import to_json
from probes.bench import micro_batch, noise_scale, own_step
from probes.bench.bench_requests import BenchSettings
from tests.support.bench_answers import the_one
from tests.workers.conftest import DEADLINE_S, TINY
from tests.workers.test_bench import FACTS
from tests.workers.training_requests import EXAMPLE, MIB, failures, tiny

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

def garbled(device, micro_batch=4):
    step = noisy(device)
    step.backward = lambda: 3.0
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
        ("users", "unsupported", "'users' names no function: name it module:function"),
        ("broken.py:make", "crashed", "SyntaxError: '(' was never closed ({folder}/broken.py:2)"),
        (
            "lacking:make",
            "crashed",
            "No module named 'surely_not_installed_anywhere' ({folder}/lacking.py:1)",
        ),
        ("users:os", "unsupported", "users has no function 'os'"),
    ],
)
def test_a_step_that_cannot_be_loaded_is_reported_in_one_line(users_steps, users_folder, target, kind, words):
    assert users_steps[target][0] == kind
    assert words.format(folder=users_folder) in users_steps[target][1]
    assert "\n" not in users_steps[target][1]


@pytest.fixture(scope="module")
def users_steps(in_torch, users_folder):
    """Return kind and message of the failure to load each target, by target."""
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


def test_an_invalid_token_count_of_a_step_is_refused(in_torch):
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


def test_a_step_that_takes_all_memory_is_reported_as_such(answer_of, users_folder):
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


def test_a_wrong_result_of_backward_is_not_blamed_on_the_step(answer_of, users_folder):
    (failure,) = failures(answer_of(tiny(noise_scale, step="users:garbled", folder=users_folder)))
    assert "`backward` of users:garbled returned float" in failure.message


def test_a_step_without_a_model_has_no_noise_scale(answer_of, users_folder):
    request = tiny(noise_scale, step="users:alone", folder=users_folder)
    (failure,) = failures(answer_of(request))
    assert failure.kind == "unsupported"
    assert "has no `model` and `backward`" in failure.message
