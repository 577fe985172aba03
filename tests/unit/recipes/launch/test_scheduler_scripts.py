"""Test launch scripts for Slurm and MPI in a real bash, with stand-ins that record their calls."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from probes.base.errors import UsageError
from recipes.launch.recipe import Environment, Recipe
from tests.support.launch_bench import SLURM_JOB, Bench, Outcome, option, put_files, render


def test_slurm_reads_the_node_id_on_each_node(make_recipe, launch_bench, tmp_path):
    script = put_files(
        tmp_path / "a b", render("slurm", make_recipe(nodes=2, resources={"cpus_per_node": 2}))
    )
    variables = {**SLURM_JOB, "SLURM_JOB_NUM_NODES": "2", "COMMAND": f"{script} -- /train.sbatch x"}
    first, second = launch_bench.run("bash", str(script), "--", "--steps", "4", **variables).calls
    assert [option(call, "--node-rank") for call in (first, second)] == ["0", "1"]
    assert option(first, "--master-addr") == option(second, "--master-addr") == "10.0.0.7"
    assert option(first, "--rdzv-id") == "41-0"
    assert first.directory == str(tmp_path / "a b")
    assert first.environment["SRUN_CPUS_PER_TASK"] == "2"
    assert first.arguments[-6:] == ["-m", "rigtune_worker.train", "--config", "workload.json", "--steps", "4"]

    restarted = launch_bench.run("bash", str(script), **variables, SLURM_RESTART_COUNT="1").calls[0]
    assert option(restarted, "--rdzv-id") == "41-1"
    assert option(restarted, "--master-port") != option(first, "--master-port")


def test_slurm_finds_a_renamed_script_in_the_folder_of_submission(make_recipe, launch_bench, tmp_path):
    original = put_files(tmp_path / "launch", render("slurm", make_recipe()))
    script = tmp_path / "spool" / "slurm_script"
    script.parent.mkdir()
    script.write_text(original.read_text())
    variables = {**SLURM_JOB, "SLURM_JOB_NUM_NODES": "1", "COMMAND": "/elsewhere/mine.sh"}
    outcome = launch_bench.run(
        "bash", str(script), **{**variables, "SLURM_SUBMIT_DIR": str(tmp_path / "launch")}
    )
    assert outcome.calls[0].directory == str(tmp_path / "launch")
    outcome = launch_bench.run("bash", str(script), **variables)
    assert outcome.exit_code == 2
    assert "plan.json is not beside the script" in outcome.words


def test_slurm_refuses_another_number_of_nodes(make_recipe, launch_bench, tmp_path):
    script = put_files(tmp_path, render("slurm", make_recipe(nodes=2)))
    outcome = launch_bench.run("bash", str(script), **SLURM_JOB, SLURM_JOB_NUM_NODES="3")
    assert outcome.exit_code == 2
    assert "needs --nodes=2, not 3" in outcome.words


OPEN_MPI_5 = "mpirun (Open MPI) 5.0.6"


HYDRA = "HYDRA build details:\n    Version:                                 4.0.2"


INTEL_MPI = "Intel(R) MPI Library for Linux* OS, Version 2021.12 Build 20240213 (id: 4f55822)"


@pytest.mark.parametrize(("version", "ranks"), [(OPEN_MPI_5, "2"), (HYDRA, "4")])
def test_every_rank_of_mpirun_learns_its_place(make_recipe, launch_bench, tmp_path, version, ranks):
    script = put_files(
        tmp_path / "launch", render("mpi", make_recipe(nodes=2, resources={"hosts": ("a", "b")}))
    )
    outcome = launch_bench.run(str(script), "--", "--steps", "3", MPI_VERSION=version, MPI_RANKS=ranks)
    assert outcome.exit_code == 0, outcome.words
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    places = [tuple(call.environment[name] for name in names) for call in outcome.calls]
    assert sorted(places) == [(str(rank), str(rank % 2), "4", "2", "a") for rank in range(4)]
    assert len({call.environment["MASTER_PORT"] for call in outcome.calls}) == 1
    assert outcome.calls[0].arguments == [
        "-m",
        "rigtune_worker.train",
        "--config",
        "workload.json",
        "--steps",
        "3",
    ]


def options_of_mpirun(bench: Bench, script: Path, **variables: str) -> list[str]:
    file = bench.folder / "options"
    file.unlink(missing_ok=True)
    bench.run(str(script), **variables)
    return file.read_text().splitlines()


def test_mpirun_gets_hosts_in_order_and_variables_to_hand_on(make_recipe, launch_bench, tmp_path):
    entry = Environment(name="NCCL_SOCKET_IFNAME", value="=ens1", why="w", source="s")
    recipe = make_recipe(nodes=2, ranks_per_node=4, resources={"hosts": ("a", "b")}, environment=(entry,))
    script = put_files(tmp_path / "launch", render("mpi", recipe))
    words = options_of_mpirun(launch_bench, script)
    assert [words[at + 1] for at, word in enumerate(words) if word == "--host"] == ["a:4", "b:4"]
    assert [words[at + 1] for at, word in enumerate(words) if word == "-np"] == ["4", "4"]
    handed_on = [words[at + 1] for at, word in enumerate(words) if word == "-x"]
    own = ["MASTER_ADDR", "MASTER_PORT", "RIGTUNE_LOGS", "RIGTUNE_RECIPE", "RIGTUNE_PREFLIGHT", "PYTHONPATH"]
    assert handed_on == 2 * [*own, "NCCL_SOCKET_IFNAME"]
    assert "export OMPI_MCA_oob_tcp_if_include=ens1 " in script.read_text()
    for version in (HYDRA, INTEL_MPI):
        words = options_of_mpirun(launch_bench, script, MPI_VERSION=version)
        assert (words[words.index("-hosts") + 1], words[words.index("-ppn") + 1]) == ("a,b", "4")


def test_an_unknown_mpirun_is_refused(make_recipe, launch_bench, tmp_path):
    script = put_files(tmp_path / "launch", render("mpi", make_recipe()))
    outcome = launch_bench.run(str(script), MPI_VERSION="mpirun of somebody else")
    assert (outcome.exit_code, outcome.calls) == (2, [])
    assert "not from Open MPI, MPICH or Intel: mpirun of somebody else" in outcome.words


def test_several_nodes_of_a_scheduler_need_the_first_ones_address(make_recipe, launch_bench, tmp_path):
    script = put_files(tmp_path / "launch", render("mpi", make_recipe(nodes=2)))
    outcome = launch_bench.run(str(script))
    assert (outcome.exit_code, outcome.calls) == (2, [])
    assert "MASTER_ADDR is not set" in outcome.words
    assert (
        launch_bench.run(str(script), MASTER_ADDR="10.0.0.1").calls[0].environment["MASTER_ADDR"]
        == "10.0.0.1"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone is refused")
def test_root_must_allow_itself(make_recipe, launch_bench, tmp_path):
    script = put_files(tmp_path / "launch", render("mpi", make_recipe()))
    outcome = launch_bench.run(str(script), OMPI_ALLOW_RUN_AS_ROOT="")
    assert (outcome.exit_code, outcome.calls) == (2, [])
    assert "OMPI_ALLOW_RUN_AS_ROOT=1" in outcome.words


def test_mpirun_takes_no_ipv6_address(make_recipe):
    with pytest.raises(UsageError, match="fe80::1"):
        render("mpi", make_recipe(nodes=2, resources={"hosts": ("a", "fe80::1")}))


def directives(recipe: Recipe) -> list[str]:
    return re.findall(r"^#SBATCH (.*)$", render("slurm", recipe)[0].text, re.MULTILINE)


def test_slurm_asks_for_what_the_recipe_names(make_recipe):
    site = {"partition": "gpu", "account": "lab", "time_limit": "1-00:00:00", "cpus_per_node": 96}
    recipe = make_recipe(nodes=4, ranks_per_node=8, resources={"device": "cuda", "backend": "nccl", **site})
    assert {"--nodes=4", "--ntasks-per-node=1", "--gpus-per-node=8", "--cpus-per-task=96"} <= set(
        directives(recipe)
    )
    assert {"--partition=gpu", "--account=lab", "--time=1-00:00:00", "--job-name=mini"} <= set(
        directives(recipe)
    )


def test_slurm_without_gpus_asks_for_none(make_recipe):
    assert not [
        line
        for line in directives(make_recipe())
        if re.search("gpu|gres|partition|account|time|cpus-per", line)
    ]


PROGRAM = """#!{python}
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
helper = 0
if "GO" in os.environ:  # catches signals as every program written in Go does: SigCgt fffffffdffc1feff
    ready, begun = os.pipe()
    helper = os.fork()
    if not helper:
        for number in range(1, 65):
            if number not in (9, *range(18, 23), 32, 33, 34):
                signal.signal(number, lambda *_: None)
        os.write(begun, b".")
        while True:
            signal.pause()
    os.read(ready, 1)
    with open(os.path.join(os.environ["SUBMITTED"], "helper"), "w") as file:
        file.write(str(helper))
