"""Run the training step: one optimizer step on synthetic data, without measuring it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from .model import ModelShape
from .parallel import build_model
from .rigtune_helper import CHOICES, Plan, Run

ALPHABET = 64
STRIDES = (1, 3, 5, 7)
"""Strides coprime to the alphabet, so that every walk visits all of it."""


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """A training job with the settings of the recipe."""

    model: ModelShape
    strategy: str = "ddp"
    micro_batch: int = 1
    """Sequences per rank and forward pass."""
    grad_accum: int = 1
    """Forward and backward passes per optimizer step."""
    global_batch: int | None = None
    """Sequences per optimizer step over all ranks; checked if given."""
    dp: int | None = None
    """Copies of the parameters, for the strategy `hsdp`; None to derive them from `fsdp`."""
    fsdp: int | None = None
    """Ranks that share one copy of the parameters, for the strategy `hsdp`; None to derive them from `dp`."""
    activation_checkpointing: str = "none"
    precision: str = "bf16"
    bucket_mb: int | None = None
    """MiB of gradients that DDP sends together; None for the default."""
    prefetch: int | None = None
    """Layers whose parameters FSDP gathers in advance; None for the default, the next layer."""
    learning_rate: float = 1e-3
    warmup_steps: int = 0
    steps: int = 50
    schedule: str = "cosine"
    """Learning rate after the warm-up: `constant`, `cosine`, `linear`, or `wsd` (constant, then linear)."""
    final_share: float = 0.1
    """Learning rate at the end of the run, relative to the peak."""
    decay_share: float = 0.0
    """Part of the run in which the rate falls, for `wsd`."""
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.1
    """The defaults of the betas and of the weight decay are from GPT-3 (arXiv 2005.14165, appendix B)."""
    gradient_clipping: float = 0.0
    """Largest norm of the gradient; 0 if gradients are not clipped."""
    device: str = "cpu"
    backend: str = "gloo"

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainConfig:
        """Return the job in `{"model": ..., "parallelism": ..., "convergence": ..., "resources": ...}`.

        Keys that training does not need (nodes, time limits ...) are ignored. Raises ValueError.
        """
        names = {field.name for field in dataclasses.fields(cls)} - {"model"}
        fields: dict[str, Any] = {}
        for section in ("parallelism", "convergence", "resources"):
            part = values.get(section, {})
            if not isinstance(part, dict):
                raise ValueError(f"{section} must be an object")
            fields.update({name: value for name, value in part.items() if name in names})
        if not isinstance(values.get("model"), dict):
            raise ValueError("model is missing")
        config = cls(model=ModelShape.from_dict(values["model"]), **fields)
        config.check()
        return config

    def check(self) -> None:
        for name, least in (("micro_batch", 1), ("grad_accum", 1), ("warmup_steps", 0), ("steps", 1)):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < least:
                raise ValueError(
                    f"{name} must be a whole number of at least {least}, not {getattr(self, name)!r}"
                )
        for name in ("bucket_mb", "prefetch", "dp", "fsdp"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
        if not isinstance(self.learning_rate, (int, float)) or not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate must be a positive number, not {self.learning_rate!r}")
        for name, most in (
            ("final_share", 1),
            ("decay_share", 1),
            ("beta1", 1),
            ("beta2", 1),
            ("weight_decay", math.inf),
            ("gradient_clipping", math.inf),
        ):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 <= value <= most:
                raise ValueError(f"{name} must be a number from 0 to {most}, not {value!r}")
        choices = {
            **{name: CHOICES[name] for name in ("strategy", "activation_checkpointing", "schedule")},
            "precision": ("bf16", "fp32"),
            "device": ("cuda", "cpu"),
            "backend": ("nccl", "gloo"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be {listed(allowed)}, not {getattr(self, name)!r}")

    def sharing_ranks(self, world_size: int) -> int:
        """Return the number of ranks that share one copy of the parameters. Raises ValueError.

        With `hsdp` the ranks form several groups, and each group has one copy.
        """
        if self.strategy != "hsdp":
            return world_size if self.strategy == "fsdp" else 1
        ranks = self.fsdp or world_size // max(1, self.dp or 1)
        if (
            ranks < 2
            or ranks >= world_size
            or world_size % ranks
            or self.dp not in (None, world_size // ranks)
        ):
            raise ValueError(
                f"strategy hsdp needs several groups of several ranks, but {world_size} ranks cannot form "
                f"dp {self.dp} groups of fsdp {self.fsdp} ranks"
            )
        return ranks

    def check_world_size(self, world_size: int) -> None:
        """Raise ValueError if the actual global batch differs from the requested global batch.

        The global batch affects convergence.
        """
        self.sharing_ranks(world_size)
        actual = self.micro_batch * self.grad_accum * world_size
        if self.global_batch is not None and self.global_batch != actual:
            raise ValueError(
                f"global_batch is {self.global_batch}, but micro_batch {self.micro_batch} x grad_accum "
                f"{self.grad_accum} "
                f"x world size {world_size} = {actual}"
            )


def listed(words: tuple[str, ...]) -> str:
    """Return the words as a choice: `ddp, fsdp or hsdp`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def synthetic_batch(
    first: int, count: int, length: int, vocab: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return inputs and targets [count, length] of sequences `first` to `first + count - 1`.

    The data need no files or downloads and are the same on every machine. A sequence depends only on its
    number, so that a global batch is the same data for any number of ranks. Every sequence walks over a small
    alphabet with its own start and stride. A model first learns the symbols that occur (the loss falls from
    ln(vocab) to ln(alphabet)), then the four strides (ln 4), then to detect the stride in the context (0).
    """
    numbers = torch.arange(first, first + count, dtype=torch.int64)
    alphabet = min(ALPHABET, vocab)
    start = scramble(numbers) % alphabet
    # Strides alternate from sequence to sequence, so that small batches are as balanced as large batches.
    stride = torch.tensor(STRIDES)[numbers % len(STRIDES)]
    steps = torch.arange(length + 1, dtype=torch.int64)
    symbols = (start[:, None] + stride[:, None] * steps) % alphabet
    tokens = (symbols * (vocab // alphabet)).to(device, non_blocking=True)
    return tokens[:, :-1], tokens[:, 1:]


def scramble(numbers: Tensor) -> Tensor:
    """Return non-negative pseudo-random integers from counters: two rounds of multiply and xor-shift."""
    mixed = numbers + 1
    for factor in (0x45D9F3B, 0x119DE1F3):
        mixed = (mixed ^ (mixed >> 16)) * factor & 0xFFFFFFFF
    return mixed ^ (mixed >> 16)


class Trainer:
    """Model, optimizer and data of one rank. The process group must exist."""

    def __init__(self, config: TrainConfig, device: torch.device) -> None:
        self.config, self.device = config, device
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        config.check_world_size(self.world_size)
        shards = config.sharing_ranks(self.world_size)
        sizes = {"dp": self.world_size // shards, "fsdp": shards}
        plan = Plan(**{**vars(config), **sizes, "optimizer": "adamw"})
        self.model = build_model(config.model, plan, device)
        self.model.train()
        # Unlike the helper's groups, weight decay applies to all parameters.
        group = {"params": list(self.model.parameters()), "weight_decay": config.weight_decay}
        self.optimizer = plan.make_optimizer([group])
        self.run = Run(plan, self.model, self.optimizer, device, self.loss_of)
        self.run.measures_norm = False

    @property
    def tokens_per_step(self) -> int:
        """Return the tokens of a step over all ranks."""
        config = self.config
        return config.micro_batch * config.grad_accum * self.world_size * config.model.sequence_length

    def step(self, index: int) -> Tensor:
        """Run forward, backward and the optimizer over this rank's share of a global batch.
        Return the loss of this share.
        """
        self.run.step = index
        shape, count = self.config.model, self.config.micro_batch
        batches = (
            synthetic_batch(first, count, shape.sequence_length, shape.vocab, self.device)
            for first in self.run.samples(index)[::count]
        )
        return self.run.train_step(batches)[0]

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return self.run.forward((inputs, targets))

    def loss_of(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        inputs, targets = batch
        return F.cross_entropy(model(inputs).float().flatten(0, 1), targets.flatten())

    def reduction(self, *, last: bool) -> contextlib.AbstractContextManager[Any]:
        """Return the context for a micro-batch, which decides when gradients are exchanged."""
        return self.run.reduction(last=last)
