"""Launch scripts, run by a real bash with recording stand-ins for interpreter, scheduler and ssh."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probes.base.errors import UsageError
from recipes.launch.launcher_table import LAUNCHERS
from recipes.launch.recipe import Artifact, Command, Environment, Recipe
from recipes.launch.recipe_file import SCRIPT_VARIABLES, faults

NASTY = (
    "two words",
    "it's",
    'say "hi"',
    "$HOME `id` $(id) ${x}",
    "a\\nb\\",
    "-x",
    "--",
    "*",
    "~",
    "!history",
    "# no comment",
    "tab\there",
    "ü 漢字 🚀",
    "'; touch injected; '",
    "{a}",
    "a&&b|c>d",
    "",
)

nasty_text = st.sampled_from(NASTY) | st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20
)
comments = st.sampled_from(("one\ntouch injected", "a\r\n#SBATCH --wrap=x", "a\n\n#SBATCH --wrap=x", "\t\n"))
folders = st.sampled_from(("plain", "two words", "it's", "$(id)", "ü:漢", "-dash", "#hash", "a\\b", '"q"'))
user_texts = st.fixed_dictionaries(
    {"argument": nasty_text, "value": nasty_text, "title": comments | nasty_text, "folder": folders}
)


class Call(NamedTuple):
    """Call of a stand-in: its arguments and environment."""

    arguments: list[str]
    directory: str
    environment: dict[str, str]


class Outcome(NamedTuple):
    exit_code: int
    words: str
    calls: list[Call]


def put_files(folder: Path, artifacts: tuple[Artifact, ...]) -> Path:
    """Write the artifacts as the application does; returns the path of the first."""
    for artifact in artifacts:
        path = folder / artifact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(artifact.text)
        path.chmod(artifact.mode)
    return folder / artifacts[0].path


class Bench:
    """A folder of stand-ins that come first on the PATH, and their recorded calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = folder / "records"
        self.records.mkdir(parents=True)
        self.recorder = self.stand_in(
            "python-stand-in",
            'file=$(mktemp "$RECORDS/XXXXXXXX")\n{ printf "%s\\0" "$#" "$@" "$PWD"; env -0; } >"$file"',
        )

    def stand_in(self, name: str, body: str) -> str:
        path = self.folder / name
        path.write_text(f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(0o755)
        return str(path)

    def run(self, *command: str, cwd: Path | None = None, **variables: str) -> Outcome:
        environment = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "HOME": "/nonexistent",
            "LC_ALL": "C.UTF-8",
            "RECORDS": str(self.records),
            "RIGTUNE_PYTHON": self.recorder,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",  # as in a container; tests may run as root
            "MPI_VERSION": "mpirun (Open MPI) 4.1.4",
            "MPI_RANKS": "1",
            "OPTIONS": str(self.folder / "options"),
            **variables,
        }
        done = subprocess.run(
            command, check=False, cwd=cwd or self.folder, env=environment, capture_output=True, timeout=30
        )
        calls = [
            self.read(path)
            for path in sorted(self.records.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        ]
        for path in self.records.iterdir():
            path.unlink()
        return Outcome(done.returncode, (done.stdout + done.stderr).decode(), calls)

    @staticmethod
    def read(path: Path) -> Call:
        count, *rest = path.read_bytes().decode().rstrip("\0").split("\0")
        pairs = dict(pair.split("=", 1) for pair in rest[int(count) + 1 :])
        return Call(rest[: int(count)], rest[int(count)], pairs)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


@pytest.fixture
def launch_bench(bench: Bench) -> Bench:
    """Return a bench with stand-ins for Slurm and MPI.

    srun runs the step once per node, as Slurm does; scontrol knows two nodes and this job; mpirun starts
    MPI_RANKS ranks in each of its groups, which a colon separates.
    """
    bench.stand_in(
        "srun",
        "while [[ $1 == --* ]]; do shift; done\n"
        'for ((id = 0; id < SLURM_JOB_NUM_NODES; id++)); do SLURM_NODEID=$id "$@" || exit; done',
    )
    bench.stand_in(
        "scontrol",
        'case "$1 $2" in\n"show hostnames") printf "n%s\\n" 7 9;;\n"show node") echo "  NodeAddr=10.0.0.7 '
        'NodeHostName=n7";;\n"show job") printf "JobId=41 JobName=x\\n   Comment=Command=/no\\n   '
        'Command=%s\\n   WorkDir=/\\n" "$COMMAND";;\nesac',
    )
    bench.stand_in(
        "mpirun",
        'if [[ $1 == --version ]]; then echo "$MPI_VERSION"; exit; fi\n'
        "names=(OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE})\n"
        "if [[ $MPI_VERSION == *HYDRA* ]]; then names=(PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS); "
        "fi\nrank=0\n"
        "while (($#)); do\n"
        '  while [[ $1 != bash ]]; do echo "$1" >>"$OPTIONS"; shift; done\n'
        "  command=()\n"
        '  while (($#)) && [[ $1 != : ]]; do command+=("$1"); shift; done\n'
        "  shift\n"
        "  for ((local = 0; local < MPI_RANKS; local++, rank++)); do\n"
        '    env "${names[0]}=$rank" "${names[1]}=4" "${names[2]}=$((rank % 2))" "${names[3]}=2" '
        '"${command[@]}" || exit\n'
        "  done\n"
        "done",
    )
    return bench


SLURM_JOB = {
    "SLURM_JOB_ID": "41",
    "SLURM_JOB_NODELIST": "n[7,9]",
    "SLURM_SUBMIT_DIR": "/",
    "SLURM_CPUS_PER_TASK": "2",
}


def render(launcher: str, recipe: Recipe) -> tuple[Artifact, ...]:
    return importlib.import_module(f"recipes.launch.launchers.{launcher}").render(recipe)


def program_of(call: Call) -> list[str]:
    """Return the words that follow torchrun's own options."""
    if "-u" in call.arguments:
        return call.arguments[call.arguments.index("-u") + 1 :]
    return call.arguments[call.arguments.index("--nproc-per-node") + 2 :]


def option(call: Call, name: str) -> str:
    return call.arguments[call.arguments.index(name) + 1]


def test_one_node_starts_the_reference_program_beside_the_script(make_recipe, bench, tmp_path):
    script = put_files(tmp_path / "launch", render("torchrun", make_recipe()))
    outcome = bench.run(str(script), "--", "--steps", "3", PYTHONPATH="/mine")
    assert outcome.exit_code == 0, outcome.words
    (call,) = outcome.calls
    assert call.arguments[:3] == ["-m", "torch.distributed.run", "--standalone"]
    assert (option(call, "--nnodes"), option(call, "--nproc-per-node")) == ("1", "2")
    assert program_of(call) == ["-m", "rigtune_worker.train", "--config", "workload.json", "--steps", "3"]
    assert call.directory == str(tmp_path / "launch")
    assert call.environment["PYTHONPATH"] == ".:/mine"
    assert (tmp_path / "launch" / "workload.json").exists()
    assert (tmp_path / "launch" / "rigtune_worker" / "train.py").exists()


def test_arguments_need_no_dashes_on_one_node(make_recipe, bench, tmp_path):
    script = put_files(tmp_path, render("torchrun", make_recipe()))
    assert program_of(bench.run(str(script), "--steps", "3").calls[0])[-2:] == ["--steps", "3"]


@pytest.mark.parametrize("launcher", [row.id for row in LAUNCHERS])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.fixed_dictionaries(
        {"argument": nasty_text, "value": nasty_text, "title": comments | nasty_text, "folder": folders}
    )
)
def test_no_text_of_the_user_is_read_by_the_shell(
    make_recipe, launch_bench, tmp_path_factory, launcher, text
):
    argument, value, title, folder = text["argument"], text["value"], text["title"], text["folder"]
    place = tmp_path_factory.mktemp("place") / folder
    work = place / folder
    doubled = argument.replace("{", "{{").replace("}", "}}")
    work.mkdir(parents=True)
    recipe = make_recipe(
        title=title,
        notes=(title, argument),
        environment=(Environment(name="MY_VALUE", value=value, why=title, source=title),),
        command=Command(
            kind="script", target=f"{folder}.py", arguments=(doubled, "{steps}"), working_directory=str(work)
        ),
        resources={"device_name": title},
    )
    artifacts = render(launcher, recipe)
    script = put_files(place, artifacts)
    outcome = launch_bench.run(
        "bash", str(script), "--", value, cwd=place, **SLURM_JOB, SLURM_JOB_NUM_NODES="1", COMMAND=str(script)
    )
    assert outcome.exit_code == 0, outcome.words
    (call,) = outcome.calls
    target = f"./{folder}.py" if folder.startswith("-") else f"{folder}.py"
    assert call.arguments[-4:] == [target, argument, "20", value]
    assert call.environment["MY_VALUE"] == value
    assert call.directory == str(work)
    assert not list(place.rglob("injected"))
    assert [
        line for line in artifacts[0].text.splitlines() if "--wrap" in line and line.startswith("#SBATCH")
    ] == []


