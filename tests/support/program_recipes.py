"""Recipes of catalogue models for programs with launch files."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from recipes.job.models.names import find_model
from recipes.launch.program_files import FolderFile, ProgramFiles
from recipes.launch.recipe import (
    CheckpointSettings,
    Command,
    Convergence,
    Job,
    ModelShape,
    Parallelism,
    Recipe,
)
from recipes.launch.recipe import Resources as SiteResources
from recipes.launch.reference_files import model_details

RATES = Convergence(learning_rate=3e-4, warmup_steps=100, steps=2000, gradient_clipping=1.0)


def program_recipe(
    program: str,
    model: str = "llama-3-8b",
    *,
    ranks_per_node: int = 8,
    layout: Mapping[str, object] | None = None,
    rates: Mapping[str, object] | None = None,
    arguments: tuple[str, ...] = (),
    job: Job | None = None,
    **fields: object,
) -> Recipe:
    """Return a recipe whose number of nodes follows from the degrees of `layout`."""
    sizes = find_model(model)
    shape = {name: getattr(sizes, name) for name in ModelShape.__struct_fields__ if name != "sequence_length"}
    chosen = {"strategy": "fsdp", "dp": 1, "fsdp": 1, "micro_batch": 1, "grad_accum": 1, **(layout or {})}
    degrees = [chosen.get(name, 1) for name in ("dp", "fsdp", "tp", "pp", "cp")]
    ranks = math.prod(degrees)
    nodes = max(1, ranks // ranks_per_node)
    batch = chosen["micro_batch"] * chosen["grad_accum"] * chosen["dp"] * chosen["fsdp"]
    recipe = Recipe(
        name=model,
        title=f"{sizes.title} on {ranks} NVIDIA H100",
        program=program,
        model=ModelShape(sequence_length=8192, **shape),
        model_details=model_details(sizes),
        parallelism=Parallelism(
            **{"global_batch": batch, "nodes": nodes, "ranks_per_node": ranks // nodes, **chosen}
        ),
        convergence=msgspec.structs.replace(RATES, **(rates or {})),
        checkpoints=CheckpointSettings(every_steps=250),
        resources=SiteResources(device="cuda", backend="nccl", device_name="NVIDIA H100", cpus_per_node=96),
        command=Command(kind="program", arguments=arguments),
        job=job or Job(),
    )
    return msgspec.structs.replace(recipe, **fields)


def options_in(files: ProgramFiles) -> dict[str, tuple[str, ...]]:
    """Return the options among the program's arguments with their values; fail if one is stated twice."""
    options: dict[str, tuple[str, ...]] = {}
    name = ""
    for word in files.words:
        text = word.name if isinstance(word, FolderFile) else word
        if text.startswith(("--", "activation-checkpoint:")):
            assert text not in options, f"{text} is stated twice"
            name = text
            options[name] = ()
        else:
            options[name] = (*options.get(name, ()), text)
    return options
