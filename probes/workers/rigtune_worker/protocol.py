"""Write a worker's answers: JSON lines in separate files, because other code prints to standard output.

`rank<N>.jsonl` has one object per line, each with `event`:

    start    versions, device and conditions; the first line, unless the run failed before it
    sample   `case` (what was measured) and the numbers of one sample group, written as soon as it is complete
    skipped  `case` and `message`: the reason why the case was not measured, such as the time budget
    failure  `kind` and `message`, with the `case` if any; kinds: out_of_memory, unsupported, wrong_result,
             timeout, crashed
    done     always last; a file without it is an incomplete answer
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NamedTuple, TextIO

OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "_alloc_failed")
"""Words in errors of CUDA and NCCL, of torch on a CPU, and of cuBLAS, which allocates outside torch."""

LOST_PEER = ("Connection closed by peer", "Connection reset by peer")
"""Words in gloo's errors when another rank has ended."""


class Timing(NamedTuple):
    """The result of timing one call."""

    durations_s: list[float]
    """Seconds per call, one value per sample, without warm-up."""
    warmup_calls: int
    calls_per_sample: int
    half_width: float | None = None
    """Half width of the median's 95 % interval, divided by the median; None if there is no interval."""
    budget_spent: bool = False
    """True if sampling ended before the interval was narrow: at the time limit or the limit of samples."""
    settled: bool | None = True
    """False if the durations kept rising or falling; None if there were too few samples."""

    def figures(self) -> dict[str, float]:
        """Return the timing as figures for the answer; booleans become 0 or 1."""
        figures: dict[str, float] = {
            "warmup_calls": self.warmup_calls,
            "calls_per_sample": self.calls_per_sample,
        }
        if self.half_width is not None:
            figures["interval_half_width"] = self.half_width
        if self.settled is not None:
            figures["unsettled"] = float(not self.settled)
        return {**figures, "budget_spent": float(self.budget_spent)}


class SetupError(Exception):
    """A machine or settings that do not allow this run; the message is one line for the user."""


class CaseError(Exception):
    """A case that cannot be measured; other cases can."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def dump_line(file: TextIO, value: dict[str, Any]) -> None:
    """Write a line and pass it to the kernel immediately, so that a killed worker loses no results.

    JSON has no NaN and no infinity: such a number, for example the loss of a diverged run, becomes null.
    """
    finite = json.loads(json.dumps(value), parse_constant=lambda _: None)
    file.write(json.dumps(finite) + "\n")
    file.flush()


def first_line(error: BaseException) -> str:
    """Return the first line of an error's words, or the name of its type."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def is_out_of_memory(error: BaseException) -> bool:
    """Return True for MemoryError, torch's OutOfMemoryError, and a RuntimeError about a lack of memory.

    Libraries, and torch on a CPU, raise such a RuntimeError.
    """
    torch = sys.modules.get("torch")
    if isinstance(error, MemoryError) or (
        torch is not None and isinstance(error, torch.cuda.OutOfMemoryError)
    ):
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and any(sign in words for sign in OUT_OF_MEMORY)


def is_peer_lost(error: BaseException) -> bool:
    """Return True if another rank's end caused the error."""
    return any(words in str(error) for words in LOST_PEER)


class Answer:
    """The answer file of one rank."""

    def __init__(self, directory: str, rank: int) -> None:
        self.file = open(os.path.join(directory, f"rank{rank}.jsonl"), "w", encoding="utf-8")  # noqa: SIM115
        self.seen: dict[str, Any] = {}
        """Conditions that a benchmark detects while it runs; the last line contains them."""

    def start(self, rank: int, world_size: int, uuid: str, conditions: dict[str, Any]) -> None:
        dump_line(
            self.file,
            {
                "event": "start",
                "rank": rank,
                "world_size": world_size,
                "uuid": uuid,
                "conditions": conditions,
            },
        )

    def sample(
        self,
        case: dict[str, Any],
        timing: Timing | list[float],
        series: dict[str, list[float]] | None = None,
        **figures: Any,
    ) -> None:
        """Write one case's durations.

        `series` are values over time, one per sample; `figures` are single numbers.
        """
        if isinstance(timing, Timing):
            figures = {**timing.figures(), **figures}
            timing = timing.durations_s
        line = {
            "event": "sample",
            "case": case,
            "durations_s": timing,
            "figures": figures,
            "series": series or {},
        }
        dump_line(self.file, line)

    def skipped(self, case: dict[str, Any], message: str) -> None:
        dump_line(self.file, {"event": "skipped", "case": case, "message": message})

    def failure(self, kind: str, message: str, case: dict[str, Any] | None = None) -> None:
        dump_line(self.file, {"event": "failure", "kind": kind, "message": message, "case": case or {}})

    def done(self, conditions: dict[str, Any]) -> None:
        dump_line(self.file, {"event": "done", "conditions": {**conditions, **self.seen}})
