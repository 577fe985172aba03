"""Short scripts with one mistake each, and mistakes that depend on versions or on the machine."""

from __future__ import annotations

from probes.facts import Cpu, Gpu, Interface, Limits, MachineFacts, Nic
from recipes.lint.context import Context
from tests.support.lint_sound_texts import EXCLUSIVE_JOB, JOB, RUN, STEP, TWO, TWO_NODES

SCRIPT_MISTAKES = [
    ("slurm-directive-misspelt", "#!/bin/bash\n#SBATCH --nodes=2\n# SBATCH --gpus-per-node=8\npython t.py\n"),
    ("slurm-step-wide", "#!/bin/bash\n#SBATCH --nodes=2\nsrun -N 4 python t.py\n"),
    ("slurm-step-wide", "#!/bin/bash\n#SBATCH --gpus-per-node=4\nsrun --gpus-per-node=8 python t.py\n"),
    ("slurm-output-folder", "#!/bin/bash\n#SBATCH --output=logs/%j.out\nmkdir -p ./logs\npython t.py\n"),
    (
        "shell-array-one",
        'lines=$(scontrol show hostnames $SLURM_JOB_NODELIST)\narr=("$lines")\nMASTER_ADDR=${arr[0]}\n',
    ),
    ("slurm-rank-too-early", JOB + "LOG=logs/$SLURM_PROCID.txt\nsrun -c 8 python t.py --log $LOG\n"),
    ("slurm-rank-too-early", JOB + 'LOG=logs/$SLURM_PROCID\nsrun -c 8 python t.py --log "$LOG"\n'),
    ("slurm-rank-too-early", JOB + "srun -c 8 python t.py > logs/$SLURM_PROCID.txt\n"),
    ("slurm-rank-too-early", JOB + "srun -c 8 -o logs/$SLURM_PROCID.txt python t.py\n"),
    ("mpi-parameter-exported", "mpirun -np 8 -x coll_hcoll_enable=0 -x PATH all_reduce_perf\n"),
    ("variable-misspelt", "runai submit -i img -g 8 --environment NCCL_SOKET_IFNAME=eth0 -- python t.py\n"),
    ("variable-misspelt", "arena submit pytorchjob --env=NCCL_SOKET_IFNAME=eth0 'python t.py'\n"),
    (
        "slurm-launcher-per-task",
        JOB.replace("=1", "=8") + "srun shifter --image=a torchrun --nproc-per-node 8 t.py\n",
    ),
    (
        "slurm-launcher-per-task",
        JOB.replace("=1", "=8") + 'srun podman-hpc run img bash -c "torchrun --nproc-per-node 8 t.py"\n',
    ),
    ("slurm-srun-missing", JOB + "axolotl train a.yaml\n"),
    (
        "megatron-world",
        "D=(--nproc_per_node 8 --nnodes 1)\nM=(--tensor-model-parallel-size 16)\ntorchrun ${D[@]} pre.py "
        "${M[@]}\n",
    ),
    (
        "megatron-world",
        JOB.replace("node=1", "node=8") + "srun -c 8 python pre.py --tensor-model-parallel-size 3\n",
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
        "torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --master-addr $m --master-port 29511 "
        "t.py\n",
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
"""Rule and text of a shell script."""

REACHING_MISTAKES = {
    "GPUs of the launcher": ("visible-devices-fewer", "CUDA_VISIBLE_DEVICES=0 " + RUN),
    "GPUs by the function around it": (
        "visible-devices-fewer",
        f"f() {{\n  {RUN}}}\nexport CUDA_VISIBLE_DEVICES=0\nf\n",
    ),
    "GPUs given to the container": (
        "visible-devices-fewer",
        f"docker run --gpus all --ipc=host -e CUDA_VISIBLE_DEVICES=0 i {RUN}",
    ),
    "master of the job": ("master-loopback", "export MASTER_ADDR=localhost\n" + TWO_NODES),
    "blocking launches of the job": ("cuda-debugging-left", "python prep.py\nCUDA_LAUNCH_BLOCKING=1 " + RUN),
    "no peers in any job": (
        "p2p-disabled",
        f"NCCL_P2P_DISABLE=1 torchrun a.py\nenv NCCL_P2P_DISABLE=1 {RUN}",
    ),
    "no peers beside a helper": ("p2p-disabled", 'run() { "$@"; }\nNCCL_P2P_DISABLE=1 ' + RUN),
    "no peers in the job": ("p2p-disabled", "NCCL_P2P_DISABLE=1 " + RUN),
    "a pair before one command": ("variable-conflict", "NCCL_NET=Socket NCCL_IB_HCA==mlx5_0 " + RUN),
    "the branch that runs": (
        "ib-disabled",
        "NET=tcp\nif [ $NET = ib ]; then\n  echo a\nelse\n  export NCCL_IB_DISABLE=1\nfi\n" + TWO_NODES,
    ),
    "a branch that the run chooses": (
        "ib-disabled",
        'NET=tcp\nif [ "$1" = ib ]; then NET=ib; fi\nif [ $NET = ib ]; then\n  export NCCL_IB_DISABLE=1\nfi\n'
        + TWO_NODES,
    ),
}
"""Settings that reach the command which they harm: rule and text of a shell script."""

MACHINE = MachineFacts(
    gpus=(
        Gpu(index=0, name="NVIDIA GB200", compute_capability="10.0"),
        Gpu(index=1, name="NVIDIA GB200", compute_capability="10.0"),
    ),
    interfaces=(Interface(name="eth1"), Interface(name="eth10")),
    nics=(
        Nic(name="mlx5_0", state="ACTIVE", link_layer="InfiniBand"),
        Nic(name="mlx5_1", state="DOWN", link_layer="InfiniBand"),
    ),
    cpu=Cpu(allowed_cpus=8),
    limits=Limits(memlock_bytes=65536, shm_bytes=67108864),
)

CONTEXT_MISTAKES = [
    (
        "slurm-cpus-not-passed",
        "a.sh",
        EXCLUSIVE_JOB.replace("exclusive", "cpus-per-task=8")
        + STEP.replace("-c 8 ", "")
        + "export SRUN_CPUS_PER_TASK=8\n",
        Context(slurm_version="23.02.7"),
    ),
    ("variable-too-new", "a.sh", "export NCCL_RAS_ENABLE=1\n", Context(nccl_version="2.20.5")),
    (
        "nccl-version-faulty",
        "a.sh",
        "export TORCH_NCCL_USE_COMM_NONBLOCKING=1\n" + RUN,
        Context(nccl_version="2.26.2"),
    ),
    (
        "allocator-name-too-new",
        "a.sh",
        "export PYTORCH_ALLOC_CONF=backend:native\n",
        Context(torch_version="2.6.0"),
    ),
    ("interface-prefix", "a.sh", "export NCCL_SOCKET_IFNAME=eth1\n", Context(machine=MACHINE)),
    ("hca-missing", "a.sh", "export NCCL_IB_HCA==mlx5_7\n", Context(machine=MACHINE)),
    ("hca-down", "a.sh", "export NCCL_IB_HCA==mlx5_0,mlx5_1\n", Context(machine=MACHINE)),
    ("connections-one", "a.sh", "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" + RUN, Context(machine=MACHINE)),
    ("threads-too-many", "a.sh", "export OMP_NUM_THREADS=8\n" + RUN, Context(machine=MACHINE)),
    ("machine-memlock", "a.sh", TWO, Context(machine=MACHINE)),
    ("machine-shm", "a.sh", RUN, Context(machine=MACHINE)),
]
"""Rule, file name, text and the versions or the machine that the rule needs."""
