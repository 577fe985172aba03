"""Rules on pods and on the blocks of Accelerate and DeepSpeed: mistakes and sound files."""

from __future__ import annotations

import pytest

from tests.support.linting import rule_ids


def ids(name: str, text: str) -> set[str]:
    return set(rule_ids(name, text))


POD = """\
apiVersion: {api}
kind: {kind}
spec:
  template:
    spec:
      containers:
        - name: pytorch
          image: lab/train:1
          resources:
            limits:
              nvidia.com/gpu: {gpus}
{more}"""
MOUNT = """\
          volumeMounts:
            - {name: shm, mountPath: /dev/shm}
      volumes:
        - name: shm
          emptyDir: %s
"""


def pod(*, kind: str = "Job", gpus: str = "8", more: str = "") -> str:
    return POD.format(api="v1", kind=kind, gpus=gpus, more=more)


@pytest.mark.parametrize(
    ("kind", "gpus", "more", "is_reported"),
    [
        ("Deployment", "8", "", True),
        ("RayCluster", "8", "", False),
        ("Job", "1", "", False),
        ("Job", "8", MOUNT % "{medium: Memory}", False),
        ("Job", "8", MOUNT % "{medium: Memory, sizeLimit: 64Gi}", False),
        ("Job", "8", MOUNT % "{medium: Memory, sizeLimit: 128Mi}", True),
        ("Job", "8", MOUNT % "{}", True),
        ("Job", "8", (MOUNT % "x").replace("emptyDir: x", "hostPath: {path: /dev/shm}"), False),
        ("Job", "8", "      hostIPC: true\n", False),
    ],
)
def test_shared_memory_of_a_pod(kind: str, gpus: str, more: str, *, is_reported: bool) -> None:
    assert ("kubernetes-shm" in ids("job.yaml", pod(kind=kind, gpus=gpus, more=more))) is is_reported


@pytest.mark.parametrize(
    ("limits", "is_reported"),
    [("memory: 1Gi", True), ("nvidia.com/gpu: 4", True), ("nvidia.com/gpu: 8", False)],
)
def test_gpus_are_limits(limits: str, *, is_reported: bool) -> None:
    text = pod().replace("limits:\n              nvidia.com/gpu: 8", f"limits:\n              {limits}")
    text += "            requests:\n              nvidia.com/gpu: 8\n"
    assert ("kubernetes-gpu-limit" in ids("job.yaml", text)) is is_reported


def test_a_patch_that_requests_gpus_is_no_pod() -> None:
    text = pod().replace("          image: lab/train:1\n", "").replace("limits:", "requests:")
    assert "kubernetes-gpu-limit" not in ids("patch.yaml", text)


RANKED = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: {replicas}
      template:
        spec:
          containers:
            - name: pytorch
              image: lab/train:1
              env:
                - {{name: RANK_OF_NODE, value: "1"}}
              command: [{command}]
