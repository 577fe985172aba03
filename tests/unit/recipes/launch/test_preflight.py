"""Test the preflight script, which tests a node before its ranks start, and the site's slots in scripts."""

from __future__ import annotations

import re
import sys

import msgspec
import pytest

from recipes.launch.rank_logs import log_variables
from recipes.launch.recipe import Command, Fingerprint
from recipes.launch.slots import with_slots
from tests.support.launch_bench import put_files, render

SHELL = ("torchrun", "torchrun-elastic", "slurm", "slurm-ranks", "accelerate", "deepspeed", "mpi")
GPU = {"device": "cuda", "backend": "nccl"}


@pytest.fixture
def preflight(make_recipe, launch_bench, tmp_path):
    """Return a function that runs the preflight script of a small job with this machine's interpreter."""

    def run(fields, **variables):
        recipe = make_recipe(**fields)
        script = put_files(tmp_path / "launch", render("torchrun", recipe)).parent / "preflight.sh"
        settings = {"RIGTUNE_PREFLIGHT": "1", "RIGTUNE_LOGS": str(tmp_path / "a log"), **variables}
        python = variables.get("INTERPRETER", str(launch_bench.folder / "python3"))
        return launch_bench.run(str(script), python, cwd=tmp_path, **settings)

    # This python3 runs the code after -c with the interpreter of the tests.
    launch_bench.stand_in("python3", f'exec {sys.executable} -c "$2" "${{@:3}}"')
    return run


MODULE = {"command": Command(kind="module", target="json.tool")}


def test_a_node_that_lacks_nothing_passes_without_output(preflight, tmp_path):
    (tmp_path / "torch.py").touch()
    outcome = preflight(MODULE)
    assert (outcome.exit_code, outcome.words) == (0, "")
    assert (tmp_path / "a log").is_dir()


@pytest.mark.parametrize(
    ("fields", "variables", "complaint"),
    [
        ({"command": Command(kind="module", target="no_such.train")}, {}, "lacks no_such"),
        ({"command": Command(kind="script", target="no such.py")}, {}, "there is no script no such.py in"),
        (MODULE, {"RIGTUNE_LOGS": "/proc/logs"}, "cannot write to the folder /proc/logs"),
        (MODULE, {"INTERPRETER": "/no/python"}, "no Python interpreter /no/python"),
        (
            {**MODULE, "resources": GPU},
            {"CUDA_VISIBLE_DEVICES": "1"},
            "visible GPUs is 1, but the ranks of a node need 2",
        ),
    ],
)
def test_every_fault_of_a_node_stops_the_job_and_is_named(preflight, tmp_path, fields, variables, complaint):
    (tmp_path / "torch.py").touch()
    outcome = preflight(fields, **variables)
    assert outcome.exit_code == 1
    assert complaint in outcome.words
    assert "RIGTUNE_PREFLIGHT=0 skips these tests" in outcome.words
    assert preflight(fields, **{**variables, "RIGTUNE_PREFLIGHT": "0"}).exit_code == 0


def test_a_command_that_becomes_a_module_needs_no_script_in_the_folder(preflight, tmp_path):
    for name in ("torch", "llamafactory"):
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "mine.yaml").write_text("stage: pt")
    command = Command(kind="script", target="llamafactory-cli", arguments=("train", "mine.yaml"))
    assert preflight({"program": "llama-factory", "command": command}).words == ""


