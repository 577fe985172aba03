"""List the rows of rigtune's tables."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from probes.base.units import gib
from probes.bench.benchmark_table import BENCHMARKS
from probes.catalogue.hardware import load_catalogue
from probes.catalogue.text_kinds import KINDS as PASTES
from probes.judging.check_table import CHECKS
from recipes.job.models.counts import load_models, parameter_count
from recipes.job.models.image_models import load_vision_models
from recipes.job.training_recipes import load_training_recipes
from recipes.launch.launcher_table import LAUNCHERS
from recipes.launch.placeholders import PLACEHOLDERS
from recipes.launch.program_table import WRITTEN
from recipes.launch.slots import load_slots
from recipes.lint.rule_table import load_rules
from recipes.planning.programs import Program, load_programs
from recipes.predict.stacks import load_stacks
from recipes.settings.recipe_choice import batch_words
from recipes.strategies.strategy_table import load_strategies

KINDS = (
    "checks",
    "benchmarks",
    "launchers",
    "programs",
    "placeholders",
    "slots",
    "strategies",
    "models",
    "machines",
    "gpus",
    "stacks",
    "training-recipes",
    "kinds",
    "rules",
)

_TITLED: dict[str, Callable[[], Iterable[Any]]] = {
    "launchers": lambda: LAUNCHERS,
    "machines": lambda: load_catalogue().machines,
    "stacks": lambda: load_stacks().values(),
    "kinds": lambda: PASTES,
    "placeholders": PLACEHOLDERS.values,
}
"""Tables whose rows are listed only with id and title."""


def list_entries(kind: str) -> tuple[dict[str, Any], ...]:
    """Return the entries of one kind, each with `id`, `title` and the fields that this kind has."""
    if kind in _TITLED:
        return tuple({"id": row.id, "title": row.title} for row in _TITLED[kind]())
    match kind:
        case "checks":
            return tuple(
                {
                    "id": row.id,
                    "title": row.title,
                    "group": row.group,
                    "tier": row.tier,
                    "required": row.required,
                    "needs": list(row.needs),
                }
                for row in CHECKS
            )
        case "benchmarks":
            return tuple(
                {
                    "id": row.id,
                    "title": row.title,
                    "suites": list(row.suites),
                    "cost_s": row.cost_s,
                    "full_cost_s": row.full_cost_s,
                    "occupies": row.occupies,
                    "applies": row.applies,
                }
                for row in BENCHMARKS
            )
        case "training-recipes":
            return _training_recipes()
        case "programs":
            return tuple(
                {
                    "id": row.id,
                    "title": row.title,
                    "shardings": list(row.shardings),
                    "divides": [name for name, can in _divisions(row) if can],
                    "schedules": list(row.schedules),
                    "tunings": list(row.tunings),
                    "precisions": list(row.precisions),
                    "writes_files": row.id in WRITTEN,
                }
                for row in load_programs().values()
            )
        case "slots":
            return tuple(msgspec.to_builtins(row) for row in load_slots().values())
        case "strategies":
            return tuple(msgspec.to_builtins(row) for row in load_strategies().values())
        case "models":
            language = [
                {"id": model.id, "title": f"{model.title}, {parameter_count(model):,} parameters"}
                for model in load_models()
            ]
            images = [
                {
                    "id": model.id,
                    "title": f"image model, {model.parameters:,} parameters, {model.image_size} pixels",
                }
                for model in load_vision_models().values()
            ]
            return (*language, *images)
        case "rules":
            return tuple(
                {
                    "id": rule.id,
                    "title": rule.title,
                    "severity": rule.severity,
                    "since": rule.since,
                    "until": rule.until,
                    "edit": rule.edit,
                }
                for rule in load_rules().values()
            )
        case _:
            return tuple(
                {"id": row.id, "title": f"{row.title}, {gib(row.memory_bytes)}"}
                for row in load_catalogue().gpus
            )


def _training_recipes() -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "id": row.id,
            "title": f"{row.model}: {row.learning_rate:g} at {batch_words(row, row.batch)} per step",
            "kind": row.kind,
            "task": "fine-tuning" if row.is_fine_tuning else "pretraining",
            "tuning": row.tuning,
            "optimizer": row.optimizer,
            "source": row.source,
            "checked": row.checked,
        }
        for row in load_training_recipes().values()
    )


def _divisions(row: Program) -> tuple[tuple[str, bool], ...]:
    """Return each way to divide a model, and whether the program has it."""
    return (
        ("hsdp", row.hybrid),
        ("tp", row.tensor),
        ("pp", bool(row.schedules)),
        ("vp", "interleaved" in row.schedules),
        ("cp", bool(row.context)),
        ("ep", row.experts),
    )
