"""Test nccl-tests in place of the job's program: its options, its forms, and the launchers that start it."""

from __future__ import annotations

import shutil
import subprocess

import msgspec
import pytest

from assistant.cli import command_line
from probes.base.errors import UsageError
from recipes.launch.launch_files import first_launcher, launch_files, program_files
from recipes.launch.launcher_table import LAUNCHERS
from recipes.launch.program_limits import require_runnable
from recipes.launch.recipe import Command, Environment
from recipes.launch.recipe_file import dump_recipe, faults, load_recipe
from recipes.launch.user_command import user_command
from tests.support.launch_bench import SLURM_JOB, put_files

CURVE = ("-b", "8", "-e", "8G", "-f", "2", "-n", "20", "-w", "5", "-c", "1")
SITE = {"container_image": "image", "role": "role", "instance_type": "type", "accelerator": "H100"}


@pytest.fixture
def nccl_tests(make_recipe):
    def make(*arguments, target="all_reduce_perf", resources=(), **fields):
        device = {"device": "cuda", "backend": "nccl", "device_name": "NVIDIA H100", **dict(resources)}
        command = Command(kind="nccl-tests", target=target, arguments=arguments)
        return make_recipe(command=command, resources=device, **fields)

    return make


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), CURVE),
        (("-b", "1M", "-o", "all"), ("-b", "1M", *CURVE[2:], "-o", "all")),
        (("--maxbytes=1G",), ("-b", "8", "--maxbytes", "1G", *CURVE[4:])),
        (("-i", "1M"), (*CURVE[:4], "-i", "1M", *CURVE[6:])),
        (("-w20", "-d", "half"), (*CURVE[:8], "-w", "20", "-c", "1", "-d", "half")),
        (("-n", "{steps}"), (*CURVE[:6], "-n", "20", *CURVE[8:])),
    ],
)
def test_options_of_the_user_replace_the_defaults(nccl_tests, given, words):
    assert program_files(nccl_tests(*given)).words == (*words, "-g", "1")


@pytest.mark.parametrize("given", [("-g", "8"), ("--ngpus=8",), ("-t4",), ("--nthreads", "2")])
def test_the_launcher_decides_the_gpus_of_a_process(nccl_tests, given):
    files = program_files(nccl_tests(*given))
    assert files.words == (*CURVE, "-g", "1")
    (note,) = files.notes
    assert "is left out: the launcher decides" in note


@pytest.mark.parametrize(
    ("given", "unknown"), [(("-q", "1"), "-q"), (("--minbyts=8",), "--minbyts"), (("8",), "8")]
)
def test_an_option_that_a_test_does_not_know_is_a_warning(nccl_tests, given, unknown):
    """nccl-tests itself would print its usage and exit with 0."""
    (note,) = program_files(nccl_tests(*given)).notes
    assert note.startswith("Warning: nccl-tests ")
    assert f"has no option {unknown};" in note
    assert not program_files(nccl_tests("-o", "all", "--datatype=half", "-N2")).notes


def test_one_node_also_works_without_mpi_by_one_process_with_all_gpus(nccl_tests):
    per_rank, whole = program_files(nccl_tests(ranks_per_node=8)).forms
    assert (per_rank.processes, whole.processes) == ("task", "node")
    assert whole.words == (*CURVE, "-g", "8")
    assert not whole.environment, "settings of MPI are pointless without MPI"
    assert len(program_files(nccl_tests(nodes=2)).forms) == 1


@pytest.mark.parametrize("nodes", [1, 2])
def test_each_launcher_starts_it_or_names_those_that_do(nccl_tests, nodes):
    recipe = nccl_tests(nodes=nodes, slots=SITE)
    able = {"slurm-ranks", "mpi", "mpijob"}
    if nodes == 1:
        able = {
            row.id for row in LAUNCHERS if not {"task", "node"}.isdisjoint(row.starts) and not row.software
        }
    for row in LAUNCHERS:
        if row.id in able:
            assert launch_files(recipe, row.id)
            continue
        with pytest.raises(UsageError, match=r"nccl-tests (?:needs|does not use)") as caught:
            launch_files(recipe, row.id)
        assert set(caught.value.hint.removeprefix("launchers for it: ").split(", ")) == able


