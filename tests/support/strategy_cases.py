"""Jobs and machines for which strategies are judged."""

from __future__ import annotations

from typing import Any

import msgspec

from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.job.workload import TransformerModel
from recipes.machine.from_words import MachineWords, cluster_from_words
from recipes.planning.planner import default_workload, make_plan
from recipes.planning.programs import program_named
from recipes.strategies.strategy_table import strategy_named
from recipes.strategies.verdicts import Situation, Verdict
from recipes.strategies.why_not import verdict
from tests.support.machines import h100_node, with_gpus

SLOW = "10 Gb/s Ethernet"
FAST = "8x400G IB"
DDP = Pins(strategy="ddp")


def situation(
    model: str | TransformerModel,
    *,
    nodes: int = 1,
    per_node: int = 8,
    network: str = FAST,
    gpu: str = "H100",
    program: str = "own",
    facts: MachineFacts = MachineFacts(),  # noqa: B008 - frozen
    pins: Pins = Pins(),  # noqa: B008 - frozen
    **job: Any,
) -> Situation:
    """Return the plan of a job on nodes of one GPU; `network` is the network of a node in words."""
    words = MachineWords(gpu=gpu, gpus=nodes * per_node, gpus_per_node=per_node, inter=network)
    cluster = cluster_from_words(words, load_catalogue())
    row = find_model(model) if isinstance(model, str) else model
    workload = default_workload(row, cluster, program=program_named(program), **job)
    plan = make_plan(workload, cluster, facts, pins, program=program_named(program))
    return Situation(plan, facts, pins)


def judged(strategy: str, model: str | TransformerModel, **here: Any) -> Verdict:
    """Return the verdict on a strategy."""
    return verdict(strategy_named(strategy), situation(model, **here))


def model_of_tables() -> TransformerModel:
    """Return a model whose weights are nearly all in large tables, and which computes little."""
    return msgspec.structs.replace(
        find_model("gpt2"),
        id="tables",
        layers=2,
        vocab=1_000_000,
        head_outputs=1000,
        tied_embeddings=False,
        learned_positions=0,
    )


def uneven_node() -> MachineFacts:
    """Return a node of which half of the GPUs are A100 and half H100."""
    return with_gpus(h100_node(), 0, 1, 2, 3, name="NVIDIA A100-SXM4-80GB")


