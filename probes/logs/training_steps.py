"""Steps in the logs of training programs: loss, step time, memory and rate, one row of a table per format.

A row names the lines of one program and the regular expression of each figure. To add a program, add a row,
and lines of the program to `tests/unit/probes/logs/test_training_steps.py`. Some programs write their steps
to files, which are read too: `trainer_state.json`, a CSV with a column `step`, and JSON lines.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec

from probes.base.patterns import pattern
from probes.base.record import Record
from probes.base.units import GIB, MIB
from probes.logs.envelopes import Unwrapper
from probes.logs.stream import without_escapes

_NUMBER = r"['\"]?\$?(-?\d[\d,]{0,15}(?:\.\d{1,17})?(?:[eE][+-]?\d{1,3})?)['\"]?"
"""A bare or quoted number: transformers 5 quotes its figures, and torchtitan writes thousands as 1,234."""
_MOST_SAMPLES = 100_000
_LONGEST_LINE = 20_000


class StepSample(Record, kw_only=True):
    """The figures that a log reports at one step; None for a figure that it does not report."""

    step: int | None = None
    steps: int | None = None
    """Number of all steps of the training."""
    loss: float | None = None
    seconds: float | None = None
    """Duration of the step, or mean over the steps since the last report."""
    elapsed_s: float | None = None
    """Seconds since the start of the training."""
    mean_s: float | None = None
    """Mean duration of all steps so far."""
    run_steps_per_s: float | None = None
    """Steps per second of the whole run, with its start and its checkpoints."""
    tokens_per_s: float | None = None
    """Tokens per second and GPU."""
    allocated_bytes: float | None = None
    """Peak memory that the framework's allocator handed out."""
    reserved_bytes: float | None = None
    """Peak memory that the framework's allocator took from the device."""


class Figure(NamedTuple):
    """A figure of a line: its field in `StepSample`, its pattern, and the factor to SI units."""

    field: str
    shape: re.Pattern[str]
    factor: float = 1.0


class Format(NamedTuple):
    """The lines of one program."""

    id: str
    title: str
    starts: re.Pattern[str]
    """Pattern of the lines that begin a new step; other lines with figures complete the step before."""
    figures: tuple[Figure, ...]
    source: str
    resolution_s: float = 0.0
    """Resolution of the times; 0 if it does not matter."""
    signs: tuple[str, ...] = ()
    """Words of which each line with a figure has at least one; other lines are not examined."""


def _figure(field: str, before: str, after: str = "", factor: float = 1.0) -> Figure:
    return Figure(field, pattern(f"{before}{_NUMBER}{after}"), factor)


