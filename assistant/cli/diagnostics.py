"""The only writer of stderr: errors in one line, and progress in words."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import click

from assistant.render.lines import clean_lines
from assistant.usecases.events import BenchFailed, Event, Measured, Progress, StageFinished, StageStarted, Written
from probes.errors import RigtuneError
from probes.measurements import Measurement
from probes.units import duration


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


class StatusLine:
    """A line on a terminal that the next words replace; nothing elsewhere, where it could not be taken back."""

    def __init__(self) -> None:
        self._is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_shown = False

    @property
    def is_live(self) -> bool:
        return self._is_live

    def show(self, words: str) -> None:
        if self._is_live:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"\r\x1b[2K{clean_lines(one_line(words))[:width]}")
            self._is_shown = True

    def clear(self) -> None:
        if self._is_shown:
            self._write("\r\x1b[2K")
            self._is_shown = False

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, UnicodeEncodeError):
            print(text, end="", file=sys.stderr, flush=True)


def follow(events: Iterator[Event], *, quiet: bool = False, verbose: bool = False) -> Any:
    """Run a use-case to its end, telling its stages on stderr, and return the last result.

    A stage is announced when it has done something, so that one that fails at once leaves the error's line alone. What one
    benchmark measured is told in one line when the next begins, and on a terminal a line below shows what runs.
    """
    result = None
    announced = ""
    measured: list[Measurement] = []
    job = -1
    status = StatusLine()
    try:
        for event in events:
            if isinstance(event, StageFinished):
                result = event.result
            if quiet:
                continue
            if isinstance(event, Measured):
                measured.append(event.measurement)
                continue
            status.clear()
            lines = [announced, *_partial(measured)]
            measured = []
            announced = ""
            if isinstance(event, Progress) and event.stage == "bench" and event.total:
                # The first says what will be occupied for how long; where no line can be replaced, each job is told once.
                live = _job(event) if job >= 0 else ""
                lines += [f"  {live or event.message}"] if job < 0 or (event.done >= job and not status.is_live) else []
                job = 0 if job < 0 else event.done + 1
            else:
                live = ""
                line = _words(event, verbose)
                if isinstance(event, StageStarted):
                    announced = line
                else:
                    lines.append(line)
            for line in filter(None, lines):
                say(line)
            if live:
                status.show(f"  {live}")
    finally:
        status.clear()
    return result


def _job(event: Progress) -> str:
    """`3 of 12  matrix multiply: dtype bf16, m 1024 ... 1 min 20 s left`."""
    left = "" if event.remaining_s is None else f"about {duration(max(1.0, round(event.remaining_s)))} left  "
    return f"{left}{min(event.done + 1, event.total)} of {event.total}  {event.message}"


def _partial(measured: list[Measurement]) -> list[str]:
    if not measured:
        return []
    from assistant.present.brief import brief_lines  # most commands measure nothing

    return [f"  {line}" for line in brief_lines(measured)]


def _words(event: Event, verbose: bool) -> str:
    match event:
        case StageStarted():
            return event.title
        case Progress() if verbose or not event.total:
            return f"  {event.message}"
        case BenchFailed():
            return f"  {event.failure.bench_id}: {event.failure.message}"
        case Written():
            return f"  wrote {event.path}  ({event.what})"
        case StageFinished() if verbose:
            return f"  {event.stage} took {duration(event.duration_s)}"
    return ""
