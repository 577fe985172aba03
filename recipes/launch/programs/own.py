"""The user's own torch program, which reads the plan from its arguments or from `RIGTUNE_RECIPE`."""

from recipes.launch.program_files import ProgramFiles, own_words, torch_agent
from recipes.launch.recipe import Recipe, program_arguments


def write(recipe: Recipe) -> ProgramFiles:
    """Return the user's command with placeholders filled in. Raises UsageError for an unknown placeholder."""
    return ProgramFiles(words=own_words(recipe, program_arguments(recipe)), agent=torch_agent(recipe))