_KEY = r"['\"]\s{0,2}:\s{0,2}"
FORMATS: tuple[Format, ...] = (
    Format(
        id="megatron",
        title="Megatron-LM",
        starts=pattern(r"\biteration\s{1,12}\d{1,12}\s{0,2}/\s{0,12}\d{1,12} \|"),
        figures=(
            _figure("step", r"\biteration\s{1,12}"),
            _figure("steps", r"\biteration\s{1,12}\d{1,12}\s{0,2}/\s{0,12}"),
            _figure("loss", r"\blm loss: {1,4}"),
            _figure("seconds", r"elapsed time per iteration \(ms\): {1,4}", factor=1e-3),
            _figure("allocated_bytes", r"\| max allocated: {1,4}", factor=MIB),
            _figure("reserved_bytes", r"\| max reserved: {1,4}", factor=MIB),
        ),
        signs=("iteration ", "max allocated"),
        source="NVIDIA/Megatron-LM, training/training.py and utils.py (main, 2026-11)",
    ),
    Format(
        id="deepspeed",
        title="DeepSpeed",
        starts=pattern(
            r"\bsteps: \d{1,12} loss: |\bglobal_step=\d{1,12}, RunningAvg|\bstep=\d{1,12}, skipped="
        ),
        figures=(
            _figure("step", r"(?:\bsteps: |\bglobal_step=|(?<!_)\bstep=)"),
            _figure("loss", r"\bsteps: \d{1,12} loss: "),
            _figure("seconds", r"\biter time \(s\): "),
            _figure("allocated_bytes", r"\bMaxMemAllocated=", r" ?GB", GIB),
            _figure("allocated_bytes", r"\bMax_MA ", r" GB", GIB),
            _figure("reserved_bytes", r"\bMax_CA ", r" GB", GIB),
        ),
        signs=("global_step", "step=", "steps: ", "iter time", "time (ms)", "MaxMemAllocated", "Max_MA"),
        source="deepspeedai/DeepSpeed, utils/timer.py and runtime/utils.py (0.19); GB is 2**30 bytes there",
    ),
    Format(
        id="torchtitan",
        title="torchtitan",
        starts=pattern(r"\bstep: {1,4}\d{1,12} {1,4}(?:\S{0,8})loss: "),
        figures=(
            _figure("step", r"\bstep: {1,4}"),
            _figure("loss", r"\bloss: {1,4}"),
            _figure("tokens_per_s", r"\btps: {1,4}"),
            _figure("reserved_bytes", r"\bmemory: {1,4}", "GiB", GIB),
        ),
        signs=("step: ",),
        source="pytorch/torchtitan, components/metrics.py (0.3.0)",
    ),
    Format(
        id="huggingface",
        title="Hugging Face Trainer, TRL, axolotl, ms-swift",
        starts=pattern(r"^\{['\"]loss['\"]: "),
        figures=(
            _figure("step", rf"['\"](?:global_step/max_steps|global_step|step){_KEY}"),
            _figure("steps", rf"['\"]global_step/max_steps{_KEY}['\"]?\d{{1,12}}/"),
            _figure("loss", rf"['\"]loss{_KEY}"),
            _figure("run_steps_per_s", rf"['\"]train_steps_per_second{_KEY}"),
            _figure("mean_s", rf"['\"]train_speed\(s/it\){_KEY}"),
            _figure("allocated_bytes", rf"['\"]memory/max_allocated \(GiB\){_KEY}", factor=GIB),
            _figure("reserved_bytes", rf"['\"]memory\(GiB\){_KEY}", factor=GIB),
        ),
        signs=("{'loss", '{"loss', "train_steps", "memory", "it/s", "s/it"),
        source="huggingface/transformers, trainer_callback.py (4.57, 5.23); axolotl 0.19; ms-swift 4.6",
    ),
    Format(
        id="llama-factory",
        title="LLaMA-Factory",
        starts=pattern(r"\"current_steps\": \d"),
        figures=(
            _figure("step", r"\"current_steps\": "),
            _figure("steps", r"\"total_steps\": "),
            _figure("loss", r"\"loss\": "),
            Figure("elapsed_s", pattern(r"\"elapsed_time\": \"((?:\d{1,5} days?, )?\d{1,4}:\d\d:\d\d)\"")),
        ),
        signs=("current_steps",),
        source="hiyouga/LLaMA-Factory, train/callbacks.py (0.9.5): trainer_log.jsonl",
        resolution_s=1.0,
    ),
    Format(
        id="reference",
        title="rigtune's reference workload",
        starts=pattern(r"^step \d{1,12}/\d{1,12}  loss "),
        figures=(
            _figure("step", r"^step "),
            _figure("steps", r"^step \d{1,12}/"),
            _figure("loss", r"  loss "),
            _figure("seconds", r"  step_time ", " s "),
            _figure("allocated_bytes", r", peak memory ", " GiB allocated", GIB),
            _figure("reserved_bytes", r" GiB allocated, ", " GiB reserved", GIB),
        ),
        signs=("  step_time ", ", peak memory "),
        source="probes/workers/rigtune_worker/train.py",
    ),
    Format(
        id="helper",
        title="rigtune's helper",
        starts=pattern(rf"\{{['\"]event{_KEY}['\"]step['\"]"),
        figures=(
            _figure("step", rf"['\"]step{_KEY}"),
            _figure("loss", rf"['\"]loss{_KEY}"),
            # Its tokens per second are those of all GPUs, and so are no `tokens_per_s` of a sample.
            _figure("seconds", rf"['\"]duration_s{_KEY}"),
            _figure("allocated_bytes", rf"['\"]peak_memory_bytes{_KEY}"),
            _figure("reserved_bytes", rf"['\"]peak_reserved_bytes{_KEY}"),
        ),
        signs=("duration_s",),
        source="probes/workers/rigtune_worker/rigtune_helper.py: Run.steps, and the lines of RIGTUNE_REPORT",
    ),
)
_SIGN = re.compile("|".join(re.escape(sign) for kind in FORMATS for sign in kind.signs).encode())
_PHASES = pattern(r"\b(fwd|bwd|step): (\d{1,12}(?:\.\d{1,6})?)")
_MICROSTEP = "_microstep"
_BAR = pattern(r"\| {0,4}(\d{1,12})/(\d{1,12}) \[[\d:]{1,12}<[\d:?]{1,12}, {1,4}([\d.]{1,12})(s/it|it/s)")
_DURATION = pattern(r"(?:(\d{1,5}) days?, )?(\d{1,4}):(\d\d):(\d\d)")


