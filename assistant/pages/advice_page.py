"""Show installation advice: each step with its reason, its commands and its source."""

from assistant.pages.blocks import Page, Row, section
from assistant.pages.terms import BADGE_WIDTH
from probes.base.record import value_or
from recipes.install.installation import InstallationAdvice


def advice_page(advice: InstallationAdvice) -> Page:
    """Return the page; commands are not wrapped, so that people can copy them."""
    name = value_or(advice.operating_system, "an unknown distribution")
    page = [section(f"{advice.gpus} on {name}", ["Commands run as root; rigtune starts none of them."])]
    for number, step in enumerate(advice.steps, 1):
        rows = [
            Row(step.because, "  why"),
            *(Row(f"# {command}", literal=True) for command in step.commands),
            Row(step.source, "  source"),
        ]
        page.append(section(f"{number}. {step.title}", rows, BADGE_WIDTH))
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
    return *page, section("Versions that fit", fits), section("Power and cooling", power, BADGE_WIDTH)
