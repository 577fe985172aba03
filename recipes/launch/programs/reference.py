"""rigtune's reference workload, whose files travel with the launch script."""

from recipes.launch.program_files import ProgramFiles, torch_agent
from recipes.launch.recipe import Recipe, program_arguments
from recipes.launch.reference_files import CONFIG, PACKAGE, reference_files


def write(recipe: Recipe) -> ProgramFiles:
    """Return the command and source of the reference workload. Raises UsageError for unknown placeholders."""
    return ProgramFiles(
        words=("-m", f"{PACKAGE}.train", "--config", CONFIG, *program_arguments(recipe)),
        agent=torch_agent(recipe),
        files=reference_files(recipe),
        runs_in_folder=True,
        ends_with_parent=True,
    )
