"""Test that typed secrets become references to variables, and that no file contains their values."""

from __future__ import annotations

import shutil
import subprocess

import msgspec
import pytest
import yaml

from recipes.launch.imports.hidden_secrets import reference_in, referring, without_secrets
from recipes.launch.imports.unwrapping import unwrap
from recipes.launch.launch_files import launch, launch_files
from recipes.launch.launcher_table import LAUNCHERS
from recipes.launch.recipe import Command
from recipes.launch.recipe_file import dump_recipe, load_recipe
from recipes.launch.references import shell_quoted
from recipes.launch.slots import load_slots
from recipes.launch.user_command import user_command
from tests.support.launch_bench import SLURM_JOB, put_files

SECRET = "hf_Ab3dEf6hIj9lMn2pQr"  # noqa: S105 - no real token
ARGUMENTS = ("--token", "{$HF_TOKEN}", "--note=a b{$HF_TOKEN}'{{x}}", "--lr", "1")
COMMAND = Command(kind="script", target="train.py", arguments=ARGUMENTS)
SLOTS = {
    name: load_slots()[name].example for name in ("accelerator", "container_image", "role", "instance_type")
}
GPU = {"device": "cuda", "backend": "nccl"}
SLURM = {**SLURM_JOB, "SLURM_JOB_NUM_NODES": "1"}


@pytest.mark.parametrize(
    ("launcher", "variables"),
    [("torchrun", {}), ("deepspeed", {}), ("mpi", {}), ("slurm", SLURM), ("slurm-ranks", SLURM)],
)
def test_a_script_passes_the_variable_on_and_stops_without_it(
    make_recipe, launch_bench, tmp_path, launcher, variables
):
    script = put_files(tmp_path / "launch", launch_files(make_recipe(command=COMMAND), launcher))
    variables = {**variables, "COMMAND": str(script)}
    outcome = launch_bench.run("bash", str(script), cwd=tmp_path, HF_TOKEN=f"{SECRET}$(id)", **variables)
    assert outcome.exit_code == 0, outcome.words
    for call in outcome.calls:
        words = call.arguments[call.arguments.index("train.py") + 1 :]
        assert words == ["--token", f"{SECRET}$(id)", f"--note=a b{SECRET}$(id)'{{x}}", "--lr", "1"]
    outcome = launch_bench.run("bash", str(script), cwd=tmp_path, **variables)
    assert outcome.exit_code != 0
    assert not any("train.py" in call.arguments for call in outcome.calls)
    assert "HF_TOKEN: export this secret" in outcome.words


@pytest.mark.parametrize("row", [row for row in LAUNCHERS if "rank" in row.starts], ids=lambda row: row.id)
def test_every_launcher_writes_a_reference_and_says_so(make_recipe, row):
    recipe = make_recipe(command=COMMAND, slots=SLOTS, resources=GPU)
    result = launch(recipe, row.id)
    texts = "".join(artifact.text for artifact in result.artifacts)
    assert "\0" not in texts
    assert '"${HF_TOKEN:?' in texts or "$(HF_TOKEN)" in texts or "${HF_TOKEN:?" in texts
    assert any("HF_TOKEN: export it" in remark for remark in result.remarks)
    assert load_recipe(dump_recipe(recipe), "recipe.toml").command == COMMAND


@pytest.mark.parametrize("row", [row for row in LAUNCHERS if row.needs], ids=lambda row: row.id)
def test_a_container_that_expands_a_reference_has_the_secret(make_recipe, row):
    slots = {**SLOTS, "token_secret": "hub-token"}
    for command, is_needed in ((COMMAND, True), (msgspec.structs.replace(COMMAND, arguments=()), False)):
        text = launch_files(make_recipe(command=command, slots=slots, resources=GPU), row.id)[0].text
        assert ("$(HF_TOKEN)" in text) <= ("name: hub-token" in text.partition("envFrom")[2])
        assert is_needed or "$(HF_TOKEN)" not in text


def test_kubernetes_and_compose_use_references_of_their_own(make_recipe):
    recipe = make_recipe(command=COMMAND, slots=SLOTS, resources=GPU)
    (job,) = [
        each
        for each in yaml.safe_load_all(launch_files(recipe, "pytorchjob")[0].text)
        if each["kind"] == "PyTorchJob"
    ]
    (container,) = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    assert container["args"][-5:] == ["--token", "$(HF_TOKEN)", "--note=a b$(HF_TOKEN)'{x}", "--lr", "1"]
    service = yaml.safe_load(launch_files(recipe, "compose")[0].text)["services"]["train"]
    assert service["command"][-4].startswith("${HF_TOKEN:?")


