"""Short launch files for the tests of lint: those that show a mistake, and sound ones that look like one."""

from __future__ import annotations

from probes.facts import Cpu, Gpu, Interface, Limits, MachineFacts, Nic
from recipes.lint.context import Context

_RUN = "torchrun --standalone --nproc-per-node 8 train.py\n"
_TWO = (
    "torchrun --nnodes 2 --node-rank $1 --nproc-per-node 8 --master-addr 10.0.0.1 --master-port 29500 "
    "train.py\n"
)
_BATCH = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n#SBATCH "
    "--exclusive\n"
)
_POD = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: a:1\n"
_DEEPSPEED = "distributed_type: DEEPSPEED\nnum_machines: 1\ndeepspeed_config:\n"
_JOB = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n#SBATCH "
    "--exclusive\n"
)
_TWO_NODES = "torchrun --nnodes 2 --node-rank $1 --nproc-per-node 8 --master-addr 10.0.0.1 train.py\n"
_EXCLUSIVE_JOB = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive\n"
_STEP = "srun -c 8 torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint $h:1 t.py\n"
_PYTORCH_JOB = (
    "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n{policy}  pytorchReplicaSpecs:\n    Worker:\n     "
    " replicas: 4\n"
)
_TEMPLATE = (
    "      template:\n        spec:\n          hostIPC: true\n          containers:\n            - name: "
    "pytorch\n              image: a:1\n              command: [torchrun, {nodes}, --nproc-per-node=8, "
    "t.py]\n              resources: {{limits: {{nvidia.com/gpu: 8}}}}\n"
)

_RDMA_POD = (
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n{notes}spec:\n  containers:\n    - name: a\n      "
    "image: a:1\n      command: [bash, -c, 'torchrun --nnodes 2 --node-rank $R --nproc-per-node=8 "
    "--master-addr x t.py']\n"
    "      env: [{{name: NCCL_IB_HCA, value: mlx5}}]\n"
    "      securityContext: {{capabilities: {{add: [IPC_LOCK]}}}}\n"
    "      volumeMounts: [{{name: shm, mountPath: /dev/shm}}]\n"
    "      resources: {{limits: {{nvidia.com/gpu: 8{device}}}}}\n"
    "  volumes: [{{name: shm, emptyDir: {{medium: Memory}}}}]\n"
)

_ENV_POD = (
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n    - name: a\n      image: a:1\n"
    "      env:\n        - {{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}\n"
    '        - {{name: MASTER_ADDR, value: "{value}"}}\n'
)

