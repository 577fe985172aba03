"""The only writer of stderr: errors in one line, and progress in words."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from assistant.usecases.events import BenchFailed, Event, Measured, Progress, StageFinished, StageStarted, Written
from probes.errors import RigtuneError
from probes.units import duration


def one_line(text: str) -> str:
    return " ".join(text.split())


def complain(error: RigtuneError) -> None:
    """One line: what is wrong and what to do."""
    hint = f" (hint: {one_line(error.hint)})" if error.hint else ""
    print(f"rigtune: {one_line(error.message)}{hint}", file=sys.stderr)


def complain_usage(error: click.ClickException) -> None:
    """click's own usage errors in the same form."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "rigtune"
    print(f"rigtune: {one_line(error.format_message())} (hint: {path} --help)", file=sys.stderr)


def follow(events: Iterator[Event], *, quiet: bool = False, verbose: bool = False) -> Any:
    """Run a use-case to its end, telling its stages on stderr, and return the last result."""
    result = None
    for event in events:
        if isinstance(event, StageFinished):
            result = event.result
        if not quiet:
            _tell(event, verbose)
    return result


def _tell(event: Event, verbose: bool) -> None:
    line = ""
    match event:
        case StageStarted():
            line = event.title
        case Progress() if verbose or not event.total:
            line = f"  {event.message}"
        case Measured():
            measured = event.measurement
            line = f"  {measured.bench_id}  {measured.subject}  {measured.metric} {measured.median:.4g} {measured.unit}"
        case BenchFailed():
            line = f"  {event.failure.bench_id}: {event.failure.message}"
        case Written():
            line = f"  wrote {event.path}  ({event.what})"
        case StageFinished() if verbose:
            line = f"  {event.stage} took {duration(event.duration_s)}"
    if line:
        print(line, file=sys.stderr, flush=True)
