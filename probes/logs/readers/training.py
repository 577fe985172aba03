"""Reader of losses and gradients that are no numbers in training loops.

Source: huggingface/transformers, trainer.py; NVIDIA/Megatron-LM, training.py; karpathy/nanoGPT, train.py
(read 2026-11).
"""

from __future__ import annotations

from probes.logs.event import Event, LogLine
from probes.logs.events.process_events import TrainingNoNumber
from probes.logs.readers.row_readers import read_rows, row, signs

_LOSS = (
    r"(?i)(?<![\w./])(?<!val )(?<!eval )(?<!test )(?<!best )(?<!validation )"
    r"(?:(?:train|training|lm|total|mean|avg|step)[ _/])?loss['\"]?\s{0,4}[:=]?\s{0,4}"
)
"""Words of training losses; a validation loss may be no number before the first validation."""
_ROWS = (
    row(TrainingNoNumber, "nan", rf"{_LOSS}(?:tensor\()?(?P<value>nan)\b(?!,? ?(?:check|guard|detect))"),
    row(TrainingNoNumber, "NaN", rf"{_LOSS}(?P<value>NaN)\b(?! ?(?:check|guard|detect))"),
    row(TrainingNoNumber, "nan", rf"{_LOSS}0\.0\b.{{0,40}}\bgrad_norm['\"]?: ?(?P<value>nan)\b"),
)
SIGNS: tuple[bytes, ...] = signs(_ROWS)


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the event of one line."""
    return read_rows(_ROWS, line)
