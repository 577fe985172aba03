"""Options of `plan` and `auto` about the training itself: optimizer, known rates, failures and storage."""

from typing import Any, get_args

import click

from assistant.cli.options import Command, Number
from probes.base.units import GB
from recipes.job.workload import Optimizer
from recipes.settings.setting import Stated

_SMALLEST, _LARGEST = 1e-12, 1e12
"""Bounds of every number; with larger numbers, products and quotients could exceed the range of a float."""
_STATED = {
    "known_batch": "known_batch",
    "known_lr": "known_rate",
    "known_width": "known_width",
    "noise_scale": "noise_scale",
    "training_recipe": "training_recipe",
    "node_mtbf": "node_mtbf_hours",
    "checkpoint_write": "write_s",
}
"""Field of `Stated` for each option."""


def _positive(**about: str) -> Any:
    return {"type": Number(_SMALLEST, _LARGEST), **about}


def training_options(function: Command) -> Command:
    """Add the options about the training, which `stated_of` reads."""
    whole = click.IntRange(1, int(_LARGEST))
    for option in reversed(
        (
            click.option(
                "--task",
                type=click.Choice(("pretraining", "fine-tuning")),
                help="Train all weights from scratch, or fine-tune them (adapters are always fine-tuning).",
            ),
            click.option(
                "--optimizer",
                type=click.Choice(get_args(Optimizer)),
                help="Optimizer (default: AdamW; SGD for convolutional networks).",
            ),
            click.option(
                "--training-recipe",
                metavar="ID",
                default="",
                help="Take batch, rate and schedule from this published recipe: "
                "`rigtune list training-recipes`.",
            ),
            click.option(
                "--known-batch",
                type=whole,
                metavar="SAMPLES",
                help="Samples per step at which --known-lr is known to be good.",
            ),
            click.option(
                "--known-lr",
                metavar="RATE",
                help="Learning rate that is known to be good; the plan scales it to its own batch.",
                **_positive(),
            ),
            click.option(
                "--known-width",
                type=whole,
                metavar="HIDDEN",
                help="Hidden size of the known rate's model; muP then transfers the rate to this model.",
            ),
            click.option(
                "--noise-scale",
                metavar="SAMPLES",
                help="Gradient noise scale that you measured; without --global-batch it is also the batch.",
                **_positive(),
            ),
            click.option(
                "--node-mtbf",
                metavar="HOURS",
                help="Mean time between failures of a node, for the checkpoint interval.",
                **_positive(),
            ),
            click.option(
                "--checkpoint-write",
                metavar="SECONDS",
                help="Time for which training stops to write a checkpoint.",
                **_positive(),
            ),
            click.option(
                "--write-bandwidth",
                metavar="GB/S",
                help="Rate at which the whole job writes a checkpoint.",
                **_positive(),
            ),
        )
    ):
        function = option(function)
    return function


def stated_of(wanted: dict[str, Any]) -> Stated:
    """Return what the user knows about the training, and remove these options from `wanted`."""
    fields = {field: wanted.pop(option) for option, field in _STATED.items()}
    bandwidth = wanted.pop("write_bandwidth")
    return Stated(**fields, write_bytes_per_s=None if bandwidth is None else bandwidth * GB)
