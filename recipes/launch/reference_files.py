"""The reference workload as files of an export folder, which then trains without rigtune."""

from __future__ import annotations

import functools
import re
from importlib import resources

import msgspec

from recipes.job.workload import TransformerModel
from recipes.launch.recipe import Artifact, ModelShape, Recipe

PACKAGE = "rigtune_worker"
CONFIG = "workload.json"

_SIBLING = re.compile(r"^from \.(\w+) import", re.MULTILINE)
"""Import of another module of the package."""


def reference_files(recipe: Recipe) -> tuple[Artifact, ...]:
    """Return the program's configuration, with the same fields as the recipe, and its source."""
    sections = {name: getattr(recipe, name) for name in ("model", "parallelism", "convergence", "resources")}
    config = msgspec.json.format(msgspec.json.encode(sections), indent=2).decode()
    modules = (Artifact(path=f"{PACKAGE}/{name}.py", text=text) for name, text in sorted(_program().items()))
    return (Artifact(path=CONFIG, text=config + "\n"), *modules)


_HABITS = frozenset({"dropout", "raises_logits"})
"""Fields that describe a model's published code, not its sizes.

They do not apply to the reference program.
"""
_DESCRIPTION = (
    frozenset({"title", "names", "source", "date", "learning_rate", "learning_rate_batch_tokens"}) | _HABITS
)


def not_in_reference(model: TransformerModel) -> tuple[str, ...]:
    """Return the features of a model that the reference workload does not build, in words.

    These are sizes that no field of `ModelShape` describes.
    """
    return tuple(
        f"{field.name.replace('_', ' ')} {getattr(model, field.name)}"
        for field in msgspec.structs.fields(TransformerModel)
        if field.name not in _DESCRIPTION
        and field.name not in ModelShape.__struct_fields__
        and getattr(model, field.name) != field.default
    )


@functools.lru_cache(maxsize=1)
def _program() -> dict[str, str]:
    """Return the text of `rigtune_worker.train` and of the modules that it imports, by module.

    The package's benchmarks are left out.
    """
    package = resources.files("probes").joinpath("workers", PACKAGE)
    modules: dict[str, str] = {}
    wanted = ["__init__", "train"]
    while wanted:
        name = wanted.pop()
        if name not in modules:
            modules[name] = package.joinpath(f"{name}.py").read_text("utf-8")
            wanted += _SIBLING.findall(modules[name])
    return modules
