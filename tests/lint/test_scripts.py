"""What scripts of many launchers show, and what is no mistake in them."""

from __future__ import annotations

import pytest

from recipes.lint.context import Context
from recipes.lint.reading import read_document
from recipes.lint.rule_table import lint
from recipes.lint.waiving import idle_waivers

_JOB = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n#SBATCH --exclusive\n"


def _rules(text: str, name: str = "a.sh") -> list[str]:
    document = read_document(name, text)
    assert document is not None
    return [finding.rule_id for finding in lint((document,), Context())]


_SHOWN = [
    (
        "megatron-world",
        "D=(--nproc_per_node 8 --nnodes 1)\nM=(--tensor-model-parallel-size 16)\ntorchrun ${D[@]} pre.py ${M[@]}\n",
    ),
    (
        "megatron-world",
        _JOB.replace("node=1", "node=8") + "srun -c 8 python pre.py --tensor-model-parallel-size 3\n",
    ),
    (
        "megatron-batch",
        "python pre.py trainer.devices=8 trainer.num_nodes=2 model.tensor_model_parallel_size=4 "
        "model.pipeline_model_parallel_size=1 model.micro_batch_size=4 model.global_batch_size=24\n",
    ),
    (
        "megatron-shape",
        "torchrun --nproc-per-node 8 pre.py --tensor-model-parallel-size 8 --num-attention-heads 12\n",
    ),
    (
        "torchrun-nowhere",
        "torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --master-addr $m --master-port 29511 t.py\n",
    ),
    ("ib-disabled", "export NCCL_IB_DISABLE=1\ndeepspeed --hostfile hosts --num_nodes 2 t.py\n"),
    ("log-one-file", "export NCCL_DEBUG=INFO\nexport NCCL_DEBUG_FILE=/tmp/nccl_%r.log\n"),
    (
        "slurm-nodes-differ",
        "#PBS -l select=4:ngpus=4\n#PBS -l place=scatter\nmpiexec -ppn 1 torchrun --nnodes 8 t.py\n",
    ),
    ("timeout-of-hours", "export DEEPSPEED_TIMEOUT=7200\n"),
    ("variable-misspelt", "export TORCH_NCCL_ASYNC_HANDLING=1\n"),
    ("variable-conflict", "export NCCL_IB_DISABLE=1\nexport NCCL_IB_HCA==mlx5_0\nsrun t.sh\n"),
    ("log-every-call", "export NCCL_DEBUG=TRACE\nexport NCCL_DEBUG_SUBSYS=CALL\n"),
]


@pytest.mark.parametrize(("rule", "text"), _SHOWN, ids=lambda value: value if len(value) < 40 else "")
def test_mistake_is_told(rule: str, text: str):
    assert rule in _rules(text)


