"""Read the options of `rigtune bench`: matrix shapes, the list of benchmarks, and signals to stop."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Iterator
from types import FrameType

import click

from assistant.cli.output import emit_answer
from assistant.pages.measured.bench_costs import list_page
from assistant.usecases.bench.bench_list import list_benchmarks
from assistant.usecases.measure import MeasureOptions
from probes.facts import MachineFacts

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LARGEST_SIDE = 2**20


def read_shapes(
    _context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[int, int, int], ...]:
    """Return matrix products, each as rows x columns x inner size."""
    return tuple(_read_shape(value, option) for value in values)


def _read_shape(value: str, option: click.Parameter) -> tuple[int, int, int]:
    match = re.fullmatch(r"\s*(\d{1,7})[x×](\d{1,7})[x×](\d{1,7})\s*", value, re.ASCII | re.IGNORECASE)
    sizes = [int(size) for size in match.groups()] if match else []
    if not sizes or not all(1 <= size <= _LARGEST_SIDE for size in sizes):
        message = f"{value!r} is no matrix product; give rows x columns x inner size, such as 8192x8192x4096."
        raise click.BadParameter(message, param=option)
    return sizes[0], sizes[1], sizes[2]


@contextlib.contextmanager
def stop_on_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether the user wants the work to stop.

    The first signal asks for it, a second one interrupts at once. Signals that were ignored before, as under
    nohup, stay ignored.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, ask)
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def print_entries(facts: MachineFacts, options: MeasureOptions, output_format: str) -> None:
    """List every benchmark with its cost, what it occupies, and whether it applies here."""
    entries = list_benchmarks(facts, options)
    answer = {"schema_version": 1, "benchmarks": entries}
    emit_answer(answer, output_format, lambda width: list_page(entries, width=width), is_wide=True)
