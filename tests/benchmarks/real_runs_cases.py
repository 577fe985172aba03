"""Configurations of the transformer and of the residual network whose real runs are compared with predictions.

The first configurations of each list of transformers cover model, size, micro-batch, DDP and FSDP,
recomputation, precision and ranks, so that they represent the whole list.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from probes.bench.resnet import RESNET_50, SMALL, Resnet
from recipes.job.candidate import ActivationCheckpointing
from recipes.job.models.names import find_model
from recipes.job.workload import Precision, TransformerModel

Strategy = Literal["ddp", "fsdp"]


class Configuration(NamedTuple):
    """One real run of the transformer."""

    name: str
    model: TransformerModel
    ranks: int
    """Number of ranks; 0 for all ranks of the machine."""
    strategy: Strategy
    micro_batch: int
    checkpointing: ActivationCheckpointing = "none"
    precision: Precision = "bf16"
    sequence_length: int = 256
    grad_accum: int = 1


class Images(NamedTuple):
    """One real run of the residual network."""

    name: str
    network: Resnet
    ranks: int
    micro_batch: int
    image_size: int
    precision: Precision = "fp32"


def _model(model_id: str, layers: int, hidden: int, heads: int, **sizes: Any) -> TransformerModel:
    given = {
        "kv_heads": heads,
        "head_dim": hidden // heads,
        "ffn_hidden": 4 * hidden,
        "vocab": 8192,
        "sequence_length": 256,
    }
    return TransformerModel(
        id=model_id,
        title=model_id,
        layers=layers,
        hidden=hidden,
        heads=heads,
        **{**given, **sizes},
        source="benchmark",
        date="",
    )


MINI = find_model("rigtune-mini")
NARROW = _model("narrow", 8, 192, 6, ffn_hidden=512, vocab=2048)
WIDE = _model("wide", 3, 512, 8, ffn_hidden=1376)
GROUPED = _model("grouped", 6, 384, 6, kv_heads=2, ffn_hidden=1024)
PLAIN = _model(
    "plain",
    4,
    384,
    6,
    gated_mlp=False,
    norm="layernorm",
    bias=True,
    learned_positions=1024,
    tied_embeddings=True,
)

ON_CPU = (
    Configuration("mini-ddp-large", MINI, 0, "ddp", 16),
    Configuration("wide-fsdp", WIDE, 0, "fsdp", 4),
    Configuration("mini-one-full", MINI, 1, "ddp", 8, "full"),
    Configuration("narrow-ddp", NARROW, 0, "ddp", 8),
    Configuration("grouped-fsdp-full", GROUPED, 0, "fsdp", 8, "full"),
    Configuration("mini-one-fp32", MINI, 1, "ddp", 8, precision="fp32"),
    Configuration("wide-one", WIDE, 1, "ddp", 4),
    Configuration("mini-fsdp", MINI, 0, "fsdp", 8),
    Configuration("mini-ddp-long", MINI, 0, "ddp", 2, sequence_length=1024),
    Configuration("narrow-fsdp-fp32", NARROW, 0, "fsdp", 8, precision="fp32"),
    Configuration("plain-ddp", PLAIN, 0, "ddp", 8),
    Configuration("mini-ddp-small", MINI, 0, "ddp", 2),
    Configuration("mini-one", MINI, 1, "ddp", 4),
    Configuration("mini-one-large", MINI, 1, "ddp", 16),
    Configuration("mini-ddp-full", MINI, 0, "ddp", 8, "full"),
    Configuration("mini-ddp-fp32", MINI, 0, "ddp", 4, precision="fp32"),
    Configuration("mini-ddp-accumulated", MINI, 0, "ddp", 4, grad_accum=4),
    Configuration("mini-fsdp-full", MINI, 0, "fsdp", 16, "full"),
    Configuration("wide-ddp", WIDE, 0, "ddp", 8),
    Configuration("grouped-ddp", GROUPED, 0, "ddp", 4),
    Configuration("plain-fsdp-fp32", PLAIN, 0, "fsdp", 4, precision="fp32"),
)
DEEPER = Resnet(id="resnet-26", depths=(2, 2, 2, 2), width=32, classes=100)
IMAGES_ON_CPU = (
    Images("cnn-ddp", SMALL, 0, 32, 64),
    Images("deeper-one", DEEPER, 1, 16, 64),
    Images("cnn-one-large", SMALL, 1, 16, 128),
    Images("resnet50-ddp", RESNET_50, 0, 4, 96),
    Images("cnn-one", SMALL, 1, 8, 64),
    Images("cnn-ddp-large", SMALL, 0, 8, 128),
    Images("deeper-ddp", DEEPER, 0, 16, 96),
)

GPT2, LLAMA = find_model("gpt2"), find_model("llama-3.2-1b")
ON_GPU = (
    Configuration("gpt2-one", GPT2, 1, "ddp", 8, sequence_length=1024),
    Configuration("llama-one-full", LLAMA, 1, "ddp", 4, "full", sequence_length=4096),
    Configuration("gpt2-fsdp", GPT2, 0, "fsdp", 16, sequence_length=1024),
    Configuration("llama-ddp", LLAMA, 0, "ddp", 2, sequence_length=2048),
    Configuration("gpt2-one-fp32", GPT2, 1, "ddp", 4, precision="fp32", sequence_length=1024),
    Configuration("llama-fsdp-full", LLAMA, 0, "fsdp", 8, "full", sequence_length=4096),
    Configuration("gpt2-one-full", GPT2, 1, "ddp", 16, "full", sequence_length=1024),
    Configuration("gpt2-one-accumulated", GPT2, 1, "ddp", 4, sequence_length=512, grad_accum=4),
    Configuration("llama-one", LLAMA, 1, "ddp", 2, sequence_length=2048),
    Configuration("llama-one-fsdp", LLAMA, 1, "fsdp", 2, sequence_length=2048),
    Configuration("gpt2-ddp", GPT2, 0, "ddp", 8, sequence_length=1024),
    Configuration("llama-fsdp", LLAMA, 0, "fsdp", 4, sequence_length=2048),
)
IMAGES_ON_GPU = (
    Images("resnet50-one", RESNET_50, 1, 128, 224, "bf16"),
    Images("resnet50-one-fp32", RESNET_50, 1, 32, 176, "fp32"),
    Images("resnet50-ddp", RESNET_50, 0, 128, 224, "bf16"),
    Images("resnet50-ddp-large", RESNET_50, 0, 256, 160, "bf16"),
)


def chosen(on_gpu: bool, only: set[str], most: tuple[int | None, int | None]) -> list[Configuration | Images]:
    """Return the runs whose names are in `only`, or all runs if `only` is empty.

    Transformers come before residual networks. `most` is the largest number of runs of each of the two kinds.
    """
    kinds: tuple[tuple[Configuration | Images, ...], ...] = (
        (ON_GPU, IMAGES_ON_GPU) if on_gpu else (ON_CPU, IMAGES_ON_CPU)
    )
    named = [[run for run in kind if not only or run.name in only] for kind in kinds]
    return [run for kind, count in zip(named, most, strict=True) for run in kind[:count]]
