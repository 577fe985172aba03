"""Test the files for Ray Train, and the scripts that start a Ray cluster for the job."""

from __future__ import annotations

import re
import stat
import subprocess

import pytest

from probes.base.errors import UsageError
from recipes.launch.launch_files import launch_files, program_files
from recipes.launch.launchers import ray
from recipes.launch.program_files import FolderFile
from recipes.launch.programs.ray_train import placement
from recipes.launch.recipe import Command, Environment
from recipes.launch.reserved_variables import SCRIPT_VARIABLES
from tests.support.launch_bench import NASTY, SLURM_JOB, put_files
from tests.support.linting import judge, read

SCRIPT = Command(kind="script", target="train.py", arguments=("--lr", "{learning_rate}"))
RAY = "ray.scripts.scripts"


@pytest.fixture
def ray_recipe(make_recipe):
    return lambda **fields: make_recipe(program="ray-train", **{"command": SCRIPT, **fields})


def options(files):
    words = [word for word in files.words if isinstance(word, str)]
    pairs = (word.split("=", 1) for word in words[: words.index("--")])
    return dict(pairs), words[words.index("--") + 1 :]


def test_the_options_state_the_plan(ray_recipe):
    recipe = ray_recipe(
        nodes=2,
        ranks_per_node=8,
        resources={"device": "cuda", "backend": "nccl", "cpus_per_node": 96},
        environment=(Environment(name="NCCL_IB_HCA", value="=mlx5_0", why="w", source="s"),),
        slots={"checkpoints": "/shared/it's mine"},
    )
    files = program_files(recipe)
    assert files.processes == "job"
    assert files.words[0] == FolderFile(name="ray_job.py")
    assert options(files) == (
        {
            "--name": "mini",
            "--nodes": "2",
            "--ranks-per-node": "8",
            "--cores": "12",
            "--backend": "nccl",
            "--placement": "PACK",
            "--max-failures": "3",
            "--storage": "/shared/it's mine",
            "--variables": "NCCL_IB_HCA",
        },
        ["train.py", "--lr", "0.003"],
    )
    assert files.notes == ()


@pytest.mark.parametrize(
    ("nodes", "ranks", "strategy"),
    [(1, 8, "STRICT_PACK"), (1, 1, "STRICT_PACK"), (4, 1, "STRICT_SPREAD"), (4, 8, "PACK")],
)
def test_workers_fill_the_nodes(nodes, ranks, strategy):
    assert placement(nodes, ranks) == strategy


def test_several_nodes_without_a_shared_folder_are_a_warning(ray_recipe):
    (note,) = program_files(ray_recipe(nodes=2)).notes
    assert note.startswith("Warning:")
    assert program_files(ray_recipe()).notes == ()
    assert options(program_files(ray_recipe(slots={"output": "/out"})))[0]["--storage"] == "/out"


def test_a_script_of_the_user_is_needed(ray_recipe):
    with pytest.raises(UsageError, match="starts your training script"):
        program_files(ray_recipe(command=Command(kind="program")))


def test_programs_with_a_process_per_rank_are_refused(make_recipe):
    with pytest.raises(UsageError, match="reference does not use ray"):
        launch_files(make_recipe(), "ray")


def test_a_program_that_does_not_use_ray_is_refused(make_recipe):
    with pytest.raises(UsageError, match="horovod does not use ray"):
        launch_files(make_recipe(program="horovod", command=SCRIPT), "ray")


def test_an_address_of_ipv6_is_refused(ray_recipe):
    with pytest.raises(UsageError, match="fd00::1"):
        launch_files(ray_recipe(nodes=2, resources={"hosts": ("fd00::1", "fd00::2")}), "ray")


def test_the_command_that_starts_the_job(ray_recipe):
    assert ray.start(ray_recipe(), "/x", ("-a",)) == ("/x/launch-ray.sh", "--", "-a")
    with pytest.raises(UsageError, match="names no hosts"):
        ray.start(ray_recipe(nodes=2), "/x", ())


