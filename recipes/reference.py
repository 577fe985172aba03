"""The shipped reference workload as files of an export folder, so that the folder trains without rigtune."""

from __future__ import annotations

from importlib import resources

import msgspec

from recipes.recipe import Artifact, Recipe

PACKAGE = "rigtune_worker"
CONFIG = "workload.json"


def reference_files(recipe: Recipe) -> tuple[Artifact, ...]:
    """The program's configuration, which holds the same fields as the recipe, and its source."""
    sections = {name: getattr(recipe, name) for name in ("model", "parallelism", "convergence", "resources")}
    config = msgspec.json.format(msgspec.json.encode(sections), indent=2).decode()
    package = resources.files("probes").joinpath("workers", PACKAGE)
    modules = sorted((part for part in package.iterdir() if part.name.endswith(".py")), key=lambda part: part.name)
    program = (Artifact(path=f"{PACKAGE}/{part.name}", text=part.read_text("utf-8")) for part in modules)
    return (Artifact(path=CONFIG, text=config + "\n"), *program)
