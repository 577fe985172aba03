"""Variables with which NCCL and torch write a log and a dump for each process."""

import functools

from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from probes.base.versions import at_least, numbers_of
from recipes.launch.recipe import Recipe


class LogVariable(StrictRecord, kw_only=True):
    """One variable of `recipes/data/rank_logs.toml`."""

    name: str
    value: str
    why: str = ""
    torch_since: str = ""
    torch_until: str = ""
    """First version of torch that does not read this name."""
    source: str
    date: str


@functools.lru_cache(maxsize=1)
def load_log_variables() -> tuple[LogVariable, ...]:
    """Return all rows in the file's order."""
    return load_rows("recipes", "variables", LogVariable, file="rank_logs")


def log_variables(recipe: Recipe) -> tuple[LogVariable, ...]:
    """Return the variables for the recipe's backend and version of torch.

    A job on gloo needs none, nccl-tests needs none of torch's, and a variable that the recipe sets is left
    out. If torch is unknown, both names of a renamed variable are returned.
    """
    stated = {variable.name for variable in recipe.environment}
    torch = recipe.made_for.torch if recipe.made_for is not None else ""
    if recipe.resources.backend != "nccl":
        return ()
    is_torch = recipe.command.kind != "nccl-tests"
    rows = (
        row
        for row in load_log_variables()
        if row.name not in stated and (is_torch or row.name.startswith("NCCL_"))
    )
    return tuple(row for row in rows if not numbers_of(torch) or _knows(torch, row))


def _knows(torch: str, row: LogVariable) -> bool:
    is_late = not row.torch_since or at_least(torch, row.torch_since) is True
    return is_late and not (row.torch_until and at_least(torch, row.torch_until) is True)
