"""Reader of training loops: steps with their times, rates and losses, and losses or gradients that are NaN.

Source: NVIDIA/Megatron-LM, training.py; deepspeedai/DeepSpeed, runtime/engine.py and utils/timer.py;
huggingface/transformers, trainer.py; pytorch/torchtitan, components/metrics.py; karpathy/nanoGPT, train.py
(read 2026-11).
"""

import math
import re
import statistics
from collections import deque

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.process_events import TrainingCourse, TrainingNoNumber
from probes.logs.readers.row_readers import read_rows, row, signs
from probes.logs.training_steps import step_figures

_LOSS = (
    r"(?i)(?<![\w./])(?<!val )(?<!eval )(?<!test )(?<!best )(?<!validation )"
    r"(?:(?:train|training|lm|total|mean|avg|step)[ _/])?loss['\"]?\s{0,4}[:=]?\s{0,4}"
)
"""Words of training losses; a validation loss may be NaN before the first validation."""
_ROWS = (
    row(TrainingNoNumber, "nan", rf"{_LOSS}(?:tensor\()?(?P<value>nan)\b(?!,? ?(?:check|guard|detect))"),
    row(TrainingNoNumber, "NaN", rf"{_LOSS}(?P<value>NaN)\b(?! ?(?:check|guard|detect))"),
    row(TrainingNoNumber, "nan", rf"{_LOSS}0\.0\b.{{0,40}}\bgrad_norm['\"]?: ?(?P<value>nan)\b"),
)
_NUMBER = r"(-?\d{1,12}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,3})?)"
_BAR = pattern(r"\d{1,3}%\|.{0,200}?\| (\d{1,12})/(\d{1,12}) \[\d[\d:]{3,12}<")
"""Progress bar of tqdm, with which the Trainer of transformers counts its steps."""
_SUMMARY = pattern(r"^\{'train_runtime': ")
"""Line with which the Trainer of transformers ends."""
_BAR_SECONDS = pattern(rf"[\[,]\s{{0,4}}{_NUMBER}s/it\b")
_TFLOPS = pattern(rf"(?:throughput per GPU \(TFLOP/s/GPU\)|TFLOPs|tflops): {{0,4}}{_NUMBER}")
_MEAN_LOSS = pattern(rf"'train_loss': ['\"]?{_NUMBER}")
_MOST_TIMES = 1000
SIGNS: tuple[bytes, ...] = (
    *signs(_ROWS),
    *(
        b" iteration ",
        b"steps: ",
        b"global_step=",
        b"step=",
        b"step: ",
        b"  step_time ",
        b"duration_s",
        b"current_steps",
        b"s/it",
        b"it/s",
        b"{'loss': ",
        b"{'train_runtime': ",
    ),
)


class Reader:
    """The course of the training of one source."""

    def __init__(self) -> None:
        self._last: LogLine | None = None
        self._step, self._steps, self._bar = 0, 0, (0, 0)
        self._loss: float | None = None
        self._finished = False
        self._trainer = False
        self._seconds: deque[float] = deque(maxlen=_MOST_TIMES)
        self._tflops: deque[float] = deque(maxlen=_MOST_TIMES)

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """Return an event if the loss or the norm of the gradients is NaN.

        Store the values that the line reports about a step.
        """
        text = line.text
        if (bar := _BAR.search(text)) is not None:
            self._bar = (int(bar[1]), int(bar[2]))
        figures = step_figures(text)
        is_summary = _SUMMARY.search(text) is not None
        if "step" in figures:
            self._step, self._steps = int(figures["step"]), int(figures.get("steps", 0))
        if figures or is_summary:
            self._last, self._finished = line, is_summary
            self._trainer = self._trainer or "step" not in figures
            self._loss = figures.get("loss", _value(_MEAN_LOSS.search(text), self._loss))
            if (rate := _value(_TFLOPS.search(text), None)) is not None:
                self._tflops.append(rate)
        seconds = figures.get("seconds")
        if seconds is None and bar is not None:
            seconds = _value(_BAR_SECONDS.search(text), None)
        if seconds is not None:
            self._seconds.append(seconds)
        return read_rows(_ROWS, line)

    def end(self) -> tuple[Event, ...]:
        """Return the summary of the training; empty if no line reports a step."""
        if self._trainer and not self._step:
            self._step, self._steps = self._bar
        if self._last is None or not self._step:
            return ()
        course = TrainingCourse(
            step=self._step,
            steps=self._steps or None,
            step_seconds=_median(self._seconds),
            tflops_per_gpu=_median(self._tflops),
            loss=self._loss,
            finished=int(self._finished or 0 < self._steps <= self._step),
        )
        return (event_of(course, self._last),)


def _value(match: re.Match[str] | None, other: float | None) -> float | None:
    """Return the number of a match; `other` if there is no match or the number is not finite."""
    if match is None:
        return other
    number = float(next(group for group in match.groups() if group))
    return number if math.isfinite(number) else other


def _median(values: deque[float]) -> float | None:
    return float(f"{statistics.median(values):.4g}") if values else None
