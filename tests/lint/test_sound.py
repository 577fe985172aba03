"""What looks like a mistake of counting, of values or of the shell, and is none."""

from __future__ import annotations

import pytest

from recipes.lint.context import Context
from recipes.lint.reading import read_document
from recipes.lint.rule_table import lint

_JOB = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n{policy}  pytorchReplicaSpecs:\n    Worker:\n      replicas: 4\n"
_TEMPLATE = (
    "      template:\n        spec:\n          hostIPC: true\n          containers:\n            - name: pytorch\n"
    "              image: a:1\n              command: [torchrun, {nodes}, --nproc-per-node=8, t.py]\n"
    "              resources: {{limits: {{nvidia.com/gpu: 8}}}}\n"
)

_SOUND = {
    "one device needs no quotes": ("a.sh", "docker run --gpus device=1 --ipc=host img python t.py\n"),
    "podman reads no list": ("a.sh", "podman run --gpus device=0,1 --ipc=host img python t.py\n"),
    "all GPUs": (
        "a.sh",
        "docker run --gpus all --ipc=host img torchrun --standalone --nproc-per-node 8 t.py\n",
    ),
    "options that only the run knows": (
        "a.sh",
        "docker run $OPTS --ipc=host img torchrun --nproc-per-node 8 t.py\n",
    ),
    "ranks of a CPU": ("a.sh", "docker run --ipc=host img-cpu torchrun --nproc-per-node 8 t.py\n"),
    "ranks of the next container": (
        "a.sh",
        "docker run --gpus 1 img python prep.py\ndocker run --gpus all --ipc=host img torchrun --nproc-per-node 8 t.py\n",
    ),
    "elastic pods": (
        "job.yaml",
        _JOB.format(policy="  elasticPolicy: {minReplicas: 2, maxReplicas: 4}\n")
        + _TEMPLATE.format(nodes="--nnodes=3"),
    ),
    "pods that come out": ("job.yaml", _JOB.format(policy="") + _TEMPLATE.format(nodes="--nnodes=4")),
    "pods that the operator counts": (
        "job.yaml",
        _JOB.format(policy="") + _TEMPLATE.format(nodes="--rdzv-backend=c10d"),
    ),
    "blank behind a backslash in words": (
        "a.sh",
        "sed 's/a\\ /b/' \\ \n  file\n# torchrun \\ \n#   --nproc 8\n",
    ),
    "two names to export": ("a.sh", "HTTP=a\nexport NCCL_COMM_ID= HTTP\nexport http_proxy= no_proxy\n"),
    "sign in another language": ("a.sh", "python - <<EOF\nNCCL_DEBUG = 'INFO'\nMASTER_PORT = 2\nEOF\n"),
    "list without a blank": ("a.sh", "export A=one,two three=3\nexport B='one, two'\n"),
    "script that comes later": ("a.sh", 'run() { torchrun --nproc-per-node 8 "$@"; }\nrun t.py\n'),
    "module for a script": ("a.sh", "torchrun --nproc-per-node 8 -m pkg.train --lr 1\n"),
    "help": ("a.sh", "torchrun --help\ntorchrun\n"),
    "option that a script shares": ("a.sh", "torchrun --nproc-per-node 4 t.py --nnodes 1 --master_port 3\n"),
    "jobs one after the other": (
        "a.sh",
        "torchrun --nproc-per-node 2 a.py &\nwait\ntorchrun --nproc-per-node 2 b.py &\n",
    ),
    "jobs on ports of their own": (
        "a.sh",
        "torchrun --master-port 2050 a.py &\ntorchrun --master-port 2051 b.py &\ntorchrun --standalone c.py &\nwait\n",
    ),
    "jobs of other machines": (
        "a.sh",
        "ssh a torchrun --nproc-per-node 2 a.py &\nssh b torchrun --nproc-per-node 2 a.py &\n",
    ),
    "two nodes on one machine": (
        "a.sh",
        "torchrun --nnodes 2 --node-rank 0 --master-addr $h --master-port 2050 a.py &\n"
        "torchrun --nnodes 2 --node-rank 1 --master-addr $h --master-port 2050 a.py\n",
    ),
    "quotes around the whole": (
        "compose.yaml",
        'services:\n  a:\n    environment:\n      - "NCCL_DEBUG=WARN"\n      - \'WORDS="a b"\'\n',
    ),
    "exact name of an adapter": ("Dockerfile", "FROM a\nENV NCCL_IB_HCA =mlx5_0\n"),
    "beginnings of options, and those of plugins": (
        "a.sbatch",
        "#!/bin/bash\n#SBATCH --part=a --const=b --container-name=c --container-env=A --exclusive=user --nv-x\n",
    ),
    "memory in whole nodes": (
        "a.sbatch",
        "#!/bin/bash\n#SBATCH --gpus-per-node=8 --mem=0 --time=UNLIMITED\n",
    ),
    "little memory without GPUs": ("a.sbatch", "#!/bin/bash\n#SBATCH --mem=500\n"),
    "weights that each rank loads": (
        "fsdp.yaml",
        "distributed_type: FSDP\nfsdp_config:\n  fsdp_cpu_ram_efficient_loading: false\n  fsdp_sync_module_states: false\n",
    ),
    "values that the trainer fills in": (
        "ds.json",
        '{"zero_optimization": {"stage": 3, "offload_param": {"device": "none"}}, "bf16": {"enabled": "auto"},\n'
        ' "optimizer": {"params": {"lr": "auto", "eps": 1e-8}}}\n',
    ),
    "precision that YAML reads as false": ("a.yaml", "distributed_type: MULTI_GPU\nmixed_precision: no\n"),
    "ranks that are all told": (
        "a.sbatch",
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=8 --exclusive\n"
        "export WORLD_SIZE=8\nexport LOCAL_RANK=$X\nsrun -c 8 python t.py\n",
    ),
    "a step of its own shape": (
        "a.sbatch",
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=4 --exclusive\n"
        "export WORLD_SIZE=8\nsrun -c 8 --nodes=2 --ntasks-per-node=4 python t.py\n",
    ),
    "tasks that are no ranks": (
        "a.sbatch",
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=4 --exclusive\nsrun -c 8 python tokenize.py\n",
    ),
    "hosts of another MPI": ("a.sh", "export NCCL_DEBUG=INFO\nmpiexec.hydra -n 16 -hosts a,b python t.py\n"),
    "value that the environment has first": (
        "a.sh",
        ": ${MASTER_ADDR:=localhost}\nexport MASTER_ADDR\ntorchrun --nnodes 2 --node-rank $R --master-addr $MASTER_ADDR t.py\n",
    ),
    "virtual stages that come out": (
        "a.sh",
        "torchrun --nproc-per-node 8 pre.py --pipeline-model-parallel-size 4 --num-layers 24 "
        "--num-layers-per-virtual-pipeline-stage 3\n",
    ),
    "words of a ConfigMap that are no file": (
        "map.yaml",
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  notes.md: |\n    write {\n    distributed types: many\n  e.json: |\n    {}\n",
    ),
    "task of SkyPilot that counts itself": (
        "task.yaml",
        "num_nodes: 2\nresources:\n  accelerators: {A100: 8, H100: 8}\nrun: |\n  cd a\n  torchrun --nnodes $SKYPILOT_NUM_NODES "
        "--node-rank $SKYPILOT_NODE_RANK --nproc-per-node 8 --master-addr $a t.py\n",
    ),
    "one of several nodes": (
        "task.yaml",
        "num_nodes: 2\nresources:\n  accelerators: A100:8\nrun: |\n  cd a\n  torchrun --nnodes 1 --nproc-per-node 8 t.py\n",
    ),
    "rank that the pod takes from its labels": (
        "job.yaml",
        _JOB.format(policy="")
        + _TEMPLATE.format(nodes="--nnodes=4")
        + "              env:\n                - name: RANK\n"
        "                  valueFrom:\n                    fieldRef: {fieldPath: metadata.name}\n",
    ),
    "TCP where one machine trains by composer": (
        "a.sh",
        "export NCCL_IB_DISABLE=1\ncomposer -n 8 train/train.py a.yaml\n",
    ),
    "another composer": ("Dockerfile", "FROM php\nRUN composer install --no-dev --prefer-dist\n"),
}


@pytest.mark.parametrize(("name", "text"), _SOUND.values(), ids=_SOUND)
def test_nothing_is_told(name: str, text: str):
    document = read_document(name, text)
    assert document is not None
    assert [finding.rule_id for finding in lint((document,), Context())] == []


def test_the_command_line_tells_the_processes_of_a_configuration() -> None:
    config = read_document(
        "two.yaml", "distributed_type: MULTI_GPU\nnum_machines: 2\nmain_process_ip: a\nnum_processes: 8\n"
    )
    other = read_document(
        "run.sh", "accelerate launch --config_file conf/two.yaml --num_processes 16 --machine_rank $R t.py\n"
    )
    assert config is not None
    assert other is not None
    assert {finding.rule_id for finding in lint((config,), Context())} == {"accelerate-processes"}
    assert lint((config, other), Context()) == ()


_MAP = "apiVersion: v1\nkind: ConfigMap\ndata:\n  zero.json: |\n"
_WORKFLOW = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n  templates:\n    - resource:\n        manifest: |\n"


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        (_MAP + '    {\n      "zero_optimization": {"stage": 7}\n    }\n', "deepspeed-stage", 6),
        (
            _MAP.replace("json", "yaml") + "    distributed_type: MULTI_GPU\n    mixed_precision: f16\n",
            "accelerate-type",
            6,
        ),
        (
            _WORKFLOW
            + "          apiVersion: v1\n          kind: Pod\n          spec:\n            containers:\n"
            "              - image: '{{inputs.parameters.i}}'\n                command: [torchrun, --nproc-per-node=4, t.py]\n"
            "                resources: {limits: {nvidia.com/gpu: 1}}\n",
            "kubernetes-gpus-fewer",
            12,
        ),
    ],
    ids=["json", "yaml", "manifest"],
)
def test_whole_files_in_a_manifest_are_judged_on_their_lines(text: str, rule: str, line: int):
    document = read_document("map.yaml", text)
    assert document is not None
    assert [(finding.rule_id, finding.place.line) for finding in lint((document,), Context())] == [
        (rule, line)
    ]