if "HANDLES" in os.environ:
    signal.signal(signal.SIGUSR1, lambda *_: None)
os.kill(int(os.environ["BATCH"]), signal.SIGUSR1)
signal.sigwait([signal.SIGUSR2])  # srun has passed the signal on
if helper:
    os.kill(helper, signal.SIGKILL)
sys.exit(int(os.environ["CODE"]))
"""


@pytest.fixture
def signalled(launch_bench: Bench, make_recipe, tmp_path):
    """Return a function that runs a job; its script gets USR1, and its program then ends with `code`."""
    program = tmp_path / "program"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    launch_bench.stand_in(
        "srun",
        "while [[ $1 == --* ]]; do shift; done\n"
        'trap \'kill -USR1 "$task"; kill -USR2 "$task"\' USR1\nexport BATCH=$PPID SLURM_NODEID=0\n'
        "export SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1\n"
        '"$@" & task=$!\necho "$task" >"$SUBMITTED/task"\n'
        'wait "$task"; while kill -0 "$task" 2>/dev/null; do wait "$task"; done; wait "$task"',
    )
    launch_bench.stand_in(
        "scontrol",
        'case "$1 $2 $3" in\n'
        '"listpids 41 n7") printf "PID JOBID STEPID LOCALID GLOBALID\\n"\n'
        'printf "%s 41 batch 0 0\\n" "$PPID"\nprintf "%s 41 0 - -\\n" "$(cat "$SUBMITTED/task")"\n'
        'if [[ -f $SUBMITTED/helper ]]; then printf "%s 41 0 - -\\n" "$(cat "$SUBMITTED/helper")"; fi;;\n'
        '"requeue 41 ") kill "$PPID";;\n*) exit 1;;\nesac',
    )

    def run(launcher: str, code: int, **variables: str) -> Outcome:
        script = put_files(tmp_path / launcher, render(launcher, make_recipe()))
        return launch_bench.run(
            "bash",
            str(script),
            **{**SLURM_JOB, "SLURM_JOB_NUM_NODES": "1", "SLURMD_NODENAME": "n7", **variables},
            RIGTUNE_PYTHON=str(program),
            CODE=str(code),
            SUBMITTED=str(tmp_path),
        )

    return run


HANDLES = {"HANDLES": "1"}
GO = {"GO": "1"}
UNKNOWN = {"SLURMD_NODENAME": "another"}


@pytest.mark.parametrize("launcher", ["slurm", "slurm-ranks"])
@pytest.mark.parametrize(
    ("code", "variables", "starts_again"),
    [
        (0, {}, False),
        (0, HANDLES, True),
        (3, {}, True),
        (3, HANDLES, True),
        (0, UNKNOWN, True),
        (0, GO, False),
        (3, GO, True),
        (0, HANDLES | GO, True),
    ],
)
def test_only_a_program_that_ignores_the_signal_and_succeeds_is_done(
    signalled, launcher, code, variables, starts_again
):
    outcome = signalled(launcher, code, **variables)
    assert ("the ranks ended after the signal; the job starts again" in outcome.words) == starts_again
    assert outcome.exit_code == (-15 if starts_again else 0), outcome.words


def test_the_limit_of_restarts_ends_a_job_that_is_signalled(signalled):
    outcome = signalled("slurm", 3, RIGTUNE_RESTARTS="0")
    assert outcome.exit_code == 3
    assert "starts again" not in outcome.words
