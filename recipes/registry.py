"""The ordered tables of strategies and launchers. A new one is a file and a row here."""

from __future__ import annotations

from probes.registry import Row

STRATEGIES: tuple[Row, ...] = (
    Row(id="ddp", title="Data parallel, every rank holds the whole model", module="recipes.strategies.ddp"),
    Row(id="fsdp", title="Fully sharded data parallel (FSDP2)", module="recipes.strategies.fsdp"),
)

LAUNCHERS: tuple[Row, ...] = (
    Row(id="torchrun", title="torchrun on one or several nodes", module="recipes.launchers.torchrun"),
    Row(id="slurm", title="Slurm, one torchrun per node", module="recipes.launchers.slurm"),
)
"""Each module has `render(recipe: Recipe) -> tuple[Artifact, ...]`; the first artifact is the one to start."""