class StepLog(NamedTuple):
    """The steps of one log."""

    format: Format | None = None
    """None if no line is of a known format."""
    samples: tuple[StepSample, ...] = ()

    @property
    def steps(self) -> int:
        """Return the number of the last step, or the number of reports if the steps have no numbers."""
        numbers = [sample.step for sample in self.samples if sample.step is not None]
        return max(numbers) if numbers else len(self.samples)


class _Written(NamedTuple):
    """A line without the prefixes of launchers, and the process that the prefixes name."""

    writer: tuple[object, ...]
    text: str


_Bar: TypeAlias = tuple[int, float] | None
"""The number of a step and its seconds, as a progress bar shows them."""


def read_step_log(data: bytes) -> StepLog:
    """Return the steps in the output of a training program, or in its log file.

    The prefixes of launchers and the colours of terminals are removed. The result has the first format in
    `FORMATS` of which the log contains steps. A `trainer_state.json` has the format of Hugging Face, and a
    CSV with a column `step` the format of Lightning. The result has no samples if no format fits.
    """
    data = without_escapes(data)
    text = data.decode("utf-8", "replace")
    if text.lstrip().startswith("{") and '"log_history"' in text[:1_000_000]:
        return _trainer_state(text)
    lines = list(_lines(data))
    for kind in FORMATS:
        samples = tuple(_samples(kind, lines))
        if samples:
            return StepLog(kind, samples)
    return _csv(text)


def _lines(data: bytes) -> Iterator[_Written]:
    """Yield the lines that may have figures; a line that progress bars redraw counts as several lines."""
    unwrapper, end = Unwrapper(""), 0
    while (match := _SIGN.search(data, end)) is not None:
        begin = max(end, data.rfind(b"\n", end, match.start()) + 1)
        end = data.find(b"\n", match.end())
        end = len(data) if end < 0 else end
        first: tuple[object, ...] = ()
        for part in filter(None, data[begin:end].split(b"\r")):
            for line in unwrapper.lines(1, part[:_LONGEST_LINE]):
                names = (line.host, line.rank, line.local_rank, line.pid)
                writer = names if any(name is not None for name in names) else first
                first = first or writer  # launchers write their prefix once, before the first part
                yield _Written(writer, line.text)


def step_figures(line: str) -> dict[str, float]:
    """Return the figures of a line that begins a step, by field of `StepSample`; empty for other lines."""
    for kind in FORMATS:
        if kind.starts.search(line) is not None:
            return _figures(kind, line, is_start=True)
    return {}


def _of_the_first_writer(kind: Format, lines: Iterable[_Written]) -> Iterator[tuple[str, _Bar, bool]]:
    """Yield each line without its progress bar, the step of the last bar, and whether the line begins a step.

    If several processes report the steps, for example one on each node, only the first process counts.
    """
    first_writer: tuple[object, ...] | None = None
    bar: _Bar = None
    for writer, text in lines:
        line = text
        if kind.id == "huggingface" and (match := _BAR.search(text)) is not None:
            line, bar = text[match.end() :].lstrip("] "), _step_of_bar(match)
        is_start = kind.starts.search(line) is not None
        if is_start and first_writer is None:
            first_writer = writer
        if not is_start or writer == first_writer:
            yield line, bar, is_start


def _step_of_bar(match: re.Match[str]) -> _Bar:
    """Return the number and the seconds of the step that a progress bar shows, if it shows a rate."""
    rate = float(match[3]) if match[3].replace(".", "", 1).isdigit() else 0.0
    if rate <= 0:
        return None
    return int(match[1]), rate if match[4] == "s/it" else 1 / rate


