"""The only writer of stderr: errors in one line, and progress in words."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import click

from assistant.render.lines import clean_lines
from assistant.usecases.events import BenchFailed, Event, Measured, Progress, StageFinished, StageStarted, Written
from probes.errors import RigtuneError
from probes.measurements import Measurement
from probes.units import duration, quantity


def has_terminal() -> bool:
    """Whether somebody can see the terminal UI and type. Textual draws on stderr."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def one_line(text: str) -> str:
    return " ".join(text.split())


def say(words: str) -> None:
    """One or several lines. Names in them may come from hostile files; nobody may be listening."""
    with contextlib.suppress(OSError):
        print(clean_lines(words), file=sys.stderr, flush=True)


def complain(error: RigtuneError) -> None:
    """One line: what is wrong and what to do."""
    hint = f" (hint: {one_line(error.hint)})" if error.hint else ""
    say(f"rigtune: {one_line(error.message)}{hint}")


def complain_usage(error: click.ClickException) -> None:
    """click's own usage errors in the same form."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "rigtune"
    say(f"rigtune: {one_line(error.format_message())} (hint: {path} --help)")


def follow(events: Iterator[Event], *, quiet: bool = False, verbose: bool = False) -> Any:
    """Run a use-case to its end, telling its stages on stderr, and return the last result.

    A stage is announced when it has done something, so that one that fails at once leaves the error's line alone.
    """
    result = None
    announced = ""
    for event in events:
        if isinstance(event, StageFinished):
            result = event.result
        if quiet:
            continue
        if announced:
            say(announced)
        line = _words(event, verbose)
        announced = line if isinstance(event, StageStarted) else ""
        if line and not announced:
            say(line)
    return result


def _words(event: Event, verbose: bool) -> str:
    match event:
        case StageStarted():
            return event.title
        case Progress() if verbose or not event.total:
            return f"  {event.message}"
        case Measured():
            row = event.measurement
            return f"  {row.bench_id:<12} {row.subject:<10} {quantity(row.median, row.unit):>14}  {case_of(row)}"
        case BenchFailed():
            return f"  {event.failure.bench_id}: {event.failure.message}"
        case Written():
            return f"  wrote {event.path}  ({event.what})"
        case StageFinished() if verbose:
            return f"  {event.stage} took {duration(event.duration_s)}"
    return ""


def case_of(measurement: Measurement) -> str:
    """Metric and parameters that identify the case: `step time, micro_batch 8, precision bf16`."""
    metric = measurement.metric.removesuffix("_bytes_per_s").removesuffix("_per_s").removesuffix("_s").replace("_", " ")
    return ", ".join([metric, *(f"{name} {value}" for name, value in measurement.parameters.items())])