@pytest.fixture
def ray_bench(launch_bench, tmp_path):
    """Return a bench whose interpreter listens as the head of the cluster, and records every call."""
    head = tmp_path / "head.py"
    head.write_text(
        "import signal, socket, sys\n"
        "server = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "signal.pause()\n"
    )
    launch_bench.stand_in("getent", 'echo "127.0.0.1 STREAM"')
    launch_bench.stand_in(
        "ray-python",
        f'"{launch_bench.recorder}" "$@"\n'
        'ls -l -- "$RAY_AUTH_TOKEN_PATH" >>"$LISTING"\ncat -- "$RAY_AUTH_TOKEN_PATH" >>"$LISTING"\n'
        'case " $* " in\n'
        '*" --head "*) for word; do\n'
        f'case $word in --port=*) exec python3 "{head}" "${{word#*=}}";; esac; done;;\n'
        '*" --address="*) exec sleep 60;;\nesac\n'
        'exit "${CODE:-0}"',
    )
    return launch_bench


def run(bench, script, tmp_path, *arguments, **variables):
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    outcome = bench.run(
        *(str(script), "--", *arguments),
        HOME=str(home),
        LISTING=str(tmp_path / "listing"),
        RIGTUNE_PYTHON=str(bench.folder / "ray-python"),
        RIGTUNE_LOGS=str(tmp_path / "logs"),
        **variables,
    )
    listing = (tmp_path / "listing").read_text().splitlines()
    return outcome, listing, sorted(home.rglob("*.token"))


def test_one_node_has_a_head_with_a_secret_and_arguments_arrive_whole(ray_recipe, ray_bench, tmp_path):
    script = put_files(tmp_path / "it's a $folder", launch_files(ray_recipe(), "ray"))
    outcome, listing, left = run(ray_bench, script, tmp_path, *NASTY)
    assert outcome.exit_code == 0, outcome.words
    head, job = outcome.calls
    assert head.arguments[:4] == ["-m", RAY, "start", "--block"]
    assert {"--head", "--num-cpus=2", "--num-gpus=0", "--node-ip-address=127.0.0.1"} <= set(head.arguments)
    assert job.arguments[:2] == ["-u", str(script.parent / "ray_job.py")]
    assert job.arguments[job.arguments.index("--") + 1 :] == ["train.py", "--lr", "0.003", *NASTY]
    for call in outcome.calls:
        assert call.environment["RAY_AUTH_MODE"] == "token"
        assert call.environment["RAY_ADDRESS"].startswith("127.0.0.1:2")
    assert listing[0].startswith("-rw-------")
    assert len(listing[1]) == 64
    assert left == []


def test_the_job_ends_with_the_code_of_the_program(ray_recipe, ray_bench, tmp_path):
    script = put_files(tmp_path / "launch", launch_files(ray_recipe(), "ray"))
    outcome, _, left = run(ray_bench, script, tmp_path, CODE="7")
    assert (outcome.exit_code, left) == (7, [])


def test_a_node_that_cannot_start_leaves_no_secret(ray_recipe, bench, tmp_path):
    script = put_files(tmp_path / "launch", launch_files(ray_recipe(), "ray"))
    home = tmp_path / "home"
    home.mkdir()
    outcome = bench.run(str(script), HOME=str(home), RIGTUNE_PYTHON="/nowhere/python")
    assert outcome.exit_code == 127
    assert (home / ".ray").is_dir()
    assert not list(home.rglob("*.token"))


@pytest.mark.parametrize("starter", ["ssh", "srun"])
def test_a_host_that_does_not_answer_leaves_no_secret_on_the_others(
    ray_recipe, launch_bench, tmp_path, starter
):
    launch_bench.stand_in(
        "ssh",
        "while [[ $1 == -* && $1 != -- ]]; do [[ $1 == -o ]] && shift; shift; done\n"
        '[[ $2 == b ]] && exit 255\ncd "$HOME" && echo "$3" >>"$OPTIONS" && sh -c "$3"',
    )
    launch_bench.stand_in(
        "srun",
        'while [[ $1 == --* ]]; do shift; done\necho "$*" >>"$OPTIONS"\n"$@"; [[ $* != *"cat >"* ]]',
    )
    script = put_files(
        tmp_path / "launch",
        launch_files(ray_recipe(nodes=2, resources={"hosts": ("a", "b")}), "ray"),
    )
    home = tmp_path / "home"
    home.mkdir()
    job = {**SLURM_JOB, "SLURM_JOB_NUM_NODES": "2"} if starter == "srun" else {}
    outcome = launch_bench.run(str(script), **{"HOME": str(home), **job})
    assert outcome.exit_code == (1 if starter == "srun" else 255), outcome.words
    wrote, removed = (tmp_path / "bench" / "options").read_text().splitlines()
    assert "cat >" in wrote
    assert "rm -f" in removed
    assert (home / ".ray").is_dir()
    assert not list(home.rglob("*.token"))