def test_variables_of_the_recipe_win_over_the_shells(make_recipe, bench, tmp_path):
    recipe = make_recipe(environment=(Environment(name="OMP_NUM_THREADS", value="1", why="w", source="s"),))
    script = put_files(tmp_path, render("torchrun", recipe))
    assert bench.run(str(script), OMP_NUM_THREADS="64").calls[0].environment["OMP_NUM_THREADS"] == "1"


def test_every_line_of_the_environment_has_its_reason_and_source(make_recipe):
    entry = Environment(
        name="NCCL_IB_HCA", value="=mlx5_0", why="the other port is down", source="finding ib-port-state"
    )
    text = render("torchrun", make_recipe(environment=(entry,)))[0].text
    assert "# the other port is down\n# Source: finding ib-port-state\nexport NCCL_IB_HCA='=mlx5_0'\n" in text


@pytest.mark.parametrize("launcher", [row.id for row in LAUNCHERS])
def test_a_missing_interpreter_is_one_line_and_127(make_recipe, launch_bench, tmp_path, launcher):
    script = put_files(
        tmp_path / "launch", render(launcher, make_recipe(resources={"python": "/no/such python"}))
    )
    variables = {**SLURM_JOB, "SLURM_JOB_NUM_NODES": "1", "RIGTUNE_PYTHON": "", "COMMAND": str(script)}
    outcome = launch_bench.run("bash", str(script), **variables)
    assert outcome.exit_code == 127
    assert outcome.words.count("\n") == 1
    assert "no Python interpreter /no/such python on " in outcome.words
    assert "RIGTUNE_PYTHON" in outcome.words


