"""Fit parameter rows to measurements robustly, with priors, and repeat the fit with each source left out.

The residual of a measurement is ln(predicted / measured). Its weight falls with the number of measurements of
the same source, so that a large table does not decide for all others. A residual far beyond the error of a
good model hardly counts (Cauchy's loss): such runs have a cause that their row does not state. Each parameter
is held near its prior, so that the literature decides what the measurements leave open.
"""

from __future__ import annotations

import collections
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from recipes.predict.parameters import FILES
from tests.calibration.priors import Prior, load_priors, recording_reads, trying

if TYPE_CHECKING:
    import numpy as np

SOFTNESS = 0.2
"""Residual beyond which a measurement counts less and less: the error of a good model."""
STEP = 0.02
ROUNDS = 12
NEAR = 1e-4


class Item(NamedTuple):
    """One measurement."""

    source: str
    predicted: Callable[[], float | None]
    """The prediction with the present values; None if the row is refused."""
    measured: float
    label: str = ""
    interval: str = ""
    """Key of the interval that its residual counts for."""
    software: str = ""
    """Id of the stack that has the name of the software; blank if none has."""
    gpu: str = ""


class Fit(NamedTuple):
    """Result of a fit."""

    values: dict[str, float]
    residuals: list[float]
    """ln(predicted / measured) of every item, in their order; nan where refused."""


def to_line(row: Prior, value: float) -> float:
    """Return the value on a scale of all real numbers."""
    return math.log(value) if row.scale == "log" else math.log(value / (1.0 - value))


def from_line(row: Prior, position: float) -> float:
    """Return the inverse of `to_line`; the position is clipped so that the value stays inside its limits."""
    if row.scale == "log":
        return math.exp(max(-80.0, min(80.0, position)))
    return 1.0 / (1.0 + math.exp(-max(-12.0, min(12.0, position))))


def residual(item: Item) -> float:
    """Return ln(predicted / measured); nan without a prediction."""
    value = item.predicted()
    return math.log(value / item.measured) if value is not None and value > 0 else math.nan


def residuals(items: Sequence[Item], values: dict[str, float]) -> list[float]:
    """Return the residuals of every item with these values."""
    with trying(values):
        return [residual(item) for item in items]


def fit(
    items: Sequence[Item], prefix: str, *, start: Mapping[str, float] | None = None, rounds: int = ROUNDS
) -> Fit:
    """Fit the figures that items read and whose ids start with `prefix`.

    The fit begins with the values in `start`, and with the present values of other figures.
    """
    import numpy as np  # noqa: PLC0415 - the fit alone needs it

    rows = [row for row in load_priors().values() if row.id.startswith(prefix)]
    readers = _readers(items, {row.id for row in rows})
    rows = [row for row in rows if readers[row.id]]
    counts = collections.Counter(item.source for item in items)
    weights = np.array([4.0 * counts[item.source] ** -0.35 for item in items])
    position = np.array([to_line(row, (start or {}).get(row.id, row.value)) for row in rows])
    prior = np.array([to_line(row, row.prior) for row in rows])
    spread = np.array([row.spread for row in rows])
    damping = 1e-2
    current = _all(items, rows, position)
    cost = _cost(current, weights, position, prior, spread)
    for _ in range(rounds):
        jacobian = np.zeros((len(items), len(rows)))
        for column, row in enumerate(rows):
            moved = {row.id: from_line(row, position[column] + STEP)}
            base = _values(rows, position)
            with trying(base | moved):
                for index in readers[row.id]:
                    change = residual(items[index]) - current[index]
                    jacobian[index, column] = 0.0 if math.isnan(change) else change / STEP
        known = np.where(np.isnan(current), 0.0, current)
        soft = weights / (1.0 + (known / SOFTNESS) ** 2)
        normal = jacobian.T @ (soft[:, None] * jacobian) / SOFTNESS**2 + np.diag(1.0 / spread**2)
        slope = jacobian.T @ (soft * known) / SOFTNESS**2 + (position - prior) / spread**2
        for _ in range(6):
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -slope)
            tried = position + np.clip(step, -0.7, 0.7)
            after = _all(items, rows, tried)
            tried_cost = _cost(after, weights, tried, prior, spread)
            if tried_cost < cost:
                break
            damping *= 5
        else:
            break
        gain = cost - tried_cost
        position, current, cost, damping = tried, after, tried_cost, max(damping / 5, 1e-6)
        if gain < NEAR * cost:
            break
    return Fit(values=_values(rows, position), residuals=list(current))


