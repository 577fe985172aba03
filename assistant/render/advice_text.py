"""Installation advice for the eye: each step with its reason, its commands and its source."""

from __future__ import annotations

from assistant.render.lines import bold, clean, filled
from probes.base.record import Unknown
from recipes.install.hardware_plan import PowerBudget
from recipes.install.installation import InstallationAdvice

_INDENT = 10


def advice_lines(advice: InstallationAdvice, *, colour: bool = False) -> list[str]:
    """All lines, 80 columns wide; a command stays on one line, so that it can be copied."""
    system = advice.operating_system
    name = "an unknown distribution" if isinstance(system, Unknown) else system
    lines = [
        bold(clean(f"{advice.gpus} on {name}"), colour=colour),
        "Commands run as root; rigtune starts none of them.",
    ]
    for number, step in enumerate(advice.steps, 1):
        lines += ["", bold(clean(f"{number}. {step.title}"), colour=colour)]
        lines += filled(step.because, label="  why", indent=_INDENT)
        lines += [" " * _INDENT + f"# {clean(command)}" for command in step.commands]
        lines += filled(step.source, label="  source", indent=_INDENT)
    lines += ["", bold("What goes with what", colour=colour)]
    for row in advice.compatibility:
        mark = "fits" if row.fits else "does not fit"
        lines += filled(
            f"CUDA {row.cuda}: driver {row.oldest_driver} or newer, torch {row.torch}: {mark}", indent=2
        )
    lines += ["", *_power(advice.power, colour=colour)]
    for remark in advice.remarks:
        lines += filled(remark, label="  note", indent=_INDENT)
    return lines


def _power(power: PowerBudget, *, colour: bool) -> list[str]:
    return [
        bold("Power and cooling", colour=colour),
        *filled(power.verdict, indent=2),
        *filled(power.source, label="  source", indent=_INDENT),
    ]
