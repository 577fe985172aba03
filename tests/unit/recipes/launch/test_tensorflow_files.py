"""Test the files for TensorFlow: TF_CONFIG of every node, and the distribution strategy of the program."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import recipes.launch
from probes.base.errors import UsageError
from recipes.launch.launch_files import launch_files, program_files
from recipes.launch.program_files import FolderFile
from recipes.launch.recipe import Command
from tests.support.launch_bench import NASTY, put_files
from tests.support.linting import judge, read

STARTER = "tensorflow_node.py"
SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
SCRIPT = Command(
    kind="script", target="train.py", arguments=("--batch", "{global_batch}", "--lr", "{learning_rate}")
)


@pytest.fixture
def tensorflow(make_recipe):
    return lambda **fields: make_recipe(program="tensorflow", **{"command": SCRIPT, **fields})


@pytest.fixture
def start(tensorflow, tmp_path):
    """Return a function that runs the exported starter; its program shows its arguments and variables."""
    (artifact,) = program_files(tensorflow()).files
    starter = put_files(tmp_path, (artifact,))
    show = tmp_path / "show.py"
    show.write_text(SHOW)

    def run(variables, *words):
        return subprocess.run(
            (sys.executable, starter, show, *words),
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@pytest.fixture(scope="module")
def parts():
    """Return the functions of the starter by name."""
    source = Path(recipes.launch.__file__).parent / "templates" / STARTER
    return runpy.run_path(str(source), run_name="starter")


def node(hosts, rank, **more):
    return {
        "NODE_COUNT": str(len(hosts)),
        "NODE_RANK": str(rank),
        "NODE_HOSTS": ",".join(hosts),
        "MASTER_PORT": "23456",
        **more,
    }


CLUSTERS = {
    "two": (("gpu1", "gpu2"), 0, {"worker": ["gpu1:23456", "gpu2:23456"]}, ("gpu1", 23457)),
    "one host twice": (("a", "a"), 0, {"worker": ["a:23456", "a:23457"]}, ("a", 23458)),
    "IPv6": (
        ("fd00::1", "fd00::2"),
        0,
        {"worker": ["[fd00::1]:23456", "[fd00::2]:23456"]},
        ("fd00::1", 23457),
    ),
    "parameter servers": (
        ("a", "b", "c"),
        2,
        {
            "chief": ["a:23456"],
            "worker": ["a:23457", "b:23456", "c:23456"],
            "ps": ["a:23458", "b:23457"],
        },
        ("a", 23459),
    ),
    "all on one host": (
        ("h", "h"),
        1,
        {"chief": ["h:23456"], "worker": ["h:23457", "h:23458"], "ps": ["h:23459"]},
        ("h", 23460),
    ),
}


@pytest.mark.parametrize("case", CLUSTERS)
def test_every_task_has_an_address_of_its_own(parts, case):
    hosts, servers, expected, end = CLUSTERS[case]
    for rank in range(len(hosts)):
        assert parts["cluster_of"](parts["Job"](node(hosts, rank)), servers) == (expected, end)
    addresses = [address for role in expected.values() for address in role]
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize("rank", range(3))
def test_each_node_has_its_own_task_in_the_same_cluster(start, rank):
    done = start(node(("gpu1", "gpu2", "gpu3"), rank, MASTER_ADDR="gpu1", no_proxy="corp.example"))
    _, environment = json.loads(done.stdout)
    assert json.loads(environment["TF_CONFIG"]) == {
        "cluster": {"worker": ["gpu1:23456", "gpu2:23456", "gpu3:23456"]},
        "task": {"type": "worker", "index": rank},
    }
    assert environment["no_grpc_proxy"] == "corp.example,gpu1,gpu2,gpu3"
    assert "CUDA_VISIBLE_DEVICES" not in environment


def test_roles_without_gpus_see_none(parts):
    job = parts["Job"](node(("a", "b"), 1))
    cluster, _ = parts["cluster_of"](job, 2)
    tasks = {
        role: parts["with_task"]({"CUDA_VISIBLE_DEVICES": "0,1"}, job, cluster, role) for role in cluster
    }
    assert {role: task["CUDA_VISIBLE_DEVICES"] for role, task in tasks.items()} == {
        "chief": "-1",
        "ps": "-1",
        "worker": "0,1",
    }
    assert {role: json.loads(task["TF_CONFIG"])["task"]["index"] for role, task in tasks.items()} == {
        "chief": 0,
        "ps": 1,
        "worker": 1,
    }


def test_a_single_node_has_no_cluster_and_arguments_arrive_whole(start):
    variables = {"NODE_COUNT": "1", "NODE_RANK": "0", "MASTER_PORT": "23456", "TF_CONFIG": "{}"}
    done = start(variables, *NASTY)
    words, environment = json.loads(done.stdout)
    assert words == list(NASTY)
    assert "TF_CONFIG" not in environment


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"NODE_RANK": ""}, "NODE_RANK is not set"),
        ({"NODE_COUNT": ""}, "NODE_COUNT is not set"),
        ({"MASTER_PORT": ""}, "MASTER_PORT is not set"),
        ({"NODE_HOSTS": ""}, "NODE_HOSTS is not set: TensorFlow needs the address of every node"),
        ({"NODE_RANK": "2"}, "NODE_RANK is '2', not a number from 0 to 1"),
        ({"NODE_RANK": "-1"}, "NODE_RANK is '-1'"),
        ({"NODE_COUNT": "two"}, "NODE_COUNT is 'two'"),
        ({"MASTER_PORT": "65535"}, "MASTER_PORT is '65535'"),
        ({"NODE_HOSTS": "a"}, "the number of hosts in NODE_HOSTS is 1, but NODE_COUNT is 2"),
        ({"NODE_HOSTS": "a,$(touch x)"}, "'$(touch x)' is neither a host name nor an address"),
        ({"NODE_HOSTS": "a,b:22"}, "'b:22' is neither"),
        ({"NODE_HOSTS": 'a,b"'}, "is neither a host name"),
        ({"NODE_HOSTS": "a,-x"}, "'-x' is neither"),
    ],
)
def test_an_impossible_job_is_one_clear_line(start, change, message):
    done = start(node(("a", "b"), 0, **change))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_starter_gets_the_command_as_arguments(tensorflow):
    files = program_files(tensorflow(nodes=2))
    assert files.processes == "node"
    assert files.modules == ("tensorflow",)
    assert files.words == (FolderFile(name=STARTER), "train.py", "--batch", "16", "--lr", "0.003")
    files = program_files(tensorflow(nodes=2, slots={"parameter_servers": "2"}))
    assert files.words[:4] == (FolderFile(name=STARTER), "--parameter-servers", "2", "train.py")


@pytest.mark.parametrize(
    ("fields", "strategy"),
    [
        ({}, "tf.distribute.MirroredStrategy"),
        ({"nodes": 2}, "tf.distribute.MultiWorkerMirroredStrategy"),
        ({"nodes": 2, "slots": {"parameter_servers": "1"}}, "tf.distribute.ParameterServerStrategy"),
    ],
)
def test_the_script_names_the_strategy_that_the_program_needs(tensorflow, fields, strategy):
    assert strategy in program_files(tensorflow(**fields)).notes[0]


def test_settings_that_the_program_must_apply_itself_are_a_warning(tensorflow):
    silent = Command(kind="script", target="train.py")
    notes = "\n".join(program_files(tensorflow(command=silent)).notes)
    for part in ("{global_batch}", "{learning_rate}", "must sum 2 micro-batches", "one replica per node"):
        assert part in notes
    whole_job = tensorflow(ranks_per_node=1, parallelism={"grad_accum": 1, "global_batch": 2})
    assert not [note for note in program_files(whole_job).notes if note.startswith("Warning")]


@pytest.mark.parametrize("stated", ["0", "3", "-1", "many", "²"])
def test_an_impossible_number_of_parameter_servers_is_refused(tensorflow, stated):
    with pytest.raises(UsageError, match="parameter_servers"):
        program_files(tensorflow(nodes=2, slots={"parameter_servers": stated}))


def test_a_script_of_the_user_is_needed(tensorflow):
    with pytest.raises(UsageError, match="TensorFlow starts your training script"):
        program_files(tensorflow(command=Command(kind="program")))


def test_launchers_of_ranks_refuse(tensorflow):
    with pytest.raises(UsageError, match="tensorflow needs one process per node") as caught:
        launch_files(tensorflow(nodes=2), "mpi")
    assert "torchrun, slurm" in str(caught.value.hint)


@pytest.mark.parametrize("launcher", ["torchrun", "slurm"])
def test_lint_finds_nothing_in_the_scripts(tensorflow, launcher):
    for file in launch_files(tensorflow(nodes=2, resources={"hosts": ("a", "b")}), launcher):
        if file.path.endswith((".sh", ".sbatch")):
            assert not judge(read(file.path, file.text)), file.path
