"""The recipe's settings inside the arguments of the user's own program: `--batch {micro_batch}`."""

from __future__ import annotations

import re

from probes.base.errors import UsageError
from recipes.launch.recipe import Recipe

PLACEHOLDERS = (
    "micro_batch",
    "grad_accum",
    "global_batch",
    "learning_rate",
    "warmup_steps",
    "steps",
    "sequence_length",
)

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def settings(recipe: Recipe) -> dict[str, str]:
    """Return the value of every placeholder."""
    parallelism, convergence = recipe.parallelism, recipe.convergence
    values = (
        parallelism.micro_batch,
        parallelism.grad_accum,
        parallelism.global_batch,
        convergence.learning_rate,
        convergence.warmup_steps,
        convergence.steps,
        recipe.model.sequence_length,
    )
    return dict(zip(PLACEHOLDERS, map(repr, values), strict=True))


def expand(argument: str, values: dict[str, str]) -> str:
    """Return `argument` with its placeholders filled in; `{{` and `}}` stand for braces.

    Raises UsageError for any other brace.
    """

    def fill(match: re.Match[str]) -> str:
        token, name = match.group(0), match.group(1)
        if token in ("{{", "}}"):
            return token[0]
        if name in values:
            return values[name]
        what = f"no placeholder {token[:60]}" if name is not None else "no partner for a brace"
        raise UsageError(
            f"argument {argument[:120]!r}: there is {what}",
            f"placeholders: {', '.join('{' + known + '}' for known in values)}; "
            "write {{ and }} for plain braces",
        )

    return _TOKEN.sub(fill, argument)


def program_arguments(recipe: Recipe) -> tuple[str, ...]:
    """Return the arguments of the recipe's command, filled in. Raises UsageError."""
    values = settings(recipe)
    return tuple(expand(argument, values) for argument in recipe.command.arguments)
