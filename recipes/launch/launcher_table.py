"""The launchers to which a recipe can be exported. To add a launcher, write its file and a row here."""

from probes.base.table_rows import Row

LAUNCHERS: tuple[Row, ...] = (
    Row(id="torchrun", title="torchrun on one or several nodes", module="recipes.launch.launchers.torchrun"),
    Row(id="slurm", title="Slurm, one torchrun per node", module="recipes.launch.launchers.slurm"),
    Row(id="mpi", title="mpirun of Open MPI, MPICH or Intel MPI", module="recipes.launch.launchers.mpi"),
)
"""Each module has two pure functions:

- `render(recipe: Recipe) -> tuple[Artifact, ...]` returns the files of the export folder; the first file
  starts the job.
- `start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]` returns the command that
  starts them from the absolute path of that folder, with extra arguments for the program.

Both raise UsageError if the recipe cannot be exported to this launcher.
"""