MISTAKES = [
    ("kubernetes-env-variable", "pod.yaml", _ENV_POD.format(value="$POD_IP")),
    ("kubernetes-env-variable", "pod.yaml", _ENV_POD.format(value="tcp://${POD_IP}:29500")),
    ("deepspeed-value", "ds.json", '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": "stage2"}\n'),
    ("deepspeed-value", "ds.json", '{"train_micro_batch_size_per_gpu": 1, "optimizer": "AdamW"}\n'),
    (
        "deepspeed-value",
        "ds.json",
        '{"train_micro_batch_size_per_gpu": 1, "activation_checkpointing": true}\n',
    ),
    (
        "container-gpus-fewer",
        "a.sh",
        "docker run --gpus 4 --ipc=host img composer -n 8 train/train.py a.yaml\n",
    ),
    (
        "container-gpus-fewer",
        "a.sh",
        "docker run --gpus 4 --ipc=host img python -m composer.cli.launcher --nproc=8 -m a.train\n",
    ),
    ("skypilot-gpus-fewer", "task.yaml", "resources:\n  accelerators: L40S:2\nrun: |\n  cd a\n  " + _RUN),
    (
        "skypilot-nodes-differ",
        "task.yaml",
        "num_nodes: 2\nresources:\n  accelerators: A100:8\nrun: |\n  cd a\n"
        "  torchrun --nnodes 4 --node-rank $SKYPILOT_NODE_RANK --nproc-per-node 8 --master-addr $a t.py\n",
    ),
    (
        "kubernetes-operator-variable",
        "job.yaml",
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n    Worker:\n      "
        "template:\n        spec:\n          containers:\n            - name: pytorch\n              image: "
        "a:1\n              env: [{name: MASTER_ADDR, value: job-master-0}]\n",
    ),
    (
        "megatron-shape",
        "a.sh",
        "torchrun --nproc-per-node 8 pre.py --pipeline-model-parallel-size 4 --num-layers 24 "
        "--num-layers-per-virtual-pipeline-stage 4\n",
    ),
    (
        "megatron-shape",
        "a.sh",
        "torchrun --nproc-per-node 8 pre.py --tensor-model-parallel-size 8 --num-layers 24 "
        "--num-layers-per-virtual-pipeline-stage 2\n",
    ),
    ("variable-misspelt", "a.sh", ": ${NCCL_SOKET_IFNAME:=eth0}\nexport NCCL_SOKET_IFNAME\n" + _RUN),
    (
        "slurm-world-size",
        "a.sbatch",
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4\nexport WORLD_SIZE=4\nsrun -c "
        "8 python t.py\n",
    ),
    (
        "slurm-more-ranks-than-gpus",
        "a.sbatch",
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks=16 --gpus-per-node=4\nexport MASTER_ADDR=$h\nsrun -c 8 "
        "python t.py\n",
    ),
    ("mpi-slots", "a.sh", "mpirun -np 16 -H a:4,b:4 python t.py\n"),
    ("mpi-not-forwarded", "a.sh", "export NCCL_DEBUG=INFO\nmpirun -np 8 -H a:4,b:4 python t.py\n"),
    (
        "compose-quotes",
        "compose.yaml",
        "services:\n  a:\n    environment:\n      - NCCL_SOCKET_IFNAME='ens3'\n",
    ),
    (
        "container-devices-void",
        "Dockerfile",
        "FROM a\nENV NVIDIA_VISIBLE_DEVICES=none\nCMD torchrun --nproc-per-node 4 t.py\n",
    ),
    ("dockerfile-assignment-blank", "Dockerfile", "FROM a\nENV OMP_NUM_THREADS = 8\n"),
    ("slurm-option-misspelt", "a.sbatch", "#!/bin/bash\n#SBATCH --cpu-per-task=8\n"),
    ("slurm-option-misspelt", "a.sbatch", "#!/bin/bash\n#SBATCH --gpus_per_node=8\n"),
    ("slurm-time", "a.sbatch", "#!/bin/bash\n#SBATCH --time=2days\n"),
    ("slurm-memory-unit", "a.sbatch", "#!/bin/bash\n#SBATCH --gpus-per-node=1 --mem=64\n"),
    (
        "accelerate-fsdp-sync",
        "fsdp.yaml",
        "distributed_type: FSDP\nfsdp_config:\n  fsdp_cpu_ram_efficient_loading: true\n  "
        "fsdp_sync_module_states: false\n",
    ),
    ("accelerate-type", "a.yaml", "distributed_type: MULTI_GPU\nmixed_precision: bfloat16\n"),
    ("deepspeed-value", "ds.json", '{"zero_optimization": {"stage": 2}, "fp16": true}\n'),
    (
        "deepspeed-value",
        "ds.json",
        '{"zero_optimization": {"stage": 3, "offload_param": {"device": "cuda"}}}\n',
    ),
    (
        "deepspeed-value",
        "ds.json",
        '{"zero_optimization": {"stage": 1}, "optimizer": {"params": {"lr": "3e-4"}}}\n',
    ),
    ("shell-continuation-blank", "a.sh", "torchrun --standalone \\ \n  --nproc-per-node 8 t.py\n"),
    ("shell-assignment-blank", "a.sh", "export NCCL_DEBUG = INFO\n"),
    ("shell-assignment-blank", "a.sh", "export NCCL_SOCKET_IFNAME= eth0\n"),
    ("shell-assignment-blank", "a.sh", "OMP_NUM_THREADS = 8\n"),
    ("shell-value-cut", "a.sh", "export NCCL_IB_HCA==mlx5_2, mlx5_3\n"),
    ("launcher-without-script", "a.sh", "torchrun --standalone --nproc-per-node 8\n"),
    ("launcher-options-late", "a.sh", "torchrun t.py --nproc_per_node 4\n"),
    ("launcher-options-late", "a.sh", "accelerate launch t.py --multi_gpu --num_processes 4\n"),
    ("port-shared", "a.sh", "torchrun --nproc-per-node 2 a.py &\ndeepspeed --num_gpus 2 b.py &\nwait\n"),
    (
        "port-shared",
        "a.sh",
        "torchrun --master-port=2050 --nproc-per-node 2 a.py > log &\ntorchrun --master_port 2050 b.py\n",
    ),
    ("container-gpus-list", "a.sh", "docker run --gpus device=2,3 --ipc=host img python t.py\n"),
    ("container-gpus-fewer", "a.sh", "docker run --gpus '\"device=2,3\"' --ipc=host img " + _RUN),
    (
        "container-gpus-fewer",
        "a.sh",
        "docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0 --ipc=host img " + _RUN,
    ),
    (
        "container-gpus-fewer",
        "compose.yaml",
        "services:\n  a:\n    ipc: host\n    command: torchrun --nproc-per-node 4 t.py\n    deploy:\n      "
        "resources:\n        reservations:\n          devices:\n            - device_ids: ['0', '2']\n       "
        "       capabilities: [gpu]\n",
    ),
    ("container-no-gpu", "a.sh", "docker run --ipc=host img torchrun --nproc-per-node 2 t.py\n"),
    (
        "kubernetes-gpus-fewer",
        "pod.yaml",
        _POD + "      command: [torchrun, --nproc-per-node=4, t.py]\n"
        "      resources: {limits: {nvidia.com/gpu: 2}}\n",
    ),
    (
        "kubernetes-nodes-differ",
        "job.yaml",
        "apiVersion: batch/v1\nkind: Job\nspec:\n  parallelism: 2\n  completionMode: Indexed\n  template:\n  "
        "  spec:\n      containers:\n        - name: a\n          image: a:1\n"
        "          command: [torchrun, --nnodes=4, --node-rank=$(JOB_COMPLETION_INDEX), --master-addr=a-0.a, "
        "t.py]\n",
    ),
    ("syntax", "compose.yaml", "services:\n  a:\n\tb: 1\n"),
    ("syntax", "ds_config.json", '{"train_batch_size": 32,, }\n'),
    ("slurm-directive-misspelt", "a.sbatch", "#!/bin/bash\n#SBATCH --nodes=1\n!#SBATCH --signal=USR1@90\n"),
    (
        "frontend-node-rank",
        "a.sh",
        "FORCE_TORCHRUN=1 NNODES=2 RANK=1 MASTER_ADDR=10.0.0.1 llamafactory-cli train a.yaml\n",
    ),
    ("mpi-not-exported", "a.sh", ': "${NCCL_IB_HCA:=mlx5}"\nmpirun -np 8 -x NCCL_IB_HCA -x PATH a.out\n'),
    ("mpi-not-exported", "a.sh", "MASTER_ADDR=$1\nmpirun -np 8 -x MASTER_ADDR a.out\n"),
    ("variable-not-exported", "a.sh", "NCCL_ASYNC_ERROR_HANDLING=1\n" + _RUN),
    ("launcher-option-twice", "a.sh", "torchrun --nproc_per_node=$N --nproc-per-node 2 t.py\n"),
    ("slurm-script-alone", "a.sbatch", _BATCH + "python train.py\n"),
    ("mpi-slots", "a.sh", "horovodrun -np 16 -H a:4,b:4 python t.py\n"),
    ("mpi-slots", "a.sh", "mpirun -np 16 -H a:4,b:4 --bind-to none -x PATH python t.py\n"),
    ("visible-devices-fewer", "a.sh", "CUDA_VISIBLE_DEVICES=0,1 accelerate launch --num_processes 4 t.py\n"),
    ("deepspeed-visible-devices", "a.sh", "export CUDA_VISIBLE_DEVICES=2,3\ndeepspeed --num_gpus 2 t.py\n"),
    ("deepspeed-options", "a.sh", "deepspeed --include localhost:0,1 --num_gpus 2 t.py\n"),
    ("deepspeed-options", "a.sh", "deepspeed --hostfile hosts --no_ssh --master_addr $m t.py\n"),
    (
        "megatron-tensor-wide",
        "a.sh",
        "torchrun --nnodes $N --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint $h:1 "
        "pre.py --tensor-model-parallel-size 16\n",
    ),
    ("line-ends", "a.sbatch", "#!/bin/bash\r\n#SBATCH --nodes=1\r\n"),
    ("typography", "a.sbatch", "#!/bin/bash\n#SBATCH \u2013-nodes=1\n"),
    ("typography", "a.sh", "torchrun \u2014nproc_per_node=4 t.py\n"),
    ("typography", "a.sh", "export NCCL_SOCKET_IFNAME=\u201ceth0\u201d\n"),
    ("typography", "a.sh", "srun\u00a0-c 8 python t.py\n"),
    (
        "ray-without-block",
        "a.sbatch",
        _BATCH + "srun --nodes=1 --ntasks=1 -w $h ray start --head --port=6379 &\n",
    ),
    ("ray-many-heads", "a.sbatch", _BATCH + "srun ray start --head --port=6379 --block &\n"),
    (
        "ray-loopback",
        "a.sbatch",
        _BATCH + "srun -n 1 -N 1 -w $w ray start --address=localhost:6379 --block &\n",
    ),
    (
        "slurm-variable-misspelt",
        "a.sh",
        "for h in $(scontrol show hostnames $SLURM_JOB_NODELIS); do :; done\n",
    ),
    (
        "threads-too-many",
        "a.sbatch",
        "#!/bin/bash\n#SBATCH --cpus-per-task=8\nexport OMP_NUM_THREADS=32\npython t.py\n",
    ),
    ("waiver-unknown", "a.sh", "export NCCL_IB_TC=1 # rigtune: ignore=trafic-class\n"),
    (
        "megatron-world",
        "a.sh",
        "torchrun --nproc-per-node 8 pre.py --tensor-model-parallel-size 8 --pipeline-model-parallel-size "
        "4\n",
    ),
    (
        "megatron-batch",
        "a.sh",
        "torchrun --nproc-per-node 8 pre.py --tensor-model-parallel-size 2 --micro-batch-size 4 "
        "--global-batch-size 24\n",
    ),
    (
        "megatron-shape",
        "a.sh",
        "torchrun --nproc-per-node 8 pre.py --pipeline-model-parallel-size 8 --num-layers 30\n",
    ),
    ("port-random", "a.sh", "export MASTER_PORT=$RANDOM\n"),
    ("launcher-runs-program", "a.sh", "torchrun --nproc-per-node 4 python train.py\n"),
    ("hca-twice", "a.sh", "export NCCL_IB_HCA==mlx5_2:1,mlx5_2:1\n"),
    ("slurm-task-alone", "a.sbatch", "#!/bin/bash\n#SBATCH --ntasks=4\npython train.py --launcher slurm\n"),
    ("slurm-directive-misspelt", "a.sbatch", "#!/bin/bash\n#SBATCH --nodes=1\n#SBTACH --time=10\n"),
    ("slurm-directive-variable", "a.sbatch", "#!/bin/bash\n#SBATCH --output=~/logs/%j.out\n"),
    ("slurm-no-shebang", "a.sbatch", "# a job\n#!/bin/bash\n#SBATCH --nodes=1\n"),
    ("slurm-time", "a.sbatch", "#!/bin/bash\n#SBATCH --time=7:00:00:00\n"),
    ("slurm-gpus-differ", "a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2 --gpus=4 --gpus-per-node=4\n"),
    (
        "slurm-gpus-differ",
        "a.sbatch",
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus=4 --gpus-per-task=4\n",
    ),
    (
        "slurm-nodes-differ",
        "a.sh",
        "srun -N 4 -c 8 torchrun --rdzv-backend c10d --rdzv-endpoint $h:29400 train.py\n",
    ),
    ("variable-unknown", "a.sh", "export NCCL_MAKE_IT_FAST=1\n"),
    ("variable-misspelt", "a.sh", "export NCCL_SOKET_IFNAME=eth0\n"),
    ("variable-misspelt", "a.sh", "export NCCL_IB_QPS_PER_CONN=4\n"),
    ("variable-misspelt", "a.sh", "mpirun -np 8 -x NCCL_SOKET_IFNAME -x NCCL_DEBUG -x PATH a.out\n"),
    ("variable-old-torch-name", "a.sh", "export NCCL_ASYNC_ERROR_HANDLING=1\n"),
    ("variable-removed", "a.env", "NCCL_LL_THRESHOLD=0\n"),
    ("value-not-a-number", "a.sh", "export NCCL_CROSS_NIC=auto\n"),
    ("value-not-a-number", "a.env", "NCCL_P2P_DISABLE=true\n"),
    ("value-unit", "a.sh", "export NCCL_BUFFSIZE=4M\n"),
    ("value-octal", "a.sh", "export NCCL_IB_TIMEOUT=022\n"),
    ("value-out-of-range", "a.sh", "export NCCL_IB_RETRY_CNT=13\n"),
    ("value-flag", "a.sh", "export TORCH_NCCL_ENABLE_MONITORING=off\n"),
    ("value-level", "a.sh", "export NCCL_NET_GDR_LEVEL=sys\n"),
    ("value-level-digits", "a.sh", "export NCCL_P2P_LEVEL=5\n"),
    ("value-word", "a.sh", "export NCCL_SOCKET_FAMILY=4\n"),
    ("value-algorithm", "a.sh", "export NCCL_ALGO=Rings\n"),
    ("variable-conflict", "a.sh", "export NCCL_CUMEM_ENABLE=0\nexport NCCL_NVLS_ENABLE=1\n"),
    ("sockets-too-many", "a.sh", "export NCCL_SOCKET_NTHREADS=16\nexport NCCL_NSOCKS_PERTHREAD=8\n"),
    ("variable-twice", "a.sh", "export NCCL_CROSS_NIC=0\nexport NCCL_CROSS_NIC=2\n" + _RUN),
    ("variable-not-exported", "a.sh", "NCCL_DEBUG=WARN\n" + _RUN),
    ("gloo-interface-prefix", "a.sh", "export GLOO_SOCKET_IFNAME=eth\n"),
    ("interface-is-an-hca", "a.sh", "export NCCL_SOCKET_IFNAME=mlx5_0\n"),
    ("interface-loopback", "a.sh", "export NCCL_SOCKET_IFNAME=lo\n" + _TWO),
    ("interface-bridge", "a.sh", "export NCCL_SOCKET_IFNAME=docker0\n"),
    ("interface-guess", "a.sh", "export NCCL_SOCKET_IFNAME=en,eth,em,bond\n"),
    ("interface-two-routes", "a.sh", "export NCCL_SOCKET_IFNAME==ib0\nexport GLOO_SOCKET_IFNAME=eno1\n"),
    ("master-loopback", "a.sbatch", _BATCH + "export MASTER_ADDR=localhost\nsrun bash run.sh\n"),
    ("hca-is-an-interface", "a.sh", "export NCCL_IB_HCA=ib0,ib1\n"),
    ("ib-timeout-long", "a.sh", "export NCCL_IB_TIMEOUT=28\n"),
    ("ib-many-queues", "a.sh", "export NCCL_IB_QPS_PER_CONNECTION=32\n"),
    ("cross-nic-forced", "a.sh", "export NCCL_CROSS_NIC=1\n"),
    ("shm-disabled", "a.sh", "export NCCL_SHM_DISABLE=1\n"),
    ("gdr-level-forced", "a.sh", "export NCCL_NET_GDR_LEVEL=SYS\n"),
    ("peermem-unloaded", "a.sh", "sudo rmmod nvidia_peermem\n"),
    ("net-name", "a.sh", "export NCCL_NET=rdma\n"),
    ("protocol-ll128", "a.sh", "export NCCL_PROTO=LL128\n"),
    ("nccl-debugging-left", "a.sh", "export NCCL_PXN_DISABLE=1\n"),
    ("torch-debugging-left", "a.sh", "export TORCH_DISTRIBUTED_DEBUG=DETAIL\n"),
    ("cuda-debugging-left", "a.sh", "export CUDA_LAUNCH_BLOCKING=1\n"),
    ("subsystem-without-info", "a.sh", "export NCCL_DEBUG=WARN\nexport NCCL_DEBUG_SUBSYS=NET\n"),
    ("log-one-file", "a.sh", "export NCCL_DEBUG=INFO\nexport NCCL_DEBUG_FILE=/var/log/nccl.log\n"),
    ("log-info-at-scale", "a.sbatch", "#!/bin/bash\n#SBATCH --nodes=64\nexport NCCL_DEBUG=INFO\n"),
    ("plugin-missing", "a.sh", "export NCCL_TUNER_CONFIG_FILE=/etc/tuner.csv\n"),
    ("tuner-overruled", "a.sh", "export NCCL_TUNER_PLUGIN=ofi\nexport NCCL_ALGO=Ring\n"),
    ("channels-twice", "a.sh", "export NCCL_MIN_NCHANNELS=8\nexport NCCL_MIN_CTAS=8\n"),
    (
        "nccl-replaced",
        "Dockerfile",
        "FROM a:1\nRUN pip install torch\nRUN pip install nvidia-nccl-cu12==2.20.5\n",
    ),
    (
        "slurm-cpus-missing",
        "a.sbatch",
        _BATCH.replace("#SBATCH --exclusive\n", "") + "srun torchrun --nproc-per-node 8 train.py\n",
    ),
    (
        "slurm-more-ranks-than-gpus",
        "a.sbatch",
        _BATCH.replace("=2", "=1") + "torchrun --standalone --nproc-per-node 16 train.py\n",
    ),
    (
        "slurm-nodes-differ",
        "a.sbatch",
        _BATCH + "srun -c 8 torchrun --nnodes 4 --rdzv-backend c10d --rdzv-endpoint $h:1 train.py\n",
    ),
    (
        "slurm-nodes-differ",
        "a.sbatch",
        _BATCH + "srun -c 8 torchrun --rdzv-backend c10d --rdzv-endpoint $h:29400 train.py\n",
    ),
    (
        "slurm-srun-missing",
        "a.sbatch",
        _BATCH + "torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint $h:29400 train.py\n",
    ),
    (
        "slurm-rank-literal",
        "a.sbatch",
        _BATCH + "srun -c 8 torchrun --nnodes 2 --node-rank \\$SLURM_NODEID train.py\n",
    ),
    (
        "slurm-rank-literal",
        "a.sbatch",
        _BATCH + "srun -c 8 accelerate launch --machine_rank='${SLURM_PROCID}' train.py\n",
    ),
    (
        "slurm-directive-late",
        "a.sbatch",
        "#!/bin/bash\n#SBATCH --nodes=1\nmodule load cuda\n#SBATCH --gpus-per-node=8\n",
    ),
    ("slurm-directive-variable", "a.sbatch", "#!/bin/bash\n#SBATCH --output=$HOME/logs/%j.out\n"),
    ("slurm-directive-blanks", "a.sbatch", "#!/bin/bash\n#SBATCH --nodes = 2\n"),
    (
        "slurm-export-none",
        "a.sbatch",
        _BATCH + "#SBATCH --export=NONE\nexport NCCL_DEBUG=WARN\nsrun -c 8 python train.py\n",
    ),
    ("slurm-export-list", "a.sbatch", _BATCH + "srun -c 8 --export=NCCL_DEBUG=WARN python train.py\n"),
    ("torchrun-standalone", "a.sh", "torchrun --standalone --nnodes 2 train.py\n"),
    (
        "torchrun-loopback",
        "a.sh",
        "torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint localhost:29400 train.py\n",
    ),
    ("torchrun-nowhere", "a.sh", "torchrun --nnodes 2 --nproc-per-node 8 train.py\n"),
    ("port-out-of-range", "a.sh", "export MASTER_PORT=80\n"),
    (
        "port-overflow",
        "a.sbatch",
        "#!/bin/bash\n#SBATCH --nodes=1\nexport MASTER_PORT=$((10000 + SLURM_JOB_ID))\n",
    ),
    ("torchrun-option-unknown", "a.sh", "torchrun --nproc_per_nodes 8 train.py\n"),
    ("launcher-in-launcher", "a.sh", "torchrun --nproc-per-node 8 --no-python accelerate launch train.py\n"),
    ("torch-launch-deprecated", "a.sh", "python -m torch.distributed.launch --nproc_per_node 8 train.py\n"),
    ("local-rank-from-world", "a.sh", "export LOCAL_RANK=$SLURM_PROCID\npython train.py\n"),
    (
        "visible-devices-fewer",
        "a.sh",
        "export CUDA_VISIBLE_DEVICES=0,1\ntorchrun --nproc-per-node 4 train.py\n",
    ),
    (
        "accelerate-no-master",
        "a.yaml",
        "distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 16\nmain_process_ip: null\n",
    ),
    ("accelerate-unknown-key", "a.yaml", "distributed_type: MULTI_GPU\nnum_machines: 1\nnum_process: 8\n"),
    ("accelerate-type", "a.yaml", "distributed_type: MULTI_NODE\nnum_machines: 1\n"),
    ("accelerate-block-unused", "a.yaml", "distributed_type: MULTI_GPU\nfsdp_config:\n  fsdp_version: 2\n"),
    (
        "deepspeed-batch",
        "ds.json",
        '{"train_batch_size": 30, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}\n',
    ),
    ("deepspeed-two-precisions", "ds.json", '{"fp16": {"enabled": true}, "bf16": {"enabled": true}}\n'),
    (
        "deepspeed-stage",
        "ds.json",
        '{"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}\n',
    ),
    ("deepspeed-unknown-key", "ds.json", '{"bf16": {"enabled": true}, "gradient_acumulation_steps": 2}\n'),
    ("deepspeed-debugging-left", "ds.json", '{"bf16": {"enabled": true}, "wall_clock_breakdown": true}\n'),
    (
        "deepspeed-visible-devices",
        "a.sh",
        "export CUDA_VISIBLE_DEVICES=0,1\ndeepspeed --hostfile hosts train.py\n",
    ),
    ("mpi-slots", "a.sh", "mpirun -np 16 -H a,b --bind-to none python train.py\n"),
    ("mpi-bound-to-core", "a.sh", "mpirun -np 8 --bind-to core python train.py\n"),
    (
        "mpi-include-and-exclude",
        "a.sh",
        "mpirun -np 8 --mca btl_tcp_if_include ens5 --mca btl_tcp_if_exclude lo python train.py\n",
    ),
    ("mpi-rank-too-early", "a.sh", "export RANK=$OMPI_COMM_WORLD_RANK\nmpirun -np 8 python train.py\n"),
    (
        "tf-config-json",
        "tf.json",
        '{"cluster": {"worker": ["a:1", "b:1"],}, "task": {"type": "worker", "index": 0}}\n',
    ),
    (
        "tf-config-index",
        "tf.json",
        '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}\n',
    ),
    (
        "tf-config-address",
        "tf.json",
        '{"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}}\n',
    ),
    (
        "tf-config-mixed",
        "tf.json",
        '{"cluster": {"worker": ["a:1", "10.0.0.2:1"]}, "task": {"type": "worker", "index": 0}}\n',
    ),
    (
        "tf-config-evaluator",
        "tf.json",
        '{"cluster": {"worker": ["a:1"], "evaluator": ["b:1"]}, "task": {"type": "worker", "index": 0}}\n',
    ),
    ("conf-blanks", "nccl.conf", "NCCL_DEBUG = WARN\n"),
    ("conf-quotes", "nccl.conf", 'NCCL_DEBUG="WARN"\n'),
    ("conf-comment", "nccl.conf", "NCCL_DEBUG=WARN # for now\n"),
    ("conf-export", "nccl.conf", "export NCCL_DEBUG=WARN\n"),
    ("conf-variable", "nccl.conf", "NCCL_TOPO_FILE=$HOME/topo.xml\n"),
    ("conf-tilde", "a.env", "NCCL_CONF_FILE=~/nccl.conf\n"),
    ("container-bridge-network", "a.sh", "docker run --gpus all --ipc=host img:1 " + _TWO),
    (
        "dockerfile-escaped-variable",
        "Dockerfile",
        "FROM a:1\nENV LD_LIBRARY_PATH=/opt/lib:\\$LD_LIBRARY_PATH\n",
    ),
    ("dockerfile-run-export", "Dockerfile", "FROM a:1\nRUN export NCCL_DEBUG=WARN\n"),
    ("image-latest", "a.sbatch", _BATCH + "srun -c 8 --container-image=lab/train:latest python train.py\n"),
    ("kubernetes-ipc-lock", "p.yaml", _POD + "      resources:\n        limits:\n          rdma/ib: 1\n"),
    (
        "kubernetes-no-rdma",
        "p.yaml",
        _POD + "      env:\n        - name: NCCL_IB_HCA\n          value: '=mlx5_0'\n"
        "      resources:\n        limits:\n          nvidia.com/gpu: 1\n",
    ),
    (
        "kubernetes-gpu-limit",
        "p.yaml",
        _POD + "      resources:\n        requests:\n          nvidia.com/gpu: 1\n",
    ),
    (
        "kubernetes-rank-fixed",
        "p.yaml",
        "kind: Job\nspec:\n  parallelism: 2\n  template:\n    spec:\n      containers:\n        - name: a\n"
        "          command: [torchrun, --nnodes=2, --node-rank=0, --master-addr=a, train.py]\n",
    ),
    (
        "kubernetes-list-variable",
        "p.yaml",
        _POD + "      env:\n        - {name: N, value: '2'}\n"
        "      command: [torchrun, --nproc-per-node=$N, train.py]\n",
    ),
    (
        "accelerate-deepspeed-twice",
        "a.yaml",
        _DEEPSPEED + "  deepspeed_config_file: ds.json\n  zero_stage: 3\n",
    ),
    ("accelerate-deepspeed-own", "a.yaml", _DEEPSPEED + "  zero_stage: 3\n  fp16:\n    enabled: true\n"),
    (
        "deepspeed-misplaced",
        "ds.json",
        '{"zero_optimization": {"stage": 3}, "offload_param": {"device": "cpu"}}\n',
    ),
    ("deepspeed-precision-key", "ds.json", '{"zero_optimization": {"stage": 2}, "fp16": {"enable": true}}\n'),
    (
        "accelerate-fsdp-word",
        "a.yaml",
        "distributed_type: FSDP\nnum_machines: 1\nfsdp_config:\n  fsdp_sharding_strategy: FULL\n",
    ),
    ("deepspeed-zero-key", "ds.json", '{"zero_optimization": {"stage": 3, "overlap_com": true}}\n'),
    (
        "kubernetes-host-dns",
        "p.yaml",
        _POD.replace("spec:\n", "spec:\n  hostNetwork: true\n")
        + "      resources:\n        limits:\n          nvidia.com/gpu: 1\n",
    ),
    (
        "kubernetes-env-number",
        "p.yaml",
        _POD + "      env:\n        - name: NCCL_CROSS_NIC\n          value: 0\n",
    ),
    (
        "kubernetes-container-name",
        "p.yaml",
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n    Worker:\n      "
        "template:\n        spec:\n          containers:\n            - name: trainer\n              image: "
        "a:1\n",
    ),
    ("limit-memlock", "a.sh", "ulimit -l 64\n" + _RUN),
    ("service-stopped", "a.sh", "systemctl disable --now nvidia-fabricmanager\n"),
    ("mig-slices", "a.sbatch", "#!/bin/bash\n#SBATCH --gres=gpu:a100_1g.5gb:4\n" + _RUN.replace("8", "4")),
    (
        "connections-missing",
        "a.sh",
        "torchrun --standalone p.py --tensor-model-parallel-size 8 --sequence-parallel\n",
    ),
    ("allocator-syntax", "a.sh", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments=True\n"),
    (
        "allocator-two-names",
        "a.sh",
        "export PYTORCH_CUDA_ALLOC_CONF=backend:native\nexport PYTORCH_ALLOC_CONF=expandable_segments:True\n",
    ),
    ("efa-infiniband-settings", "a.sh", "export FI_PROVIDER=efa\nexport NCCL_IB_HCA==mlx5_0\n"),
    ("fi-provider-tcp", "a.sh", "export FI_PROVIDER=tcp\n"),
]
"""Rule, file name and text."""

SCRIPT_MISTAKES = [
    ("slurm-directive-misspelt", "#!/bin/bash\n#SBATCH --nodes=2\n# SBATCH --gpus-per-node=8\npython t.py\n"),
    ("slurm-step-wide", "#!/bin/bash\n#SBATCH --nodes=2\nsrun -N 4 python t.py\n"),
    ("slurm-step-wide", "#!/bin/bash\n#SBATCH --gpus-per-node=4\nsrun --gpus-per-node=8 python t.py\n"),
    ("slurm-output-folder", "#!/bin/bash\n#SBATCH --output=logs/%j.out\nmkdir -p ./logs\npython t.py\n"),
    (
        "shell-array-one",
        'lines=$(scontrol show hostnames $SLURM_JOB_NODELIST)\narr=("$lines")\nMASTER_ADDR=${arr[0]}\n',
    ),
    ("slurm-rank-too-early", _JOB + "LOG=logs/$SLURM_PROCID.txt\nsrun -c 8 python t.py --log $LOG\n"),
    ("slurm-rank-too-early", _JOB + 'LOG=logs/$SLURM_PROCID\nsrun -c 8 python t.py --log "$LOG"\n'),
    ("slurm-rank-too-early", _JOB + "srun -c 8 python t.py > logs/$SLURM_PROCID.txt\n"),
    ("slurm-rank-too-early", _JOB + "srun -c 8 -o logs/$SLURM_PROCID.txt python t.py\n"),
    ("mpi-parameter-exported", "mpirun -np 8 -x coll_hcoll_enable=0 -x PATH all_reduce_perf\n"),
    ("variable-misspelt", "runai submit -i img -g 8 --environment NCCL_SOKET_IFNAME=eth0 -- python t.py\n"),
    ("variable-misspelt", "arena submit pytorchjob --env=NCCL_SOKET_IFNAME=eth0 'python t.py'\n"),
    (
        "slurm-launcher-per-task",
        _JOB.replace("=1", "=8") + "srun shifter --image=a torchrun --nproc-per-node 8 t.py\n",
    ),
    (
        "slurm-launcher-per-task",
        _JOB.replace("=1", "=8") + 'srun podman-hpc run img bash -c "torchrun --nproc-per-node 8 t.py"\n',
    ),
    ("slurm-srun-missing", _JOB + "axolotl train a.yaml\n"),
    (
        "megatron-world",
        "D=(--nproc_per_node 8 --nnodes 1)\nM=(--tensor-model-parallel-size 16)\ntorchrun ${D[@]} pre.py "
        "${M[@]}\n",
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
    "GPUs of the launcher": ("visible-devices-fewer", "CUDA_VISIBLE_DEVICES=0 " + _RUN),
    "GPUs by the function around it": (
        "visible-devices-fewer",
        f"f() {{\n  {_RUN}}}\nexport CUDA_VISIBLE_DEVICES=0\nf\n",
    ),
    "GPUs given to the container": (
        "visible-devices-fewer",
        f"docker run --gpus all --ipc=host -e CUDA_VISIBLE_DEVICES=0 i {_RUN}",
    ),
    "master of the job": ("master-loopback", "export MASTER_ADDR=localhost\n" + _TWO_NODES),
    "blocking launches of the job": ("cuda-debugging-left", "python prep.py\nCUDA_LAUNCH_BLOCKING=1 " + _RUN),
    "no peers in any job": (
        "p2p-disabled",
        f"NCCL_P2P_DISABLE=1 torchrun a.py\nenv NCCL_P2P_DISABLE=1 {_RUN}",
    ),
    "no peers beside a helper": ("p2p-disabled", 'run() { "$@"; }\nNCCL_P2P_DISABLE=1 ' + _RUN),
    "no peers in the job": ("p2p-disabled", "NCCL_P2P_DISABLE=1 " + _RUN),
    "a pair before one command": ("variable-conflict", "NCCL_NET=Socket NCCL_IB_HCA==mlx5_0 " + _RUN),
    "the branch that runs": (
        "ib-disabled",
        "NET=tcp\nif [ $NET = ib ]; then\n  echo a\nelse\n  export NCCL_IB_DISABLE=1\nfi\n" + _TWO_NODES,
    ),
    "a branch that the run chooses": (
        "ib-disabled",
        'NET=tcp\nif [ "$1" = ib ]; then NET=ib; fi\nif [ $NET = ib ]; then\n  export NCCL_IB_DISABLE=1\nfi\n'
        + _TWO_NODES,
    ),
}
"""Settings that reach the command which they harm: rule and text of a shell script."""

SOUND_SCRIPTS = {
    "requests that are turned off": "#!/bin/bash\n#SBATCH --nodes=2\n##SBATCH --mem=0\n# SBATCH --nodes=4\n"
    "srun -c 8 python t.py\n",
    "sentence about requests": "#!/bin/bash\n#SBATCH --nodes=2\n# SBATCH options are above\n"
    "srun -c 8 python t.py\n",
    "steps that fit": "#!/bin/bash\n#SBATCH --nodes=2-4 --gpus-per-node=8\n"
    "srun -N 4 --gpus-per-node=4 python t.py\n",
    "folder that another job creates": "#!/bin/bash\n#SBATCH --output=logs/%j.out\nmkdir -p out\n"
    "python t.py\n",
    "one element of one line": 'name=$(hostname)\narr=("$name")\necho ${arr[0]}\n',
    "log of each rank": _JOB + "srun -c 8 bash -c 'python t.py > logs/$SLURM_PROCID.txt'\n",
    "parameters and variables of Open MPI": "mpirun -np 8 --mca coll_hcoll_enable 0 "
    "-x HCOLL_ENABLE_MCAST=0 a\n",
    "channels of ROCm": "export HIP_VISIBLE_DEVICES=0,1\nexport NCCL_MIN_NCHANNELS=112\n",
    "rank after an option that may be absent": _JOB
    + 'X="$1"\nsrun -c 8 bash -c "torchrun ${X:+--p="${X}"} --nnodes 2 --nproc-per-node 8 '
    '--node-rank \\$SLURM_NODEID --master-addr $m --master-port $p t.py"\n',
    "branches that do not run": "NET=ib\nif [ $NET = ib ]; then\n  echo a\nelif [[ $NET == tcp ]]; then\n"
    "  export NCCL_IB_DISABLE=1\n  export MASTER_ADDR=127.0.0.1\nelse\n  export NCCL_SHM_DISABLE=1\nfi\n"
    + _TWO,
    "cores and stacks of a CPU job": "#!/bin/bash\n#SBATCH --nodes=4\nulimit -s unlimited\n"
    "export OMP_NUM_THREADS=1\nmpirun --bind-to core -np 64 --hostfile hosts ./wrf.exe\n",
    "names of its own": "export NCCL_DEFAULT_IF=eth0\nexport NCCL_SOCKET_IFNAME=$NCCL_DEFAULT_IF\n",
    "names of Google's plugins": "export NCCL_USE_SNAP=1\n"
    "export NCCL_GPUVIZ_READ_INTERVAL_IN_MICROSECONDS=1\nexport NCCL_NET_PLUGIN_TELEMETRY_MODE=1\n",
    "names that only a newer NCCL no longer reads": "export NCCL_SHM_USE_CUDA_MEMCPY=1\n",
    "GPU of the only task": "#!/bin/bash\n#SBATCH --gpus-per-task=1 --cpus-per-task=8\npython t.py\n",
    "GPU of one task": "#!/bin/bash\n#SBATCH -n 1 --gpus-per-task=1\nsrun -c 8 python t.py\n",
    "GPU of a step of one task": _JOB + "srun -n 1 -N 1 -c 8 --gpus-per-task=1 python eval.py\n",
    "a log for each rank": "#!/bin/bash\n#SBATCH --nodes=32 --ntasks-per-node=8 --gpus-per-node=8\n"
    "export NCCL_DEBUG=INFO\nsrun -c 8 --output=log-%j-%t.txt python t.py\n",
    "late requests to PBS": "#!/bin/bash\n#PBS -l select=2\ncd $PBS_O_WORKDIR\n"
    "#PBS -o $HOME/out\npython t.py\n",
    "cores that srun of today inherits": _EXCLUSIVE_JOB.replace("exclusive", "cpus-per-task=8")
    + _STEP.replace("-c 8 ", ""),
    "beginning of an option": "torchrun --nnode 1 --nproc_per 4 t.py\n",
    "beginning of an option of deepspeed": "deepspeed --hostfil hosts t.py\n",
    "TCP where one machine trains": "export NCCL_IB_DISABLE=1\ntorchrun --nproc-per-node 4 t.py\n",
    "no peers where one rank trains": "export NCCL_P2P_DISABLE=1\ntorchrun --nproc-per-node 1 t.py\n",
    "loopback where one machine trains": "export NCCL_SOCKET_IFNAME=lo\ndeepspeed --num_gpus 4 t.py\n",
    "ranks that a launcher sets anew": "export RANK=$SLURM_PROCID\ntorchrun --nproc-per-node 4 --standalone "
    "t.py\n",
    "TRACE without calls": "export NCCL_DEBUG=TRACE\n",
    "distance that keeps no pair apart": "export NCCL_P2P_LEVEL=SYS\n",
    "GID index where RDMA is off": "export NCCL_IB_GID_INDEX=3\nexport NCCL_IB_DISABLE=1\ntorchrun "
    "--standalone t.py\n",
    "rank that the inner shell expands": _JOB
    + 'srun -c 8 bash -c "torchrun --nnodes 2 --master-addr $m --node-rank \\$SLURM_NODEID t.py"\n',
    "rank of a script that the job writes": _JOB
    + "cat > r.sh <<EOF\nsrun -c 8 torchrun --nnodes 2 --master-addr $m "
    "--node-rank \\$SLURM_NODEID t.py\nEOF\n",
    "rank that eval expands": "eval srun torchrun --nnodes 2 --master-addr $m --node-rank \\$SLURM_NODEID "
    "t.py\n",
    "rank that the other machine expands": "ssh h srun torchrun --nnodes 2 --master-addr $m --node-rank "
    "\\$SLURM_NODEID t.py\n",
    "level of vendors": "export NCCL_NET_GDR_LEVEL=PHB\n",
    "buffers that OCI publishes": "export NCCL_BUFFSIZE=16777216\n# BM.GPU\necho BM.GPU.B4.8\n",
    "local rank of the only task": _JOB + "export LOCAL_RANK=$SLURM_LOCALID\nsrun -c 16 python t.py\n",
    "program of the launcher's own": "torchrun --nproc-per-node 4 --no-python numactl -N 0 python t.py\n",
    "times": "#!/bin/bash\n#SBATCH --time=2-00:15:00\n#SBATCH --time-min=90\n",
    "port in a range": "export MASTER_PORT=$((20000 + RANDOM % 10000))\n",
    "words like a request": "#!/bin/bash\n#SBATCH --nodes=1\n#Switch --on\n# sbatch --nodes=2 "
    "job.sh\n##SBATCH --qos=a\n",
    "ranks that come out": "torchrun --nproc-per-node 8 pre.py --tensor-model-parallel-size 2 "
    "--pipeline-model-parallel-size 2 --micro-batch-size 4 --global-batch-size 24 --num-layers 24 "
    "--num-attention-heads 32\n",
    "ranks that are not known": "torchrun --nnodes $N --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint "
    "$h:29400 pre.py --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16\n",
    "stages of different sizes": "torchrun --nproc-per-node 8 pre.py --pipeline-model-parallel-size 8 "
    "--num-layers 30 --decoder-last-pipeline-num-layers 2\n",
    "request of another scheduler": "#!/bin/bash\n#YBATCH -r a100_4\n#SBATCH --nodes=1\n",
    "variables of Slurm and of its own": "SLURM_NODELISTS=a\necho $SLURM_JOB_NODELIST ${SLURM_NTASKS:-1} "
    "$SLURM_NODELISTS\n",
    "threads that fit": "#!/bin/bash\n#SBATCH --cpus-per-task=8\nexport OMP_NUM_THREADS=8\npython t.py\n",
    "cluster of Ray": _JOB
    + "srun --nodes=1 --ntasks=1 -w $h ray start --head --node-ip-address=$ip --port=6379 --block &\n"
    "srun --nodes=1 --ntasks=1 -w $w ray start --address=$ip:6379 --block &\n",
    "cluster of Ray in a shell": _JOB
    + "srun -N1 -n1 -w $h bash -c 'ray start --head --port=6379; sleep infinity' &\n",
    "words of other languages": "#!/bin/bash\n#SBATCH --nodes=1  # \u2013 ein Knoten \u201ehier\u201c\n# "
    "caf\u00e9\u00a0noir\nexport GREETING='caf\u00e9 \u2013 noir'\necho \u201chi\u201d\n",
    "GPUs that deepspeed takes anyway": "CUDA_VISIBLE_DEVICES=0,1 deepspeed --num_gpus 2 t.py\n",
    "GPUs that deepspeed takes over": "export CUDA_VISIBLE_DEVICES=2,3\ndeepspeed t.py\n",
    "deepspeed without ssh": "deepspeed --hostfile hosts --no_ssh --node_rank $R --master_addr $m t.py\n",
    "slots that are enough": "horovodrun -np 8 -H a:4,b:4 python t.py\nmpirun -np 8 -H a:4,b:4 --bind-to "
    "none -x PATH t\n",
    "a script that finds its nodes": _JOB + "export DLTS_HOSTFILE=/tmp/hostfile\npython deepy.py train.py\n",
    "stages that DeepSpeed cuts": "torchrun --nproc-per-node 8 pre.py --pipeline-model-parallel-size 8 "
    "--num-layers 30 --pp-partition-method 'type:transformer|embedding' --deepspeed\n",
    "rank in the container of a step": _JOB
    + "srun -c 16 apptainer exec --nv a.sif bash -c '\n  export RANK=$SLURM_PROCID\n"
    "  export LOCAL_RANK=$SLURM_LOCALID\n  python t.py\n'\n",
    "TCP where one machine trains by $PYTHON": "PYTHON=${PYTHON:-python}\nexport NCCL_IB_DISABLE=1\n"
    "$PYTHON -m torch.distributed.run --nproc_per_node=$1 t.py\n${TORCHRUN_BIN:-torchrun} --nproc_per_node 4 "
    "t.py\n",
    "option that is said again": "torchrun --nnodes=2 --nnodes 2 --node-rank $R --master-addr $m t.py "
    "--nnodes 4\n",
    "names that are exported": "M=$1\nexport M\nN=2\nmpirun -np 8 -x M -x N=$N -x PATH a.out\n",
    "port that is drawn and moved": "MASTER_PORT=$RANDOM\nMASTER_PORT=$((MASTER_PORT % 10000 + "
    "20000))\nexport MASTER_PORT\n",
    "threads of a step that asks for more": "#!/bin/bash\n#SBATCH -c 4\nexport OMP_NUM_THREADS=8\nsrun -c 8 "
    "python t\n",
    "number of a node that is read": "NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 llamafactory-cli train "
    "a.yaml\n",
    "names that the login exports": "LD_LIBRARY_PATH=/opt/lib\nW=$W:1\nmpirun -np 8 -x LD_LIBRARY_PATH -x W "
    "a.out\n",
    "cores of a whole node": "#!/bin/bash\n#SBATCH --exclusive --ntasks-per-node=8 --gpus-per-node=8\nsrun "
    "python t.py\n",
}

SETTINGS_OF_OTHER_COMMANDS = {
    "GPUs of another command": "CUDA_VISIBLE_DEVICES=0 python prep.py\n" + _RUN,
    "GPUs of a later command": _RUN + "CUDA_VISIBLE_DEVICES=0 python eval.py\n",
    "GPUs of what follows": _RUN + "export CUDA_VISIBLE_DEVICES=0\npython eval.py\n",
    "GPUs of a subshell": "(export CUDA_VISIBLE_DEVICES=0; python prep.py)\n" + _RUN,
    "GPUs of a function": "f() { export CUDA_VISIBLE_DEVICES=0; python eval.py; }\n" + _RUN,
    "GPUs outside of a container": "export CUDA_VISIBLE_DEVICES=0\npython p.py\ndocker run --gpus all "
    "--ipc=host i " + _RUN,
    "master of a test": "MASTER_ADDR=localhost MASTER_PORT=29501 python test.py\n" + _TWO_NODES,
    "loopback of a test": "NCCL_SOCKET_IFNAME=lo python test.py\n" + _TWO_NODES,
    "blocking launches of a test": "CUDA_LAUNCH_BLOCKING=1 python smoke.py && " + _RUN,
    "measurement without peers": "NCCL_P2P_DISABLE=1 all_reduce_perf -g 8\nall_reduce_perf -g 8\n",
    "trial without peers": "NCCL_P2P_DISABLE=1 torchrun --nproc-per-node 8 small.py\n" + _RUN,
    "peers turned off after all ranks": _RUN + "export NCCL_P2P_DISABLE=1\n",
    "a pair that no command gets": "NCCL_IB_DISABLE=1 torchrun a.py\nNCCL_IB_HCA==mlx5_0 torchrun b.py\n",
    "a proxy of the installer": "https_proxy=http://p:1 pip install x\n" + _RUN,
    "GPUs that are not bound": "#!/bin/bash\n#SBATCH -N 1 --ntasks-per-node=4 --gpus-per-task=1 "
    "--gpu-bind=none\nsrun -c 8 python train.py\n",
    "GPUs that the step does not bind": "#!/bin/bash\n#SBATCH -N 1 --ntasks-per-node=4 --gpus-per-task=1\n"
    "srun -c 8 --gpu-bind=none python train.py\n",
}
"""Settings that do not reach the command which they would harm."""

SOUND_FILES = {
    "variables that Kubernetes expands": ("pod.yaml", _ENV_POD.format(value="$(POD_IP)")),
    "variables that another program fills in": (
        "pod.yaml",
        _ENV_POD.format(value="$POD_IP").replace("a:1", "$IMAGE"),
    ),
    "variables of another text": ("pod.yaml", _ENV_POD.format(value="$OTHER $$POD_IP")),
    "variables that YAML unsets": (
        "values.yaml",
        "cmd: torchrun t.py\nenv_vars:\n  NCCL_IB_TIMEOUT: null\n  NCCL_PROTO: null\n  NCCL_DEBUG: ~\n"
        "  NCCL_SOCKET_IFNAME:\n  GLOO_SOCKET_IFNAME: null\n",
    ),
    "RDMA by host devices": ("pod.yaml", _RDMA_POD.format(notes="", device=", nvidia.com/hostdev: 8")),
    "RDMA by a plugin of the site": (
        "pod.yaml",
        _RDMA_POD.format(notes="", device=", nvidia.com/resibp24s0: 8"),
    ),
    "RDMA by SR-IOV": ("pod.yaml", _RDMA_POD.format(notes="", device=", intel.com/sriov_net: 8")),
    "RDMA by networks": (
        "pod.yaml",
        _RDMA_POD.format(notes="  annotations: {k8s.v1.cni.cncf.io/networks: roce-0}\n", device=""),
    ),
    "pod without a bridge of Docker": (
        "pod.yaml",
        _RDMA_POD.format(notes="", device=", rdma/ib: 8").replace(
            "NCCL_IB_HCA, value: mlx5", "NCCL_SOCKET_IFNAME, value: ^lo"
        ),
    ),
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
        "docker run --gpus 1 img python prep.py\ndocker run --gpus all --ipc=host img torchrun "
        "--nproc-per-node 8 t.py\n",
    ),
    "elastic pods": (
        "job.yaml",
        _PYTORCH_JOB.format(policy="  elasticPolicy: {minReplicas: 2, maxReplicas: 4}\n")
        + _TEMPLATE.format(nodes="--nnodes=3"),
    ),
    "pods that come out": ("job.yaml", _PYTORCH_JOB.format(policy="") + _TEMPLATE.format(nodes="--nnodes=4")),
    "pods that the operator counts": (
        "job.yaml",
        _PYTORCH_JOB.format(policy="") + _TEMPLATE.format(nodes="--rdzv-backend=c10d"),
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
        "torchrun --master-port 2050 a.py &\ntorchrun --master-port 2051 b.py &\ntorchrun --standalone c.py "
        "&\nwait\n",
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
        "#!/bin/bash\n#SBATCH --part=a --const=b --container-name=c --container-env=A --exclusive=user "
        "--nv-x\n",
    ),
    "memory in whole nodes": (
        "a.sbatch",
        "#!/bin/bash\n#SBATCH --gpus-per-node=8 --mem=0 --time=UNLIMITED\n",
    ),
    "little memory without GPUs": ("a.sbatch", "#!/bin/bash\n#SBATCH --mem=500\n"),
    "weights that each rank loads": (
        "fsdp.yaml",
        "distributed_type: FSDP\nfsdp_config:\n  fsdp_cpu_ram_efficient_loading: false\n  "
        "fsdp_sync_module_states: false\n",
    ),
    "values that the trainer fills in": (
        "ds.json",
        '{"zero_optimization": {"stage": 3, "offload_param": {"device": "none"}}, "bf16": {"enabled": '
        '"auto"},\n "optimizer": {"params": {"lr": "auto", "eps": 1e-8}}}\n',
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
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=4 --exclusive\nsrun -c 8 python "
        "tokenize.py\n",
    ),
    "hosts of another MPI": ("a.sh", "export NCCL_DEBUG=INFO\nmpiexec.hydra -n 16 -hosts a,b python t.py\n"),
    "value that the environment has first": (
        "a.sh",
        ": ${MASTER_ADDR:=localhost}\nexport MASTER_ADDR\ntorchrun --nnodes 2 --node-rank $R --master-addr "
        "$MASTER_ADDR t.py\n",
    ),
    "virtual stages that come out": (
        "a.sh",
        "torchrun --nproc-per-node 8 pre.py --pipeline-model-parallel-size 4 --num-layers 24 "
        "--num-layers-per-virtual-pipeline-stage 3\n",
    ),
    "words of a ConfigMap that are no file": (
        "map.yaml",
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  notes.md: |\n    write {\n    distributed types: many\n  "
        "e.json: |\n    {}\n",
    ),
    "task of SkyPilot that counts itself": (
        "task.yaml",
        "num_nodes: 2\nresources:\n  accelerators: {A100: 8, H100: 8}\nrun: |\n  cd a\n  torchrun --nnodes "
        "$SKYPILOT_NUM_NODES --node-rank $SKYPILOT_NODE_RANK --nproc-per-node 8 --master-addr $a t.py\n",
    ),
    "one of several nodes": (
        "task.yaml",
        "num_nodes: 2\nresources:\n  accelerators: A100:8\nrun: |\n  cd a\n  torchrun --nnodes 1 "
        "--nproc-per-node 8 t.py\n",
    ),
    "rank that the pod takes from its labels": (
        "job.yaml",
        _PYTORCH_JOB.format(policy="")
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
"""File name and text."""

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
        _EXCLUSIVE_JOB.replace("exclusive", "cpus-per-task=8")
        + _STEP.replace("-c 8 ", "")
        + "export SRUN_CPUS_PER_TASK=8\n",
        Context(slurm_version="23.02.7"),
    ),
    ("variable-too-new", "a.sh", "export NCCL_RAS_ENABLE=1\n", Context(nccl_version="2.20.5")),
    (
        "nccl-version-faulty",
        "a.sh",
        "export TORCH_NCCL_USE_COMM_NONBLOCKING=1\n" + _RUN,
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
    ("connections-one", "a.sh", "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" + _RUN, Context(machine=MACHINE)),
    ("threads-too-many", "a.sh", "export OMP_NUM_THREADS=8\n" + _RUN, Context(machine=MACHINE)),
    ("machine-memlock", "a.sh", _TWO, Context(machine=MACHINE)),
    ("machine-shm", "a.sh", _RUN, Context(machine=MACHINE)),
]
"""Rule, file name, text and the versions or the machine that the rule needs."""
