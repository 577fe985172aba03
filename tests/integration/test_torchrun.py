"""Test the torchrun script with real torch: it trains, keeps jobs apart, and leaves no process behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

import assistant
from assistant.usecases.verify import VerifyRequest, verify_launch
from recipes.launch.recipe import Command
from recipes.launch.reference_files import helper_file

pytestmark = pytest.mark.slow

LIMIT_S = 240
"""Time limit in seconds, long enough for a busy machine."""


@pytest.fixture
def recipe(make_recipe, torch_python):
    """Return a recipe with two gloo ranks of the reference program."""
    return make_recipe(resources={"python": torch_python})


@pytest.fixture
def stubborn(make_recipe, torch_python, tmp_path):
    """Return a recipe with two ranks of a program that prints its place, and then ignores SIGTERM forever."""
    program = tmp_path / "stubborn.py"
    program.write_text(
        "import os, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"if os.path.exists({str(tmp_path / 'alive')!r}): os.open({str(tmp_path / 'alive')!r}, os.O_WRONLY)\n"
        "rank, node, run_id = (os.environ[name] for name in ('RANK', 'GROUP_RANK', 'TORCHELASTIC_RUN_ID'))\n"
        "os.write(1, f'rank {rank} node {node} id {run_id}\\n'.encode())\n"
        "while True: signal.pause()\n"
    )
    return make_recipe(
        command=Command(kind="script", target=str(program)), resources={"python": torch_python}
    )


def start(*command: object, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        tuple(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **options,
    )


def wait_for_ranks(process: subprocess.Popen[str], count: int) -> list[list[str]]:
    """Return the words of the first line of each of `count` ranks."""
    lines: list[list[str]] = []
    assert process.stdout is not None
    for line in process.stdout:
        words = line.split()
        if words[1:2] == ["rank"]:  # after torchrun's prefix
            lines.append(words[1:])
        if len(lines) == count:
            return lines
    raise AssertionError("the job ended before its ranks ran")


def test_the_script_trains_the_reference_workload_on_two_ranks(recipe, export, read_report, tmp_path):
    folder = tmp_path / "it's a $folder: ü"
    script = export("torchrun", recipe, folder)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "json.py").write_text("raise SystemExit('a file of the current folder was imported')")
    report = tmp_path / "report.jsonl"
    subprocess.run(
        (script, "--", "--steps", "10", "--report", report), cwd=elsewhere, check=True, timeout=LIMIT_S
    )
    trained = read_report(report)
    assert trained.start["world_size"] == 2
    assert trained.start["backend"] == "gloo"
    assert len(trained.losses) == 10
    assert trained.done["loss_last"] < trained.done["loss_first"]


def test_verification_of_groups_that_share_parameters(make_recipe, torch_python, tmp_path):
    layout = {"strategy": "hsdp", "dp": 2, "fsdp": 2, "global_batch": 16}
    four = make_recipe(ranks_per_node=4, parallelism=layout, resources={"python": torch_python})
    result = list(verify_launch(four, VerifyRequest(steps=4, stores=False), tmp_path))[-1].result
    assert (result.world_size, result.steps) == (4, 4)
    assert result.loss_last < result.loss_first


def test_verification_measures_the_same_job(recipe, tmp_path):
    result = list(verify_launch(recipe, VerifyRequest(steps=8, stores=False), tmp_path))[-1].result
    assert (result.world_size, result.steps) == (2, 8)
    assert result.loss_last < result.loss_first
    assert result.step_time_s.measured > 0
    assert result.peak_memory_bytes.measured > 0


def test_verification_reads_the_steps_and_the_memory_of_the_helper(make_recipe, torch_python, tmp_path):
    text = (Path(assistant.__file__).parent / "docs" / "own_program.md").read_text("utf-8")
    program = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[-1]
    (tmp_path / "train.py").write_text(program)
    (tmp_path / "rigtune_helper.py").write_text(helper_file().text)
    command = Command(kind="script", target=str(tmp_path / "train.py"), arguments=("{checkpoints}",))
    recipe = make_recipe(command=command, resources={"python": torch_python})
    request = VerifyRequest(steps=6, stores=False)
    result = list(verify_launch(recipe, request, tmp_path / "run"))[-1].result
    assert (result.program, result.loss_last < result.loss_first) == ("own", True)
    assert result.steps >= 6
    assert result.peak_memory_bytes.measured > 2**20
    assert result.reserved_memory_bytes is None


def test_two_jobs_of_one_script_at_once_do_not_meet(recipe, export, read_report, tmp_path):
    script = export("torchrun", recipe, tmp_path / "launch")
    reports = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    jobs = [start(script, "--", "--steps", "5", "--report", report) for report in reports]
    for job in jobs:
        output, _ = job.communicate(timeout=LIMIT_S)
        assert job.returncode == 0, output
    assert [read_report(report).start["world_size"] for report in reports] == [2, 2]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_ranks_end_with_the_script(stubborn, export, tmp_path, number):
    os.mkfifo(tmp_path / "alive")
    job = start(export("torchrun", stubborn, tmp_path / "launch"), cwd=tmp_path)
    with (tmp_path / "alive").open("rb") as alive:
        wait_for_ranks(job, 2)
        job.send_signal(number)
        # Every rank holds the other end of the pipe open: the file ends when the last rank has ended.
        assert alive.read() == b""
    job.communicate(timeout=LIMIT_S)
    assert job.returncode != 0


def test_the_reference_program_ends_with_a_killed_script(recipe, export, tmp_path):
    job = start(export("torchrun", recipe, tmp_path / "launch"), "--", "--steps", "1000000")
    assert job.stdout is not None
    assert any("step 1/" in line for line in job.stdout)
    job.kill()
    job.communicate(timeout=LIMIT_S)
    assert job.returncode == -signal.SIGKILL


def test_a_failing_rank_ends_the_job_and_its_error_is_printed(make_recipe, torch_python, export, tmp_path):
    program = tmp_path / "fails.py"
    program.write_text(
        "import os, signal\nif os.environ['RANK'] == '1': raise ValueError('bad shape')\nsignal.pause()\n"
    )
    recipe = make_recipe(
        command=Command(kind="script", target=str(program)), resources={"python": torch_python}
    )
    job = start(export("torchrun", recipe, tmp_path / "launch"), cwd=tmp_path)
    output, _ = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 1
    assert "ValueError: bad shape" in output


@pytest.fixture
def two_nodes(stubborn, make_recipe, torch_python):
    return make_recipe(
        nodes=2, ranks_per_node=1, command=stubborn.command, resources={"python": torch_python}
    )


def test_ranks_follow_the_node_order_and_attempts_do_not_meet(two_nodes, export, tmp_path):
    """Two attempts of a job on two 'nodes' of this machine, each with the second node started first."""
    script = export("torchrun", two_nodes, tmp_path / "launch")
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1"}
    jobs = {
        (node, attempt): start(script, node, attempt, env=environment, cwd=tmp_path)
        for node in (1, 0)
        for attempt in (3, 4)
    }
    try:
        for (node, attempt), job in jobs.items():
            ((_, rank, _, group_rank, _, run_id),) = wait_for_ranks(job, 1)
            assert (int(rank), int(group_rank), run_id) == (node, node, f"mini-{attempt}")
    finally:
        for job in jobs.values():
            job.kill()
        for job in jobs.values():
            job.communicate(timeout=LIMIT_S)


def test_several_nodes_train_together(make_recipe, torch_python, export, read_report, tmp_path: Path):
    recipe = make_recipe(nodes=2, ranks_per_node=1, resources={"python": torch_python})
    script = export("torchrun", recipe, tmp_path / "launch")
    report = tmp_path / "report.jsonl"
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1"}
    jobs = [start(script, node, "--", "--steps", "6", "--report", report, env=environment) for node in (0, 1)]
    for job in jobs:
        output, _ = job.communicate(timeout=LIMIT_S)
        assert job.returncode == 0, output
    trained = read_report(report)
    assert trained.start["world_size"] == 2
    assert trained.losses[-1] < trained.losses[0]