def test_torch_is_not_imported(preflight, tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('imported')")
    (tmp_path / "importlib.py").write_text("raise SystemExit('imported')")
    assert preflight(MODULE).exit_code == 0


@pytest.mark.parametrize(("list_of_gpus", "code"), [("GPU 0: A\nGPU 1: A", 0), ("GPU 0: A", 1)])
def test_gpus_are_counted(preflight, launch_bench, tmp_path, list_of_gpus, code):
    (tmp_path / "torch.py").touch()
    launch_bench.stand_in("nvidia-smi", f"echo '{list_of_gpus}'")
    assert preflight({**MODULE, "resources": GPU}).exit_code == code


def test_parts_of_a_gpu_count_as_gpus(preflight, launch_bench, tmp_path):
    (tmp_path / "torch.py").touch()
    launch_bench.stand_in("nvidia-smi", "printf 'GPU 0: A\\n  MIG 1g Device 0: x\\n  MIG 1g Device 1: x\\n'")
    assert preflight({**MODULE, "resources": GPU}).exit_code == 0


def test_little_shared_memory_stops_the_job(preflight, launch_bench, tmp_path):
    (tmp_path / "torch.py").touch()
    launch_bench.stand_in("df", "printf 'Filesystem\\nshm 65536 100 65436 1%% /dev/shm\\n'")
    outcome = preflight(MODULE)
    assert outcome.exit_code == 1
    assert "shm has only 63 MiB free" in outcome.words


@pytest.mark.parametrize(("code", "stops"), [(0, False), (1, True), (3, False), (2, False)])
def test_only_a_failed_check_of_rigtune_stops_the_job(preflight, launch_bench, tmp_path, code, stops):
    (tmp_path / "torch.py").touch()
    launch_bench.stand_in("rigtune", f"echo ecc-errors >&2; exit {code}")
    outcome = preflight(MODULE)
    assert outcome.exit_code == int(stops)
    assert ("rigtune check: ecc-errors" in outcome.words) == stops


def test_a_launch_script_stops_at_a_bad_node(make_recipe, launch_bench, tmp_path):
    recipe = make_recipe(command=Command(kind="script", target="no such.py"))
    script = put_files(tmp_path, render("torchrun", recipe))
    outcome = launch_bench.run(str(script), RIGTUNE_PREFLIGHT="1")
    assert outcome.exit_code == 1
    assert not [call for call in outcome.calls if "torch.distributed.run" in call.arguments]


NASTY_SITE = {
    "modules": "cuda/12 $(touch${IFS}injected)",
    "conda": "it's $HOME",
    "setup": "/set up/$x.sh",
    "workdir": "/my $work",
    "logs": "/a log",
}


@pytest.mark.parametrize("launcher", SHELL)
def test_slots_of_the_site_are_filled_or_commented_out_in_every_script(make_recipe, launcher):
    plain = render(launcher, make_recipe(command=Command(kind="module", target="train")))[0].text
    for line in ("# module load ", "# source ", "conda activate ", "# cd -- ", "# container="):
        assert any(each.startswith("#") and line in each for each in plain.splitlines()), line
    recipe = with_slots(make_recipe(command=Command(kind="module", target="train")), NASTY_SITE, "test")
    filled = render(launcher, recipe)[0].text
    for line in (
        "module load cuda/12 '$(touch${IFS}injected)' || exit",
        "conda activate 'it'\"'\"'s $HOME' || exit",
        "source '/set up/$x.sh' || exit",
        "cd -- '/my $work'",
        "python=python3",
    ):
        assert f"\n{line}\n" in filled, line
    assert "\nlogs='/a log'/mini-" in filled


def test_the_site_is_prepared_before_the_ranks_start(make_recipe, launch_bench, tmp_path):
    launch_bench.stand_in("conda", "printf 'conda() { export ENVIRONMENT=$2; }'")
    (tmp_path / "set up.sh").write_text("echo $UNSET; export SITE=yes\n")
    slots = {"conda": "train", "setup": str(tmp_path / "set up.sh"), "workdir": str(tmp_path)}
    recipe = with_slots(make_recipe(command=Command(kind="module", target="train")), slots, "test")
    outcome = launch_bench.run(str(put_files(tmp_path / "launch", render("torchrun", recipe))))
    (call,) = outcome.calls
    assert call.environment["ENVIRONMENT"] == "train"
    assert call.environment["SITE"] == "yes"
    assert call.directory == str(tmp_path)


def test_a_file_as_container_image_is_run_by_apptainer(make_recipe, launch_bench, tmp_path):
    launch_bench.stand_in(
        "apptainer",
        'printf "%s\\n" "$@" >"$OPTIONS"\nuntil [[ $1 == *.sif ]]; do shift; done\nshift; exec "$@"',
    )
    slots = {"container_image": "/images/my $train.sif", "container_mounts": "/data:/data"}
    recipe = with_slots(make_recipe(resources=GPU), slots, "test")
    outcome = launch_bench.run(str(put_files(tmp_path / "launch", render("torchrun", recipe))))
    assert outcome.exit_code == 0, outcome.words
    assert "torch.distributed.run" in outcome.calls[0].arguments
    words = (launch_bench.folder / "options").read_text().splitlines()
    assert words[:4] == ["exec", "--nv", "--bind", str(tmp_path / "launch")]
    assert words[words.index("/data:/data") - 1 :][2] == "/images/my $train.sif"


@pytest.mark.parametrize(
    ("launcher", "image"),
    [
        *((launcher, "/images/train.sif") for launcher in ("slurm", "slurm-ranks", "mpi", "horovodrun")),
        *((launcher, "registry#org/train:1") for launcher in ("slurm", "slurm-ranks")),
    ],
)
def test_the_folder_of_the_logs_exists_before_a_container_mounts_it(
    make_recipe, launch_bench, tmp_path, launcher, image
):
    for name in ("apptainer", "srun", "mpirun"):
        launch_bench.stand_in(
            name, 'if [[ $1 == --version ]]; then echo "$MPI_VERSION"; else [[ -d $RIGTUNE_LOGS ]]; fi'
        )
    program = {"program": "horovod", "command": Command(kind="script", target="train.py")}
    recipe = make_recipe(resources=GPU, **(program if launcher == "horovodrun" else {}))
    recipe = with_slots(recipe, {"container_image": image}, "test")
    script = put_files(tmp_path / "launch", render(launcher, recipe))
    job = {"SLURM_JOB_ID": "41", "SLURM_JOB_NUM_NODES": "1", "SLURM_CPUS_PER_TASK": "2"}
    outcome = launch_bench.run("bash", str(script), SLURM_SUBMIT_DIR="/", SLURM_JOB_NODELIST="n7", **job)
    assert outcome.exit_code == 0, outcome.words


def test_slurm_starts_other_images_by_pyxis(make_recipe):
    slots = {"container_image": "registry#org/it's:1", "container_mounts": "/data:/data"}
    text = render("slurm", with_slots(make_recipe(resources=GPU), slots, "test"))[0].text
    assert "container=(--container-image='registry#org/it'\"'\"'s:1'\n" in text
    assert '--container-mounts="$folder:$folder,$PWD:$PWD,$logs:$logs",/data:/data\n' in text
    assert 'srun --kill-on-bad-exit=1 --export=ALL "${container[@]}" bash -c' in text
    assert ",NCCL_DEBUG_FILE," in text
    # pyxis would put the host's PYTHONPATH in place of the image's; the ranks extend the image's.
    handed = re.search(r'--container-env="(\S+)"\)\n', text)[1].split(",")
    assert "RIGTUNE_RECIPE" in handed
    assert "PYTHONPATH" not in handed
    inner = text.partition(" bash -c '")[2]
    assert '  export PYTHONPATH="${RIGTUNE_RECIPE%/*}${PYTHONPATH:+:$PYTHONPATH}"\n' in inner


@pytest.mark.parametrize(
    ("torch", "present", "absent"),
    [
        ("2.13.0+cu130", "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
        ("2.5.1", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE"),
        ("", "TORCH_NCCL_TRACE_BUFFER_SIZE", "none"),
        ("", "TORCH_FR_DUMP_TEMP_FILE", "none"),
    ],
)
def test_variables_of_the_flight_recorder_have_the_names_of_the_torch_version(
    make_recipe, torch, present, absent
):
    fingerprint = Fingerprint(machine="m", torch=torch, facts_sha256="0")
    recipe = make_recipe(resources=GPU, made_for=fingerprint)
    names = {variable.name for variable in log_variables(recipe)}
    assert present in names
    assert absent not in names
    on_cpu = msgspec.structs.replace(recipe, resources=make_recipe().resources)
    assert log_variables(on_cpu) == ()


@pytest.mark.parametrize("launcher", SHELL)
def test_logs_and_dumps_go_to_the_folder_of_the_run_unless_the_user_chose_another(make_recipe, launcher):
    text = render(launcher, make_recipe(resources=GPU))[0].text
    assert "export NCCL_DEBUG_FILE=${NCCL_DEBUG_FILE:-$logs/nccl.%h.%p.log}" in text
    assert "logs=${RIGTUNE_LOGS:-$logs}" in text
    assert "export NCCL" not in render(launcher, make_recipe())[0].text
