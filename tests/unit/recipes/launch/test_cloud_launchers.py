"""Test files for SkyPilot and SageMaker: the requested resources, and the script that every node runs."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probes.base.errors import UsageError
from recipes.launch.launch_files import find_launcher, launch_files
from recipes.launch.program_files import FolderFile, ProgramFiles, torch_agent
from recipes.launch.recipe import Command, Environment
from tests.support.launch_bench import NASTY, put_files
from tests.support.manifests import GPU, H100, SMALL

MORE = {"role": "arn:aws:iam::1:role/T", "instance_type": "ml.p5.48xlarge"}
PLACES = {
    "skypilot": {"SKYPILOT_NODE_RANK": "2", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2\n10.0.0.3\n10.0.0.4"},
    "sagemaker": {"SM_CURRENT_HOST": "algo-3", "SM_HOSTS": '["algo-1", "algo-2", "algo-3", "algo-4"]'},
}
"""Variables of the third of four nodes."""
MASTERS = {"skypilot": "10.0.0.1", "sagemaker": "algo-1"}
HOSTS = {
    "skypilot": "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4",
    "sagemaker": "algo-1,algo-2,algo-3,algo-4",
}
texts = st.sampled_from(NASTY) | st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20
)


def filled(given: dict[str, Any], **more: str) -> dict[str, Any]:
    return {**given, "slots": {**given["slots"], **MORE, **more}}


def node(folder, recipe, launcher):
    """Write the files and return the path of the script that a node runs."""
    files = launch_files(recipe, launcher)
    put_files(folder, files)
    return folder / files[1].path


@pytest.mark.parametrize("launcher", PLACES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.fixed_dictionaries({"argument": texts, "value": texts, "title": texts}))
def test_no_text_of_the_user_is_read_by_the_shell(make_recipe, bench, tmp_path_factory, launcher, text):
    argument, value, title = text["argument"], text["value"], text["title"]
    place = tmp_path_factory.mktemp("place")
    doubled = argument.replace("{", "{{").replace("}", "}}")
    recipe = make_recipe(
        title=title,
        environment=(Environment(name="MY_VALUE", value=value, why=title, source=title),),
        command=Command(kind="script", target="t.py", arguments=(doubled,)),
        **filled(SMALL),
    )
    outcome = bench.run("bash", str(node(place, recipe, launcher)), cwd=place)
    assert outcome.exit_code == 0, outcome.words
    (call,) = outcome.calls
    assert call.arguments[-2:] == ["t.py", argument]
    assert call.environment["MY_VALUE"] == value
    assert not list(place.rglob("injected"))
    first = launch_files(recipe, launcher)[0].text
    assert yaml.safe_load(first) if launcher == "skypilot" else ast.parse(first)


@pytest.mark.parametrize("launcher", PLACES)
def test_every_node_gets_its_rank_and_the_address_of_the_first_node(make_recipe, bench, tmp_path, launcher):
    script = node(tmp_path, make_recipe(**filled(H100)), launcher)
    (call,) = bench.run("bash", str(script), **PLACES[launcher]).calls
    words = call.arguments
    for name, value in (
        ("--node-rank", "2"),
        ("--master-addr", MASTERS[launcher]),
        ("--master-port", "29500"),
        ("--nnodes", "4"),
        ("--nproc-per-node", "8"),
    ):
        assert words[words.index(name) + 1] == value
    assert words[-3:] == ["train.py", "--lr", "0.003"]
    assert call.environment["NCCL_IB_HCA"] == "=mlx5_0,mlx5_3"
    assert "NCCL_SOCKET_IFNAME" not in call.environment
    assert call.environment["RIGTUNE_RECIPE"] == f"{tmp_path}/plan.json"


@pytest.mark.parametrize("launcher", PLACES)
def test_the_reference_program_runs_in_the_export_folder(make_recipe, bench, tmp_path, launcher):
    (call,) = bench.run("bash", str(node(tmp_path / "x", make_recipe(**filled(SMALL)), launcher))).calls
    assert call.directory == str(tmp_path / "x")
    assert call.environment["PYTHONPATH"] == str(tmp_path / "x")


@pytest.mark.parametrize("launcher", PLACES)
def test_a_program_with_one_process_per_node_gets_its_place_as_variables(
    make_recipe, bench, tmp_path, launcher
):
    recipe = make_recipe(**filled(H100))
    words = ("train.py", FolderFile(name="a.yaml"))
    files = ProgramFiles(words=words, processes="node", agent=torch_agent(recipe))
    _, script = find_launcher(launcher).load().render(recipe, files)
    put_files(tmp_path, (script,))
    (call,) = bench.run("bash", str(tmp_path / script.path), **PLACES[launcher]).calls
    assert call.arguments == ["train.py", f"{tmp_path}/a.yaml"]
    names = ("NODE_RANK", "NODE_COUNT", "MASTER_ADDR", "MASTER_PORT", "NODE_HOSTS")
    place = [call.environment[name] for name in names]
    assert place == ["2", "4", MASTERS[launcher], "29500", HOSTS[launcher]]


def task(recipe) -> dict[str, Any]:
    return yaml.safe_load(launch_files(recipe, "skypilot")[0].text)


def test_a_sky_task_asks_for_gpus_and_their_network(make_recipe):
    described = task(make_recipe(**filled(H100, bucket="s3://mine")))
    image = f"docker:{SMALL['slots']['container_image']}"
    assert described["resources"] == {"accelerators": "H100:8", "image_id": image, "network_tier": "best"}
    assert (described["num_nodes"], described["workdir"]) == (4, ".")
    assert described["file_mounts"]["~/rigtune"] == "${RIGTUNE_FOLDER}"
    assert described["file_mounts"]["/bucket"] == {"source": "s3://mine", "mode": "MOUNT"}
    assert "workdir" not in task(make_recipe(**filled(SMALL)))


@pytest.mark.parametrize(
    ("device", "slot", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "", "A100-80GB:2"),
        ("NVIDIA A100-SXM4-40GB", "", "A100:2"),
        ("NVIDIA L40S", "", "L40S:2"),
        ("Rare GPU", "RTX6000-Ada", "RTX6000-Ada:2"),
    ],
)
def test_a_gpu_has_skypilots_name(make_recipe, device, slot, name):
    more = {"accelerator": slot} if slot else {}
    fields = filled(SMALL, **more)
    assert (
        task(make_recipe(resources={**GPU, "device_name": device}, **fields))["resources"]["accelerators"]
        == name
    )


def test_a_gpu_without_a_known_name_needs_the_slot(make_recipe):
    with pytest.raises(UsageError, match="SkyPilot's name of the GPU") as raised:
        launch_files(make_recipe(resources={**GPU, "device_name": "Rare"}, **filled(SMALL)), "skypilot")
    assert "--slot accelerator=" in raised.value.hint


def keywords(call: ast.expr) -> dict[str, ast.expr]:
    assert isinstance(call, ast.Call)
    return {str(word.arg): word.value for word in call.keywords}


def test_a_sagemaker_job_asks_for_instances_and_keeps_checkpoints(make_recipe):
    text = launch_files(make_recipe(**filled(H100, bucket="s3://mine/run")), "sagemaker")[0].text
    tree = ast.parse(text)
    (made,) = [
        each.value
        for each in tree.body
        if isinstance(each, ast.Assign) and "ModelTrainer" in ast.unparse(each)
    ]
    given_words = keywords(made)
    compute = {name: ast.literal_eval(value) for name, value in keywords(given_words["compute"]).items()}
    assert (compute["instance_type"], compute["instance_count"]) == ("ml.p5.48xlarge", 4)
    command = ast.literal_eval(keywords(given_words["source_code"])["command"])
    assert command == "bash /opt/ml/input/data/rigtune/sagemaker-node.sh"
    assert "max_runtime_in_seconds=131400" in text
    assert ast.unparse(given_words["checkpoint_config"]) == "CheckpointConfig(s3_uri='s3://mine/run')"
    imported = {
        name.name for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) for name in each.names
    }
    assert {"CheckpointConfig", "StoppingCondition"} <= imported
    plain = {**SMALL, "slots": {**SMALL["slots"], **MORE}}
    assert "StoppingCondition" not in launch_files(make_recipe(**plain), "sagemaker")[0].text


@pytest.mark.parametrize("missing", ["role", "instance_type", "container_image"])
def test_sagemaker_needs_its_slots(make_recipe, missing):
    slots = {name: value for name, value in filled(SMALL)["slots"].items() if name != missing}
    with pytest.raises(UsageError, match=f"needs the slot {missing}"):
        launch_files(make_recipe(slots=slots), "sagemaker")


def test_how_a_cloud_job_is_started(make_recipe):
    recipe = make_recipe(**filled(SMALL))
    sky, sage = (find_launcher(name).load() for name in ("skypilot", "sagemaker"))
    words = ("sky", "launch", "-c", "mini", "--env", "RIGTUNE_FOLDER=/f", "/f/sky.yaml")
    assert sky.start(recipe, "/f", ()) == words
    assert sage.start(recipe, "/f", ()) == ("python3", "/f/sagemaker_job.py")
    for module in (sky, sage):
        with pytest.raises(UsageError, match="cannot take the arguments"):
            module.start(recipe, "/f", ("--steps",))
