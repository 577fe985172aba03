"""Short configuration files with one mistake each, for the tests of lint."""

from __future__ import annotations

from tests.support.lint_sound_texts import ENV_POD, RUN

_POD = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: a:1\n"

_DEEPSPEED = "distributed_type: DEEPSPEED\nnum_machines: 1\ndeepspeed_config:\n"

CONFIGURATION_MISTAKES = [
    ("kubernetes-env-variable", "pod.yaml", ENV_POD.format(value="$POD_IP")),
    ("kubernetes-env-variable", "pod.yaml", ENV_POD.format(value="tcp://${POD_IP}:29500")),
    ("deepspeed-value", "ds.json", '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": "stage2"}\n'),
    ("deepspeed-value", "ds.json", '{"train_micro_batch_size_per_gpu": 1, "optimizer": "AdamW"}\n'),
    (
        "deepspeed-value",
        "ds.json",
        '{"train_micro_batch_size_per_gpu": 1, "activation_checkpointing": true}\n',
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
    (
        "container-gpus-fewer",
        "compose.yaml",
        "services:\n  a:\n    ipc: host\n    command: torchrun --nproc-per-node 4 t.py\n    deploy:\n      "
        "resources:\n        reservations:\n          devices:\n            - device_ids: ['0', '2']\n       "
        "       capabilities: [gpu]\n",
    ),
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
    ("variable-removed", "a.env", "NCCL_LL_THRESHOLD=0\n"),
    ("value-not-a-number", "a.env", "NCCL_P2P_DISABLE=true\n"),
    (
        "nccl-replaced",
        "Dockerfile",
        "FROM a:1\nRUN pip install torch\nRUN pip install nvidia-nccl-cu12==2.20.5\n",
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
    (
        "dockerfile-escaped-variable",
        "Dockerfile",
        "FROM a:1\nENV LD_LIBRARY_PATH=/opt/lib:\\$LD_LIBRARY_PATH\n",
    ),
    ("dockerfile-run-export", "Dockerfile", "FROM a:1\nRUN export NCCL_DEBUG=WARN\n"),
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
]
"""Rule, file name and text."""
