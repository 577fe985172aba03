"""torchtune: one YAML file for its distributed recipes."""

import functools
import itertools
import json
from typing import Any

from probes.base.errors import UsageError
from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from probes.base.units import plural
from recipes.launch.known_names import require_known
from recipes.launch.plan_remarks import beyond_files
from recipes.launch.program_files import FolderFile, ProgramFiles, torch_agent
from recipes.launch.program_limits import program_row, recipe_settings, refuse
from recipes.launch.recipe import Artifact, Recipe, program_arguments
from recipes.launch.reference_files import model_of
from recipes.launch.slots import slot_value

_ID = "torchtune"
_FILE = "torchtune.yaml"
_START = ("-m", "torchtune._cli.tune", "run")
_TOKENIZER = "original/tokenizer.model"
_SCHEDULES = ("cosine", "constant")


class TunedModel(StrictRecord, kw_only=True):
    """One model that torchtune trains."""

    models: tuple[str, ...]
    """Ids of the catalogue."""
    folder: str
    """Module of torchtune.models that has the builder."""
    builder: str
    weights: str
    """Name of the weight files, with placeholders for the number of the file and that of the last file."""
    last: str = ""
    """Number of the last file; empty if the weights are one file."""
    kind: str
    """Torchtune's own name of the kind of model."""
    hub: str
    """Repository of the weights."""
    source: str
    date: str


@functools.lru_cache(maxsize=1)
def load_tuned_models() -> tuple[TunedModel, ...]:
    """Return the rows of `recipes/data/torchtune_models.toml`."""
    return load_rows("recipes", "torchtune_models", TunedModel)


def write(recipe: Recipe) -> ProgramFiles:
    """Return the file for torchtune's distributed recipe and the words that start this recipe.

    Raises UsageError for a model, a schedule or an optimizer that torchtune does not have, for a command of
    the user's other than `tune run`, and for an unknown placeholder.
    """
    row = _model_row(recipe)
    _require_possible(recipe)
    config = _config(recipe, row)
    require_known(_ID, _flat(config))
    # the modules of torchtune's recipes cannot be imported; `tune run` runs a recipe by name in its own
    # process
    name = "full_finetune_distributed" if recipe.job.tuning == "full" else "lora_finetune_distributed"
    kept, notes = _overrides(recipe)
    return ProgramFiles(
        words=(*_START, name, "--config", FolderFile(name=_FILE), *kept),
        agent=torch_agent(recipe),
        files=(Artifact(path=_FILE, text=_yaml(config)),),
        modules=("torch", "torchtune"),
        notes=(*notes, *_notes(recipe, row), *beyond_files(recipe)),
    )


def _model_row(recipe: Recipe) -> TunedModel:
    model = model_of(recipe)
    for row in load_tuned_models():
        if model.id in row.models:
            return row
    known = sorted(name for row in load_tuned_models() for name in row.models)
    raise UsageError(f"rigtune writes no torchtune file for {model.id}", f"models: {', '.join(known)}")


def _require_possible(recipe: Recipe) -> None:
    faults = (
        (
            recipe.command.kind in ("script", "module") and not _is_tune_run(recipe),
            "it starts torchtune's own recipe, not a command of yours",
            "plan without a command after `--`, or with `tune run RECIPE ... KEY=VALUE`",
        ),
        (
            recipe.convergence.schedule not in _SCHEDULES,
            f"it has no learning-rate schedule {recipe.convergence.schedule}",
            f"set convergence.schedule to one of {', '.join(_SCHEDULES)}",
        ),
        (
            recipe.job.optimizer != "adamw",
            f"rigtune writes AdamW, not {recipe.job.optimizer}",
            "set job.optimizer = 'adamw'",
        ),
    )
    refuse("torchtune", faults)


def _is_tune_run(recipe: Recipe) -> bool:
    target, arguments = recipe.command.target, recipe.command.arguments
    return target.rpartition("/")[2] == "tune" and arguments[:1] == ("run",)


def _overrides(recipe: Recipe) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the user's KEY=VALUE arguments that the plan does not decide, and notes on replaced ones."""
    decided = {*program_row(recipe).settings.values(), "device", "epochs", "model._component_"}
    words = program_arguments(recipe)
    given = [word for word in words if "=" in word and not word.startswith("-")]
    kept = tuple(word for word in given if word.partition("=")[0] not in decided)
    notes = [f"Your `{word[:80]}` is replaced by the plan's value" for word in given if word not in kept]
    for option, file in itertools.pairwise(words):
        if option == "--config":
            notes.append(f"Your file {file[-80:]} is replaced by {_FILE}; KEY=VALUE adds settings of yours")
    return kept, tuple(notes)