def leave_one_out(
    items: Sequence[Item], prefix: str, start: dict[str, float], *, rounds: int = 4
) -> list[float]:
    """Return the residuals of every item by a fit without its source.

    Each fit starts from `start`, the fit to all items. A row that no remaining item reads has its prior.
    """
    priors = {row.id: row.prior for row in load_priors().values() if row.id.startswith(prefix)}
    left_out = [math.nan] * len(items)
    for source in sorted({item.source for item in items}):
        others = [item for item in items if item.source != source]
        values = priors | fit(others, prefix, start=start, rounds=rounds).values
        mine = [index for index, item in enumerate(items) if item.source == source]
        for index, value in zip(mine, residuals([items[index] for index in mine], values), strict=True):
            left_out[index] = value
    return left_out


def report(items: Sequence[Item], case: Iterable[float], *, worst: int = 0) -> None:
    """Print median and p90 of |predicted / measured - 1| by source and over all."""
    by_source: dict[str, list[float]] = collections.defaultdict(list)
    listed = []
    for item, value in zip(items, case, strict=True):
        if not math.isnan(value):
            by_source[item.source].append(value)
            listed.append((abs(value), value, item))
    for source, values in sorted(by_source.items()):
        print(_line(source, values))
    print(_line("all", [value for values in by_source.values() for value in values]))
    for _, value, item in sorted(listed, key=lambda item: -item[0])[:worst]:
        print(f"  {math.expm1(value):+7.0%} {item.label}")


def _line(name: str, values: list[float]) -> str:
    errors = sorted(abs(math.expm1(value)) for value in values)
    bias, middle, most = (
        math.expm1(statistics.median(values)),
        statistics.median(errors),
        errors[int(0.9 * (len(errors) - 1))],
    )
    return f"{name:32s} n {len(values):4d} bias {bias:+6.1%} median {middle:6.1%} p90 {most:6.1%}"


def write_values(values: dict[str, float]) -> None:
    """Rewrite the `value` lines of these rows in `recipes/data/parameters/`, and nothing else."""
    folder = Path(__file__).resolve().parents[2] / "recipes" / "data" / "parameters"
    for name in FILES:
        path = folder / f"{name}.toml"
        lines, row_id = path.read_text("utf-8").splitlines(), ""
        for number, line in enumerate(lines):
            if line.startswith("id = "):
                row_id = line.split('"')[1]
            elif line.startswith("value = ") and row_id in values:
                lines[number] = f"value = {float(f'{values[row_id]:.4g}')!r}"
        path.write_text("\n".join(lines) + "\n", "utf-8")


def _readers(items: Sequence[Item], ids: set[str]) -> dict[str, list[int]]:
    """Return the items that read each parameter."""
    by_name: dict[str, list[int]] = {name: [] for name in ids}
    for index, item in enumerate(items):
        with recording_reads() as reads:
            item.predicted()
        for name in reads & ids:
            by_name[name].append(index)
    return by_name


def _values(rows: Sequence[Prior], position: np.ndarray) -> dict[str, float]:
    return {row.id: from_line(row, float(at)) for row, at in zip(rows, position, strict=True)}


def _all(items: Sequence[Item], rows: Sequence[Prior], position: np.ndarray) -> np.ndarray:
    import numpy as np  # noqa: PLC0415 - the fit alone needs it

    return np.array(residuals(items, _values(rows, position)))


def _cost(
    case: np.ndarray, weights: np.ndarray, position: np.ndarray, prior: np.ndarray, spread: np.ndarray
) -> float:
    import numpy as np  # noqa: PLC0415 - the fit alone needs it

    known = np.where(np.isnan(case), 0.0, case) / SOFTNESS
    return float(np.sum(weights * np.log1p(known**2)) + np.sum(((position - prior) / spread) ** 2))
