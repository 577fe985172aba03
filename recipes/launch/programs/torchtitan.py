"""torchtitan: options of its command line, and a config module if no preset has the planned model."""

import functools
import math

from probes.base.errors import UsageError
from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from recipes.launch.known_names import known_names, require_known
from recipes.launch.plan_remarks import embedding_remarks
from recipes.launch.program_files import FolderFile, ProgramFiles, Word, own_words, torch_agent
from recipes.launch.program_limits import program_row, recipe_options, refuse
from recipes.launch.recipe import Artifact, Recipe, program_arguments, settings
from recipes.launch.reference_files import model_of
from recipes.launch.script_parts import templates
from recipes.launch.slots import slot_value
from recipes.launch.user_arguments import Option, merge, options_of, words_of

_ID = "torchtitan"
_MODULE = "torchtitan_job"
_SUBCOMMAND = "activation-checkpoint:"
_SCHEDULES = ("cosine", "linear", "constant", "wsd")
_SLOTS = {
    "data": "--dataloader.dataset-path",
    "tokenizer": "--hf-assets-path",
    "output": "--dump-folder",
    "checkpoints": "--checkpoint.folder",
    "model": "--checkpoint.initial-load-path",
}
"""Option that takes each slot; an absolute checkpoint folder may be outside the output folder."""
_EXPERT_CONVERTERS = {"fp8": "Float8GroupedExpertsConverter", "mxfp8": "MXFP8GroupedExpertsConverter"}
_CONVERTED = {
    "fp8": 'filter_fqns=["lm_head", "router.gate"]',
    "mxfp8": 'fqns=["attention", "shared_experts", "feed_forward"]',
    "nvfp4": 'fqns=["layers"]',
}
"""Layers that a converter takes or leaves out, as in the presets of torchtitan 0.3.0."""
_TILE = 128
"""Positions of a tile of FlexAttention's mask; each rank's part of a sequence must be a multiple of this
number (torch 2.13, _create_cp_block_mask).
"""


class Preset(StrictRecord, kw_only=True):
    """Sizes of a model that torchtitan has, and the config function from which a job starts."""

    models: tuple[str, ...]
    """Ids of the catalogue's models with these sizes."""
    module: str
    config: str
    config_flavor: str
    """Flavor of the model that the config function builds."""
    flavor: str
    hub: str
    """Repository of the tokenizer."""
    varlen: bool = False
    """True if attention is of a kind that cannot divide a sequence over ranks."""
    source: str
    date: str

    @property
    def assets(self) -> str:
        """Folder of the tokenizer, relative to the folder in which the program runs."""
        return f"./assets/hf/{self.hub.rpartition('/')[2]}"


@functools.lru_cache(maxsize=1)
def load_presets() -> tuple[Preset, ...]:
    """Return the rows of `recipes/data/torchtitan_presets.toml`."""
    return load_rows("recipes", "torchtitan_presets", Preset)


def write(recipe: Recipe) -> ProgramFiles:
    """Return torchtitan's options; the kind of recomputation is the last word, where its parser expects it.

    The user's `--module` and `--config` stay. Raises UsageError for a model, a learning-rate schedule, an
    optimizer, a precision or a layout that torchtitan cannot train, and for an unknown placeholder.
    """
    subcommand = _SUBCOMMAND + recipe.parallelism.activation_checkpointing
    theirs, replaced = _without_subcommand(options_of(program_arguments(recipe)), subcommand)
    has_config = {"--module", "--config"} <= {option[0] for option in theirs}
    preset = None if has_config else _preset(recipe)
    _require_possible(recipe, preset)
    options = recipe_options(recipe)
    defaults = _defaults(recipe)
    require_known(_ID, [subcommand, *(option[0] for option in (*options, *defaults))])
    hyphenated = tuple((option[0].replace("_", "-"), *option[1:]) for option in theirs)
    merged = merge(
        hyphenated,
        options,
        defaults,
        decided=[name for name in program_row(recipe).settings.values() if name.startswith("--")],
    )
    job = () if preset is None else _job_module(recipe, preset)
    start: tuple[Word, ...] = (FolderFile(name=job[0].path),) if job else ("-m", "torchtitan.train")
    if recipe.command.kind in ("script", "module") and not job:
        start = own_words(recipe, ())
    config: tuple[str, ...] = ()
    if preset is not None:
        config = ("--module", _MODULE, "--config", "job") if job else (
            "--module", preset.module, "--config", preset.config
        )  # fmt: skip
    return ProgramFiles(
        words=(*start, *config, *merged.words, subcommand),
        agent=torch_agent(recipe),
        files=job,
        modules=("torch", "torchtitan", *(("torchao",) if recipe.parallelism.precision != "bf16" else ())),
        notes=(
            *merged.notes,
            *replaced,
            *(() if has_config else _unknown(hyphenated)),
            *_notes(recipe, preset, frozenset(option[0] for option in hyphenated)),
            *embedding_remarks(recipe),
        ),
    )


