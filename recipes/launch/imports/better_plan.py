"""A better plan for an existing launch, as changes of its own files."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from probes.base.record import Record, Unknown
from recipes.launch.imports.adopted import OPTIONS, Imported, Statement
from recipes.launch.imports.layout_of_launch import SHARDING_WORDS
from recipes.launch.imports.spelled_settings import option_for, spelled_as
from recipes.launch.imports.training_files import LaunchFile
from recipes.launch.recipe import Parallelism, Recipe
from recipes.lint.document import Place
from recipes.lint.editing import unified_diff, with_edits
from recipes.lint.finding import Edit
from recipes.planning.layout_words import describe
from recipes.planning.plan import Choice, Plan
from recipes.planning.program_settings import layout_of, program_settings
from recipes.planning.programs import program_named
from recipes.planning.what_if import is_clear_gain
from recipes.predict.breakdowns import Predicted

SCHEMA_VERSION = 1


class LayoutChange(Record, kw_only=True):
    """A setting that the better plan changes."""

    setting: str
    before: str
    after: str
    where: str
    """Place that the diff changes; empty if a person must make the change."""


class ScriptPlan(Record, kw_only=True):
    """The answer to "What would a better plan gain?", for an existing launch."""

    schema_version: int = SCHEMA_VERSION
    files: tuple[str, ...]
    layout: str
    """Description of the layout that the files state."""
    ranks: int
    predicted: Predicted
    """Prediction of the launch as its files state it."""
    fits: bool | None
    """True if the launch fits into the memory of the GPUs; None if their memory is unknown."""
    best: Plan
    """Best plan of the same job and the same program on the same machine."""
    speed_up: float | Unknown
    """Speed of the best plan relative to the launch, less 1: 0.25 means a quarter more tokens per second."""
    is_better: bool
    """True if the best plan is clearly faster than the launch, or fits where the launch does not.

    A gain within the error of predictions is not clear.
    """
    changes: tuple[LayoutChange, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes on the import, and assumptions of the prediction.

    Examples of notes are files that were not given, and values that stay as they are written.
    """
    diff: str = ""
    """The changes as a unified diff of the files; empty if nothing in the files changes."""


def script_plan(
    imported: Imported, recipe: Recipe, files: Sequence[LaunchFile], predicted: Predicted, best: Plan
) -> ScriptPlan:
    """Return the comparison of a launch with the best plan, and the changes that turn the launch into this
    plan.

    `recipe` is the launch as its files state it, and `predicted` its prediction.
    """
    parallelism = recipe.parallelism
    room = best.cluster.memory_bytes_per_rank
    fits = None if room is None else predicted.memory_bytes_per_gpu.needed <= room.value
    speed_up = _speed_up(predicted, best.chosen.predicted)
    is_faster = not isinstance(speed_up, Unknown) and is_clear_gain(speed_up)
    is_better = is_faster or fits is False
    changes = _whole_batch(_changed(imported, parallelism, files, best)) if is_better else ()
    edits = [change for change in changes if change.edit is not None]
    return ScriptPlan(
        files=imported.files,
        layout=describe(parallelism.candidate),
        ranks=parallelism.world_size,
        predicted=predicted,
        fits=fits,
        best=best,
        speed_up=speed_up,
        is_better=is_better,
        changes=tuple(change.shown for change in changes),
        notes=(
            *imported.notes,
            *(
                f"{each.setting} = {each.value}: {each.because}"
                for each in imported.assumed
                if each.setting in _DECISIVE
            ),
        ),
        diff="".join(_diff(file, edits) for file in files),
    )


_DECISIVE = ("nodes", "ranks_per_node", "strategy", "grad_accum", "precision")
"""Assumptions on which a prediction depends."""


def _speed_up(before: Predicted, after: Predicted) -> float | Unknown:
    first, second = before.step_time_s.total, after.step_time_s.total
    if isinstance(first, Unknown):
        return first
    return second if isinstance(second, Unknown) else first / second - 1.0