def test_a_relative_interpreter_is_meant_from_the_callers_folder(make_recipe, bench, tmp_path):
    script = put_files(tmp_path / "launch", render("torchrun", make_recipe()))
    outcome = bench.run(str(script), RIGTUNE_PYTHON="./python-stand-in")
    assert outcome.exit_code == 0, outcome.words


@pytest.mark.parametrize("shell", [("sh",), ("dash",), ("bash", "--posix"), ()])
def test_any_way_to_start_it_works_also_by_a_link(make_recipe, bench, tmp_path, shell):
    if shell and shutil.which(shell[0]) is None:
        pytest.skip(f"there is no {shell[0]} here")
    script = put_files(tmp_path / "a launch", render("torchrun", make_recipe()))
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "train"
    link.symlink_to(script)
    for words in ((str(link),), (str(script),)):
        outcome = bench.run(*shell, *words, "--", "a b")
        assert outcome.exit_code == 0, outcome.words
        assert outcome.calls[0].directory == str(tmp_path / "a launch")
        assert program_of(outcome.calls[0])[-1] == "a b"


def test_cdpath_does_not_lead_elsewhere(make_recipe, bench, tmp_path):
    put_files(tmp_path / "here" / "launch", render("torchrun", make_recipe()))
    (tmp_path / "there" / "launch").mkdir(parents=True)
    outcome = bench.run("launch/launch.sh", cwd=tmp_path / "here", CDPATH=str(tmp_path / "there"))
    assert outcome.calls[0].directory == str(tmp_path / "here" / "launch")