@pytest.mark.parametrize(
    ("target", "slots", "executable"),
    [
        ("all_reduce_perf", {}, "all_reduce_perf"),
        ("all_reduce_perf", {"nccl_tests": "/opt/it's here"}, "/opt/it's here/all_reduce_perf"),
        ("./build/alltoall_perf", {"nccl_tests": "/opt"}, "./build/alltoall_perf"),
    ],
)
def test_the_executable_comes_from_the_command_the_slot_or_the_path(nccl_tests, target, slots, executable):
    assert program_files(nccl_tests(target=target, slots=slots)).executable == executable


def test_limits_of_the_job_s_program_do_not_bind_a_test(nccl_tests):
    recipe = nccl_tests(program="horovod", parallelism={"strategy": "fsdp", "fsdp": 2})
    require_runnable(recipe)
    training = msgspec.structs.replace(recipe, command=Command(kind="script", target="train.py"))
    with pytest.raises(UsageError, match="Horovod cannot run this recipe: it has no strategy fsdp"):
        require_runnable(training)


def test_a_cpu_is_refused(nccl_tests):
    with pytest.raises(UsageError, match="only on GPUs"):
        program_files(nccl_tests(resources={"device": "cpu", "backend": "gloo"}))


def test_a_pasted_line_of_mpirun_becomes_the_test(nccl_tests):
    pasted = ("mpirun", "-np", "16", "-N", "8", "--bind-to", "none", "./build/all_gather_perf", "-b", "8")
    command = user_command(pasted)
    assert (command.kind, command.target) == ("nccl-tests", "./build/all_gather_perf")
    assert command.arguments == ("-b", "8")
    assert user_command(("all_gather_perf.py",)).kind == "script"


def test_a_recipe_keeps_the_test_and_names_a_missing_one(nccl_tests):
    recipe = nccl_tests("-b", "1M")
    assert load_recipe(dump_recipe(recipe), "recipe.toml") == recipe
    (fault,) = faults(nccl_tests(target=""))
    assert (fault.place, fault.problem) == ("command.target", "is missing")


def test_a_batch_script_of_a_test_is_not_started_again(nccl_tests):
    text = launch_files(nccl_tests(nodes=2), "slurm-ranks")[0].text
    assert "#SBATCH --no-requeue" in text
    for word in ("USR1'", "#SBATCH --signal", "RIGTUNE_RESTARTS", "scontrol requeue", "global batch"):
        assert word not in text


def test_a_plan_with_a_test_is_named_after_it_and_names_a_launcher_that_starts_it(tmp_path, capsys):
    for nodes, program, ending in (
        (4, "./build/all_reduce_perf", " --to mpi"),
        (1, "all_reduce_perf", ""),
        (4, "train.py", ""),
    ):
        output = tmp_path / f"{nodes}{program.rpartition('/')[2]}.toml"
        words = ("plan", "llama-3-8b", "--machine", "dgx-h100", "--nodes", str(nodes), "-o", str(output))
        assert command_line([*words, "--", program]) == 0
        assert f"next: rigtune export {output}{ending}\n" in capsys.readouterr().err
        recipe = load_recipe(output.read_text(), "recipe.toml")
        is_test = "perf" in program
        assert recipe.name == ("all_reduce_perf" if is_test else "llama-3-8b")
        assert recipe.title.startswith("all_reduce_perf on " if is_test else "Llama 3 8B on ")


@pytest.mark.parametrize(
    ("nodes", "batch_system", "launcher"),
    [(4, "", "mpi"), (4, "slurm", "slurm-ranks"), (1, "slurm", "slurm"), (4, "pbs", "mpi")],
)
def test_the_launcher_is_one_of_the_sites_batch_system(nccl_tests, nodes, batch_system, launcher):
    assert first_launcher(nccl_tests(nodes=nodes), batch_system) == launcher


