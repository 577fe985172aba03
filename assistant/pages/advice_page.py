"""Installation advice: each step with its reason, its commands and its source."""

from __future__ import annotations

from assistant.pages.blocks import Page, Row, section
from assistant.pages.terms import BADGE_WIDTH
from probes.base.record import Unknown
from recipes.install.installation import InstallationAdvice


def advice_page(advice: InstallationAdvice) -> Page:
    """Return the whole advice; a command stays on one line, so that it can be copied."""
    system = advice.operating_system
    name = "an unknown distribution" if isinstance(system, Unknown) else system
    page = [section(f"{advice.gpus} on {name}", ["Commands run as root; rigtune starts none of them."])]
    for number, step in enumerate(advice.steps, 1):
        commands = [Row(f"# {command}", literal=True) for command in step.commands]
        page.append(
            section(
                f"{number}. {step.title}",
                [Row(step.because, "  why"), *commands, Row(step.source, "  source")],
                BADGE_WIDTH,
            )
        )
    fits = [
        f"  CUDA {row.cuda}: driver {row.oldest_driver} or newer, torch {row.torch}"
        f": {'fits' if row.fits else 'does not fit'}"
        for row in advice.compatibility
    ]
    power = [
        Row(advice.power.verdict),
        Row(advice.power.source, "  source"),
        *(Row(text, "  note") for text in advice.remarks),
    ]
    return *page, section("What goes with what", fits), section("Power and cooling", power, BADGE_WIDTH)