def test_several_nodes_meet_at_the_first_with_ranks_in_order(make_recipe, bench, tmp_path):
    recipe = make_recipe(nodes=3, resources={"hosts": ("a", "b", "c")})
    script = put_files(tmp_path / "launch", render("torchrun", recipe))
    calls = [
        bench.run(str(script), *arguments).calls[0]
        for arguments in (("0", "5"), ("2", "5", "--", "--steps", "1"), ("1", "6"))
    ]
    assert [option(call, "--node-rank") for call in calls] == ["0", "2", "1"]
    assert {option(call, "--master-addr") for call in calls} == {"a"}
    assert {option(call, "--nnodes") for call in calls} == {"3"}
    assert (
        option(calls[0], "--master-port")
        == option(calls[1], "--master-port")
        != option(calls[2], "--master-port")
    )
    assert [option(call, "--rdzv-id") for call in calls] == ["mini-5", "mini-5", "mini-6"]
    assert all(20000 <= int(option(call, "--master-port")) < 30000 for call in calls)
    assert program_of(calls[1])[-2:] == ["--steps", "1"]


def test_node_rank_master_and_port_may_come_from_the_environment(make_recipe, bench, tmp_path):
    script = put_files(tmp_path / "launch", render("torchrun", make_recipe(nodes=2)))
    outcome = bench.run(str(script), NODE_RANK="1", ATTEMPT="08", MASTER_ADDR="10.0.0.1", MASTER_PORT="4000")
    (call,) = outcome.calls
    assert [
        option(call, name) for name in ("--node-rank", "--master-addr", "--master-port", "--rdzv-id")
    ] == [*("1", "10.0.0.1", "4000", "mini-8")]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "NODE_RANK is missing"),
        (("--", "x"), "NODE_RANK is missing"),
        (("one",), "NODE_RANK one is not a number"),
        (("-1",), "NODE_RANK -1 is not a number"),
        (("2",), "NODE_RANK 2 is larger than 1"),
        (("99999999999999999999",), "is not a number"),
        (("1", "x[$(touch injected)]"), "ATTEMPT x[$(touch injected)] is not a number"),
        (("1", "2", "3"), "unexpected argument 3"),
        (("1",), "MASTER_ADDR is not set"),
    ],
)
def test_wrong_calls_on_several_nodes_are_reported(make_recipe, bench, tmp_path, arguments, complaint):
    script = put_files(tmp_path / "launch", render("torchrun", make_recipe(nodes=2)))
    outcome = bench.run(str(script), *arguments)
    assert outcome.exit_code == 2
    assert complaint in outcome.words
    assert "usage: launch.sh NODE_RANK [ATTEMPT]" in outcome.words
    assert not outcome.calls
    assert not list(tmp_path.rglob("injected"))


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_all_hosts_are_started_in_order_whatever_their_shell(make_recipe, bench, tmp_path, shell):
    bench.stand_in(
        "ssh",
        f"while [[ $1 == -* && $1 != -- ]]; do [[ $1 == -o ]] && shift; shift; done\nHOST=$2 exec {shell} -c "
        '"$3"',
    )
    recipe = make_recipe(nodes=2, resources={"hosts": ("a", "b")})
    folder = tmp_path / "it's a $folder"
    put_files(folder, render("torchrun", recipe))
    outcome = bench.run(str(folder / "launch-all.sh"), "--", *NASTY)
    assert outcome.exit_code == 0, outcome.words
    calls = sorted(outcome.calls, key=lambda call: call.environment["HOST"])
    assert [(call.environment["HOST"], option(call, "--node-rank")) for call in calls] == [
        ("a", "0"),
        ("b", "1"),
    ]
    assert len({option(call, "--rdzv-id") for call in calls}) == 1
    assert all(tuple(call.arguments[-len(NASTY) :]) == NASTY for call in calls)


def test_a_users_program_starts_in_the_callers_folder_on_every_host(make_recipe, bench, tmp_path):
    bench.stand_in("ssh", 'cd / && sh -c "${@: -1}"')
    recipe = make_recipe(
        nodes=2, resources={"hosts": ("a", "b")}, command=Command(kind="module", target="pkg.train")
    )
    put_files(tmp_path / "launch", render("torchrun", recipe))
    here = tmp_path / "my folder"
    here.mkdir()
    outcome = bench.run(str(tmp_path / "launch" / "launch-all.sh"), cwd=here)
    assert [call.directory for call in outcome.calls] == [str(here)] * 2
    assert all(program_of(call)[:2] == ["-m", "pkg.train"] for call in outcome.calls)


