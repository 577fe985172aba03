"""The ordered tables of strategies and launchers. To add one, write a file and a row here."""

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

LAUNCHERS: tuple[Row, ...] = (
    Row(id="torchrun", title="torchrun on one or several nodes", module="recipes.launch.launchers.torchrun"),
    Row(id="slurm", title="Slurm, one torchrun per node", module="recipes.launch.launchers.slurm"),
    Row(id="mpi", title="mpirun of Open MPI, MPICH or Intel MPI", module="recipes.launch.launchers.mpi"),
)
"""Each module has two pure functions:

- `render(recipe: Recipe) -> tuple[Artifact, ...]` returns the files of the export folder; the first file is
  the one to start.
- `start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]` returns the command that
  starts them from the absolute path of that folder, with extra arguments for the program.

Both raise UsageError if the recipe does not allow it.
"""