def _config(recipe: Recipe, row: TunedModel) -> dict[str, Any]:
    """Return the configuration: paths and components, then the settings of the plan."""
    tuning = recipe.job.tuning
    weights = _weights_folder(recipe, row)
    output = slot_value(recipe, "output") or "./outputs"
    prefix = "" if tuning == "full" else f"{tuning}_"
    is_divided = recipe.parallelism.tp > 1
    config: dict[str, Any] = {
        "output_dir": output,
        "tokenizer": {
            "_component_": "torchtune.models.llama3.llama3_tokenizer",
            "path": slot_value(recipe, "tokenizer") or f"{weights}/{_TOKENIZER}",
        },
        "dataset": _dataset(recipe),
        "seed": None,
        **({"fsdp_cpu_offload": True} if recipe.parallelism.offload != "none" else {}),
        "shuffle": True,
        "model": {"_component_": f"torchtune.models.{row.folder}.{prefix}{row.builder}"},
        "checkpointer": {
            "_component_": "torchtune.training.FullModelHFCheckpointer",
            "checkpoint_dir": weights,
            "checkpoint_files": {"filename_format": row.weights, "max_filename": row.last}
            if row.last
            else [row.weights],
            "recipe_checkpoint": None,
            "output_dir": slot_value(recipe, "checkpoints") or f"{output}/checkpoints",
            "model_type": row.kind,
        },
        "resume_from_checkpoint": False,
        "epochs": 1,
        # torchtune refuses its fused optimizer with tensor parallelism
        "optimizer": {"_component_": "torch.optim.AdamW", "fused": not is_divided},
        "loss": {"_component_": "torchtune.modules.loss.CEWithChunkedOutputLoss"},
        "device": recipe.resources.device,
        "compile": False,
        "metric_logger": {
            "_component_": "torchtune.training.metric_logging.DiskLogger",
            "log_dir": slot_value(recipe, "logs") or f"{output}/logs",
        },
        "log_every_n_steps": 1,
        "log_peak_memory_stats": True,
    }
    if is_divided:
        config["tensor_parallel_plan"] = {"_component_": "torchtune.models.llama3.base_llama_tp_plan"}
    if tuning != "full":
        config["model"] |= {
            "lora_attn_modules": ["q_proj", "k_proj", "v_proj", "output_proj"],
            "apply_lora_to_mlp": True,
            "lora_alpha": 2 * recipe.job.adapter_rank,
        }
        config["save_adapter_weights_only"] = False
    for name, text in recipe_settings(recipe):
        section, _, key = name.rpartition(".")
        (config.setdefault(section, {}) if section else config)[key] = _Literal(text)
    return config


class _Literal(str):
    """A number or word that YAML contains without quotes."""

    __slots__ = ()


def _weights_folder(recipe: Recipe, row: TunedModel) -> str:
    return slot_value(recipe, "model") or f"./{row.hub.rpartition('/')[2]}"


def _dataset(recipe: Recipe) -> dict[str, Any]:
    """Return the data set, packed so that samples fill the sequence length of the plan."""
    data = slot_value(recipe, "data")
    if not data:
        return {"_component_": "torchtune.datasets.alpaca_dataset", "packed": True}
    return {
        "_component_": "torchtune.datasets.instruct_dataset",
        "source": "json",
        "data_files": data,
        "split": "train",
        "packed": True,
    }


def _flat(config: dict[str, Any], prefix: str = "") -> list[str]:
    """Return the dotted names of all settings."""
    names = []
    for key, value in config.items():
        is_section = isinstance(value, dict) and "_component_" in value
        names += _flat(value, f"{prefix}{key}.") if is_section else [f"{prefix}{key}"]
    return names


def _yaml(config: dict[str, Any], indent: str = "") -> str:
    """Return the configuration as YAML; strings are quoted as in JSON, which YAML can read."""
    lines = []
    for key, value in config.items():
        if isinstance(value, dict):
            lines.append(f"{indent}{key}:\n{_yaml(value, indent + '  ')}")
        elif isinstance(value, _Literal):
            lines.append(f"{indent}{key}: {_with_point(value)}\n")
        else:
            lines.append(f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}\n")
    return "".join(lines)


def _with_point(text: str) -> str:
    """Return a number such as 3e-05 as 3.0e-05, because YAML reads the first form as a string."""
    mantissa, exponent, power = text.partition("e-")
    return f"{mantissa}.0e-{power}" if exponent and mantissa.isdigit() else text


def _notes(recipe: Recipe, row: TunedModel) -> tuple[str, ...]:
    convergence = recipe.convergence
    notes = (
        (
            not slot_value(recipe, "model"),
            f"The slot `model` is empty: the weights are read from {_weights_folder(recipe, row)}, which "
            f"`tune download {row.hub} --output-dir FOLDER` writes",
        ),
        (
            not slot_value(recipe, "data"),
            "Warning: the slot `data` is empty, so training reads torchtune's example data (Alpaca from the "
            "hub); fill it with a JSON file that has the columns input and output",
        ),
        (
            True,
            "torchtune saves at the end of an epoch only: the run has one epoch of at most "
            f"{plural(convergence.steps, 'step')} and does not continue by itself",
        ),
        (
            convergence.schedule == "cosine" and convergence.final_share > 0,
            "torchtune's cosine ends at 0, not at the plan's last learning rate",
        ),
    )
    return tuple(text for is_needed, text in notes if is_needed)