def test_two_secrets_are_never_the_same(ray_recipe, ray_bench, tmp_path):
    script = put_files(tmp_path / "launch", launch_files(ray_recipe(), "ray"))
    for _ in range(2):
        _, listing, _ = run(ray_bench, script, tmp_path)
    secrets = [line for line in listing if len(line) == 64]
    assert len(set(secrets)) == 2


def test_an_allocation_of_another_size_is_refused(ray_recipe, launch_bench, tmp_path):
    script = put_files(tmp_path / "launch", launch_files(ray_recipe(nodes=2), "ray"))
    outcome = launch_bench.run(str(script), **SLURM_JOB, SLURM_JOB_NUM_NODES="3")
    assert outcome.exit_code == 2
    assert "the recipe needs 2 nodes, not 3" in outcome.words


def test_without_hosts_and_scheduler_there_is_one_clear_line(ray_recipe, bench, tmp_path):
    script = put_files(tmp_path / "launch", launch_files(ray_recipe(nodes=2), "ray"))
    outcome = bench.run(str(script))
    assert (outcome.exit_code, outcome.words.count("\n")) == (2, 1)
    assert "resources.hosts" in outcome.words


def test_a_first_node_whose_name_is_the_loopback_is_refused(ray_recipe, ray_bench, tmp_path):
    put_files(tmp_path / "launch", launch_files(ray_recipe(nodes=2, resources={"hosts": ("a", "b")}), "ray"))
    node = tmp_path / "launch" / "ray-node.sh"
    outcome = ray_bench.run(str(node), "0", "token", HOME=str(tmp_path), RIGTUNE_LOGS=str(tmp_path / "logs"))
    assert outcome.exit_code == 2
    assert "means the loopback" in outcome.words


def test_the_scripts_are_executable_and_the_job_file_is_python(ray_recipe):
    files = {file.path: file for file in launch_files(ray_recipe(), "ray")}
    assert {name for name, file in files.items() if file.mode & stat.S_IXUSR} == {
        *("launch-ray.sh", "ray-node.sh", "preflight.sh"),
    }
    compile(files["ray_job.py"].text, "ray_job.py", "exec")


def test_the_token_is_in_no_file_and_on_no_command_line(ray_recipe):
    text = launch_files(ray_recipe(nodes=2, resources={"hosts": ("a", "b")}), "ray")[0].text
    uses = [line for line in text.splitlines() if "$secret" in line]
    assert len(uses) == 2  # Slurm and ssh
    assert all('<<<"$secret"' in line for line in uses)


@pytest.mark.parametrize("fields", [{}, {"nodes": 2}, {"nodes": 2, "resources": {"hosts": ("a", "b")}}])
def test_the_scripts_own_variables_are_closed_to_recipes(ray_recipe, fields):
    for file in launch_files(ray_recipe(**fields), "ray"):
        if file.path.endswith(".sh"):
            assigned = set(re.findall(r"^\s*(?:local )?([a-z_]+)\+?=", file.text, re.MULTILINE))
            assigned |= set(re.findall(r"^\s*(?:for|read -r) ([a-z_]+)\b", file.text, re.MULTILINE))
            assert assigned - {"_"} <= SCRIPT_VARIABLES, file.path


def test_bash_accepts_the_scripts(ray_recipe, tmp_path):
    put_files(tmp_path, launch_files(ray_recipe(), "ray"))
    for name in ("launch-ray.sh", "ray-node.sh"):
        subprocess.run(("bash", "-n", str(tmp_path / name)), check=True)


@pytest.mark.parametrize("launcher", ["ray", "torchrun", "slurm"])
def test_lint_finds_nothing_in_the_scripts(ray_recipe, launcher):
    for file in launch_files(ray_recipe(nodes=2, resources={"hosts": ("a", "b")}), launcher):
        if file.path.endswith((".sh", ".sbatch")):
            assert not judge(read(file.path, file.text)), file.path