def _unknown(theirs: tuple[Option, ...]) -> tuple[str, ...]:
    """Return a warning for each option of the user that torchtitan does not have, such as one of 0.1."""
    known = known_names(_ID)
    return tuple(
        f"Warning: torchtitan {known.version} has no option {option[0][:80]}, and does not start with it"
        for option in theirs
        if option[0].startswith("--") and option[0] not in known.names
    )


def _without_subcommand(
    options: tuple[Option, ...], planned: str
) -> tuple[tuple[Option, ...], tuple[str, ...]]:
    """Return the options before the user's choice of recomputation, and a note about what was left out."""
    words = words_of(options)
    start = next((place for place, word in enumerate(words) if word.startswith(_SUBCOMMAND)), None)
    if start is None:
        return options, ()
    theirs = " ".join(words[start:])
    note = f"Your `{theirs[:80]}` is replaced by the plan's `{planned}`"
    return options_of(words[:start]), (note,) if theirs != planned else ()


def _preset(recipe: Recipe) -> Preset:
    """Return the preset with the sizes of the recipe's model. Raises UsageError if there is none."""
    model = model_of(recipe)
    for row in load_presets():
        if model.id in row.models:
            return row
    known = sorted(name for row in load_presets() for name in row.models)
    raise UsageError(
        f"torchtitan has no preset for {model.id}",
        f"presets: {', '.join(known)}; or give your own config function after `--` of `rigtune plan`: "
        "-m torchtitan.train --module MODULE --config FUNCTION",
    )


