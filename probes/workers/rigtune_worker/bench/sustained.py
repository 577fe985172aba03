"""Repeat one matrix product, and record the rate and the GPU's sensors in each slice of time."""

from __future__ import annotations

import math
import time
from typing import Any, Callable

import torch

from ..cases import each_case
from ..product import Product
from ..protocol import Answer
from ..timing import elapsed_s

SLICE_S = 1.0
SENSORS = {
    "sm_clock_hz": ("clock_rate", 1e6),
    "temperature_c": ("temperature", 1.0),
    "power_w": ("power_draw", 1e-3),
}
"""Functions of torch.cuda, and factors from MHz, degrees and mW to SI units (torch.cuda documentation)."""


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {dtype, m, n, k, seconds} on all ranks at the same time."""

    def prepare(case: dict[str, Any], _: float) -> Callable[[], None]:
        product = Product(case, device)
        product.multiply()

        def measure() -> None:
            durations_s, series = hold(product, device, case["seconds"])
            product.check()
            answer.sample(case, durations_s, series)

        return measure

    each_case(request, answer, device, prepare)


def hold(
    product: Product, device: torch.device, seconds: float, slice_s: float = SLICE_S
) -> tuple[list[float], dict[str, list[float]]]:
    """Return seconds per product in each slice until `seconds` have passed, and each sensor's values."""
    one_s = elapsed_s(product.multiply, device, 1)
    durations_s: list[float] = []
    readings: list[dict[str, float]] = []
    ends = time.monotonic() + seconds
    while not durations_s or time.monotonic() < ends:
        one_s, read = run_slice(product, device, max(1, math.ceil(slice_s / one_s)))
        durations_s.append(one_s)
        readings.append(read)
    series = {
        name: [read[name] for read in readings] for name in SENSORS if all(name in read for read in readings)
    }
    return durations_s, series


def run_slice(product: Product, device: torch.device, repeats: int) -> tuple[float, dict[str, float]]:
    """Return seconds per product, and sensor values read while the GPU is still working."""
    if device.type != "cuda":
        return elapsed_s(product.multiply, device, repeats), {}
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for number in range(repeats):
        product.multiply()
        if number == repeats // 2:
            middle = torch.cuda.Event()
            middle.record()
    end.record()
    middle.synchronize()
    read = read_sensors(device)
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / repeats, read


def read_sensors(device: torch.device) -> dict[str, float]:
    """Return the available sensor values. torch needs pynvml in this interpreter to read them."""
    values = {}
    for name, (function, factor) in SENSORS.items():
        try:
            values[name] = float(getattr(torch.cuda, function)(device)) * factor
        except Exception:  # a missing sensor must not cost the rate
            continue
    return values
