"""The options of `rigtune plan` that ask another question about the planned job, and their answers."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from assistant.cli.diagnostics import follow
from assistant.cli.options import facts_of
from assistant.cli.output import emit_answer
from assistant.pages.training.script_plan_page import script_plan_page
from assistant.pages.training.strategies_page import strategies_page
from assistant.pages.training.what_if_page import comparison_page, scaling_page, sensitivity_page
from assistant.usecases.script_plan import ScriptQuestion, plan_from_script
from assistant.usecases.what_if import Place, compare, scale, vary
from assistant.usecases.why_not_strategies import judge_strategies
from probes.base.errors import UsageError
from probes.base.record import quoted
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts


class Questions(NamedTuple):
    """The options that ask for something other than a plan; the user gives at most one of them."""

    node_counts: tuple[int, ...]
    others: tuple[str, ...]
    strategies: tuple[str, ...]
    scripts: tuple[Path, ...]
    given: dict[str, str]


def answer_question(place: Place, asked: Questions, output_format: str) -> None:
    """Print the answer: a better plan of a launch, strategies, a scaling curve, a comparison, or effects."""
    if asked.scripts:
        question = ScriptQuestion(paths=asked.scripts, given=asked.given, request=place.request)
        better = follow(plan_from_script(question, place.facts, place.measurements), quiet=True)
        emit_answer(better, output_format, lambda _: script_plan_page(better), is_wide=True)
    elif asked.strategies:
        judged = follow(judge_strategies(place, asked.strategies), quiet=True)
        emit_answer(judged, output_format, lambda _: strategies_page(judged), is_wide=True)
    elif len(asked.node_counts) > 1:
        curve = follow(scale(place, asked.node_counts), quiet=True)
        emit_answer(curve, output_format, lambda _: scaling_page(curve), is_wide=True)
    elif asked.others:
        places = (place, *(_place_named(name, place) for name in asked.others))
        compared = follow(compare(places), quiet=True)
        emit_answer(compared, output_format, lambda _: comparison_page(compared), is_wide=True)
    else:
        effects = follow(vary(place), quiet=True)
        emit_answer(effects, output_format, lambda _: sensitivity_page(effects), is_wide=True)


def _place_named(name: str, first: Place) -> Place:
    """Return the catalogue machine, or nodes with the GPU, of this name; the job and its nodes stay the same.

    Raises UsageError for an unknown name.
    """
    catalogue = load_catalogue()
    request = msgspec.structs.replace(first.request, gpu=None, gpus=None, network=None)
    if catalogue.machine(name) is not None:
        return Place(name, facts_of((), name), (), request)
    if catalogue.gpu_named(name) is None:
        raise UsageError(
            f"--compare {quoted(name)} names no machine and no GPU of the catalogue",
            "see `rigtune list machines` and `rigtune list gpus`",
        )
    return Place(name, MachineFacts(), (), msgspec.structs.replace(request, gpu=name))
