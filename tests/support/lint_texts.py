"""Short launch files with one mistake each, for the tests of lint."""

from __future__ import annotations

from tests.support.lint_sound_texts import ENV_POD, RUN, TWO

_BATCH = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n#SBATCH "
    "--exclusive\n"
)

_POD = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: a:1\n"

_DEEPSPEED = "distributed_type: DEEPSPEED\nnum_machines: 1\ndeepspeed_config:\n"

MISTAKES = [
    ("kubernetes-env-variable", "pod.yaml", ENV_POD.format(value="$POD_IP")),
    ("kubernetes-env-variable", "pod.yaml", ENV_POD.format(value="tcp://${POD_IP}:29500")),
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
    ("skypilot-gpus-fewer", "task.yaml", "resources:\n  accelerators: L40S:2\nrun: |\n  cd a\n  " + RUN),
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
    ("variable-misspelt", "a.sh", ": ${NCCL_SOKET_IFNAME:=eth0}\nexport NCCL_SOKET_IFNAME\n" + RUN),
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
    ("container-gpus-fewer", "a.sh", "docker run --gpus '\"device=2,3\"' --ipc=host img " + RUN),
    (
        "container-gpus-fewer",
        "a.sh",
        "docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0 --ipc=host img " + RUN,
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
    ("variable-not-exported", "a.sh", "NCCL_ASYNC_ERROR_HANDLING=1\n" + RUN),
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
    ("variable-twice", "a.sh", "export NCCL_CROSS_NIC=0\nexport NCCL_CROSS_NIC=2\n" + RUN),
    ("variable-not-exported", "a.sh", "NCCL_DEBUG=WARN\n" + RUN),
    ("gloo-interface-prefix", "a.sh", "export GLOO_SOCKET_IFNAME=eth\n"),
    ("interface-is-an-hca", "a.sh", "export NCCL_SOCKET_IFNAME=mlx5_0\n"),
    ("interface-loopback", "a.sh", "export NCCL_SOCKET_IFNAME=lo\n" + TWO),
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
    ("container-bridge-network", "a.sh", "docker run --gpus all --ipc=host img:1 " + TWO),
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
    ("limit-memlock", "a.sh", "ulimit -l 64\n" + RUN),
    ("service-stopped", "a.sh", "systemctl disable --now nvidia-fabricmanager\n"),
    ("mig-slices", "a.sbatch", "#!/bin/bash\n#SBATCH --gres=gpu:a100_1g.5gb:4\n" + RUN.replace("8", "4")),
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
