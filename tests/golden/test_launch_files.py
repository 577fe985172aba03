"""Compare launch scripts byte for byte.

After a wanted change, run RIGTUNE_UPDATE_GOLDEN=1 pytest tests/golden, and read the diff.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from recipes.launch.launch_files import launch_files
from recipes.launch.recipe import Command, Environment, Prediction, Recipe
from tests.support.manifests import KUBERNETES

FOLDER = Path(__file__).parent / "launch"
TEMPLATES = Path(__file__).parents[2] / "recipes" / "launch" / "templates"

CPU = {
    "resources": {"device_name": "AMD EPYC", "python": "/opt/venv/bin/python", "cpus_per_node": 2},
    "environment": (
        Environment(
            name="OMP_NUM_THREADS",
            value="1",
            why="One thread per physical core of the rank; more only take turns.",
            source="torch.distributed.run, which sets 1 where nothing is set",
        ),
    ),
    "predicted": Prediction(
        step_time_s=0.05, step_time_low_s=0.04, step_time_high_s=0.06, peak_memory_bytes=4e8
    ),
    "notes": (
        "strategy = ddp (modelled): every rank holds the whole model.",
        "micro_batch = 2 (user): pinned.",
    ),
}
H100 = {
    "title": "Llama 3 8B on 4 x 8 NVIDIA H100",
    "nodes": 4,
    "ranks_per_node": 8,
    "parallelism": {"strategy": "fsdp", "activation_checkpointing": "full", "precision": "bf16"},
    "environment": (
        Environment(
            name="NCCL_IB_HCA",
            value="=mlx5_0,mlx5_3",
            why="Two of the ports belong to storage. The equals sign asks for exact names: "
            "mlx5_1 alone would match mlx5_10 too.",
            source="NCCL user guide, environment variables",
        ),
        Environment(
            name="HYDRA_FULL_ERROR",
            value="$HOME it's",
            why="A value that a shell\nwould read.",
            source="user",
        ),
    ),
    "command": Command(
        kind="script",
        target="train it.py",
        arguments=("--batch={micro_batch}", "--lr", "{learning_rate}", "it's $HOME", '{{"a": 1}}'),
        working_directory="/home/someone/my project",
    ),
    "predicted": Prediction(step_time_s=1.5, peak_memory_bytes=6e10),
}
GPU_SITE = {
    "device": "cuda",
    "backend": "nccl",
    "device_name": "NVIDIA H100",
    "python": "/opt/my venv/bin/python",
    "cpus_per_node": 96,
    "partition": "gpu",
    "account": "lab",
    "time_limit": "24:00:00",
}

IMAGE = "registry.example.org/team/train:1.2"
POD_SITE = {
    "container_image": IMAGE,
    "network_resource": "rdma/ib=8",
    "volume_claim": "corpus:/corpus",
    "token_secret": "hub-token",
    "queue": "users",
    "namespace": "training",
}
IMAGE_ALONE = {"container_image": IMAGE}
HOSTS = ("gpu1", "gpu2", "gpu3", "gpu4")
CLOUD = {
    **IMAGE_ALONE,
    "role": "arn:aws:iam::123456789012:role/Training",
    "instance_type": "ml.p5.48xlarge",
    "bucket": "s3://my-bucket",
}
OWN = Command(kind="module", target="project.train")
NCCL_TESTS = {
    "command": Command(
        kind="nccl-tests", target="all_reduce_perf", arguments=("-b", "1M", "-t2", "-o", "all")
    ),
    "slots": {"nccl_tests": "/opt/nccl tests/build"},
    "notes": ("Warning: may run out of memory.",),
}
HOROVOD = {
    "program": "horovod",
    "parallelism": {"strategy": "ddp", "precision": "fp16"},
    "environment": (
        Environment(
            name="NCCL_SOCKET_IFNAME",
            value="=eth0,eth1",
            why="Two interfaces lead to the other hosts.",
            source="NCCL user guide, environment variables",
        ),
    ),
}
CASES = {
    "one-node": ("torchrun", CPU),
    "hosts": ("torchrun", {**H100, "resources": {**GPU_SITE, "hosts": ("gpu1", "gpu2", "gpu3", "gpu4")}}),
    "no-hosts": ("torchrun", {"nodes": 2}),
    "elastic-hosts": (
        "torchrun-elastic",
        {
            **H100,
            "resources": {**GPU_SITE, "hosts": ("gpu1", "gpu2", "gpu3", "gpu4")},
            "slots": {"min_nodes": "2"},
        },
    ),
    "elastic-one-node": ("torchrun-elastic", CPU),
    "slurm-gpu": ("slurm", {**H100, "resources": GPU_SITE}),
    "slurm-cpu": ("slurm", {**CPU, "nodes": 2}),
    "slurm-one-node": ("slurm", CPU),
    "slurm-ranks-gpu": ("slurm-ranks", {**H100, "resources": GPU_SITE}),
    "slurm-ranks-one-node": ("slurm-ranks", CPU),
    "ray-hosts": (
        "ray",
        {
            **H100,
            "program": "ray-train",
            "resources": {**GPU_SITE, "hosts": ("gpu1", "gpu2", "gpu3", "gpu4")},
            "slots": {"checkpoints": "/shared/runs"},
        },
    ),
    "ray-slurm": ("ray", {**H100, "program": "ray-train", "resources": GPU_SITE}),
    "ray-one-node": ("ray", {**CPU, "program": "ray-train", "command": H100["command"]}),
    "tensorflow-hosts": (
        "torchrun",
        {
            **H100,
            "program": "tensorflow",
            "parallelism": {"strategy": "ddp", "precision": "bf16"},
            "resources": {**GPU_SITE, "hosts": ("gpu1", "gpu2", "gpu3", "gpu4")},
            "slots": {"parameter_servers": "2"},
        },
    ),
    "tensorflow-slurm": (
        "slurm",
        {
            **H100,
            "program": "tensorflow",
            "parallelism": {"strategy": "ddp", "precision": "bf16"},
            "resources": GPU_SITE,
        },
    ),
    "accelerate-hosts": (
        "accelerate",
        {**H100, "resources": {**GPU_SITE, "hosts": ("gpu1", "gpu2", "gpu3", "gpu4")}},
    ),
    "deepspeed-hosts": (
        "deepspeed",
        {**H100, "resources": {**GPU_SITE, "hosts": ("gpu1", "gpu2", "gpu3", "gpu4")}},
    ),
    "deepspeed-one-node": ("deepspeed", CPU),
    "mpi-hosts": ("mpi", {**H100, "resources": {**GPU_SITE, "hosts": ("gpu1", "gpu2", "gpu3", "gpu4")}}),
    "mpi-no-hosts": ("mpi", {"nodes": 2}),
    "nccl-tests-mpi-hosts": (
        "mpi",
        {**H100, **NCCL_TESTS, "resources": {**GPU_SITE, "hosts": HOSTS}},
    ),
    "nccl-tests-mpi-no-hosts": ("mpi", {**H100, **NCCL_TESTS, "resources": GPU_SITE}),
    "nccl-tests-slurm-ranks": ("slurm-ranks", {**H100, **NCCL_TESTS, "resources": GPU_SITE}),
    "nccl-tests-mpijob": (
        "mpijob",
        {**H100, **NCCL_TESTS, "resources": GPU_SITE, "slots": {**POD_SITE, **NCCL_TESTS["slots"]}},
    ),
    "nccl-tests-torchrun": ("torchrun", {**H100, **NCCL_TESTS, "nodes": 1, "resources": GPU_SITE}),
    "nccl-tests-docker": (
        "docker",
        {**H100, **NCCL_TESTS, "nodes": 1, "environment": (), "resources": GPU_SITE, "slots": IMAGE_ALONE},
    ),
    "horovodrun-hosts": (
        "horovodrun",
        {**H100, **HOROVOD, "resources": {**GPU_SITE, "hosts": HOSTS}},
    ),
    "horovodrun-one-node": ("horovodrun", {**CPU, "program": "horovod", "command": H100["command"]}),
    "horovod-mpi-hosts": ("mpi", {**H100, **HOROVOD, "resources": {**GPU_SITE, "hosts": HOSTS}}),
    "mpi-one-node": ("mpi", CPU),
    "skypilot": ("skypilot", {**H100, "resources": GPU_SITE, "slots": CLOUD}),
    "sagemaker": ("sagemaker", {**H100, "resources": GPU_SITE, "slots": CLOUD}),
    "docker-hosts": ("docker", {**H100, "resources": {**GPU_SITE, "hosts": HOSTS}, "slots": IMAGE_ALONE}),
    "docker-one-node": ("docker", {**CPU, "command": OWN, "slots": IMAGE_ALONE}),
    "podman-no-hosts": ("podman", {**H100, "resources": GPU_SITE, "slots": IMAGE_ALONE}),
    "compose": ("compose", {**H100, "resources": GPU_SITE, "slots": IMAGE_ALONE}),
    "lxd": ("lxd", {**H100, "nodes": 1, "resources": GPU_SITE, "slots": IMAGE_ALONE}),
    **{launcher: (launcher, {**H100, "resources": GPU_SITE, "slots": POD_SITE}) for launcher in KUBERNETES},
    "kubernetes-job-one-node": (
        "kubernetes-job",
        {**CPU, "command": OWN, "slots": IMAGE_ALONE},
    ),
}


def scripts(launcher: str, recipe: Recipe) -> dict[str, str]:
    artifacts = launch_files(recipe, launcher)
    return {
        artifact.path: artifact.text
        for artifact in artifacts
        if artifact.path.endswith((".sh", ".sbatch", ".toml", ".yaml", ".py", "hostfile"))
        # the files of programs have tests of their own
        and "/" not in artifact.path
        and not artifact.path.endswith("files.yaml")
        # some are the same in every export
        and not (TEMPLATES / artifact.path).exists()
    }


@pytest.mark.parametrize("case", CASES)
def test_scripts_are_as_they_were_read_and_approved(make_recipe, case):
    launcher, fields = CASES[case]
    produced = scripts(launcher, make_recipe(**fields))
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        shutil.rmtree(FOLDER / case, ignore_errors=True)
        for name, text in produced.items():
            (FOLDER / case).mkdir(parents=True, exist_ok=True)
            (FOLDER / case / name).write_text(text)
    approved = {path.name: path.read_text() for path in (FOLDER / case).iterdir()}
    assert produced == approved


@pytest.mark.parametrize("case", CASES)
def test_scripts_are_valid_bash_without_shellcheck_findings(case):
    files = sorted(str(path) for path in (FOLDER / case).iterdir() if path.suffix in (".sh", ".sbatch"))
    assert files or any(path.suffix == ".yaml" for path in (FOLDER / case).iterdir())
    for file in files:
        subprocess.run(("bash", "-n", file), check=True)
    if not files:
        return
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed; bash -n passed")
    checked = subprocess.run(
        ("shellcheck", "--shell=bash", *files), capture_output=True, text=True, check=False
    )
    assert checked.stdout == ""