def _samples(kind: Format, lines: Iterable[_Written]) -> Iterator[StepSample]:
    """Yield the steps of one format; lines between two steps complete the step before."""
    values: dict[str, float] = {}
    seconds: float | None = None
    count = 0
    for line, bar, is_start in _of_the_first_writer(kind, lines):
        if kind.id == "deepspeed" and "time (ms) |" in line and _MICROSTEP not in line:
            phases = {name: float(number) * 1e-3 for name, number in _PHASES.findall(line)}
            seconds = sum(phases.values()) if {"fwd", "bwd", "step"} <= phases.keys() else seconds
        if is_start and values and _starts_anew(kind, values, line):
            if count >= _MOST_SAMPLES:
                return
            count += 1
            yield _sample(values)
            values = {}
        if is_start or values:
            read = _figures(kind, line, is_start=is_start)
            if is_start and bar is not None and "mean_s" not in read:
                read = {"step": float(bar[0]), "seconds": bar[1], **read}
            values.update(read)
            if seconds is not None and "seconds" not in values:
                values["seconds"], seconds = seconds, None
    if values:
        yield _sample(values)


def _starts_anew(kind: Format, values: dict[str, float], line: str) -> bool:
    """Return whether the line begins another step; DeepSpeed reports one step in several lines."""
    if "step" not in values:
        return True
    step = _figures(kind, line, is_start=True).get("step")
    return step is None or step != values["step"]


def _figures(kind: Format, line: str, *, is_start: bool) -> dict[str, float]:
    """Return the figures of a line; a line that starts no step has only memory sizes and the run's rate."""
    figures: dict[str, float] = {}
    for figure in kind.figures:
        if not is_start and not figure.field.endswith(("_bytes", "run_steps_per_s")):
            continue
        match = figure.shape.search(line)
        number = None if match is None else _number(match[1])
        if number is not None:
            figures.setdefault(figure.field, number * figure.factor)
    return figures


def _number(text: str) -> float | None:
    """Return a finite number, or a duration as seconds; None for other texts."""
    duration = _DURATION.fullmatch(text)
    if duration is not None:
        days, hours, minutes, seconds = (int(part or 0) for part in duration.groups())
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _sample(values: dict[str, float]) -> StepSample:
    fields: dict[str, Any] = dict(values)
    for name in ("step", "steps"):
        if name in values:
            fields[name] = int(values[name])
    return StepSample(**fields)


def _trainer_state(text: str) -> StepLog:
    """Return the steps of `trainer_state.json`, which contains no times."""
    try:
        state = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return StepLog()
    history = state.get("log_history")
    samples = []
    for entry in history if isinstance(history, list) else ():
        if not isinstance(entry, dict):
            continue
        # A boolean or a text is no number, and a huge integer has no finite value.
        numbers = {name: _number(repr(entry.get(name))) for name in ("step", "loss")}
        values = {name: number for name, number in numbers.items() if number is not None}
        if len(values) == len(numbers):
            samples.append(_sample(values))
    kind = next(each for each in FORMATS if each.id == "huggingface")
    return StepLog(kind, tuple(samples[:_MOST_SAMPLES])) if samples else StepLog()


LIGHTNING = Format(
    id="lightning",
    title="Lightning's CSV logger",
    starts=pattern(r"step"),
    figures=(),
    source="Lightning-AI/pytorch-lightning 2.6, loggers/csv_logs.py; utilities/throughput.py",
)
_COLUMNS = {
    "loss": ("train_loss_step", "train_loss", "train/loss", "loss"),
    "elapsed_s": ("train|time", "train/time", "time"),
}
"""Names of columns that programs log, the most exact first."""


def _csv(text: str) -> StepLog:
    """Return the steps of a CSV with a column `step`.

    Rows with neither a training loss nor a time, such as rows of validation, are left out.
    """
    head = text.split("\n", 1)[0]
    if "step" not in head.strip().split(","):
        return StepLog()
    samples = []
    try:
        for row in csv.DictReader(io.StringIO(text)):
            # Lightning counts steps from 0.
            values = {"step": _number(row.get("step") or "")}
            for field, names in _COLUMNS.items():
                values[field] = next((_number(row[name]) for name in names if row.get(name)), None)
            figures = {name: value for name, value in values.items() if value is not None}
            if "step" in figures and len(figures) > 1:
                samples.append(_sample({**figures, "step": figures["step"] + 1}))
            if len(samples) >= _MOST_SAMPLES:
                break
    except csv.Error:
        return StepLog()
    return StepLog(LIGHTNING, tuple(samples)) if samples else StepLog()