class _Change(NamedTuple):
    shown: LayoutChange
    edit: Edit | None
    file: str


def _diff(file: LaunchFile, changes: Iterable[_Change]) -> str:
    edits = [change.edit for change in changes if change.file == file.name and change.edit is not None]
    return unified_diff(file.name, file.text, with_edits(file.text, dict.fromkeys(edits)))


_DERIVED = ("dp", "fsdp")
"""Degrees that follow from the others unless a file states them."""
_COMPANIONS = (
    *("recompute_method", "recomputed_layers", "layers_per_part", "pipeline_micro_batch"),
    "sequence_parallel",
)
"""Further settings of some programs, which must change together with the degrees and the checkpointing."""
_BY_HAND = ("nodes", "ranks_per_node", "offload")
_ABSENT = ""


def _values(layout: Parallelism | Choice) -> dict[str, str]:
    """Return the layout as values of the settings that files may state."""
    degrees = layout.degrees
    schedule = layout.pipeline_schedule if isinstance(layout, Parallelism) else layout.schedule
    if isinstance(layout, Parallelism):
        offload = layout.offload
    else:
        offload = "weights" if layout.offload_weights else "states" if layout.offload else "none"
    return {
        "sharding": SHARDING_WORDS[layout.strategy],
        **{name: str(getattr(degrees, name)) for name in ("dp", "fsdp", "tp", "pp", "vp", "cp", "ep")},
        "micro_batch": str(layout.micro_batch),
        "local_batch": str(layout.micro_batch * (layout.grad_accum if degrees.pp > 1 else 1)),
        "grad_accum": str(layout.grad_accum),
        "activation_checkpointing": layout.activation_checkpointing,
        "schedule": schedule,
        "offload": offload,
    }


def _changed(
    imported: Imported, parallelism: Parallelism, files: Sequence[LaunchFile], best: Plan
) -> Iterable[_Change]:
    """Yield each setting that must change, with the edit of the file that states it."""
    statements = {each.setting: each for each in imported.settings if each.file != OPTIONS}
    cluster = best.cluster
    before, after = _values(parallelism), _values(best.chosen)
    before |= {"nodes": str(parallelism.nodes), "ranks_per_node": str(parallelism.ranks_per_node)}
    after |= {"nodes": str(cluster.nodes), "ranks_per_node": str(cluster.ranks_per_node)}
    for name, value in _companions(imported.program, best).items():
        statement = statements.get(name)
        before[name], after[name] = _ABSENT if statement is None else statement.value, value
    for setting, old in before.items():
        new = after[setting]
        if new == old or _follows(setting, statements, best.chosen):
            continue
        statement = None if setting in _BY_HAND else statements.get(setting) or _wrapper(setting, statements)
        if statement is None:
            yield _added(imported, statements.values(), setting, old, new)
            continue
        edit = _edit(statement, new, files)
        where = "" if edit is None else statement.where
        shown = LayoutChange(setting=setting, before=old, after=new, where=where)
        yield _Change(shown, edit, statement.file)


_BATCH = ("micro_batch", "local_batch", "grad_accum")
"""Settings that together determine the global batch on a given number of data-parallel ranks."""


def _whole_batch(changes: Iterable[_Change]) -> tuple[_Change, ...]:
    """Return the changes, without edits of the batch if a person must make one of them.

    A diff with only some of the edits would change the global batch, and thus the trained model.
    """
    listed = tuple(changes)
    if all(change.edit is not None for change in listed if change.shown.setting in _BATCH):
        return listed
    return tuple(
        _Change(msgspec.structs.replace(change.shown, where=""), None, "")
        if change.shown.setting in _BATCH
        else change
        for change in listed
    )


