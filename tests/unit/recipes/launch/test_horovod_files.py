"""Test the files for Horovod: the command line of horovodrun, and how its own parser reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from probes.base.errors import UsageError
from recipes.launch.launch_files import launch_files, program_files
from recipes.launch.program_files import FolderFile
from recipes.launch.recipe import Command, Environment
from tests.support.launch_bench import NASTY, put_files
from tests.support.linting import judge, read

SCRIPT = Command(
    kind="script", target="train.py", arguments=("{micro_batch}", "{grad_accum}", "{learning_rate}")
)
PARSE = """
import json, sys
from horovod.runner.launch import parse_args
options = parse_args()
names = ("num_proc", "hosts", "start_timeout", "command")
print(json.dumps({**{name: getattr(options, name) for name in names}, "nics": sorted(options.nics or ())}))
"""
RUN = """
import sys
from horovod.runner import launch
launch.gloo_built = lambda verbose=False: True  # the kernels, which no rank of the test needs
launch.mpi_built = lambda verbose=False: False
if __name__ == "__main__":  # horovodrun spawns processes
    launch.run_commandline()
"""
SHOW = """
import json, os, sys
names = ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "NCCL_SOCKET_IFNAME", "MY_VALUE")
line = json.dumps([*(os.environ.get(name, "") for name in names), os.getcwd(), *sys.argv[1:]])
os.write(1, f"{line}\\n".encode())
"""


@pytest.fixture
def horovod(make_recipe):
    return lambda **fields: make_recipe(program="horovod", **{"command": SCRIPT, **fields})


@pytest.fixture
def start(horovod, tmp_path):
    """Return a function that runs the exported starter; a stand-in for horovodrun prints its arguments."""
    starter = put_files(tmp_path, program_files(horovod()).files)
    package = tmp_path / "modules" / "horovod" / "runner"
    package.mkdir(parents=True)
    (package / "launch.py").write_text("import json, sys; print(json.dumps(sys.argv[1:]))")

    def run(nodes, hosts, *words, **variables):
        options = (f"--nodes={nodes}", "--ranks-per-node=8", "--")
        return subprocess.run(
            (sys.executable, starter, *options, *words),
            env={"NODE_HOSTS": hosts, "PYTHONPATH": str(tmp_path / "modules"), **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@pytest.mark.parametrize(
    ("nodes", "hosts", "ranks", "slots"),
    [(1, "", "8", "localhost:8"), (2, "gpu1,gpu2", "16", "gpu1:8,gpu2:8"), (1, "gpu1", "8", "localhost:8")],
)
def test_horovodrun_gets_hosts_and_ranks_and_the_whole_command(start, nodes, hosts, ranks, slots):
    words = json.loads(start(nodes, hosts, "train.py", *NASTY).stdout)
    assert words == [
        *("-np", ranks, "-H", slots, "--start-timeout", "600"),
        *(sys.executable, "-u", "train.py", *NASTY),
    ]


@pytest.mark.parametrize(
    ("nodes", "value", "option"),
    [
        (2, "=eth0,ib1", ["--network-interfaces", "eth0,ib1"]),
        (2, "eth0", ["--network-interfaces", "eth0"]),
        (2, "eth0:1", ["--network-interfaces", "eth0:1"]),
        (2, "^docker0", []),
        (2, "", []),
        (1, "=eth0", []),
    ],
)
def test_horovodrun_keeps_the_interfaces_of_the_plan(start, nodes, value, option):
    words = json.loads(start(nodes, "a,b", "train.py", NCCL_SOCKET_IFNAME=value).stdout)
    kept = ["env", f"NCCL_SOCKET_IFNAME={value}"] if value else []
    assert words[6 : words.index(sys.executable)] == [*option, *kept]


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ("", "NODE_HOSTS is not set"),
        ("a", "the number of hosts in NODE_HOSTS is 1, but the plan has 2 nodes"),
        ("a,fd00::1", "takes host names, not 'fd00::1'"),
        ("a,b:8", "takes host names, not 'b:8'"),
        ("a,$(id)", "takes host names"),
        ("a,-b", "takes host names"),
    ],
)
def test_impossible_hosts_are_one_clear_line(start, hosts, message):
    done = start(2, hosts, "train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_starter_gets_the_command_as_arguments(horovod):
    files = program_files(horovod(nodes=2, ranks_per_node=8))
    assert files.processes == "job"
    assert files.words == (
        FolderFile(name="horovod_job.py"),
        *("--nodes=2", "--ranks-per-node=8", "--", "train.py", "2", "2", "0.003"),
    )
    (note,) = files.notes
    assert "ssh" in note
    assert not program_files(horovod(nodes=1, ranks_per_node=8)).notes


def test_settings_that_the_script_must_apply_itself_are_a_warning(horovod):
    silent = Command(kind="script", target="train.py")
    notes = "\n".join(program_files(horovod(command=silent)).notes)
    for part in ("{micro_batch}", "backward_passes_per_step", "{learning_rate}"):
        assert part in notes


def interfaces(value):
    return (Environment(name="NCCL_SOCKET_IFNAME", value=value, why="w", source="s"),)


@pytest.mark.parametrize(
    ("nodes", "hosts", "value", "options"),
    [
        (1, (), "=eth0", ("-np", "2", "-H", "localhost:2")),
        (2, ("gpu1", "gpu2"), "", ("-np", "4", "-H", "gpu1:2,gpu2:2")),
        (2, ("gpu1", "gpu2"), "=eth0", ("-np", "4", "-H", "gpu1:2,gpu2:2", "--network-interfaces", "eth0")),
        (2, ("a", "b"), "eth0,ib1", ("-np", "4", "-H", "a:2,b:2", "--network-interfaces", "eth0,ib1")),
        (2, ("a", "b"), "eth0:1", ("-np", "4", "-H", "a:2,b:2", "--network-interfaces", "eth0:1")),
        (2, ("a", "b"), "^docker0", ("-np", "4", "-H", "a:2,b:2")),
    ],
)
def test_the_launcher_horovodrun_gets_hosts_slots_and_interfaces(  # noqa: PLR0917 - one case per row
    horovod, launch_bench, tmp_path, nodes, hosts, value, options
):
    recipe = horovod(nodes=nodes, resources={"hosts": hosts}, environment=interfaces(value) if value else ())
    script = put_files(tmp_path / "launch", launch_files(recipe, "horovodrun"))
    outcome = launch_bench.run(str(script), "--", *NASTY, cwd=tmp_path)
    assert outcome.exit_code == 0, outcome.words
    (call,) = outcome.calls
    assert call.arguments[:2] == ["-m", "horovod.runner.launch"]
    given = [word for word in call.arguments[2:] if word not in ("--start-timeout", "600")]
    assert tuple(given[: len(options)]) == options
    rest = given[len(options) :]
    if value:
        assert rest[:2] == ["env", f"NCCL_SOCKET_IFNAME={value}"], "horovodrun would replace the value"
        rest = rest[2:]
    assert rest[:2] == ["bash", "-c"]
    assert rest[3:] == [launch_bench.recorder, "train.py", "2", "2", "0.003", *NASTY]


@pytest.mark.parametrize(
    ("hosts", "message"),
    [((), "needs the names of the 2 nodes"), (("fd00::1", "b"), "takes a host as NAME:SLOTS")],
)
def test_the_launcher_horovodrun_needs_names_of_hosts(horovod, hosts, message):
    with pytest.raises(UsageError, match=message):
        launch_files(horovod(nodes=2, resources={"hosts": hosts}), "horovodrun")


def test_the_launcher_horovodrun_runs_an_image_on_one_node_only(horovod):
    sif = {"container_image": "/images/train.sif"}
    with pytest.raises(UsageError, match=r"would start their ranks outside /images/train\.sif") as caught:
        launch_files(horovod(nodes=2, resources={"hosts": ("a", "b")}, slots=sif), "horovodrun")
    assert "launcher mpi" in caught.value.hint
    for launcher in ("torchrun", "slurm"):
        with pytest.raises(UsageError, match="cannot start this program") as caught:
            launch_files(horovod(nodes=2, slots=sif), launcher)
        assert "slurm-ranks, mpi" in caught.value.hint
    assert "apptainer exec" in launch_files(horovod(slots=sif), "horovodrun")[0].text


def test_horovodrun_in_slurm_is_refused_with_an_image_that_only_the_first_node_enters(horovod):
    image = {"container_image": "nvcr.io/nvidia/pytorch:26.05-py3"}
    with pytest.raises(UsageError, match=r"would start their ranks outside nvcr\.io") as caught:
        launch_files(horovod(nodes=2, slots=image), "slurm")
    assert "slurm-ranks, mpi" in caught.value.hint
    assert "--container-image" in launch_files(horovod(nodes=2, slots=image), "slurm-ranks")[0].text
    assert "--container-image" in launch_files(horovod(slots=image), "slurm")[0].text
    several = horovod(nodes=2, slots=image, resources={"hosts": ("a", "b")})
    for launcher in ("torchrun", "horovodrun"):  # these scripts are started inside containers of the image
        script = " ".join(launch_files(several, launcher)[0].text.replace("\n#", "").split())
        assert "into a container of" in script


def test_a_folder_that_horovodrun_would_not_quote_is_refused(horovod, launch_bench, tmp_path):
    recipe = horovod(nodes=2, resources={"hosts": ("a", "b")})
    script = put_files(tmp_path / "launch", launch_files(recipe, "horovodrun"))
    folder = tmp_path / "two words"
    folder.mkdir()
    outcome = launch_bench.run(str(script), cwd=folder)
    assert (outcome.exit_code, outcome.calls) == (2, [])
    assert "only from paths without blanks" in outcome.words


def test_programs_without_horovod_are_refused(make_recipe):
    cuda = {"device": "cuda", "backend": "nccl"}
    with pytest.raises(UsageError, match="own does not use horovod"):
        launch_files(make_recipe(command=SCRIPT), "horovodrun")
    tests = make_recipe(command=Command(kind="nccl-tests", target="all_reduce_perf"), resources=cuda)
    with pytest.raises(UsageError, match="nccl-tests does not use horovod"):
        launch_files(tests, "horovodrun")


@pytest.mark.parametrize("launcher", ["mpi", "slurm-ranks"])
def test_mpi_starts_the_ranks_of_horovod_too(horovod, launcher):
    recipe = horovod(nodes=2, resources={"hosts": ("a", "b")})
    script, *others = launch_files(recipe, launcher)
    assert "export OMPI_MCA_pml=ob1" in script.text
    assert "must be built with" in script.text
    assert "horovod_job.py" not in [file.path for file in others]


@pytest.mark.parametrize("launcher", ["torchrun", "slurm", "horovodrun", "mpi", "slurm-ranks"])
def test_lint_finds_nothing_in_the_scripts(horovod, launcher):
    for file in launch_files(horovod(nodes=2, resources={"hosts": ("a", "b")}), launcher):
        if file.path.endswith((".sh", ".sbatch")):
            assert not judge(read(file.path, file.text)), file.path


@pytest.fixture
def horovod_python():
    python = os.environ.get("RIGTUNE_HOROVOD_PYTHON")
    if not python:
        pytest.skip("needs Horovod, but not its kernels: set RIGTUNE_HOROVOD_PYTHON")
    return python


@pytest.mark.slow
def test_the_parser_of_horovodrun_understands_the_command(start, horovod_python, tmp_path):
    words = json.loads(start(2, "gpu1,gpu2", "train.py", *NASTY).stdout)
    script = Path(tmp_path / "parse.py")
    script.write_text(PARSE)
    done = subprocess.run(
        (horovod_python, script, *words), capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == {
        "num_proc": 16,
        "hosts": "gpu1:8,gpu2:8",
        "start_timeout": 600,
        "command": [sys.executable, "-u", "train.py", *NASTY],
        "nics": [],
    }


@pytest.mark.slow
def test_the_parser_of_horovodrun_understands_the_script(horovod, launch_bench, horovod_python, tmp_path):
    recipe = horovod(nodes=2, resources={"hosts": ("gpu1", "gpu2")}, environment=interfaces("=eth0,ib1"))
    script = put_files(tmp_path / "launch", launch_files(recipe, "horovodrun"))
    (call,) = launch_bench.run(str(script), "--", *NASTY, cwd=tmp_path).calls
    (tmp_path / "parse.py").write_text(PARSE)
    words = (horovod_python, str(tmp_path / "parse.py"), *call.arguments[2:])
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    parsed = json.loads(done.stdout)
    assert (parsed["num_proc"], parsed["hosts"], parsed["start_timeout"]) == (4, "gpu1:2,gpu2:2", 600)
    assert parsed["nics"] == ["eth0", "ib1"]
    assert parsed["command"][-len(NASTY) :] == list(NASTY)


@pytest.mark.slow
def test_horovodrun_starts_every_rank_with_its_arguments_and_variables(horovod, horovod_python, tmp_path):
    """Run Horovod's own starter over gloo, without its kernels; both host names mean this machine."""
    program = tmp_path / "show.py"
    program.write_text(SHOW)
    (tmp_path / "run.py").write_text(RUN)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nif [ "$2" = horovod.runner.launch ]; then shift 2; set -- {tmp_path}/run.py "$@"; fi\n'
        f'exec {horovod_python} "$@"\n'
    )
    python.chmod(0o755)
    value = "it's $HOME"
    variable = Environment(name="MY_VALUE", value=value, why="w", source="s")
    recipe = horovod(
        nodes=2,
        resources={"hosts": ("localhost", "127.0.0.1")},
        environment=(*interfaces("=lo"), variable),
        command=Command(kind="script", target=str(program), arguments=("two words",)),
    )
    script = put_files(tmp_path / "launch", launch_files(recipe, "horovodrun"))
    logs = tmp_path / "logs"
    variables = {"RIGTUNE_PYTHON": str(python), "RIGTUNE_LOGS": str(logs), "RIGTUNE_PREFLIGHT": "0"}
    given = [word for word in NASTY if word.isascii()]
    done = subprocess.run(
        (script, "--", *given),
        cwd=tmp_path,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = [json.loads((logs / f"rank{rank}.log").read_text()) for rank in range(4)]
    assert ranks == [
        [str(rank), "4", str(rank % 2), "=lo", value, str(tmp_path), "two words", *given] for rank in range(4)
    ]
