"""What a collective costs by its size: t(bytes) = latency + bytes / bandwidth, fitted to measurements.

The model is Hockney's (R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994),
known as alpha-beta. Libraries change protocol with size (NCCL's LL, LL128 and Simple; gloo's algorithms), and
latency and bandwidth with it, so two lines are tried as well, one up to some size and one above.

The sum of squared relative errors is minimised, not of absolute ones: times span five orders of magnitude,
and the largest message alone would else decide everything. Neither latency nor time per byte can be negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from probes.base.record import Record
from probes.base.statistics import quantile
from probes.facts.measurements import Measurement, Parameter

_FEWEST_POINTS = 3
"""Sizes of one line: two always lie on it, and so tell nothing about the model."""
_GAIN = 0.5
"""Two lines are believed where their residual is at most this part of one line's."""
_GOOD_ENOUGH = 0.03
"""A residual of one line below which there is nothing left to explain: what repeated runs differ by."""

Point = tuple[float, float]
"""Bytes and seconds."""


class Line(Record, kw_only=True):
    """Latency and time per byte over a range of sizes."""

    latency_s: float
    seconds_per_byte: float
    low_bytes: float
    """The smallest and the largest measured size, between which the line is known to hold."""
    high_bytes: float

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """Algorithm bandwidth of endless messages; None where the time did not grow with the size."""
        return 1 / self.seconds_per_byte if self.seconds_per_byte > 0 else None

    def time_s(self, size_bytes: float) -> float:
        return self.latency_s + size_bytes * self.seconds_per_byte


class Fit(Record, kw_only=True):
    """The model of one collective, with what it was fitted to."""

    lines: tuple[Line, ...]
    """One or two, by ascending size."""
    residual: float
    """Median over the measured sizes of |model - measured| / measured."""
    points: int
    bench_id: str = ""
    subject: str = ""
    parameters: dict[str, Parameter] = {}
    """What the measurements have in common: collective, world_size, backend ..."""

    @property
    def latency_s(self) -> float:
        """Time of the smallest messages."""
        return self.lines[0].latency_s

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """Algorithm bandwidth of the largest messages."""
        return self.lines[-1].bandwidth_bytes_per_s

    def time_s(self, size_bytes: float) -> float:
        """Modelled duration, never falling as the size grows; beyond the measured sizes it is an
        extrapolation.
        """
        first, last = self.lines[0], self.lines[-1]
        if size_bytes <= first.high_bytes:
            return first.time_s(size_bytes)
        return max(last.time_s(size_bytes), first.time_s(first.high_bytes))


def fit(points: Iterable[Point]) -> Fit | None:
    """The model of (bytes, seconds); None with fewer than three sizes. Points that no clock or message can
    give do not count.

    Several points of one size count as their median.
    """
    by_size: dict[float, list[float]] = {}
    for size_bytes, duration_s in points:
        if 0 < size_bytes < float("inf") and 0 < duration_s < float("inf"):
            by_size.setdefault(size_bytes, []).append(duration_s)
    curve = [(size_bytes, quantile(times, 0.5)) for size_bytes, times in sorted(by_size.items())]
    if len(curve) < _FEWEST_POINTS:
        return None
    best = _fit_of((_line(curve),), curve)
    if best.residual <= _GOOD_ENOUGH:
        return best
    splits = range(_FEWEST_POINTS, len(curve) - _FEWEST_POINTS + 1)
    two = min(
        (_fit_of((_line(curve[:at]), _line(curve[at:])), curve) for at in splits),
        key=lambda candidate: _squares(candidate, curve),
        default=best,
    )
    return two if two.residual <= _GAIN * best.residual else best


def fits(measurements: Iterable[Measurement]) -> tuple[Fit, ...]:
    """One fit for each set of `collective_time_s` measurements that differ in their size alone, in the order
    of appearance.
    """
    groups: dict[tuple[object, ...], list[Measurement]] = {}
    for one in measurements:
        if one.metric == "collective_time_s" and one.samples and isinstance(one.parameters.get("bytes"), int):
            groups.setdefault((one.bench_id, one.subject, *sorted(_common(one).items())), []).append(one)
    found = []
    for group in groups.values():
        model = fit((float(one.parameters["bytes"]), one.median) for one in group)
        if model is not None:
            of = {"bench_id": group[0].bench_id, "subject": group[0].subject, "parameters": _common(group[0])}
            found.append(Fit(lines=model.lines, residual=model.residual, points=model.points, **of))  # type: ignore[arg-type]
    return tuple(found)


def _common(one: Measurement) -> dict[str, Parameter]:
    return {name: value for name, value in one.parameters.items() if name != "bytes"}


def _fit_of(lines: tuple[Line, ...], curve: Sequence[Point]) -> Fit:
    model = Fit(lines=lines, residual=0.0, points=len(curve))
    return Fit(
        lines=lines,
        residual=quantile([abs(error) for error in _errors(model, curve)], 0.5),
        points=len(curve),
    )


def _errors(model: Fit, curve: Sequence[Point]) -> list[float]:
    return [model.time_s(size_bytes) / duration_s - 1 for size_bytes, duration_s in curve]


def _squares(model: Fit, curve: Sequence[Point]) -> float:
    return sum(error * error for error in _errors(model, curve))


def _line(curve: Sequence[Point]) -> Line:
    """Least squares of relative errors with both constants at least 0.

    With u = 1/t and v = bytes/t the error of a point is latency u + per_byte v - 1: linear in both. Where the
    free optimum has a negative constant, the optimum lies on the edge where that constant is 0, because the
    sum of squares is convex.
    """
    scale = curve[-1][0]  # sizes relative to the largest keep the sums near each other in magnitude
    rows = [(1 / duration_s, size_bytes / scale / duration_s) for size_bytes, duration_s in curve]
    uu, vv = sum(u * u for u, _ in rows), sum(v * v for _, v in rows)
    uv, u1, v1 = sum(u * v for u, v in rows), sum(u for u, _ in rows), sum(v for _, v in rows)
    determinant = uu * vv - uv * uv
    latency_s, per_scale = u1 / uu, 0.0
    if determinant > 0:
        latency_s, per_scale = (u1 * vv - v1 * uv) / determinant, (v1 * uu - u1 * uv) / determinant
    if latency_s < 0:
        latency_s, per_scale = 0.0, v1 / vv
    elif per_scale < 0:
        latency_s, per_scale = u1 / uu, 0.0
    return Line(
        latency_s=latency_s,
        seconds_per_byte=per_scale / scale,
        low_bytes=curve[0][0],
        high_bytes=curve[-1][0],
    )
