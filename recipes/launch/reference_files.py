"""The reference workload as files of an export folder, with which training runs without rigtune."""

import functools
import re
from importlib import resources
from typing import Any

import msgspec

from probes.base.errors import InputError, UsageError
from probes.base.record import quoted
from recipes.job.models.counts import preset
from recipes.job.models.files import require_sound
from recipes.job.workload import TransformerModel
from recipes.launch.recipe import Artifact, ModelShape, Recipe
from recipes.planning.plan import OWN_PROGRAM

PACKAGE = "rigtune_worker"
CONFIG = "workload.json"
HELPER = "rigtune_helper.py"

_SIBLING = re.compile(r"^from \.(\w+) import", re.MULTILINE)
"""Import of another module of the package."""


def reference_files(recipe: Recipe) -> tuple[Artifact, ...]:
    """Return the program's configuration, which consists of sections of the recipe, and its source."""
    sections: dict[str, Any] = {
        name: msgspec.to_builtins(getattr(recipe, name))
        for name in ("model", "parallelism", "convergence", "resources")
    }
    for name in ("bucket_mb", "prefetch"):
        if sections["parallelism"][name] is None:
            del sections["parallelism"][name]
    config = msgspec.json.format(msgspec.json.encode(sections), indent=2).decode()
    return (Artifact(path=CONFIG, text=config + "\n"), *worker_files("train"))


def helper_file() -> Artifact:
    """Return the module with which a user's own torch program applies plan.json, for `export --helper`."""
    return Artifact(
        path=HELPER, text=resources.files("probes").joinpath("workers", PACKAGE, HELPER).read_text("utf-8")
    )


def imports_helper(recipe: Recipe) -> bool:
    """Return whether the recipe's command is a user's own torch program, which may import the helper."""
    return recipe.program == OWN_PROGRAM and recipe.command.kind in ("script", "module")


_HABITS = frozenset({"dropout", "raises_logits"})
"""Fields that describe a model's published code, not its sizes.

These fields do not apply to the reference program.
"""
_DESCRIPTION = (
    frozenset({"title", "names", "source", "date"})
    | {"learning_rate", "learning_rate_batch_tokens", "learning_rate_from"}
    | _HABITS
)


def not_in_reference(model: TransformerModel) -> tuple[str, ...]:
    """Return descriptions of the features of a model that the reference workload does not build.

    A feature is a field that `ModelShape` lacks and whose value is not the default.
    """
    return tuple(
        f"{field.name.replace('_', ' ')} {getattr(model, field.name)}"
        for field in msgspec.structs.fields(TransformerModel)
        if field.name not in _DESCRIPTION
        and field.name not in ModelShape.__struct_fields__
        and getattr(model, field.name) != field.default
    )


_NAMED = _DESCRIPTION - _HABITS


def model_details(model: TransformerModel) -> dict[str, Any]:
    """Return the fields of a model that differ from their default and that `ModelShape` does not have."""
    details: dict[str, Any] = {
        field.name: getattr(model, field.name)
        for field in msgspec.structs.fields(TransformerModel)
        if field.name not in _NAMED
        and field.name not in ModelShape.__struct_fields__
        and getattr(model, field.name) != field.default
    }
    return msgspec.to_builtins(details)  # type: ignore[no-any-return]


def model_of(recipe: Recipe) -> TransformerModel:
    """Return the model that the recipe describes.

    A preset whose sizes a person has changed gets another id, because measurements of the preset do not
    apply. Raises UsageError for details that no model can have.
    """
    fields = {**msgspec.to_builtins(recipe.text_model), **recipe.model_details}
    named = {"title": recipe.model_id, "source": "recipe", "date": ""}
    try:
        model = msgspec.convert({**fields, **named}, TransformerModel)
        require_sound(model, f"recipe {quoted(recipe.name)}")
    except (msgspec.ValidationError, InputError) as error:
        raise UsageError(
            f"the model of recipe {quoted(recipe.name)} is impossible: {error}",
            "correct its sizes or model_details",
        ) from error
    published = preset(model.id) or model
    same = all(
        getattr(published, name) == getattr(model, name)
        for name in TransformerModel.__struct_fields__
        if name not in _NAMED and name != "sequence_length"
    )
    return model if same else msgspec.structs.replace(model, id=f"{model.id} as edited")


@functools.lru_cache
def worker_files(module: str) -> tuple[Artifact, ...]:
    """Return a module of `rigtune_worker` and the modules that it imports, as files of the package.

    The package's benchmarks are left out.
    """
    package = resources.files("probes").joinpath("workers", PACKAGE)
    modules: dict[str, str] = {}
    wanted = ["__init__", module]
    while wanted:
        name = wanted.pop()
        if name not in modules:
            modules[name] = package.joinpath(f"{name}.py").read_text("utf-8")
            wanted += _SIBLING.findall(modules[name])
    return tuple(Artifact(path=f"{PACKAGE}/{name}.py", text=text) for name, text in sorted(modules.items()))