RECOMMENDED: dict[str, dict[str, Any]] = {
    "ddp": {"model": "gpt2"},
    "zero1": {"model": "llama-3-8b", "program": "megatron", "nodes": 2},
    "zero2": {"model": "llama-3-8b", "program": "deepspeed", "nodes": 2, "network": SLOW},
    "fsdp": {"model": "llama-3-8b"},
    "hsdp": {"model": "llama-3-8b", "nodes": 2, "network": SLOW},
    "tensor-parallel": {"model": "llama-3-8b", "program": "megatron", "nodes": 2, "network": SLOW},
    "pipeline-parallel": {"model": "llama-3-70b", "program": "megatron", "nodes": 8},
    "context-parallel": {
        "model": "llama-3-8b",
        "program": "megatron",
        "nodes": 2,
        "sequence_length": 131072,
        "global_batch": 16,
    },
    "expert-parallel": {"model": "mixtral-8x7b", "program": "megatron", "nodes": 4},
    "parameter-server": {"model": "gpt2", "facts": uneven_node()},
    "async-sgd": {"model": "gpt2", "facts": uneven_node()},
    "local-sgd": {"model": "llama-3.2-1b", "nodes": 2, "network": SLOW, "pins": DDP},
    "post-local-sgd": {"model": "llama-3.2-1b", "nodes": 2, "network": SLOW, "pins": DDP},
    "diloco": {"model": "llama-3-8b", "nodes": 2, "network": SLOW},
    "bf16-compression": {"model": "llama-3-8b", "nodes": 2, "network": SLOW},
    "fp16-compression": {"model": "llama-3.2-1b", "nodes": 2, "network": SLOW, "pins": DDP},
    "powersgd": {"model": "llama-3.2-1b", "nodes": 2, "network": SLOW, "pins": DDP},
    "hierarchical-all-reduce": {
        "model": "gpt2",
        "program": "megatron",
        "nodes": 512,
        "global_batch": 4096,
        "pins": Pins(strategy="zero1", tp=1, pp=1),
    },
    "horovod-fusion": {
        "model": model_of_tables(),
        "program": "horovod",
        "nodes": 2,
        "network": "100 Gb/s Ethernet",
        "global_batch": 16,
        "sequence_length": 128,
        "pins": DDP,
    },
    "horovod-cycle-time": {
        "model": "gpt2",
        "program": "horovod",
        "nodes": 2,
        "network": "100 Gb/s Ethernet",
        "global_batch": 16,
    },
    "tf-mirrored": {"model": "gpt2", "program": "tensorflow"},
    "tf-multi-worker-mirrored": {"model": "gpt2", "program": "tensorflow", "nodes": 2},
    "tf-parameter-server": {"model": "gpt2", "program": "tensorflow", "facts": uneven_node()},
    "mig": {"model": "gpt2", "per_node": 1, "sequence_length": 128, "global_batch": 4},
}
"""A job for each strategy that rigtune chooses or calls worth an experiment there; DataParallel never is."""

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "data-parallel": ({"model": "gpt2"}, "copies 475 MiB of weights to 7 GPUs"),
    "ddp": ({"model": "llama-3-8b"}, "needs 184.8 GiB of 78.5 GiB"),
    "zero1": ({"model": "llama-3-8b"}, "has no setting for it; offered by DeepSpeed"),
    "zero2": ({"model": "gpt2", "program": "deepspeed", "nodes": 2, "network": SLOW}, "56.4 % longer"),
    "fsdp": ({"model": "llama-3-8b", "nodes": 2, "network": SLOW}, "10 min 41 s per step, 682 % longer"),
    "hsdp": ({"model": "gpt2"}, "no layout with strategy hsdp"),
    "tensor-parallel": ({"model": "gpt2"}, "does not divide layers"),
    "pipeline-parallel": ({"model": "gpt2"}, "266 ms per step against 241 ms"),
    "context-parallel": ({"model": "gpt2", "program": "megatron"}, "no layout with cp 2"),
    "expert-parallel": ({"model": "llama-3-8b", "program": "megatron"}, "llama-3-8b has no experts"),
    "parameter-server": ({"model": "gpt2"}, "waits 0 % of the step"),
    "async-sgd": ({"model": "llama-3-8b"}, "the plan is fsdp"),
    "local-sgd": ({"model": "gpt2"}, "exposed communication is 0.144 % of the step (346 µs of 241 ms)"),
    "post-local-sgd": ({"model": "llama-3-8b", "nodes": 2, "network": SLOW}, "cannot train alone"),
    "diloco": ({"model": "llama-3-8b"}, "there is one node"),
    "bf16-compression": ({"model": "gpt2"}, "this can win at most 0.144 %"),
    "fp16-compression": (
        {"model": "llama-3-8b", "program": "megatron", "nodes": 2},
        "offered by your own torch program",
    ),
    "powersgd": ({"model": "llama-3-8b", "nodes": 2, "network": SLOW}, "the plan is hsdp"),
    "hierarchical-all-reduce": ({"model": "llama-3.2-1b", "nodes": 2, "pins": DDP}, "in two levels"),
    "horovod-fusion": ({"model": "gpt2"}, "offered by Horovod"),
    "horovod-cycle-time": (
        {"model": "gpt2", "program": "horovod", "nodes": 2, "global_batch": 512},
        "no multiple up to 50 is faster",
    ),
    "tf-mirrored": ({"model": "gpt2", "program": "tensorflow", "nodes": 2}, "the plan uses 2"),
    "tf-multi-worker-mirrored": ({"model": "gpt2", "program": "tensorflow"}, "the plan uses 1"),
    "tf-parameter-server": ({"model": "gpt2"}, "offered by TensorFlow"),
    "mig": ({"model": "gpt2"}, "the job uses 8 GPUs together"),
}
"""A job for each strategy for which rigtune advises against it, with a part of the stated reason."""