_SOUND = {
    "beginning of an option": "torchrun --nnode 1 --nproc_per 4 t.py\n",
    "beginning of an option of deepspeed": "deepspeed --hostfil hosts t.py\n",
    "TCP where one machine trains": "export NCCL_IB_DISABLE=1\ntorchrun --nproc-per-node 4 t.py\n",
    "no peers where one rank trains": "export NCCL_P2P_DISABLE=1\ntorchrun --nproc-per-node 1 t.py\n",
    "loopback where one machine trains": "export NCCL_SOCKET_IFNAME=lo\ndeepspeed --num_gpus 4 t.py\n",
    "ranks that a launcher sets anew": "export RANK=$SLURM_PROCID\ntorchrun --nproc-per-node 4 --standalone t.py\n",
    "TRACE without calls": "export NCCL_DEBUG=TRACE\n",
    "distance that keeps no pair apart": "export NCCL_P2P_LEVEL=SYS\n",
    "GID index where RDMA is off": "export NCCL_IB_GID_INDEX=3\nexport NCCL_IB_DISABLE=1\ntorchrun --standalone t.py\n",
    "rank that the inner shell expands": _JOB
    + 'srun -c 8 bash -c "torchrun --nnodes 2 --master-addr $m --node-rank \\$SLURM_NODEID t.py"\n',
    "rank of a script that the job writes": _JOB
    + "cat > r.sh <<EOF\nsrun -c 8 torchrun --nnodes 2 --master-addr $m --node-rank \\$SLURM_NODEID t.py\nEOF\n",
    "rank that eval expands": "eval srun torchrun --nnodes 2 --master-addr $m --node-rank \\$SLURM_NODEID t.py\n",
    "rank that the other machine expands": "ssh h srun torchrun --nnodes 2 --master-addr $m --node-rank \\$SLURM_NODEID t.py\n",
    "level of vendors": "export NCCL_NET_GDR_LEVEL=PHB\n",
    "buffers that OCI publishes": "export NCCL_BUFFSIZE=16777216\n# BM.GPU\necho BM.GPU.B4.8\n",
    "local rank of the only task": _JOB + "export LOCAL_RANK=$SLURM_LOCALID\nsrun -c 16 python t.py\n",
    "program of the launcher's own": "torchrun --nproc-per-node 4 --no-python numactl -N 0 python t.py\n",
    "times": "#!/bin/bash\n#SBATCH --time=2-00:15:00\n#SBATCH --time-min=90\n",
    "port in a range": "export MASTER_PORT=$((20000 + RANDOM % 10000))\n",
    "words like a request": "#!/bin/bash\n#SBATCH --nodes=1\n#Switch --on\n# sbatch --nodes=2 job.sh\n##SBATCH --qos=a\n",
    "ranks that come out": "torchrun --nproc-per-node 8 pre.py --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
    "--micro-batch-size 4 --global-batch-size 24 --num-layers 24 --num-attention-heads 32\n",
    "ranks that are not known": "torchrun --nnodes $N --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint $h:29400 pre.py "
    "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 16\n",
    "stages of different sizes": "torchrun --nproc-per-node 8 pre.py --pipeline-model-parallel-size 8 --num-layers 30 "
    "--decoder-last-pipeline-num-layers 2\n",
    "request of another scheduler": "#!/bin/bash\n#YBATCH -r a100_4\n#SBATCH --nodes=1\n",
    "variables of Slurm and of its own": "SLURM_NODELISTS=a\necho $SLURM_JOB_NODELIST ${SLURM_NTASKS:-1} $SLURM_NODELISTS\n",
    "threads that fit": "#!/bin/bash\n#SBATCH --cpus-per-task=8\nexport OMP_NUM_THREADS=8\npython t.py\n",
    "cluster of Ray": _JOB
    + "srun --nodes=1 --ntasks=1 -w $h ray start --head --node-ip-address=$ip --port=6379 --block &\n"
    "srun --nodes=1 --ntasks=1 -w $w ray start --address=$ip:6379 --block &\n",
    "cluster of Ray in a shell": _JOB
    + "srun -N1 -n1 -w $h bash -c 'ray start --head --port=6379; sleep infinity' &\n",
    "words of other languages": "#!/bin/bash\n#SBATCH --nodes=1  # \u2013 ein Knoten \u201ehier\u201c\n# caf\u00e9\u00a0noir\n"
    "export GREETING='caf\u00e9 \u2013 noir'\necho \u201chi\u201d\n",
    "GPUs that deepspeed takes anyway": "CUDA_VISIBLE_DEVICES=0,1 deepspeed --num_gpus 2 t.py\n",
    "GPUs that deepspeed takes over": "export CUDA_VISIBLE_DEVICES=2,3\ndeepspeed t.py\n",
    "deepspeed without ssh": "deepspeed --hostfile hosts --no_ssh --node_rank $R --master_addr $m t.py\n",
    "slots that are enough": "horovodrun -np 8 -H a:4,b:4 python t.py\nmpirun -np 8 -H a:4,b:4 --bind-to none -x PATH t\n",
    "a script that finds its nodes": _JOB + "export DLTS_HOSTFILE=/tmp/hostfile\npython deepy.py train.py\n",
    "stages that DeepSpeed cuts": "torchrun --nproc-per-node 8 pre.py --pipeline-model-parallel-size 8 --num-layers 30 "
    "--pp-partition-method 'type:transformer|embedding' --deepspeed\n",
    "rank in the container of a step": _JOB
    + "srun -c 16 apptainer exec --nv a.sif bash -c '\n  export RANK=$SLURM_PROCID\n"
    "  export LOCAL_RANK=$SLURM_LOCALID\n  python t.py\n'\n",
    "TCP where one machine trains by $PYTHON": "PYTHON=${PYTHON:-python}\nexport NCCL_IB_DISABLE=1\n"
    "$PYTHON -m torch.distributed.run --nproc_per_node=$1 t.py\n${TORCHRUN_BIN:-torchrun} --nproc_per_node 4 t.py\n",
    "option that is said again": "torchrun --nnodes=2 --nnodes 2 --node-rank $R --master-addr $m t.py --nnodes 4\n",
    "names that are exported": "M=$1\nexport M\nN=2\nmpirun -np 8 -x M -x N=$N -x PATH a.out\n",
    "port that is drawn and moved": "MASTER_PORT=$RANDOM\nMASTER_PORT=$((MASTER_PORT % 10000 + 20000))\nexport MASTER_PORT\n",
    "threads of a step that asks for more": "#!/bin/bash\n#SBATCH -c 4\nexport OMP_NUM_THREADS=8\nsrun -c 8 python t\n",
    "number of a node that is read": "NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 llamafactory-cli train a.yaml\n",
    "names that the login exports": "LD_LIBRARY_PATH=/opt/lib\nW=$W:1\nmpirun -np 8 -x LD_LIBRARY_PATH -x W a.out\n",
    "cores of a whole node": "#!/bin/bash\n#SBATCH --exclusive --ntasks-per-node=8 --gpus-per-node=8\nsrun python t.py\n",
}


