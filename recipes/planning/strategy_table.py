"""The strategies that planning tries, in this order. To add one, write its file and a row here."""

from __future__ import annotations

from probes.base.table_rows import Row

STRATEGIES: tuple[Row, ...] = (
    Row(
        id="ddp",
        title="Data parallel, every rank holds the whole model",
        module="recipes.planning.strategies.ddp",
    ),
    Row(id="fsdp", title="Fully sharded data parallel (FSDP2)", module="recipes.planning.strategies.fsdp"),
)
"""Each module has `candidates(workload, cluster, pins)`, which yields the candidates of its strategy."""