"""


@pytest.mark.parametrize(
    ("replicas", "words", "is_reported"),
    [
        (2, "torchrun, --nnodes=3, --node_rank=1, train.py", True),
        (1, "torchrun, --nnodes=2, --node_rank=1, train.py", False),
        (2, "torchrun, --nnodes=1, --node_rank=0, train.py", False),
        (2, "torchrun, --nnodes=3, --node_rank=$(RANK), train.py", False),
        (2, "python, -m, sglang.launch_server, --nnodes, '3'", False),
    ],
)
def test_a_rank_for_all_replicas(replicas: int, words: str, *, is_reported: bool) -> None:
    assert (
        "kubernetes-rank-fixed" in ids("job.yaml", RANKED.format(replicas=replicas, command=words))
    ) is is_reported


@pytest.mark.parametrize(
    ("words", "is_reported"),
    [
        ("torchrun, --nnodes=3, --node_rank=$RANK_OF_NODE, train.py", True),
        ('torchrun, --nnodes=3, "--node_rank=${RANK_OF_NODE}", train.py', True),
        ("torchrun, --nnodes=3, --node_rank=$(RANK_OF_NODE), train.py", False),
        ("bash, -c, torchrun --nnodes=3 --node_rank=$RANK_OF_NODE train.py", False),
        ("torchrun, --nnodes=$NODES, train.py", False),
    ],
)
def test_variables_in_a_list(words: str, *, is_reported: bool) -> None:
    assert (
        "kubernetes-list-variable" in ids("job.yaml", RANKED.format(replicas=2, command=words))
    ) is is_reported


def test_a_macvlan_with_addresses_is_sound() -> None:
    text = (
        "kind: NetworkAttachmentDefinition\nmetadata:\n  annotations:\n    res: "
        "rdma/hca_shared_devices_a\nspec:\n"
        '  config: \'{"type": "macvlan", "ipam": {"type": "whereabouts"}}\'\n'
    )
    assert ids("nad.yaml", text) == set()


def test_disabled_peers_of_one_gpu_are_no_mistake() -> None:
    more = '          env:\n            - {name: NCCL_P2P_DISABLE, value: "1"}\n'
    assert ["p2p-disabled" in ids("job.yaml", pod(gpus=gpus, more=more)) for gpus in ("1", "8")] == [
        False,
        True,
    ]


CONFIG = (
    "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: 8\n"
    "deepspeed_config:\n"
)


@pytest.mark.parametrize(
    ("block", "more", "rule"),
    [
        ("  deepspeed_config_file: ds.json\n  zero_stage: 3\n", "", "accelerate-deepspeed-twice"),
        ("  deepspeed_config_file: ds.json\n", "mixed_precision: bf16\n", "accelerate-deepspeed-twice"),
        ("  zero_stage: 3\n  zero_optimization:\n    stage: 3\n", "", "accelerate-deepspeed-own"),
    ],
)
def test_settings_in_the_wrong_file(block: str, more: str, rule: str) -> None:
    assert ids("a.yaml", CONFIG + block + more) == {rule}


@pytest.mark.parametrize(
    "block", ["  zero_stage: 3\n  zero3_init_flag: true\n", "  deepspeed_config_file: ds.json\n"]
)
def test_sound_blocks(block: str) -> None:
    assert ids("a.yaml", CONFIG + block) == set()


def test_an_unknown_compute_environment() -> None:
    assert ids("a.yaml", CONFIG.replace("LOCAL_MACHINE", "MULTI_MACHINE") + "  zero_stage: 2\n") == {
        "accelerate-type"
    }


@pytest.mark.parametrize(
    ("count", "is_reported"),
    [
        ("4  # GPUs per machine", True),
        ("8  # GPUs of all nodes", False),
        ("# total\nnum_processes: 8", False),
        ("16", False),
    ],
)
def test_comments_state_the_meaning_of_a_number(count: str, *, is_reported: bool) -> None:
    line = count if "\n" in count else f"num_processes: {count}"
    text = f"distributed_type: MULTI_GPU\nnum_machines: 2\n{line}\nmain_process_ip: 10.1.0.1\n"
    assert ("accelerate-processes" in ids("a.yaml", text)) is is_reported


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('{"zero_optimization": {"stage": 3}, "offload_param": {"device": "cpu"}}', {"deepspeed-misplaced"}),
        ('{"zero_optimization": {"stage": 2, "overlap_com": true}}', {"deepspeed-zero-key"}),
        ('{"zero_optimization": {"stage": 2, "overlap_comm": true, "_note": "x"}, "_comment": "y"}', set()),
    ],
)
def test_misplaced_and_misspelt_keys_of_zero_are_found(text: str, rules: set[str]) -> None:
    assert ids("ds.json", text) == rules


@pytest.mark.parametrize(
    ("api", "is_reported"),
    [
        ("batch/v1", True),
        ("jobset.x-k8s.io/v1alpha2", True),
        ("example.io/v1", False),
        ("kubeflow.org/v1", False),
    ],
)
def test_an_operator_may_set_the_rendezvous(api: str, *, is_reported: bool) -> None:
    command = "[torchrun, --nnodes=4, t.py]"
    text = f"apiVersion: {api}\nkind: Run\nspec:\n  containers:\n    - name: a\n      command: {command}\n"
    assert ("torchrun-nowhere" in ids("job.yaml", text)) is is_reported


@pytest.mark.parametrize(
    ("block", "is_reported"),
    [
        ("fsdp_version: 2\n  fsdp_reshard_after_forward: FULL_SHARD", True),
        ("fsdp_version: 2\n  fsdp_reshard_after_forward: 'true'", False),
        ("fsdp_version: 2\n  fsdp_sharding_strategy: none", False),
        ("fsdp_sharding_strategy: hybrid_shard", False),
        ("fsdp_sharding_strategy: '1'", False),
        ("fsdp_sharding_strategy: 1", False),
        ("fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAPPING", True),
        ("auto_wrap_policy: always", True),
        ("fsdp_state_dict_type: ${TYPE}", False),
        ("fsdp_backward_prefetch: null", False),
    ],
)
def test_words_of_fsdp(block: str, *, is_reported: bool) -> None:
    text = f"distributed_type: FSDP\nnum_machines: 1\nfsdp_config:\n  {block}\n"
    assert ("accelerate-fsdp-word" in ids("fsdp.yaml", text)) is is_reported