@pytest.mark.parametrize("text", _SOUND.values(), ids=_SOUND)
def test_sound_line_is_not_told(text: str):
    assert _rules(text) == []


def test_step_on_one_node_says_nothing_of_the_job():
    text = (
        "ip=$(srun --nodes=1 --ntasks=1 -w $first hostname -I)\nexport NCCL_IB_DISABLE=1\nsrun bash run.sh\n"
    )
    assert "ib-disabled" in _rules(text)


def test_waiver_that_silences_nothing_is_told():
    text = (
        "export NCCL_SHM_DISABLE=1  # rigtune: ignore=shm-disabled\n"
        "# rigtune: ignore=ib-disabled\n"
        "torchrun --nnodes 2 --rdzv-backend c10d \\\n  --rdzv-endpoint $h:29400 t.py\n"
    )
    document = read_document("a.sh", text)
    assert document is not None
    assert idle_waivers(lint((document,), Context()), (document,)) == (
        "a.sh, line 3: the waiver of ib-disabled silences nothing",
    )


def _together(*files: tuple[str, str]) -> list[str]:
    documents = [read_document(name, text) for name, text in files]
    found = tuple(document for document in documents if document is not None)
    assert len(found) == len(files)
    return [finding.rule_id for finding in lint(found, Context())]


_DEEPSPEED = ("a.sh", "deepspeed --hostfile /job/hostfile --num_nodes 2 t.py\n")
_MPIRUN = ("a.sh", "mpirun -np 16 --hostfile hosts.txt -x PATH all_reduce_perf -b 8\n")


@pytest.mark.parametrize(
    ("script", "name", "text", "rules"),
    [
        (_DEEPSPEED, "hostfile", "gpu-a slots=8\ngpu-b slots=8\n", []),
        (_DEEPSPEED, "hostfile", "# ours\ngpu-a slots=8\ngpu-a slots=8\n", ["hostfile-refused"]),
        (_DEEPSPEED, "hostfile", "gpu-a slots=8\ngpu-b:8\n", ["hostfile-refused"]),
        (_DEEPSPEED, "hostfile", "gpu-a slots=8\n", ["hostfile-few"]),
        (_MPIRUN, "hosts.txt", "10.0.0.1 slots=8\n10.0.0.2 slots=8\n", []),
        (_MPIRUN, "hosts.txt", "10.0.0.1\n10.0.0.2\n", []),
        (_MPIRUN, "hosts.txt", "10.0.0.1 slots=4\n10.0.0.2 slots=4\n", ["hostfile-few"]),
        (_MPIRUN, "hostfile", "10.0.0.1 slots=4\n", []),
    ],
)
def test_list_of_hosts_is_held_against_its_command(
    script: tuple[str, str], name: str, text: str, rules: list[str]
):
    assert _together(script, (name, text)) == rules
