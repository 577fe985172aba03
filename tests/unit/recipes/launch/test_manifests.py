"""Test Kubernetes manifests: the structure of each kind of job, and arguments that arrive unchanged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probes.base.errors import UsageError
from recipes.launch.launch_files import find_launcher, launch_files
from recipes.launch.manifests.config_map import MOST_BYTES, config_map, object_name
from recipes.launch.manifests.container_words import carried_files, require_user, shared_memory
from recipes.launch.manifests.pod_parts import mounts, resources
from recipes.launch.manifests.yaml_text import Remark, yaml_text
from recipes.launch.program_files import FolderFile, ProgramFiles, torch_agent
from recipes.launch.recipe import Artifact, CheckpointSettings, Command, Environment, Prediction
from recipes.launch.slots import time_limit_s
from recipes.machine.cluster_records import Cluster
from tests.support.launch_bench import NASTY
from tests.support.manifests import (
    H100,
    IMAGE,
    KUBERNETES,
    SMALL,
    containers,
    documents,
    expanded,
    of_kind,
    templates,
)

IMAGE_ALONE = {"container_image": IMAGE}
RANKED = [kind for kind in KUBERNETES if kind != "mpijob"]
"""Kinds of jobs whose pods start an agent."""

RANKS = {
    "kubernetes-job": {"JOB_COMPLETION_INDEX": "3"},
    "pytorchjob": {"RANK": "3", "MASTER_ADDR": "mini-master-0", "MASTER_PORT": "23456"},
    "trainjob": {"PET_NODE_RANK": "3", "PET_MASTER_ADDR": "mini-node-0-0.mini", "PET_MASTER_PORT": "29500"},
    "jobset": {"JOB_COMPLETION_INDEX": "3"},
}
"""Variables that the last of four pods gets from each controller."""

MASTERS = {
    "kubernetes-job": ("mini-0.mini", "29500"),
    "pytorchjob": ("mini-master-0", "23456"),
    "trainjob": ("mini-node-0-0.mini", "29500"),
    "jobset": ("mini-node-0-0.mini", "29500"),
}


def slots(given: dict[str, object], **more: str) -> dict[str, object]:
    return {**given, "slots": {**given["slots"], **more}}


@pytest.mark.parametrize("launcher", KUBERNETES)
def test_a_manifest_without_an_image_names_the_slot(make_recipe, launcher):
    with pytest.raises(UsageError, match="needs the slot container_image") as raised:
        launch_files(make_recipe(), launcher)
    assert "--slot container_image=" in raised.value.hint


@pytest.mark.parametrize("launcher", KUBERNETES)
def test_each_node_gets_its_gpus_devices_and_folders(make_recipe, launcher):
    worker = containers(make_recipe(**H100), launcher)[-1]
    assert worker["image"] == IMAGE
    assert worker["resources"] == {"limits": {"nvidia.com/gpu": 8, "rdma/ib": 8}, "requests": {"cpu": 87}}
    assert worker["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in worker["volumeMounts"]}
    assert mounts.items() >= {"/dev/shm": "shm", "/rigtune": "rigtune", "/corpus": "data"}.items()  # noqa: S108


@pytest.mark.parametrize("launcher", KUBERNETES)
def test_a_pod_has_no_privileges_and_time_for_a_checkpoint(make_recipe, launcher):
    for document in documents(make_recipe(**H100), launcher):
        for template in templates(document):
            pod = template["spec"]
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["automountServiceAccountToken"] is False
            assert pod["terminationGracePeriodSeconds"] == 160  # 2 x 45 s, a step, a minute
            assert template["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
            names = {volume["name"]: volume for volume in pod["volumes"]}
            assert names["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Gi"}
            assert names["data"]["persistentVolumeClaim"] == {"claimName": "corpus"}
            assert "hostNetwork" not in pod
    text = launch_files(make_recipe(**H100), launcher)[0].text
    assert "privileged" not in text


@pytest.mark.parametrize("launcher", KUBERNETES)
def test_a_job_without_rdma_locks_no_memory_and_names_no_device(make_recipe, launcher):
    recipe = make_recipe(**{**H100, "slots": IMAGE_ALONE})
    text = launch_files(recipe, launcher)[0].text
    body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert "IPC_LOCK" not in body
    assert "NCCL_IB_HCA" not in body
    assert "the container has no RDMA device" in text


@pytest.mark.parametrize("launcher", KUBERNETES)
def test_interfaces_of_the_host_are_named_only_on_its_network(make_recipe, launcher):
    own = containers(make_recipe(**H100), launcher)[0]
    assert "NCCL_SOCKET_IFNAME" not in {variable["name"] for variable in own["env"]}
    recipe = make_recipe(**slots(H100, pod_networks="host"))
    assert "NCCL_SOCKET_IFNAME" in {variable["name"] for variable in containers(recipe, launcher)[0]["env"]}
    pods = [template["spec"] for each in documents(recipe, launcher) for template in templates(each)]
    assert {(pod["hostNetwork"], pod["dnsPolicy"]) for pod in pods} == {(True, "ClusterFirstWithHostNet")}


@pytest.mark.parametrize("launcher", KUBERNETES)
def test_secondary_networks_are_an_annotation(make_recipe, launcher):
    recipe = make_recipe(**slots(H100, pod_networks="rail0,rail1"))
    pods = [template for each in documents(recipe, launcher) for template in templates(each)]
    assert {pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] for pod in pods} == {"rail0,rail1"}


@pytest.mark.parametrize("launcher", RANKED)
def test_the_agent_gets_the_rank_and_the_master_of_its_controller(make_recipe, launcher):
    body = containers(make_recipe(**H100), launcher)[-1]
    words = [expanded(word, RANKS[launcher]) for word in (*body["command"], *body["args"])]
    master, port = MASTERS[launcher]
    assert words[:3] == ["python3", "-m", "torch.distributed.run"]
    for name, value in (
        ("--node-rank", "3"),
        ("--master-addr", master),
        ("--master-port", port),
        ("--nnodes", "4"),
        ("--nproc-per-node", "8"),
    ):
        assert words[words.index(name) + 1] == value
    assert words[-3:] == ["train.py", "--lr", "0.003"]


@pytest.mark.parametrize("launcher", RANKED)
def test_a_job_of_one_node_needs_no_rendezvous_address(make_recipe, launcher):
    (body,) = containers(make_recipe(**SMALL), launcher)
    assert "--standalone" in body["args"]
    assert not any("$(" in word for word in body["args"])
    assert body["workingDir"] == "/rigtune"


@pytest.mark.parametrize("launcher", RANKED)
def test_a_program_with_one_process_per_node_gets_its_place_as_variables(make_recipe, launcher):
    recipe = make_recipe(**H100)
    files = ProgramFiles(
        words=("train.py", FolderFile(name="settings.yaml")),
        processes="node",
        agent=torch_agent(recipe),
        files=(Artifact(path="settings.yaml", text="a: 1\n"),),
    )
    first, *_ = find_launcher(launcher).load().render(recipe, files)
    bodies = []
    for document in yaml.safe_load_all(first.text):
        bodies += [document["spec"].get("trainer", {})]
        bodies += [template["spec"]["containers"][0] for template in templates(document)]
    body = next(each for each in bodies if "command" in each)
    words = [expanded(word, RANKS[launcher]) for word in (*body["command"], *body["args"])]
    master, port = MASTERS[launcher]
    assert words[:5] == ["env", "NODE_RANK=3", "NODE_COUNT=4", f"MASTER_ADDR={master}", f"MASTER_PORT={port}"]
    assert words[5].startswith(f"NODE_HOSTS={master}")
    assert words[5].count(",") == 3
    assert words[6:] == ["python3", "train.py", "/rigtune/settings.yaml"]


def test_the_shapes_of_the_kinds_of_jobs(make_recipe):
    recipe = make_recipe(**H100)
    job = of_kind(recipe, "kubernetes-job", "Job")["spec"]
    assert (job["completionMode"], job["parallelism"], job["completions"]) == ("Indexed", 4, 4)
    assert (job["backoffLimit"], job["activeDeadlineSeconds"]) == (0, 131400)
    service = of_kind(recipe, "kubernetes-job", "Service")
    assert service["metadata"]["name"] == job["template"]["spec"]["subdomain"] == "mini"
    assert service["spec"]["selector"].items() <= job["template"]["metadata"]["labels"].items()
    replicas = of_kind(recipe, "pytorchjob", "PyTorchJob")["spec"]["pytorchReplicaSpecs"]
    assert {name: (row["replicas"], row["restartPolicy"]) for name, row in replicas.items()} == {
        "Master": (1, "OnFailure"),
        "Worker": (3, "OnFailure"),
    }
    assert {body["name"] for body in containers(recipe, "pytorchjob")} == {"pytorch"}
    (replicated,) = of_kind(recipe, "jobset", "JobSet")["spec"]["replicatedJobs"]
    assert (replicated["replicas"], replicated["template"]["spec"]["parallelism"]) == (1, 4)
    assert of_kind(recipe, "jobset", "JobSet")["spec"]["failurePolicy"]["maxRestarts"] == 3
    train = of_kind(recipe, "trainjob", "TrainJob")["spec"]
    assert (train["trainer"]["numNodes"], train["trainer"]["numProcPerNode"]) == (4, 8)
    assert train["runtimeRef"]["name"] == of_kind(recipe, "trainjob", "TrainingRuntime")["metadata"]["name"]
    mpi = of_kind(recipe, "mpijob", "MPIJob")["spec"]
    assert mpi["slotsPerWorker"] == 8
    assert {name: row["replicas"] for name, row in mpi["mpiReplicaSpecs"].items()} == {
        "Launcher": 1,
        "Worker": 4,
    }


def test_one_pod_starts_again_and_needs_no_service(make_recipe):
    job = of_kind(make_recipe(**SMALL), "kubernetes-job", "Job")["spec"]
    assert job["backoffLimit"] == 3
    assert {each["kind"] for each in documents(make_recipe(**SMALL), "kubernetes-job")} == {
        "Job",
        "ConfigMap",
    }
    replicas = of_kind(make_recipe(**SMALL), "pytorchjob", "PyTorchJob")["spec"]["pytorchReplicaSpecs"]
    assert list(replicas) == ["Master"]


@pytest.mark.parametrize("launcher", KUBERNETES)
def test_the_queue_and_the_namespace_are_the_sites(make_recipe, launcher):
    *others, job = (
        each["metadata"] for each in documents(make_recipe(**H100), launcher) if each["kind"] != "ConfigMap"
    )
    assert job["labels"]["kueue.x-k8s.io/queue-name"] == "users"
    assert {each["namespace"] for each in (*others, job)} == {"training"}
    assert of_kind(make_recipe(**H100), launcher, "ConfigMap")["metadata"]["namespace"] == "training"


def test_mpirun_starts_every_rank_and_passes_its_variables_on(make_recipe):
    starter, worker = containers(make_recipe(**H100), "mpijob")
    command = starter["command"]
    assert command[:3] == ["mpirun", "-np", "32"]
    assert command[command.index("--map-by") + 1] == "ppr:8:node"
    passed = {command[at + 1] for at, word in enumerate(command) if word == "-x"}
    assert passed >= {"MASTER_ADDR", "MASTER_PORT", "NCCL_IB_HCA", "RIGTUNE_RECIPE"}
    values = {variable["name"]: variable["value"] for variable in starter["env"]}
    assert values["MASTER_ADDR"] == "mini-worker-0.mini"
    assert "resources" not in starter
    assert worker["command"] == ["/usr/sbin/sshd"]


@pytest.mark.parametrize(
    ("device", "slot", "resource"),
    [
        ("NVIDIA H100", "", "nvidia.com/gpu"),
        ("AMD Instinct MI300X", "", "amd.com/gpu"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "", "nvidia.com/mig-1g.10gb"),
        ("NVIDIA H100", "nvidia.com/mig-3g.40gb", "nvidia.com/mig-3g.40gb"),
    ],
)
def test_the_resource_is_that_of_the_gpu_or_its_slice(make_recipe, device, slot, resource):
    more = {"gpu_resource": slot} if slot else {}
    recipe = make_recipe(resources={**H100["resources"], "device_name": device}, **slots(SMALL, **more))
    (body,) = containers(recipe, "kubernetes-job")
    assert body["resources"]["limits"] == {resource: 2}


def test_with_a_memory_limit_the_cores_are_a_limit_too(make_recipe):
    (body,) = containers(make_recipe(**slots(H100, memory="1800Gi")), "kubernetes-job")
    limits = {"nvidia.com/gpu": 8, "rdma/ib": 8, "cpu": 87, "memory": "1800Gi"}
    assert body["resources"] == {"limits": limits}


@pytest.mark.parametrize(("ranks", "size"), [(1, "16Gi"), (8, "16Gi"), (9, "18Gi")])
def test_shared_memory_grows_with_the_ranks(make_recipe, ranks, size):
    assert shared_memory(make_recipe(ranks_per_node=ranks)) == size


@pytest.mark.parametrize(
    ("write_s", "predicted", "seconds"),
    [
        (None, Prediction(step_time_s=2.0), 300),
        (50.5, Prediction(step_time_s=4.0), 170),  # 2 x 50.5 s, the step and a minute are 165 s
        (50.0, Prediction(step_time_s=2.0, step_time_high_s=20.0), 180),
        (50.0, Prediction(step_time_s=2.0, step_time_high_s=20.1), 190),
        (50.0, Prediction(), 160),
    ],
)
def test_a_pod_has_time_for_two_checkpoints_and_a_step(make_recipe, write_s, predicted, seconds):
    checkpoints = CheckpointSettings(every_steps=100, write_s=write_s)
    recipe = make_recipe(**{**H100, "checkpoints": checkpoints, "predicted": predicted})
    (template,) = templates(of_kind(recipe, "kubernetes-job", "Job"))
    assert template["spec"]["terminationGracePeriodSeconds"] == seconds
    (body,) = containers(recipe, "kubernetes-job")
    values = {row["name"]: row["value"] for row in body["env"]}
    assert values["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == str(seconds - 10)


@pytest.mark.parametrize(
    ("cores", "requests"),
    [(None, None), (1, {"cpu": 1}), (2, {"cpu": 1}), (19, {"cpu": 18}), (20, {"cpu": 18}), (96, {"cpu": 87})],
)
def test_a_tenth_of_the_cores_is_left_to_the_node(make_recipe, cores, requests):
    recipe = make_recipe(resources={"cpus_per_node": cores}, **SMALL)
    assert resources(recipe) == ({"requests": requests} if requests else {})


@pytest.mark.parametrize(
    ("text", "limits"),
    [("rdma/ib", {"rdma/ib": 1}), ("rdma/ib=4, example.com/nic=2", {"rdma/ib": 4, "example.com/nic": 2})],
)
def test_network_devices_are_limits(make_recipe, text, limits):
    recipe = make_recipe(**slots(SMALL, network_resource=text))
    assert resources(recipe) == {"limits": limits}


@pytest.mark.parametrize(("claim", "path"), [("corpus", "/data"), ("corpus:/in", "/in")])
def test_a_claim_is_mounted_at_its_folder(make_recipe, claim, path):
    recipe = make_recipe(**slots(SMALL, volume_claim=claim))
    assert mounts(recipe)[-1] == {"name": "data", "mountPath": path}


@pytest.mark.parametrize(
    ("text", "user"),
    [("", (1000, 1000)), ("7", (7, 7)), ("7:8", (7, 8)), ("999999999:0", (999999999, 0))],
)
def test_the_group_is_the_user_unless_it_is_named(make_recipe, text, user):
    assert require_user(make_recipe(slots={"run_as": text} if text else {})) == user


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("network_resource", "rdma ib", "is not NAME=NUMBER"),
        ("volume_claim", "Claim:relative", "is not CLAIM:PATH"),
        ("container_mounts", "data", "is not HOST:CONTAINER"),
        ("run_as", "me", "is not UID:GID"),
    ],
)
def test_a_slot_of_a_wrong_form_is_refused(make_recipe, name, value, complaint):
    with pytest.raises(UsageError, match=complaint):
        launch_files(make_recipe(**slots(SMALL, **{name: value})), "kubernetes-job")


def test_a_named_user_and_folders_of_the_node(make_recipe):
    recipe = make_recipe(**slots(SMALL, run_as="0:0", container_mounts="/data:/in,/scratch:/out"))
    (template,) = templates(of_kind(recipe, "kubernetes-job", "Job"))
    pod = template["spec"]
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsNonRoot"]) == (0, False)
    paths = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
    assert paths == ["/data", "/scratch"]
    mounts = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]
    assert mounts[-2:] == ["/in", "/out"]


def test_the_files_travel_with_their_folders(make_recipe):
    recipe = make_recipe(**SMALL)
    data = of_kind(recipe, "kubernetes-job", "ConfigMap")["data"]
    (template,) = templates(of_kind(recipe, "kubernetes-job", "Job"))
    volume = next(each for each in template["spec"]["volumes"] if each["name"] == "rigtune")
    paths = {item["path"]: data[item["key"]] for item in volume["configMap"]["items"]}
    written = {file.path: file.text for file in launch_files(recipe, "kubernetes-job")}
    assert paths == {path: written[path] for path in paths}
    assert {"plan.json", "workload.json", "rigtune_worker/train.py"} <= paths.keys()
    assert json.loads(paths["plan.json"])["nodes"] == 1


def test_files_beyond_the_limit_are_refused(make_recipe):
    recipe = make_recipe(**SMALL)
    plan = carried_files(ProgramFiles(words=(), agent=torch_agent(recipe)), recipe)
    rest = MOST_BYTES - sum(len(file.path) + len(file.text.encode()) for file in plan)

    def of_size(size: int) -> ProgramFiles:
        file = Artifact(path="a", text="x" * (size - len("a")))
        return ProgramFiles(words=(), agent=torch_agent(recipe), files=(file,))

    assert config_map(recipe, of_size(rest)).path == "files.yaml"
    with pytest.raises(UsageError, match="have 1048577 bytes, but a ConfigMap holds at most 1048576"):
        config_map(recipe, of_size(rest + 1))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Llama_3.8B", "llama-3-8b"),
        ("7b", "job-7b"),
        ("...", "job"),
        ("a" * 40, "a" * 40),
        ("a" * 41, f"{'a' * 31}-"),
        ("a" * 99, f"{'a' * 31}-"),
    ],
)
def test_names_of_objects_are_labels_of_dns(make_recipe, name, expected):
    assert object_name(make_recipe(name=name)).startswith(expected)
    assert len(object_name(make_recipe(name=name))) <= 40


def test_long_names_stay_different(make_recipe):
    first, second = ("a" * 98 + end for end in "xy")
    assert object_name(make_recipe(name=first)) != object_name(make_recipe(name=second))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400), ("90:30", 5430), ("24:00:00", 86400), ("2-12", 216000), ("1-12:30", 131400), ("", None)],
)
def test_a_time_limit_is_read_as_slurm_reads_it(make_recipe, text, seconds):
    recipe = make_recipe(slots={"time": text} if text else {})
    assert time_limit_s(recipe) == seconds


@pytest.mark.parametrize("launcher", KUBERNETES)
def test_kubectl_creates_the_files_and_the_job(make_recipe, launcher):
    recipe = make_recipe(**H100)
    module = find_launcher(launcher).load()
    command = module.start(recipe, "/f", ())
    assert command[:5] == ("kubectl", "apply", "--server-side", "--namespace", "training")
    names = {f"/f/{file.path}" for file in launch_files(recipe, launcher)}
    assert {word for word in command if word.startswith("/f/")} <= names
    with pytest.raises(UsageError, match="cannot take the arguments '--steps 3'"):
        module.start(recipe, "/f", ("--steps", "3"))


visible = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20)
texts = (
    st.sampled_from((*NASTY, "$(HOME)", "$$(RANK)", "$", "$$", "null", "1e3", "y", "- !remark x")) | visible
)


@pytest.mark.parametrize("launcher", KUBERNETES)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(argument=texts, value=texts, title=texts)
def test_every_text_arrives_byte_for_byte(make_recipe, launcher, argument, value, title):
    doubled = argument.replace("{", "{{").replace("}", "}}")
    recipe = make_recipe(
        title=title,
        notes=(f"Warning: {title}",),
        environment=(Environment(name="MY_VALUE", value=value, why=title, source=title),),
        command=Command(kind="script", target="t.py", arguments=(doubled,)),
        **SMALL,
    )
    body = containers(recipe, launcher)[0]
    variables = {"HOME": "expanded", "RANK": "expanded"}
    assert expanded(body["args"][-1], variables) == argument
    given_values = {each["name"]: expanded(each["value"], variables) for each in body["env"]}
    assert given_values["MY_VALUE"] == value


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(st.none() | st.booleans() | st.integers() | texts, lambda inner: st.lists(inner, max_size=3))
)
def test_yaml_text_is_read_again_as_it_was(value):
    text = yaml_text(("head",), {Remark("why"): None, "value": value, "after": [Remark("reason"), "x"]})
    assert yaml.safe_load(text) == {"value": value, "after": ["x"]}
    assert "# why\n" in text
    assert "  # reason\n" in text


@pytest.mark.parametrize("launcher", KUBERNETES)
def test_the_first_lines_state_the_plan_and_the_start(make_recipe, launcher):
    recipe = make_recipe(**H100)
    head = launch_files(recipe, launcher)[0].text.partition("\napiVersion")[0]
    assert "global batch" in head
    assert "# Start: kubectl apply" in head
    assert all(line.startswith("#") for line in head.splitlines())
    assert "NCCL_SOCKET_IFNAME==ens3 is left out" in head


@pytest.mark.parametrize("launcher", KUBERNETES)
def test_a_token_is_referred_to_and_never_written(make_recipe, launcher):
    text = launch_files(make_recipe(**H100), launcher)[0].text
    assert "hub-token" in text
    plain = make_recipe(**{**H100, "slots": IMAGE_ALONE})
    assert "secret" not in launch_files(plain, launcher)[0].text.lower()


def test_the_plan_of_an_rdma_machine_without_the_resource_gets_a_warning(make_recipe):
    machine = Cluster(
        title="m", device="cuda", device_name="NVIDIA H100", nodes=4, ranks_per_node=8, transport="infiniband"
    )
    recipe = make_recipe(**{**H100, "slots": IMAGE_ALONE, "machine": machine})
    assert "Warning: the plan counts on RDMA" in launch_files(recipe, "pytorchjob")[0].text


def test_the_script_of_a_rank_of_mpi_sets_its_place_and_its_tokens(make_recipe, tmp_path):
    script = of_kind(make_recipe(**H100), "mpijob", "ConfigMap")["data"]["rank.sh"]
    (tmp_path / "HUB_TOKEN").write_text("two words\n")
    file = tmp_path / "rank.sh"
    file.write_text(script.replace("/rigtune-tokens", str(tmp_path)).replace("*;", "*_TOKEN;"))
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    place = {f"OMPI_COMM_WORLD_{name}": str(number) for number, name in enumerate(names)}
    shown = 'printf "%s|" "$RANK" "$WORLD_SIZE" "$LOCAL_RANK" "$LOCAL_WORLD_SIZE" "$HUB_TOKEN" "$@"'
    done = subprocess.run(
        ("bash", str(file), "bash", "-c", shown, "x", "a b"),
        env={"PATH": os.environ["PATH"], **place},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "0|1|2|3|two words|a b|"
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed; the script ran")
    checked = subprocess.run(("shellcheck", str(file)), capture_output=True, text=True, check=False)
    assert checked.stdout == ""
