"""Show advice: each line with its fact, its commands and its source."""

from collections.abc import Iterator

from assistant.pages.blocks import Block, Page, Row, Section, Source, Tone, section, words
from assistant.pages.terms import BADGE_WIDTH
from probes.base.record import value_or
from recipes.advice.advice_lines import Advice, Kind, Line
from recipes.advice.installation import InstallationAdvice

_KINDS: dict[Kind, tuple[str, Tone, str]] = {
    "do": ("! do", "caution", "to do"),
    "unknown": ("? unknown", "odd", "unknown"),
    "note": ("- note", "dim", "to know"),
    "good": ("✓ good", "good", "in order"),
}
"""Badge, colour and name of each kind of line, in the order of the sections."""
_WIDTH = 11


def lines_page(advice: Advice) -> Page:
    """Return the page: counts, what to do, what is unknown, notes, what is in order, and texts to copy."""
    counted = [
        f"{number} {name}"
        for kind, (_, _, name) in _KINDS.items()
        if (number := sum(line.kind == kind for line in advice.lines))
    ]
    head = section(
        f"Advice on {_TITLES[advice.subject]} of {advice.machine}: {', '.join(counted)}",
        ["Commands and texts are for you to use; rigtune changes nothing."],
    )
    groups = (tuple(line for line in advice.lines if line.kind == kind) for kind in _KINDS)
    shown = [
        Section(
            _KINDS[lines[0].kind][2].capitalize(),
            tuple(block for line in lines for block in _blocks(line)),
            _WIDTH,
        )
        for lines in groups
        if lines
    ]
    texts = [Section(f"{each.purpose}", (Source(each.text, each.language),)) for each in advice.documents]
    return head, *shown, *texts


_TITLES = {
    "hardware": "the hardware",
    "mig": "the division of GPUs (MIG)",
    "container": "training containers",
    "kubelet": "the kubelet",
    "network": "the network between machines",
}


def _blocks(line: Line) -> Iterator[Block]:
    badge, tone, _ = _KINDS[line.kind]
    yield Row(line.text, words((badge, tone)))
    if line.why:
        yield Row(line.why, "  why")
    yield Row(line.fact, "  fact")
    for command in line.commands:
        yield Row(f"# {command}", literal=True)
    yield Row(f"{line.source} ({line.date})", "  source")


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
