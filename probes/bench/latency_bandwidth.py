"""Fit the time of a collective as a function of its size: t(bytes) = latency + bytes / bandwidth.

The model is Hockney's (R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994),
known as alpha-beta. Libraries use different protocols for different sizes (NCCL's LL, LL128 and Simple;
gloo's algorithms), with different latency and bandwidth. So the fit also tries two lines, one up to some size
and one above. It minimises the sum of squared relative errors, because times span five orders of magnitude,
and the largest message would dominate absolute errors. Latency and time per byte are never negative.
"""

from collections.abc import Iterable, Sequence

import msgspec

from probes.base.grouping import grouped
from probes.base.record import Record
from probes.base.statistics import quantile
from probes.facts.measurements import Measurement, Parameter

_FEWEST_POINTS = 3
"""Minimum number of sizes for a line: two points always lie on a line, so they do not test the model."""
_GAIN = 0.5
"""Two lines are preferred if their residual is at most this part of the residual of one line."""
_GOOD_ENOUGH = 0.03
"""One line is enough if its residual is at most this, because repeated runs differ by as much."""

Point = tuple[float, float]
"""A measured point: bytes and seconds."""


class Line(Record, kw_only=True):
    """Latency and time per byte over a range of sizes."""

    latency_s: float
    seconds_per_byte: float
    low_bytes: float
    """Smallest and largest measured size, between which the line applies."""
    high_bytes: float

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """Return the algorithm bandwidth of infinite messages; None if the time does not grow with size."""
        return 1 / self.seconds_per_byte if self.seconds_per_byte > 0 else None

    def time_s(self, size_bytes: float) -> float:
        return self.latency_s + size_bytes * self.seconds_per_byte


class Fit(Record, kw_only=True):
    """The model of a collective, with the measurements behind it."""

    lines: tuple[Line, ...]
    """Lines by ascending size, one or two."""
    residual: float
    """Median over the measured sizes of |model - measured| / measured."""
    points: int
    bench_id: str = ""
    subject: str = ""
    parameters: dict[str, Parameter] = {}
    """Parameters that the measurements have in common: collective, world_size, backend ..."""

    @property
    def latency_s(self) -> float:
        """Return the time of the smallest messages."""
        return self.lines[0].latency_s

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """Return the algorithm bandwidth of the largest messages."""
        return self.lines[-1].bandwidth_bytes_per_s

    def time_s(self, size_bytes: float) -> float:
        """Return the modelled duration, which never falls as the size grows.

        Beyond the measured sizes the duration is extrapolated.
        """
        return _time_s(self.lines, size_bytes)


def _time_s(lines: Sequence[Line], size_bytes: float) -> float:
    first, last = lines[0], lines[-1]
    if size_bytes <= first.high_bytes:
        return first.time_s(size_bytes)
    return max(last.time_s(size_bytes), first.time_s(first.high_bytes))


def fit(points: Iterable[Point]) -> Fit | None:
    """Return the model of (bytes, seconds) points; None if there are fewer than three sizes.

    Impossible points are ignored. Of several points with one size, the median is used.
    """
    by_size = grouped(
        (size_bytes, duration_s)
        for size_bytes, duration_s in points
        if 0 < size_bytes < float("inf") and 0 < duration_s < float("inf")
    )
    curve = [(size_bytes, quantile(times, 0.5)) for size_bytes, times in sorted(by_size.items())]
    if len(curve) < _FEWEST_POINTS:
        return None
    best = _fit_of((_line(curve),), curve)
    if best.residual <= _GOOD_ENOUGH:
        return best
    splits = range(_FEWEST_POINTS, len(curve) - _FEWEST_POINTS + 1)
    two = min(
        (_fit_of((_line(curve[:split]), _line(curve[split:])), curve) for split in splits),
        key=lambda candidate: sum(error * error for error in _errors(candidate.lines, curve)),
        default=best,
    )
    return two if two.residual <= _GAIN * best.residual else best


def fits(measurements: Iterable[Measurement]) -> tuple[Fit, ...]:
    """Return one fit for each set of `collective_time_s` measurements that differ only in size."""
    groups = grouped(
        ((row.bench_id, row.subject, *sorted(_common(row).items())), row)
        for row in measurements
        if row.metric == "collective_time_s" and row.samples and isinstance(row.parameters.get("bytes"), int)
    )
    models = [
        (group[0], fit((float(row.parameters["bytes"]), row.median) for row in group))
        for group in groups.values()
    ]
    return tuple(
        msgspec.structs.replace(model, bench_id=row.bench_id, subject=row.subject, parameters=_common(row))
        for row, model in models
        if model is not None
    )


def _common(row: Measurement) -> dict[str, Parameter]:
    return {name: value for name, value in row.parameters.items() if name != "bytes"}


def _fit_of(lines: tuple[Line, ...], curve: Sequence[Point]) -> Fit:
    return Fit(lines=lines, residual=quantile(list(map(abs, _errors(lines, curve))), 0.5), points=len(curve))


def _errors(lines: Sequence[Line], curve: Sequence[Point]) -> list[float]:
    return [_time_s(lines, size_bytes) / duration_s - 1 for size_bytes, duration_s in curve]


def _line(curve: Sequence[Point]) -> Line:
    """Return the least squares fit of relative errors with both constants at least 0.

    With u = 1/t and v = bytes/t the error of a point is latency u + per_byte v - 1, linear in both constants.
    If a constant is negative in the optimum without bounds, it is 0 in the optimum with bounds, because the
    sum of squares is convex.
    """
    scale = curve[-1][0]  # with sizes relative to the largest, all sums have similar magnitudes
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
