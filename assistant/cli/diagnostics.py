"""Write errors in one line and progress in words to stderr.

Besides this module, only programs that rigtune starts as processes of their own, and `_entry.py` before the
command line is loaded, write to stderr.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from assistant.cli.output import encoding_of, spelled
from assistant.pages.blocks import Page
from assistant.text.plain_writer import clean_lines, filled, text_of, width_of_terminal
from assistant.usecases.events import (
    BenchFailed,
    Event,
    Measured,
    Progress,
    Remarked,
    StageFinished,
    StageStarted,
    Written,
)
from probes.base.errors import RigtuneError
from probes.base.units import duration
from probes.facts.measurements import Measurement


def has_terminal() -> bool:
    """Return whether a person can see the terminal UI and type; the library Textual draws on stderr."""
    is_terminal = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    return is_terminal and os.environ.get("TERM") != "dumb"


def one_line(text: str) -> str:
    return " ".join(text.split())


def say(words: str) -> None:
    """Print one or several lines on stderr.

    Names in the text may come from hostile files, and stderr may be closed.
    """
    with contextlib.suppress(OSError):
        print(spelled(clean_lines(words), encoding_of(sys.stderr)), file=sys.stderr, flush=True)


def say_page(page: Page) -> None:
    """Print a page on stderr, in the columns of the terminal."""
    say(text_of(page, width=width_of_terminal()).rstrip("\n"))


def complain(error: RigtuneError) -> None:
    """Print one line that states the error and its remedy."""
    say(f"rigtune: {one_line(error.message)}" + (f" (hint: {one_line(error.hint)})" if error.hint else ""))


def complain_bug(error: Exception) -> None:
    """Print the traceback of an unexpected error, then one line that explains it."""
    import traceback

    say("".join(traceback.format_exception(error)).rstrip())
    say(f"rigtune: {type(error).__name__} in rigtune itself: a bug (hint: report it with the lines above)")


def complain_usage(error: click.ClickException) -> None:
    """Print a usage error of click in one line, with the command whose `--help` explains the usage."""
    context = getattr(error, "ctx", None)
    path = "rigtune" if context is None else context.command_path
    say(f"rigtune: {one_line(error.format_message())} (hint: {path} --help)")


class StatusLine:
    """A line on a terminal that is overwritten by the next text; without a terminal nothing is shown."""

    def __init__(self) -> None:
        self.is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        """True on a terminal."""
        self._is_shown = False

    def show(self, words: str) -> None:
        if self.is_live:
            import shutil

            width = shutil.get_terminal_size().columns - 1
            shown = spelled(clean_lines(one_line(words)), encoding_of(sys.stderr))[:width]
            self._write(f"\r\x1b[2K{shown}")
            self._is_shown = True

    def clear(self) -> None:
        if self._is_shown:
            self._write("\r\x1b[2K")
            self._is_shown = False

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, UnicodeEncodeError):
            print(text, end="", file=sys.stderr, flush=True)


def follow(events: Iterator[Event], *, quiet: bool = False, verbose: bool = False) -> Any:
    """Run a use case to its end, report its stages on stderr, and return the last result.

    A stage is announced at its first event, so that a stage that fails at once prints only the error.
    """
    result = None
    reporter = _Reporter(verbose=verbose)
    try:
        for event in events:
            if isinstance(event, StageFinished):
                result = event.result
            if not quiet:
                reporter.report(event)
    finally:
        reporter.end()
    return result


class _Reporter:
    """Writer of the events of a use case in words.

    Each benchmark is announced when it begins, and its results follow in a few lines when the next benchmark
    begins. On a terminal, the last line shows the running benchmark and the remaining time.
    """

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose
        self._announced = ""
        self._status = StatusLine()
        self._measured: list[Measurement] = []
        self._failed: dict[str, list[str]] = {}
        """The failed benchmarks by the reason of the failure."""
        self._job = -1
        """Number of the last announced job; -1 until rigtune has announced which devices it will occupy."""

    def report(self, event: Event) -> None:
        if isinstance(event, Measured):
            self._measured.append(event.measurement)
            return
        if isinstance(event, BenchFailed):
            self._failed.setdefault(event.failure.message, []).append(event.failure.bench_id)
            return
        self._say_failed()
        if isinstance(event, StageStarted):
            if self._announced:
                say(self._announced)
            self._announced = event.title
            return
        if isinstance(event, Progress) and event.stage == "bench" and event.total:
            self._report_job(event)
            return
        if isinstance(event, StageFinished):
            self._say_measured()
        self._say(_words(event, self._verbose))

    def end(self) -> None:
        self._status.clear()

    def _say_failed(self) -> None:
        for message, benchmarks in self._failed.items():
            self._say(f"  {', '.join(dict.fromkeys(benchmarks))}: {message}")
        self._failed = {}

    def _report_job(self, event: Progress) -> None:
        if self._job < 0:
            self._job = 0
            self._say(f"  {event.message}")
            return
        if event.done + 1 > self._job:
            self._say_measured()
            self._job = event.done + 1
            if not self._status.is_live:
                self._say(f"  {_job(event)}")
        self._status.show(f"  {_job(event)}")

    def _say_measured(self) -> None:
        if self._measured:
            from assistant.pages.measured.bench_page import brief_lines  # most commands measure nothing

            for line in brief_lines(self._measured):
                self._say(f"  {line}")
        self._measured = []

    def _say(self, words: str) -> None:
        if words:
            self._status.clear()
            if self._announced:
                say(self._announced)
                self._announced = ""
            say(words)


def _job(event: Progress) -> str:
    """Return for example `about 1 min 20 s left  3 of 12  matrix multiply: dtype bf16, m 1024`."""
    left = "" if event.remaining_s is None else f"about {duration(max(1.0, round(event.remaining_s)))} left  "
    return f"{left}{min(event.done + 1, event.total)} of {event.total}  {event.message}"


def _words(event: Event, verbose: bool) -> str:
    match event:
        case Progress() if verbose or not event.total:
            return f"  {event.message}"
        case Remarked():
            # A terminal would break long lines inside of words; a log keeps each remark in one line.
            if sys.stderr.isatty():
                return "\n".join(filled(event.text, indent=2, width=width_of_terminal()))
            return f"  {event.text}"
        case Written():
            return f"  wrote {event.path}  ({event.what})"
        case StageFinished() if verbose:
            return f"  {event.stage} took {duration(event.duration_s)}"
    return ""