def _require_possible(recipe: Recipe, preset: Preset | None) -> None:
    """Raise UsageError for a plan that torchtitan would refuse at the start, or that rigtune cannot write."""
    parallelism, schedule = recipe.parallelism, recipe.convergence.schedule
    degrees, length = parallelism.degrees, recipe.text_model.sequence_length
    parts = degrees.pp * degrees.vp
    layers = recipe.text_model.layers
    missing, part = -layers % parts, -(-layers // parts)
    piece = degrees.tp * (2 * degrees.cp if degrees.cp > 1 else 1)
    tile = degrees.cp * _TILE if degrees.cp > 1 else 1
    inner = degrees.fsdp * degrees.cp * degrees.tp
    has_experts = "experts" in recipe.model_details
    faults = (
        (
            schedule not in _SCHEDULES,
            f"it has no learning-rate schedule {schedule}",
            f"set convergence.schedule to one of {', '.join(_SCHEDULES)}",
        ),
        (
            recipe.job.optimizer != "adamw",
            f"rigtune writes its AdamW, not {recipe.job.optimizer}",
            "set job.optimizer = 'adamw', or write a config function and give it after `--`",
        ),
        (
            degrees.pp > 1 and missing - missing // 2 >= part,
            f"{layers} layers on {parts} parts of a pipeline would leave the last part empty",
            "choose pp and vp whose product divides the layers better",
        ),
        (
            length % piece or length % tile,
            f"it cannot divide {length} tokens over tp {degrees.tp} and cp {degrees.cp}",
            f"use a sequence length that is a multiple of {math.lcm(piece, tile)}",
        ),
        (
            inner % degrees.ep,
            f"its experts use the ranks of fsdp x cp x tp = {inner}, which ep {degrees.ep} does not divide",
            "choose an ep that divides this product",
        ),
        (
            preset is not None and preset.varlen and degrees.cp > 1,
            f"its {recipe.text_model.id} cannot divide a sequence over ranks",
            "set cp = 1",
        ),
        (
            has_experts and parallelism.precision == "nvfp4",
            "it has no nvfp4 for experts",
            "use another precision",
        ),
    )
    refuse("torchtitan", faults)


def _defaults(recipe: Recipe) -> tuple[Option, ...]:
    """Return options for paths, checkpoints and logging; the user's own arguments replace them.

    A run continues from the newest checkpoint of its folder by itself; the last checkpoint keeps the
    optimizer's states, so that a longer run can continue as well.
    """
    slots = [
        (option, slot_value(recipe, slot)) for slot, option in _SLOTS.items() if slot_value(recipe, slot)
    ]
    return (
        *slots,
        *([("--checkpoint.initial-load-in-hf",)] if slot_value(recipe, "model") else []),
        ("--checkpoint.enable",),
        ("--checkpoint.interval", settings(recipe)["checkpoint_steps"]),
        ("--checkpoint.no-last-save-model-only",),
        ("--metrics.log-freq", "1"),
        ("--metrics.disable-color-printing",),
        ("--profiler.no-enable-profiling",),
    )


def _job_module(recipe: Recipe, preset: Preset) -> tuple[Artifact, ...]:
    """Return the start file with the job's config function; empty if a preset's options are enough.

    Python looks for modules first in the folder of the start file, so torchtitan imports the function from
    it.
    """
    precision = recipe.parallelism.precision
    if precision == "bf16" and preset.flavor == preset.config_flavor:
        return ()
    converters = []
    if precision != "bf16":
        converters.append((program_row(recipe).values["converter"][precision], _CONVERTED[precision]))
        if "experts" in recipe.model_details:
            padding = "pad_multiple=128" if precision == "mxfp8" else ""
            converters.append((_EXPERT_CONVERTERS[precision], padding))
    text = templates().get_template("torchtitan_job.py.j2").render(
        preset=preset, converters=converters, precision=precision
    )  # fmt: skip
    return (Artifact(path=f"{_MODULE}.py", text=text),)


def _notes(recipe: Recipe, preset: Preset | None, given: frozenset[str]) -> tuple[str, ...]:
    """Return notes; `preset` is None if the user has a config function, `given` are the user's options."""
    precision, schedule = recipe.parallelism.precision, recipe.parallelism.pipeline_schedule
    assets, hub = (preset.assets, preset.hub) if preset else ("", "")
    empty = {slot for slot, option in _SLOTS.items() if not slot_value(recipe, slot) and option not in given}
    notes = (
        (
            preset is not None and "data" in empty and "--dataloader.dataset" not in given,
            "The slot `data` is empty: torchtitan reads the data of its preset, C4 from the Hugging Face hub",
        ),
        (
            preset is not None and "tokenizer" in empty,
            f"The slot `tokenizer` is empty: torchtitan reads {assets} in the working folder, which its "
            f"scripts/download_hf_assets.py --repo_id {hub} --assets tokenizer writes",
        ),
        (
            recipe.job.fine_tuning and "model" in empty,
            "Warning: the slot `model` is empty, so training starts from random weights",
        ),
        (
            preset is None and precision != "bf16",
            f"Warning: your config function must convert its layers to {precision} itself",
        ),
        (
            recipe.parallelism.pp > 1 and schedule == "zero-bubble",
            "torchtitan gives every rank two parts of the pipeline under InterleavedZeroBubble",
        ),
        (
            recipe.convergence.ramp_from > 0,
            "torchtitan cannot let the batch grow: every step has the full batch",
        ),
    )
    return tuple(text for is_needed, text in notes if is_needed)
