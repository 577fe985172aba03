"""The launch of a recipe with the smoke test in place of its program."""

import msgspec

from recipes.launch.recipe import Artifact, Command, Job, Parallelism, Prediction, Recipe
from recipes.launch.reference_files import PACKAGE, worker_files
from recipes.planning.plan import OWN_PROGRAM

SMOKE = "smoke"
"""Name of the worker's module, of the folder of its launch, and of its report and log."""


def smoke_recipe(recipe: Recipe, folder: str) -> Recipe:
    """Return the recipe whose launch starts the smoke test from `folder` on as many ranks.

    Ranks, hosts, interpreter, environment and the site's slots are kept; the smoke test needs no layout of
    the model, and runs in its own folder.
    """
    sizes = recipe.parallelism
    slots = {name: value for name, value in recipe.slots.items() if name != "workdir"}
    return msgspec.structs.replace(
        recipe,
        program=OWN_PROGRAM,
        job=Job(),
        parallelism=Parallelism(
            strategy="ddp",
            nodes=sizes.nodes,
            ranks_per_node=sizes.ranks_per_node,
            dp=sizes.world_size,
            fsdp=1,
            micro_batch=1,
            grad_accum=1,
            global_batch=sizes.world_size,
            precision="fp32",
        ),
        command=Command(kind="module", target=f"{PACKAGE}.{SMOKE}", working_directory=folder),
        slots=slots,
        predicted=Prediction(),
        not_in_reference=None,
        notes=(),
        decisions=(),
        made_for=None,
        machine=None,
    )


def smoke_arguments(recipe: Recipe, report: str, nonce: int, limit_s: float) -> tuple[str, ...]:
    """Return the arguments of the smoke test on every rank."""
    return (
        *("--backend", recipe.resources.backend, "--nonce", str(nonce)),
        *("--report", report, "--limit-s", f"{limit_s:g}"),
    )


def smoke_files() -> tuple[Artifact, ...]:
    """Return the source of the smoke test, relative to its folder."""
    return worker_files(SMOKE)