def _companions(program_id: str, best: Plan) -> dict[str, str]:
    """Return the values of the program's `_COMPANIONS` for the best layout.

    The value is blank for settings that this layout does not need.
    """
    program = program_named(program_id)
    values = dict(program_settings(program, layout_of(best)))
    switch = "true"
    return {
        key: (values[name] or switch) if (name := program.settings[key]) in values else _ABSENT
        for key in _COMPANIONS
        if key in program.settings
    }


def _wrapper(setting: str, statements: dict[str, Statement]) -> Statement | None:
    return statements.get("framework") if setting == "sharding" else None


def _follows(setting: str, statements: dict[str, Statement], best: Choice) -> bool:
    """Return whether a setting follows from others that the files state, so that no file needs an edit."""
    statement = statements.get(setting)
    if setting == "local_batch":
        return statement is None
    if setting == "micro_batch":
        return "local_batch" in statements and statement is None
    if setting == "grad_accum":
        return statement is None and "global_batch" in statements
    if setting == "schedule" and best.degrees.pp == 1:
        return True
    if setting == "vp":
        return statement is None  # `layers_per_part` states the same
    if setting in _DERIVED:
        return statement is None or statement.spelled == "-1"
    return False


def _edit(statement: Statement, value: str, files: Sequence[LaunchFile]) -> Edit | None:
    """Return the edit of a statement; None if the file cannot state the value at this place.

    An option is removed if the value is blank, or if the value is `none` and the option has no word for it.
    """
    if statement.place is None or statement.place.end_column is None:
        return None
    word = None
    if value != _ABSENT:
        word = spelled_as(statement.owner, statement.name, statement.setting, value, statement.spelled)
    if word is not None:
        return Edit(place=_value_place(statement, statement.place), text=word)
    text = next(file.text for file in files if file.name == statement.file)
    return _removal(statement, text) if value in (_ABSENT, "none") else None


def _removal(statement: Statement, text: str) -> Edit | None:
    """Return an edit that removes an option of a command line with its value, if both are on one line."""
    line = text.split("\n")[statement.line - 1]
    words = r"[ \t]+".join(map(re.escape, statement.written.split()))
    match = re.search(rf"[ \t]{words}(?=\s|$)", line) if statement.written.startswith("-") else None
    if match is None:
        return None
    begin, end = match.span()
    place = Place(line=statement.line, column=begin + 1, end_line=statement.line, end_column=end + 1)
    return Edit(place=place, text="")


def _value_place(statement: Statement, place: Place) -> Place:
    """Return the place of the bare value: without the option's name, and without quotes."""
    size = len(statement.spelled)
    end = place.end_column or place.column
    quotes = end - place.column - size if end - place.column > size else 0
    is_joined = statement.written.lstrip("-").replace("-", "_").startswith(f"{statement.name}=")
    shift = 0 if is_joined else min(1, quotes // 2)
    stop = end - shift
    return msgspec.structs.replace(place, column=max(place.column, stop - size), end_column=stop)


def _added(
    imported: Imported, statements: Iterable[Statement], setting: str, before: str, after: str
) -> _Change:
    """Return the change that adds an option after the last option of the program.

    The change has no edit if the program has no such option, or if the files have no option of the program.
    """
    shown = LayoutChange(setting=setting, before=before, after=after, where="")
    option = None if setting in _BY_HAND else option_for(imported.program, setting, after)
    last = [each for each in statements if each.owner == imported.program and each.written.startswith("-")]
    if option is None or not last or last[-1].place is None or last[-1].place.end_column is None:
        return _Change(shown, None, "")
    place, file = last[-1].place, last[-1].file
    spot = Place(
        line=place.end_line or place.line,
        column=place.end_column or place.column,
        end_line=place.end_line or place.line,
        end_column=place.end_column or place.column,
    )
    shown = msgspec.structs.replace(shown, where=f"{file}:{spot.line}")
    return _Change(shown, Edit(place=spot, text=f" {option}"), file)
