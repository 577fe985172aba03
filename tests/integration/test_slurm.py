"""Test the Slurm script on a real Slurm with virtual nodes on this machine.

Needs root, slurmctld, slurmd and munged.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from assistant.engines import slurm_engine
from assistant.engines.engine_table import Rendezvous, Wanted
from assistant.usecases.bench.asked_hosts import ask_hosts, use_by_others
from assistant.usecases.export import run_recipe
from recipes.launch.recipe import Command
from tests.support.across_hosts import measured_across, tiny_request
from tests.support.slurm import GPUS, slurm_cluster

pytestmark = [pytest.mark.root, pytest.mark.slow]

LIMIT_S = 240
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    with slurm_cluster() as environment:
        yield environment


class Job(msgspec.Struct):
    id: str
    exit_code: int
    output: str


def submit(
    environment: dict[str, str], script: Path, *arguments: object, cwd: Path, name: str = "mini"
) -> Job:
    """Run a job to its end."""
    command = ("sbatch", "--wait", "--parsable", str(script), *map(str, arguments))
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    job_id = done.stdout.strip()
    assert job_id, done.stderr
    output = (cwd / f"{name}-{job_id}.out").read_text()
    return Job(job_id, done.returncode, output)


@pytest.fixture
def recipe(make_recipe, torch_python):
    """Return the recipe that runs the reference program on two nodes with two ranks each."""
    return make_recipe(nodes=2, ranks_per_node=2, resources={"python": torch_python, "cpus_per_node": 2})


def test_two_nodes_with_two_ranks_each_train_together(slurm, recipe, export, read_report, tmp_path):
    script = export("slurm", recipe, tmp_path / "it's a $folder: ü")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    report = tmp_path / "a report.jsonl"
    job = submit(slurm, script, "--", "--steps", 6, "--report", report, cwd=elsewhere)
    assert job.exit_code == 0, job.output
    trained = read_report(report)
    assert (trained.start["world_size"], trained.start["backend"]) == (4, "gloo")
    assert trained.losses[-1] < trained.losses[0]


def test_the_command_line_alone_leads_to_training_on_two_nodes(slurm, torch_python, tmp_path):
    """Run the commands of the README: plan, export, sbatch."""

    def rigtune(*words):
        argv = (sys.executable, "-m", "assistant", *map(str, words))
        done = subprocess.run(
            argv,
            cwd=tmp_path,
            env={**slurm, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    workload = ("rigtune-mini", "--nodes", 2, "--ranks-per-node", 2, "--sequence-length", 32, "--steps", 30)
    rigtune("plan", *workload, "--python", torch_python, "-o", "recipe.toml")
    script, *_ = rigtune("export", "recipe.toml", "--to", "slurm")
    job = submit(slurm, tmp_path / script, cwd=tmp_path, name="rigtune-mini")
    assert job.exit_code == 0, job.output
    assert "world size 4, backend gloo," in job.output
    assert "step 30/30" in job.output
    first, last = re.search(r"done: loss ([\d.]+) -> ([\d.]+)", job.output, re.MULTILINE).groups()
    # from ln(4096) = 8.3 towards ln(64) = 4.2, because the data use 64 symbols of the vocabulary
    assert float(last) < float(first) - 3


def test_one_node_trains(slurm, make_recipe, torch_python, export, tmp_path):
    script = export("slurm", make_recipe(resources={"python": torch_python}), tmp_path)
    job = submit(slurm, script, "--steps", 4, cwd=tmp_path)
    assert job.exit_code == 0, job.output
    assert "world size 2," in job.output


@pytest.fixture
def own_program(make_recipe, torch_python, tmp_path):
    """Return `own_program(text)`, which makes a recipe that runs this text as a program, as one rank on each
    of two nodes.
    """

    def make(text):
        program = tmp_path / "program.py"
        program.write_text(
            "import os, signal, sys\nrank, node = os.environ['RANK'], "
            f"os.environ['SLURMD_NODENAME']\n{text}\n"
        )
        command = Command(kind="script", target=str(program), arguments=("{micro_batch}",))
        return make_recipe(nodes=2, ranks_per_node=1, command=command, resources={"python": torch_python})

    return make


def test_ranks_follow_the_order_of_the_nodes(slurm, own_program, export, tmp_path):
    script = export(
        "slurm",
        own_program("os.write(1, f'rank {rank} on {node} {sys.argv[1:]}\\n'.encode())"),
        tmp_path / "launch",
    )
    job = submit(slurm, script, "--", "it's", "$HOME", cwd=tmp_path)
    assert job.exit_code == 0, job.output
    arguments = ["2", "it's", "$HOME"]
    lines = {line for line in job.output.splitlines() if "]: rank " in line}
    assert lines == {f"[rank0]: rank 0 on n1 {arguments}", f"[rank1]: rank 1 on n2 {arguments}"}


def test_a_failing_rank_ends_the_whole_job(slurm, own_program, export, tmp_path):
    script = export(
        "slurm",
        own_program("if rank == '1': raise ValueError('bad shape')\nsignal.pause()"),
        tmp_path / "launch",
    )
    job = submit(slurm, script, cwd=tmp_path)
    assert job.exit_code != 0
    assert "ValueError: bad shape" in job.output


@pytest.mark.parametrize(
    # When one of two nodes fails, srun may end the other by SIGTERM before that node reports the missing
    # interpreter; srun exits with the highest exit code of its tasks.
    ("nodes", "codes"),
    [(1, {127}), (2, {127, 128 + signal.SIGTERM})],
)
def test_the_node_reports_a_missing_interpreter(slurm, make_recipe, export, tmp_path, *, nodes, codes):
    recipe = make_recipe(nodes=nodes, resources={"python": "/no/such/python"})
    job = submit(slurm, export("slurm", recipe, tmp_path / "launch"), cwd=tmp_path)
    assert job.exit_code in codes
    assert "no Python interpreter /no/such/python on " in job.output


def test_slurm_accepts_a_gpu_job_that_fits_and_no_other(slurm, make_recipe, export, tmp_path):
    resources = {
        "device": "cuda",
        "backend": "nccl",
        "partition": "main",
        "time_limit": "00:30:00",
        "cpus_per_node": 16,
    }
    for gpus, fits in ((GPUS, True), (GPUS + 1, False)):
        script = export("slurm", make_recipe(nodes=2, ranks_per_node=gpus, resources=resources), tmp_path)
        tested = subprocess.run(
            ("sbatch", "--test-only", script), env=slurm, capture_output=True, timeout=60, check=False
        )
        assert (tested.returncode == 0) == fits, tested.stderr


def test_run_submits_the_job_and_prints_its_number(slurm, make_recipe, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("SLURM_CONF", slurm["SLURM_CONF"])
    monkeypatch.chdir(tmp_path)
    events = list(
        run_recipe(
            make_recipe(resources={"python": "/no/such/python"}),
            launcher="slurm",
            directory=tmp_path / "launch",
        )
    )
    assert events[-1].result == 0
    assert "Submitted batch job" in capfd.readouterr().out


def test_collectives_and_pairs_are_measured_across_nodes(slurm, torch_python, monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_CONF", slurm["SLURM_CONF"])
    ended = measured_across(
        tiny_request(("n1", "n2"), "slurm", ranks=4), torch_python, tmp_path / "it's a $folder"
    )
    assert ended.failures == ()
    assert {m.subject for m in ended.measurements} == {"4 ranks", "n1->n2", "n2->n1", "n1", "n2"}


def test_tcp_is_measured_between_nodes(slurm, torch_python, monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_CONF", slurm["SLURM_CONF"])
    request = tiny_request(("n1", "n2"), "slurm", ranks=2, bench_id="network")
    ended = measured_across(request, torch_python, tmp_path / "work")
    assert ended.failures == ()
    assert {m.subject for m in ended.measurements} == {"n1->n2", "n2->n1"}


def test_a_node_that_slurm_does_not_know_is_reported(slurm, torch_python, monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_CONF", slurm["SLURM_CONF"])
    ended = measured_across(tiny_request(("n1", "n9"), "slurm", ranks=2), torch_python, tmp_path / "work")
    (failure,) = ended.failures
    assert "n9" in failure.message
    assert "n9" in failure.log_tail, "the words of Slurm reach the user"
    answers = ask_hosts(("n1", "n9"), "slurm", tmp_path)
    reasons = {host: use_by_others(answer, force=True) for host, answer in answers.items()}
    assert reasons == {"n1": "", "n9": "Slurm does not know the node"}


def test_no_job_is_left_when_measuring_is_stopped(slurm, torch_python, monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_CONF", slurm["SLURM_CONF"])
    work = tmp_path / "work"
    request = tiny_request(("n1", "n2"), "slurm", ranks=2)

    def ranks_answer() -> bool:
        return len(list(work.glob("answers/rank*.jsonl"))) == 2

    long = msgspec.structs.replace(request, budget_s=300.0)
    ended = measured_across(long, torch_python, work, stop=ranks_answer)
    assert [failure.kind for failure in ended.failures] == ["stopped"]
    assert not [line for line in queue(slurm) if "COMPLETING" not in line]
    ends = time.monotonic() + LIMIT_S
    while queue(slurm):  # until the last process of the job has ended
        assert time.monotonic() < ends
        time.sleep(0.2)


def test_a_node_that_a_job_uses_is_left_out_and_no_job_shares_it(slurm, monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_CONF", slurm["SLURM_CONF"])
    holder = subprocess.Popen(("srun", "--nodelist=n1", "sleep", "600"), env=slurm)
    try:
        ends = time.monotonic() + LIMIT_S
        while not any("RUNNING" in line for line in queue(slurm)):
            assert time.monotonic() < ends
            time.sleep(0.2)
        answers = ask_hosts(("n1", "n2"), "slurm", tmp_path)
        assert (answers["n1"].outcome, answers["n2"].outcome) == ("not-started", "ok")
        assert "a job uses the node" in answers["n1"].detail
        assert answers["n2"].sees_folder
        outcomes = {}
        command = ("touch", str(tmp_path / "began"))
        wanted = Wanted(("n1", "n2"), command, 60, rendezvous=Rendezvous(port=21000))
        slurm_engine.run(wanted, lambda event: outcomes.update({event.node: event.outcome}))
        assert outcomes == {"n1": "not-started", "n2": "not-started"}
        assert not (tmp_path / "began").exists()
    finally:
        holder.terminate()
        holder.wait(60)


def queue(environment: dict[str, str]) -> list[str]:
    command = ("squeue", "--noheader", "--format=%i %T")
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=True
    ).stdout.splitlines()


def test_inside_an_allocation_its_own_nodes_are_used(slurm, torch_python, tmp_path):
    """A second job that asks for nodes of this allocation would wait for ever."""
    program = (
        "import sys; from pathlib import Path; from tests.support.across_hosts import measured_across, "
        "tiny_request\n"
        "for number, hosts in enumerate((('n2',), ('n2', 'n1'))):\n"
        "    request = tiny_request(hosts, 'slurm', ranks=2)\n"
        "    ended = measured_across(request, sys.argv[1], Path(sys.argv[2]) / str(number))\n"
        "    print([failure.message for failure in ended.failures], sorted({one.subject for one in "
        "ended.measurements}))"
    )
    argv = ("salloc", "--nodes=2", "--exclusive", sys.executable, "-c", program, torch_python, str(tmp_path))
    environment = {**slurm, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.stdout.splitlines() == ["[] ['2 ranks']", "[] ['2 ranks', 'n1', 'n1->n2', 'n2', 'n2->n1']"], (
        done.stderr
    )
