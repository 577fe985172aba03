"""Test files for Docker, Podman, compose and LXD: options of the engine, and unchanged arguments."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probes.base.errors import UsageError
from recipes.launch.launch_files import find_launcher, launch_files
from recipes.launch.recipe import Command, Environment
from tests.support.launch_bench import NASTY, Bench, Call, put_files
from tests.support.manifests import GPU, H100, IMAGE, SMALL

SCRIPTS = {"docker": "docker", "podman": "podman", "lxd": "lxc"}
"""Program that each script starts."""
USERS = {**SMALL, "command": Command(kind="script", target="t.py")}
TOKEN = {"HF_TOKEN": "hf_secret"}
SLICES = "MIG-5a1f, MIG-6b2e"
folders = st.sampled_from(("plain", "two words", "it's", "$(id)", "ü:漢", "-dash", "a\\b"))
texts = st.sampled_from((*NASTY, "$$", "${HOME}")) | st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20
)


@pytest.fixture
def engines(bench: Bench) -> Bench:
    """Return a bench with stand-ins for the engines, which record their calls."""
    for name in set(SCRIPTS.values()):
        bench.stand_in(name, f'exec {bench.recorder} "$@"')
    return bench


def started(calls: list[Call]) -> Call:
    """Return the call that starts the program."""
    (call,) = [each for each in calls if "torch.distributed.run" in each.arguments]
    return call


def given_options(call: Call, name: str) -> list[str]:
    return [word.removeprefix(f"{name}=") for word in call.arguments if word.startswith(f"{name}=")]


@pytest.mark.parametrize("launcher", SCRIPTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.fixed_dictionaries({"argument": texts, "value": texts, "title": texts, "folder": folders}))
def test_no_text_of_the_user_is_read_by_the_shell(make_recipe, engines, tmp_path_factory, launcher, text):
    argument, value, title, folder = text["argument"], text["value"], text["title"], text["folder"]
    place = tmp_path_factory.mktemp("place") / folder
    work = place / folder
    work.mkdir(parents=True)
    doubled = argument.replace("{", "{{").replace("}", "}}")
    recipe = make_recipe(
        title=title,
        environment=(Environment(name="MY_VALUE", value=value, why=title, source=title),),
        command=Command(kind="script", target="t.py", arguments=(doubled,), working_directory=str(work)),
        **SMALL,
    )
    script = put_files(place, launch_files(recipe, launcher))
    outcome = engines.run("bash", str(script), "--", value, cwd=place)
    assert outcome.exit_code == 0, outcome.words
    call = started(outcome.calls)
    assert call.arguments[-3:] == ["t.py", argument, value]
    assert f"MY_VALUE={value}" in given_options(call, "--env")
    assert not list(place.rglob("injected"))


@pytest.mark.parametrize(
    ("launcher", "gpus"), [("docker", "--gpus=all"), ("podman", "--device=nvidia.com/gpu=all")]
)
def test_a_container_gets_gpus_memory_and_the_folders(make_recipe, engines, tmp_path, launcher, gpus):
    recipe = make_recipe(**USERS, resources=GPU)
    script = put_files(tmp_path / "launch", launch_files(recipe, launcher))
    (tmp_path / "my work").mkdir()
    call = started(engines.run(str(script), cwd=tmp_path / "my work").calls)
    assert call.arguments[0] == "run"
    assert gpus in call.arguments
    assert {"--shm-size=16g", "--ulimit=memlock=-1", "--init", "--stop-timeout=300"} <= set(call.arguments)
    work = tmp_path / "my work"
    assert f"type=bind,source={work},target={work}" in given_options(call, "--mount")
    assert f"type=bind,source={tmp_path / 'launch'},target=/rigtune,readonly" in given_options(
        call, "--mount"
    )
    assert f"--workdir={work}" in call.arguments
    at = call.arguments.index(IMAGE)
    assert call.arguments[at + 1 : at + 4] == ["python3", "-m", "torch.distributed.run"]
    assert "--standalone" in call.arguments
    assert not any(
        "infiniband" in word or "--network" in word or "privileged" in word for word in call.arguments
    )


@pytest.mark.parametrize("launcher", ["docker", "podman"])
def test_several_nodes_share_the_network_and_the_devices_of_their_hosts(
    make_recipe, engines, tmp_path, launcher
):
    recipe = make_recipe(**{**H100, "resources": {**GPU, "hosts": ("a", "b", "c", "d")}})
    script = put_files(tmp_path, launch_files(recipe, launcher))
    call = started(engines.run(str(script), "2", "--", "--steps", "5").calls)
    words = call.arguments
    assert {"--network=host", "--device=/dev/infiniband", "--cap-add=IPC_LOCK"} <= set(words)
    assert "NCCL_SOCKET_IFNAME==ens3" in given_options(call, "--env")
    for name, value in (
        ("--node-rank", "2"),
        ("--master-addr", "a"),
        ("--nnodes", "4"),
        ("--rdzv-id", "mini"),
    ):
        assert words[words.index(name) + 1] == value
    assert words[-5:] == ["train.py", "--lr", "0.003", "--steps", "5"]
    wrong = engines.run(str(script), "4")
    assert (wrong.exit_code, wrong.calls) == (2, [])
    assert "NODE_RANK 4 is larger than 3" in wrong.words


def test_a_cpu_job_asks_for_no_gpu_and_runs_as_the_caller(make_recipe, engines, tmp_path):
    script = put_files(tmp_path, launch_files(make_recipe(**SMALL), "docker"))
    call = started(engines.run(str(script)).calls)
    assert not any(word.startswith(("--gpus", "--device")) for word in call.arguments)
    assert re.fullmatch(r"\d+:\d+", given_options(call, "--user")[0])
    assert "--workdir=/rigtune" in call.arguments
    # The image's own PYTHONPATH stays.
    assert not any(option.startswith("PYTHONPATH") for option in given_options(call, "--env"))
    words = call.arguments[call.arguments.index(IMAGE) + 1 :]
    shown = subprocess.run(
        [*words[:3], "printenv", "PYTHONPATH"],
        env={**os.environ, "PYTHONPATH": "/image"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "/rigtune:/image\n"
    assert words[3:6] == ["python3", "-m", "torch.distributed.run"]


def test_the_sites_user_folders_and_interpreter_are_used(make_recipe, engines, tmp_path):
    more = {"run_as": "7:8", "container_mounts": "/data:/in", "container_python": "/opt/py/bin/python"}
    recipe = make_recipe(**{**USERS, "slots": {**SMALL["slots"], **more}})
    script = put_files(tmp_path, launch_files(recipe, "docker"))
    call = started(engines.run(str(script)).calls)
    assert given_options(call, "--user") == ["7:8"]
    assert "type=bind,source=/data,target=/in" in given_options(call, "--mount")
    assert call.arguments[call.arguments.index(IMAGE) + 1] == "/opt/py/bin/python"


def test_a_token_passes_by_its_name_alone(make_recipe, engines, tmp_path):
    script = put_files(tmp_path, launch_files(make_recipe(**SMALL), "docker"))
    call = started(engines.run(str(script), **TOKEN).calls)
    assert "HF_TOKEN" in given_options(call, "--env")
    assert not any("hf_secret" in word for word in call.arguments)
    assert "HF_TOKEN" not in given_options(started(engines.run(str(script)).calls), "--env")


def test_a_folder_that_the_engine_cannot_mount_is_refused(make_recipe, engines, tmp_path):
    (tmp_path / "a,b").mkdir()
    script = put_files(tmp_path / "launch", launch_files(make_recipe(**USERS), "docker"))
    outcome = engines.run(str(script), cwd=tmp_path / "a,b")
    assert (outcome.exit_code, outcome.calls) == (2, [])
    assert "cannot mount a folder with a comma" in outcome.words


@pytest.mark.parametrize("launcher", ["docker", "podman", "compose"])
def test_a_job_of_several_nodes_is_started_on_each_node(make_recipe, launcher):
    module = find_launcher(launcher).load()
    with pytest.raises(UsageError, match=r"needs 4 nodes, and \w+ starts one") as raised:
        module.start(make_recipe(**H100), "/f", ())
    assert "on every node:" in raised.value.hint
    assert module.start(make_recipe(**SMALL), "/f", ())[-1] in ("--", "--abort-on-container-exit")


def composed(recipe) -> dict:
    return yaml.safe_load(launch_files(recipe, "compose")[0].text)["services"]["train"]


def test_a_compose_service_asks_for_what_the_ranks_need(make_recipe):
    service = composed(make_recipe(**H100))
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    assert service["network_mode"] == "host"
    assert (service["cap_add"], service["devices"]) == (["IPC_LOCK"], ["/dev/infiniband:/dev/infiniband"])
    assert (service["shm_size"], service["stop_grace_period"]) == ("16gb", "160s")
    command = service["command"]
    assert command[command.index("--node-rank") + 1].startswith("${NODE_RANK:?")
    assert command[command.index("--master-addr") + 1].startswith("${MASTER_ADDR:?")
    assert service["environment"]["HF_TOKEN"] is None


def test_a_compose_service_of_one_cpu_node_needs_no_device(make_recipe):
    service = composed(make_recipe(**SMALL))
    assert not {"deploy", "devices", "network_mode", "cap_add"} & service.keys()
    assert service["working_dir"] == "/rigtune"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(argument=texts, value=texts)
def test_compose_fills_nothing_into_the_users_text(make_recipe, argument, value):
    doubled = argument.replace("{", "{{").replace("}", "}}")
    recipe = make_recipe(
        environment=(Environment(name="MY_VALUE", value=value, why="w", source="s"),),
        command=Command(kind="script", target="t.py", arguments=(doubled,)),
        **SMALL,
    )
    service = composed(recipe)
    for text, wanted in ((service["command"][-1], argument), (service["environment"]["MY_VALUE"], value)):
        assert "$" not in text.replace("$$", "")
        assert text.replace("$$", "$") == wanted


def profile(recipe) -> dict:
    return yaml.safe_load(launch_files(recipe, "lxd")[1].text)


def test_an_lxd_profile_has_all_gpus_and_unlimited_locked_memory(make_recipe):
    described = profile(make_recipe(**USERS, resources=GPU))
    whole = {"type": "gpu", "gputype": "physical", "id": "nvidia.com/gpu=all"}
    assert described["devices"] == {"gpus": whole}
    assert described["config"]["limits.kernel.memlock"] == "unlimited"
    assert profile(make_recipe(**SMALL))["devices"] == {}


def test_an_lxd_profile_has_one_mig_slice_per_rank(make_recipe):
    fields = {"resources": {**GPU, "device_name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb"}}
    recipe = make_recipe(**{**USERS, **fields, "slots": {**SMALL["slots"], "mig_devices": SLICES}})
    assert profile(recipe)["devices"] == {
        f"slice-{number}": {"type": "gpu", "gputype": "mig", "id": f"nvidia.com/mig={uuid}"}
        for number, uuid in enumerate(("MIG-5a1f", "MIG-6b2e"))
    }
    with pytest.raises(UsageError, match="LXD needs the UUIDs of 2 MIG slices"):
        launch_files(make_recipe(**{**USERS, **fields}), "lxd")


def test_lxd_creates_the_profile_and_the_container_first(make_recipe, engines, tmp_path):
    recipe = make_recipe(**USERS)
    script = put_files(tmp_path / "launch", launch_files(recipe, "lxd"))
    (tmp_path / "work").mkdir()
    calls = engines.run(str(script), "--", "--steps", "3", cwd=tmp_path / "work").calls
    heads = [" ".join(call.arguments[:2]) for call in calls]
    assert heads == [
        *("profile show", "profile edit", "launch --ephemeral", "config device", "config device"),
        *("exec mini", "stop --force"),
    ]
    assert calls[2].arguments[-2:] == [IMAGE, "mini"]
    assert f"source={tmp_path / 'work'}" in calls[4].arguments
    assert calls[5].arguments[-3:] == ["t.py", "--steps", "3"]


def test_lxd_refuses_several_nodes(make_recipe):
    with pytest.raises(UsageError, match="the recipe has 4 nodes") as caught:
        launch_files(make_recipe(**H100), "lxd")
    assert "lxd" not in caught.value.hint


@pytest.mark.parametrize("launcher", ["docker", "podman", "compose", "lxd"])
def test_a_variable_that_the_container_cannot_have_is_left_out_with_a_remark(make_recipe, launcher):
    rows = [Environment(name="NCCL_MNNVL_ENABLE", value="1", why="NVLink of a rack.", source="test")]
    if launcher == "lxd":
        rows.append(Environment(name="NCCL_SOCKET_IFNAME", value="=eth0", why="Network.", source="test"))
    recipe = make_recipe(slots={"container_image": "image:1"}, environment=tuple(rows))
    text = "".join(line.strip("# \n") + " " for line in launch_files(recipe, launcher)[0].text.splitlines())
    for row in rows:
        assert text.count(f"{row.name}={row.value}") == 1, row.name
        assert f"{row.name}={row.value} is left out: " in text