@pytest.mark.parametrize(
    "program", ["hf-trainer", "deepspeed", "accelerate", "lightning", "horovod", "tensorflow"]
)
def test_every_program_passes_the_reference_on(make_recipe, program):
    files = launch_files(make_recipe(program=program, command=COMMAND, resources=GPU), "torchrun")
    assert "\0" not in "".join(file.text for file in files)
    assert '--token "${HF_TOKEN:?' in files[0].text


def test_trl_passes_the_reference_on(make_recipe):
    words = ("sft", "--dataset_name", "x", "--model_name_or_path", "gpt2", "--hub_token", "{$HF_TOKEN}")
    command = Command(kind="script", target="trl", arguments=words)
    files = launch_files(make_recipe(program="trl", command=command, resources=GPU), "torchrun")
    assert "\0" not in "".join(file.text for file in files)
    assert '"${HF_TOKEN:?' in files[0].text


@pytest.mark.parametrize(
    ("words", "safe"),
    [
        (("--token", "abc"), {"abc": "{$TOKEN}"}),
        (("--hub-token", SECRET), {SECRET: "{$HUB_TOKEN}"}),
        ((f"--hub_token={SECRET}",), {f"--hub_token={SECRET}": "--hub_token={$HUB_TOKEN}"}),
        ((f"logger.api_key={SECRET}",), {f"logger.api_key={SECRET}": "logger.api_key={$LOGGER_API_KEY}"}),
        (("--token", SECRET, "--name", SECRET), {SECRET: "{$TOKEN}"}),
        (("--token", "cls", "--pool", "cls"), {}),
        (("--token", "{$HF_TOKEN}"), {}),
        (("--pad_token", "[PAD]", "--eos-token", "</s>", "--max-tokens", "4096"), {}),
        (("--tokenizer", "meta-llama/Llama-3-8B", "--token-file", "/run/token"), {}),
        (("--token", "--lr", "1", "token", SECRET), {}),
    ],
)
def test_typed_secrets_are_recognised_by_the_names_of_their_options(words, safe):
    assert referring(words) == safe


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (f"train.py --token {SECRET}", ("train.py", ("--token", "{$TOKEN}"))),
        (f"HF_TOKEN={SECRET} train.py --lr 1", ("train.py", ("--lr", "1"))),
        (f"HF_TOKEN={SECRET} A=1 torchrun --nproc-per-node 2 train.py", ("train.py", ())),
        (f"env HF_TOKEN={SECRET} python train.py", ("train.py", ())),
        (f"srun --export=ALL,HF_TOKEN={SECRET},A=1 python train.py", ("train.py", ())),
        (f"mpirun -x HF_TOKEN={SECRET} python train.py", ("train.py", ())),
    ],
)
def test_a_typed_secret_is_neither_written_nor_printed(words, command):
    given = tuple(words.split())
    assert (user_command(given).target, user_command(given).arguments) == command
    assert SECRET not in msgspec.json.encode(user_command(given)).decode()
    sentences = " ".join(unwrap(given).dropped)
    assert SECRET not in sentences
    assert "TOKEN" in sentences
    assert "export" in sentences


@pytest.mark.parametrize(
    ("written", "reference"),
    [
        ("$A", "{$A}"),
        ("${secret:-abc}", "{$SECRET}"),
        ("--x={$A}$B", "--x={{{$A}}}{$B}"),
        ("$1 $(id)", "$1 $(id)"),
    ],
)
def test_variables_of_a_script_become_references(written, reference):
    assert reference_in(written) == reference


def test_an_assignment_after_a_comma_is_hidden():
    assert without_secrets(f"--export=ALL,HF_TOKEN={SECRET}") == "--export=ALL,HF_TOKEN=<hidden>"


@pytest.mark.skipif(shutil.which("sh") is None, reason="no POSIX shell")
@pytest.mark.parametrize("text", ["\0A\0", "x \0A\0'y\0A\0", "plain $A", "", "\0A\0\0B\0"])
def test_a_shell_fills_in_references_only(text):
    script = f"printf '%s\\n' {shell_quoted(text)}"
    done = subprocess.run(
        ["sh", "-c", script], env={"A": "a b", "B": "$A"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == text.replace("\0A\0", "a b").replace("\0B\0", "$A") + "\n"