def test_the_script_names_nccl_tests_and_nothing_of_training(nccl_tests):
    recipe = nccl_tests(nodes=2, notes=("Warning: may run out of memory.",))
    script = launch_files(recipe, "mpi")[0].text
    assert "nccl-tests on 2 nodes x 2 ranks (NVIDIA H100)" in script
    for word in ("Micro-batch", "out of memory", "TORCH_NCCL", "MASTER_ADDR", "python"):
        assert word not in script
    assert "export NCCL_DEBUG_FILE=" in script


@pytest.mark.parametrize(("plugin", "option"), [("", "--mpi=pmix"), ("pmi2", "--mpi=pmi2")])
def test_slurm_starts_every_rank_by_the_plugin_of_the_site(
    nccl_tests, launch_bench, tmp_path, plugin, option
):
    """A stand-in takes the place of all_reduce_perf and shows its arguments; its path contains a blank."""
    folder = tmp_path / "built tests"
    folder.mkdir()
    shutil.copy(launch_bench.recorder, folder / "all_reduce_perf")
    slots = {"nccl_tests": str(folder), **({"mpi": plugin} if plugin else {})}
    variable = Environment(name="NCCL_IB_HCA", value="=mlx5_0", why="w", source="s")
    recipe = nccl_tests("-b", "1M", nodes=2, slots=slots, environment=(variable,))
    artifacts = launch_files(recipe, "slurm-ranks")
    assert f"srun {option} " in artifacts[0].text
    script = put_files(tmp_path / "launch", artifacts)
    outcome = launch_bench.run(
        "bash", str(script), "--", "-e", "$HOME", **SLURM_JOB, SLURM_JOB_NUM_NODES="2", COMMAND=str(script)
    )
    assert outcome.exit_code == 0, outcome.words
    for call in outcome.calls:
        assert call.arguments == ["-b", "1M", *CURVE[2:], "-g", "1", "-e", "$HOME"]
        assert call.environment["NCCL_IB_HCA"] == "=mlx5_0"
        assert call.environment["OMPI_MCA_coll_hcoll_enable"] == "0"


@pytest.fixture
def preflight(nccl_tests, launch_bench, tmp_path):
    """Return a function that runs the preflight on a node whose `ldd` prints the given lines."""

    def run(libraries, **fields):
        executable = launch_bench.stand_in("all_reduce_perf", "exit 0")
        launch_bench.stand_in("ldd", f"printf '%s\\n' {libraries!r}" if libraries else "exit 1")
        artifacts = launch_files(nccl_tests(nodes=2, **fields), "mpi")
        script = put_files(tmp_path / "launch", artifacts).parent / "preflight.sh"
        settings = {"RIGTUNE_PREFLIGHT": "1", "RIGTUNE_LOGS": str(tmp_path / "log")}
        name = fields.get("target", executable)
        return launch_bench.run(str(script), name, cwd=tmp_path, CUDA_VISIBLE_DEVICES="0,1", **settings)

    return run


@pytest.mark.parametrize(
    ("libraries", "complaint"),
    [
        ("libmpi.so.40 => /lib/libmpi.so.40", ""),
        ("", ""),
        ("libnccl.so.2 => /lib/libnccl.so.2", "is built without MPI: build it with make MPI=1"),
        ("libmpi.so.40 => /lib/l libnccl.so.2 => not found", "lacks libraries"),
    ],
)
def test_a_node_is_tested_for_the_libraries_of_the_executable(preflight, libraries, complaint):
    outcome = preflight(libraries)
    assert (outcome.exit_code, complaint in outcome.words) == (1 if complaint else 0, True), outcome.words


def test_a_missing_executable_stops_the_job(preflight):
    outcome = preflight("", target="/no/all_reduce_perf")
    assert outcome.exit_code == 1
    assert "there is no program /no/all_reduce_perf" in outcome.words


def test_a_missing_executable_is_one_line_and_127(nccl_tests, tmp_path):
    script = put_files(tmp_path, launch_files(nccl_tests(target="/no/all_reduce_perf"), "torchrun"))
    done = subprocess.run((script,), capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 127
    assert done.stderr.count("\n") == 1
    assert "there is no program /no/all_reduce_perf on " in done.stderr
