"""Write numbers: GiB for memory, GB/s for bandwidth, Gb/s for network links, SI elsewhere."""

import math
from collections.abc import Sequence

KIB = 1024
MIB = 1024**2
GIB = 1024**3
GB = 10**9
_BINARY_UNITS = ((GIB, "GiB", 1), (MIB, "MiB", 0), (KIB, "KiB", 0))
"""Bytes, name and decimals of the units of memory."""


def gib(size_bytes: float) -> str:
    """Return a memory size: `80.0 GiB`, or `512 MiB` below one GiB."""
    for unit_bytes, unit, digits in _BINARY_UNITS:
        if abs(size_bytes) >= unit_bytes:
            return f"{size_bytes / unit_bytes:.{digits}f} {unit}"
    return f"{size_bytes:.0f} B"


_TWO_DIGITS_BELOW = 10 * GIB
"""Sum below which its terms have two decimals."""


def gib_of_terms(terms: Sequence[float]) -> tuple[str, ...]:
    """Return the sizes of the terms of a sum, then the sum, in one unit: `3.70 GiB`, `0.50 GiB`, `4.20 GiB`.

    The written sizes add up to the written sum: the terms that rounding down reduces most are rounded up
    (largest remainders).
    """
    total = sum(terms)
    unit_bytes, unit, digits = next((row for row in _BINARY_UNITS if total >= row[0]), (1, "B", 0))
    digits += unit == "GiB" and total < _TWO_DIGITS_BELOW
    steps = [term / unit_bytes * 10**digits for term in terms]
    whole = [math.floor(step) for step in steps]
    by_remainder = sorted(range(len(steps)), key=lambda number: whole[number] - steps[number])
    for number in by_remainder[: round(sum(steps)) - sum(whole)]:
        whole[number] += 1
    return tuple(f"{count / 10**digits:.{digits}f} {unit}" for count in (*whole, sum(whole)))


def gb_per_s(bytes_per_s: float) -> str:
    """Return a bandwidth: `371.2 GB/s`."""
    return f"{bytes_per_s / GB:.4g} GB/s"


def gbit_per_s(rate_gbps: float) -> str:
    """Return a network rate: `400 Gb/s`."""
    return f"{rate_gbps:g} Gb/s"


def si(value: float, unit: str) -> str:
    """Return `value` with an SI prefix: `794 TFLOP/s`, `1.5 kW`."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


_MOST_EXACT = 100_000
"""Upper bound of counts that are written with all digits, such as the tokens of a batch."""


def count(value: float) -> str:
    """Return a count: `8.03 B`, `137 M`; whole numbers of up to five digits are written in full: `16384`."""
    if abs(value) < _MOST_EXACT and value == value // 1:
        return f"{int(value)}"
    for factor, suffix in ((1e12, " T"), (1e9, " B"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{suffix}"
    return f"{value:g}"


def duration(duration_s: float) -> str:
    """Return a duration: `1 h 05 min`, `2 min 05 s`, `3.2 s`, `41 ms`, `12 µs`."""
    if duration_s >= 3600:
        return f"{int(duration_s // 3600)} h {int(duration_s % 3600 // 60):02d} min"
    if duration_s >= 60:
        return f"{int(duration_s // 60)} min {int(duration_s % 60):02d} s"
    if duration_s >= 1:
        return f"{duration_s:.3g} s"
    if duration_s >= 1e-3:
        return f"{duration_s * 1e3:.3g} ms"
    return f"{duration_s * 1e6:.3g} µs"


def percent(fraction: float) -> str:
    return f"{fraction * 100:.3g} %"


_MOST_COUNT = 1e9
"""Whole numbers up to this bound, such as a micro-batch, are written with all digits."""


def quantity(value: float, unit: str) -> str:
    """Return a measured value with its unit.

    Units are `flop/s`, `byte/s`, `s`, `byte`, `token/s`, `1/s`, `1` and others.
    """
    match unit:
        case "flop/s":
            return si(value, "FLOP/s")
        case "byte/s":
            return gb_per_s(value)
        case "s":
            return duration(value)
        case "byte":
            return gib(value)
        case "token/s" | "image/s" | "sample/s":
            return f"{count(value) if value >= 1000 else f'{value:.3g}'} {unit.removesuffix('/s')}s/s"
        case "1/s":
            return f"{count(value) if value >= 1000 else f'{value:.3g}'}/s"
        case "degC":
            return f"{value:.3g} °C"
        case "1":
            is_count = value == value // 1 and abs(value) < _MOST_COUNT
            return f"{int(value)}" if is_count else f"{value:.4g}"
        case _:
            return si(value, unit)


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: `1 GPU`, `2 GPUs`, `3 NVSwitches`, `4 strategies`."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("egy"):
        return f"{number} {noun[:-1]}ies"
    return f"{number} {noun}{'es' if noun.endswith(('ch', 'ss')) else 's'}"
