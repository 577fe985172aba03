"""Short launch files without a mistake, in which lint reports nothing."""

from __future__ import annotations

RUN = "torchrun --standalone --nproc-per-node 8 train.py\n"

TWO = (
    "torchrun --nnodes 2 --node-rank $1 --nproc-per-node 8 --master-addr 10.0.0.1 --master-port 29500 "
    "train.py\n"
)

JOB = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n#SBATCH "
    "--exclusive\n"
)

TWO_NODES = "torchrun --nnodes 2 --node-rank $1 --nproc-per-node 8 --master-addr 10.0.0.1 train.py\n"

EXCLUSIVE_JOB = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive\n"

STEP = "srun -c 8 torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint $h:1 t.py\n"

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

ENV_POD = (
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n    - name: a\n      image: a:1\n"
    "      env:\n        - {{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}\n"
    '        - {{name: MASTER_ADDR, value: "{value}"}}\n'
)

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
    "log of each rank": JOB + "srun -c 8 bash -c 'python t.py > logs/$SLURM_PROCID.txt'\n",
    "parameters and variables of Open MPI": "mpirun -np 8 --mca coll_hcoll_enable 0 "
    "-x HCOLL_ENABLE_MCAST=0 a\n",
    "channels of ROCm": "export HIP_VISIBLE_DEVICES=0,1\nexport NCCL_MIN_NCHANNELS=112\n",
    "rank after an option that may be absent": JOB
    + 'X="$1"\nsrun -c 8 bash -c "torchrun ${X:+--p="${X}"} --nnodes 2 --nproc-per-node 8 '
    '--node-rank \\$SLURM_NODEID --master-addr $m --master-port $p t.py"\n',
    "branches that do not run": "NET=ib\nif [ $NET = ib ]; then\n  echo a\nelif [[ $NET == tcp ]]; then\n"
    "  export NCCL_IB_DISABLE=1\n  export MASTER_ADDR=127.0.0.1\nelse\n  export NCCL_SHM_DISABLE=1\nfi\n"
    + TWO,
    "cores and stacks of a CPU job": "#!/bin/bash\n#SBATCH --nodes=4\nulimit -s unlimited\n"
    "export OMP_NUM_THREADS=1\nmpirun --bind-to core -np 64 --hostfile hosts ./wrf.exe\n",
    "names of its own": "export NCCL_DEFAULT_IF=eth0\nexport NCCL_SOCKET_IFNAME=$NCCL_DEFAULT_IF\n",
    "names of Google's plugins": "export NCCL_USE_SNAP=1\n"
    "export NCCL_GPUVIZ_READ_INTERVAL_IN_MICROSECONDS=1\nexport NCCL_NET_PLUGIN_TELEMETRY_MODE=1\n",
    "names that only a newer NCCL no longer reads": "export NCCL_SHM_USE_CUDA_MEMCPY=1\n",
    "GPU of the only task": "#!/bin/bash\n#SBATCH --gpus-per-task=1 --cpus-per-task=8\npython t.py\n",
    "GPU of one task": "#!/bin/bash\n#SBATCH -n 1 --gpus-per-task=1\nsrun -c 8 python t.py\n",
    "GPU of a step of one task": JOB + "srun -n 1 -N 1 -c 8 --gpus-per-task=1 python eval.py\n",
    "a log for each rank": "#!/bin/bash\n#SBATCH --nodes=32 --ntasks-per-node=8 --gpus-per-node=8\n"
    "export NCCL_DEBUG=INFO\nsrun -c 8 --output=log-%j-%t.txt python t.py\n",
    "late requests to PBS": "#!/bin/bash\n#PBS -l select=2\ncd $PBS_O_WORKDIR\n"
    "#PBS -o $HOME/out\npython t.py\n",
    "cores that srun of today inherits": EXCLUSIVE_JOB.replace("exclusive", "cpus-per-task=8")
    + STEP.replace("-c 8 ", ""),
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
    "rank that the inner shell expands": JOB
    + 'srun -c 8 bash -c "torchrun --nnodes 2 --master-addr $m --node-rank \\$SLURM_NODEID t.py"\n',
    "rank of a script that the job writes": JOB
    + "cat > r.sh <<EOF\nsrun -c 8 torchrun --nnodes 2 --master-addr $m "
    "--node-rank \\$SLURM_NODEID t.py\nEOF\n",
    "rank that eval expands": "eval srun torchrun --nnodes 2 --master-addr $m --node-rank \\$SLURM_NODEID "
    "t.py\n",
    "rank that the other machine expands": "ssh h srun torchrun --nnodes 2 --master-addr $m --node-rank "
    "\\$SLURM_NODEID t.py\n",
    "level of vendors": "export NCCL_NET_GDR_LEVEL=PHB\n",
    "buffers that OCI publishes": "export NCCL_BUFFSIZE=16777216\n# BM.GPU\necho BM.GPU.B4.8\n",
    "local rank of the only task": JOB + "export LOCAL_RANK=$SLURM_LOCALID\nsrun -c 16 python t.py\n",
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
    "cluster of Ray": JOB
    + "srun --nodes=1 --ntasks=1 -w $h ray start --head --node-ip-address=$ip --port=6379 --block &\n"
    "srun --nodes=1 --ntasks=1 -w $w ray start --address=$ip:6379 --block &\n",
    "cluster of Ray in a shell": JOB
    + "srun -N1 -n1 -w $h bash -c 'ray start --head --port=6379; sleep infinity' &\n",
    "words of other languages": "#!/bin/bash\n#SBATCH --nodes=1  # \u2013 ein Knoten \u201ehier\u201c\n# "
    "caf\u00e9\u00a0noir\nexport GREETING='caf\u00e9 \u2013 noir'\necho \u201chi\u201d\n",
    "GPUs that deepspeed takes anyway": "CUDA_VISIBLE_DEVICES=0,1 deepspeed --num_gpus 2 t.py\n",
    "GPUs that deepspeed takes over": "export CUDA_VISIBLE_DEVICES=2,3\ndeepspeed t.py\n",
    "srun with deepspeed on an unknown number of nodes": "srun deepspeed --hostfile hosts t.py\n",
    "deepspeed without ssh": "deepspeed --hostfile hosts --no_ssh --node_rank $R --master_addr $m t.py\n",
    "slots that are enough": "horovodrun -np 8 -H a:4,b:4 python t.py\nmpirun -np 8 -H a:4,b:4 --bind-to "
    "none -x PATH t\n",
    "a script that finds its nodes": JOB + "export DLTS_HOSTFILE=/tmp/hostfile\npython deepy.py train.py\n",
    "stages that DeepSpeed cuts": "torchrun --nproc-per-node 8 pre.py --pipeline-model-parallel-size 8 "
    "--num-layers 30 --pp-partition-method 'type:transformer|embedding' --deepspeed\n",
    "rank in the container of a step": JOB
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
    "GPUs of another command": "CUDA_VISIBLE_DEVICES=0 python prep.py\n" + RUN,
    "GPUs of a later command": RUN + "CUDA_VISIBLE_DEVICES=0 python eval.py\n",
    "GPUs of what follows": RUN + "export CUDA_VISIBLE_DEVICES=0\npython eval.py\n",
    "GPUs of a subshell": "(export CUDA_VISIBLE_DEVICES=0; python prep.py)\n" + RUN,
    "GPUs of a function": "f() { export CUDA_VISIBLE_DEVICES=0; python eval.py; }\n" + RUN,
    "GPUs outside of a container": "export CUDA_VISIBLE_DEVICES=0\npython p.py\ndocker run --gpus all "
    "--ipc=host i " + RUN,
    "master of a test": "MASTER_ADDR=localhost MASTER_PORT=29501 python test.py\n" + TWO_NODES,
    "loopback of a test": "NCCL_SOCKET_IFNAME=lo python test.py\n" + TWO_NODES,
    "blocking launches of a test": "CUDA_LAUNCH_BLOCKING=1 python smoke.py && " + RUN,
    "measurement without peers": "NCCL_P2P_DISABLE=1 all_reduce_perf -g 8\nall_reduce_perf -g 8\n",
    "trial without peers": "NCCL_P2P_DISABLE=1 torchrun --nproc-per-node 8 small.py\n" + RUN,
    "peers turned off after all ranks": RUN + "export NCCL_P2P_DISABLE=1\n",
    "a pair that no command gets": "NCCL_IB_DISABLE=1 torchrun a.py\nNCCL_IB_HCA==mlx5_0 torchrun b.py\n",
    "a proxy of the installer": "https_proxy=http://p:1 pip install x\n" + RUN,
    "GPUs that are not bound": "#!/bin/bash\n#SBATCH -N 1 --ntasks-per-node=4 --gpus-per-task=1 "
    "--gpu-bind=none\nsrun -c 8 python train.py\n",
    "GPUs that the step does not bind": "#!/bin/bash\n#SBATCH -N 1 --ntasks-per-node=4 --gpus-per-task=1\n"
    "srun -c 8 --gpu-bind=none python train.py\n",
}
"""Settings that do not reach the command which they would harm."""

SOUND_FILES = {
    "variables that Kubernetes expands": ("pod.yaml", ENV_POD.format(value="$(POD_IP)")),
    "variables that another program fills in": (
        "pod.yaml",
        ENV_POD.format(value="$POD_IP").replace("a:1", "$IMAGE"),
    ),
    "variables of another text": ("pod.yaml", ENV_POD.format(value="$OTHER $$POD_IP")),
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
    "world size and local rank that match the job": (
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
    "binding of another MPI": (
        "a.sh",
        "export NCCL_DEBUG=INFO\nmpiexec -n 16 -hosts a,b -bind-to numa -map-by numa python t.py\n",
    ),
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
