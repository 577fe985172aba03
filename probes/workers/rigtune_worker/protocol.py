"""How a worker answers: JSON lines in files of its own, because everybody prints to standard output.

`rank<N>.jsonl` holds one object per line, each with `event`:

    start    versions, device and conditions; always first sample   `case` (what was measured) and the numbers
    of one sample group, written as soon as it is complete skipped  `case` and `message`: left out because it
    would overrun the time budget failure  `kind` (out_of_memory, unsupported, wrong_result, crashed) and
    `message`, with the `case` where one is concerned done     always last; a file without it is an incomplete
    answer
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NamedTuple, TextIO

OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "_alloc_failed")
"""In the words of CUDA and NCCL, of torch on a CPU, and of cuBLAS, which allocates past torch."""

LOST_PEER = ("Connection closed by peer", "Connection reset by peer")
"""How gloo says that another rank has gone."""


class Timing(NamedTuple):
    """What timing one call gave."""

    durations_s: list[float]
    """Seconds per call, one per sample, warm-up left out."""
    warmup_calls: int
    calls_per_sample: int
    half_width: float | None = None
    """Of the 95 % confidence interval of the median, as a fraction of the median; None below six samples."""
    budget_spent: bool = False
    """Sampling ended before the interval was narrow: the time was over, or there were very many samples."""
    settled: bool | None = True
    """False where the durations rose or fell all the time; None where there were too few to tell."""

    def figures(self) -> dict[str, float]:
        """How the timing went, as the answer's figures: counts, a fraction, and 0 or 1."""
        told: dict[str, float] = {
            "warmup_calls": self.warmup_calls,
            "calls_per_sample": self.calls_per_sample,
        }
        if self.half_width is not None:
            told["interval_half_width"] = self.half_width
        if self.settled is not None:
            told["unsettled"] = float(not self.settled)
        return {**told, "budget_spent": float(self.budget_spent)}


class SetupError(Exception):
    """The machine or the settings do not allow this run; the message is one line for the user."""


class CaseError(Exception):
    """One case cannot be measured; the others can."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def dump_line(file: TextIO, value: dict[str, Any]) -> None:
    """Write one line and hand it to the kernel at once: a killed worker loses nothing that it had
    finished.
    """
    file.write(json.dumps(value) + "\n")
    file.flush()


def is_out_of_memory(error: BaseException) -> bool:
    """True for torch's own error, and for the plain RuntimeErrors of libraries and of the CPU."""
    torch = sys.modules.get("torch")
    if isinstance(error, MemoryError) or (
        torch is not None and isinstance(error, torch.cuda.OutOfMemoryError)
    ):
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and any(sign in words for sign in OUT_OF_MEMORY)


def is_peer_lost(error: BaseException) -> bool:
    """True where another rank's end is the reason."""
    return any(words in str(error) for words in LOST_PEER)


class Answer:
    """The answer file of one rank."""

    def __init__(self, directory: str, rank: int) -> None:
        path = os.path.join(directory, f"rank{rank}.jsonl")
        self.file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - open as long as the worker
        self.seen: dict[str, Any] = {}
        """What a benchmark learns about its conditions while it runs; it goes into the last line."""

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
        """One case's durations; `series` holds what was seen over time, one value per sample, `figures`
        single numbers.
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