def test_one_failing_host_ends_the_others(make_recipe, bench, tmp_path):
    bench.stand_in("ssh", '[[ $* == *"-- b"* ]] && exit 7\nexec sleep 1000')
    put_files(tmp_path, render("torchrun", make_recipe(nodes=2, resources={"hosts": ("a", "b")})))
    outcome = bench.run(str(tmp_path / "launch-all.sh"))
    assert outcome.exit_code == 7
    assert "exit code 7" in outcome.words


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
    script = put_files(tmp_path / "launch", render("slurm", make_recipe()))
    variables = {**SLURM_JOB, "SLURM_JOB_NUM_NODES": "1", "COMMAND": "/elsewhere/mine.sh"}
    outcome = launch_bench.run(
        "bash", str(script), **{**variables, "SLURM_SUBMIT_DIR": str(tmp_path / "launch")}
    )
    assert outcome.calls[0].directory == str(tmp_path / "launch")
    outcome = launch_bench.run("bash", str(script), **variables)
    assert outcome.exit_code == 2
    assert "workload.json is not beside the script" in outcome.words


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
    assert handed_on == 2 * ["MASTER_ADDR", "MASTER_PORT", "PYTHONPATH", "NCCL_SOCKET_IFNAME"]
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


@pytest.mark.parametrize("launcher", [row.id for row in LAUNCHERS])
def test_a_contradictory_recipe_is_not_rendered(make_recipe, launcher):
    with pytest.raises(UsageError, match=r"parallelism\.global_batch"):
        render(launcher, make_recipe(parallelism={"global_batch": 7}))


@pytest.mark.parametrize("launcher", [row.id for row in LAUNCHERS])
def test_unknown_placeholders_are_not_rendered(make_recipe, launcher):
    with pytest.raises(UsageError, match=r"no placeholder \{batch\}"):
        render(launcher, make_recipe(command=Command(kind="script", target="t.py", arguments=("{batch}",))))


@pytest.mark.parametrize("launcher", [row.id for row in LAUNCHERS])
def test_the_scripts_own_variables_are_closed_to_recipes(make_recipe, launcher):
    """A recipe that sets `python` would start another program: names that a script assigns are refused."""
    recipe = make_recipe(nodes=2, resources={"hosts": ("a", "b"), "cpus_per_node": 1})
    for artifact in render(launcher, recipe):
        if artifact.path.endswith((".sh", ".sbatch")):
            assigned = set(re.findall(r"^\s*(?:local )?([a-z_]+)\+?=", artifact.text, re.MULTILINE))
            assigned |= set(re.findall(r"^\s*(?:for|read -r) ([a-z_]+)\b", artifact.text, re.MULTILINE)) - {
                "_"
            }
            assert assigned <= SCRIPT_VARIABLES, artifact.path
    entry = Environment(name="python", value="evil", why="", source="")
    assert [fault.place for fault in faults(make_recipe(environment=(entry,)))] == ["environment[0].name"]


@pytest.mark.parametrize(
    ("launcher", "nodes", "hosts", "command"),
    [
        ("torchrun", 1, (), ("/f/launch.sh", "--", "a b")),
        ("torchrun", 2, ("x", "y"), ("/f/launch-all.sh", "--", "a b")),
        ("slurm", 2, (), ("sbatch", "/f/train.sbatch", "--", "a b")),
        ("mpi", 2, (), ("/f/launch-mpi.sh", "--", "a b")),
    ],
)
def test_how_a_job_is_started(make_recipe, launcher, nodes, hosts, command):
    module = importlib.import_module(f"recipes.launch.launchers.{launcher}")
    assert module.start(make_recipe(nodes=nodes, resources={"hosts": hosts}), "/f", ("a b",)) == command


def test_several_nodes_without_hosts_cannot_be_started_from_here(make_recipe):
    with pytest.raises(UsageError, match="names no hosts"):
        importlib.import_module("recipes.launch.launchers.torchrun").start(make_recipe(nodes=2), "/f", ())


def test_the_stand_in_itself_records_words_exactly(bench):
    """Guards the tests above: a recorder that loses characters would hide injections."""
    outcome = bench.run("bash", "-c", f"{shlex.quote(bench.recorder)} {' '.join(map(shlex.quote, NASTY))}")
    assert tuple(outcome.calls[0].arguments) == NASTY
