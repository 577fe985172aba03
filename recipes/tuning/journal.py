"""The journal of a tune: one JSON object per line, first the start, then each trial when it ends.

A tune that was killed may leave half a line at the end of the file; such a line is not counted.
"""

import hashlib
from typing import Annotated, NamedTuple, TypeAlias

import msgspec

from probes.base.errors import InputError
from probes.base.record import Record
from recipes.launch.recipe import Recipe
from recipes.tuning.contest import Trial
from recipes.tuning.tune_stages import Options
from recipes.tuning.variants import BASELINE

SCHEMA_VERSION = 1
_STAGES = 2


class Started(Record, kw_only=True, tag_field="event", tag="start"):
    """The first line: the recipe's digest, the options and the budget."""

    schema_version: int = SCHEMA_VERSION
    recipe: str
    """Digest of the recipe; another recipe needs another journal."""
    options: Options
    budget_s: float


class Ran(Record, kw_only=True, tag_field="event", tag="trial"):
    """One finished trial."""

    stage: Annotated[int, msgspec.Meta(ge=0, lt=_STAGES)]
    """Number of the stage, from 0."""
    trial: Trial


_Line: TypeAlias = Started | Ran


class Journal(NamedTuple):
    """The content of a journal."""

    started: Started
    trials: tuple[tuple[Trial, ...], ...]
    """Trials of each stage."""
    whole_bytes: int
    """Number of bytes of the complete lines."""


def line_of(entry: Started | Ran) -> bytes:
    """Return the line of an entry, with its line break."""
    return msgspec.json.encode(entry) + b"\n"


def digest_of(recipe: Recipe) -> str:
    """Return a digest of the recipe without its notes and decisions, on which no trial depends."""
    counted = msgspec.structs.replace(recipe, notes=(), decisions=())
    return hashlib.sha256(msgspec.json.encode(counted)).hexdigest()


def read_journal(data: bytes, name: str) -> Journal | None:
    """Return the content of the file `name`; None if not even the first line is complete.

    A failed trial of the baseline ended its tune, so this trial is left out and can be repeated. Raises
    InputError for a file that is no journal, for one that another version of rigtune wrote, and for a trial
    with impossible values.
    """
    remedy = "name another folder with --out, or measure again without --resume"
    started: Started | None = None
    trials: list[list[Trial]] = [[] for _ in range(_STAGES)]
    whole = data.rpartition(b"\n")[0] + b"\n" if b"\n" in data else b""
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            entry: _Line = msgspec.json.decode(line, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{name}, line {number}: not an entry of a journal: {error}", remedy) from error
        if isinstance(entry, Started):
            if started is not None or entry.schema_version != SCHEMA_VERSION:
                problem = "a second start, or a journal of another version of rigtune"
                raise InputError(f"{name}, line {number}: {problem}", remedy)
            started = entry
            continue
        if started is None:
            raise InputError(f"{name}, line {number}: a trial before the start", remedy)
        if not _is_sound(entry.trial):
            raise InputError(f"{name}, line {number}: a trial with impossible values", remedy)
        trials[entry.stage].append(entry.trial)
    if started is None:
        return None
    kept = tuple(tuple(_without_failed_baseline(stage)) for stage in trials)
    return Journal(started, kept, len(whole))


def _is_sound(trial: Trial) -> bool:
    """Return whether a trial has a step time exactly if it was measured; `Trial` has the other bounds."""
    return (trial.step_time_s is not None) == (trial.outcome == "measured")


def _without_failed_baseline(trials: list[Trial]) -> list[Trial]:
    """Return the trials without those of the baseline that failed, because nothing can be compared then."""
    return [trial for trial in trials if trial.candidate != BASELINE or trial.outcome == "measured"]
