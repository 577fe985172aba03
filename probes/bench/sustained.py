"""Does the rate hold? One matrix product for some time: `gemm_flops_per_s` second by second, and
`sustained_fraction`.

The samples are the rate of each second in order; the series beside them are what the GPU's sensors said in it
(`sm_clock_hz`, `temperature_c`, `power_w`), where the training interpreter can read them.
`sustained_fraction` is the median of the last quarter of the seconds over that of the first: clearly below 1,
the GPU slows down as it warms.
"""

from __future__ import annotations

import msgspec

from probes.base.statistics import quantile
from probes.bench.answers import failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.local import answered, on_every_device
from probes.bench.worker_answers import LinesByRank
from probes.facts.measurements import BenchFailure, Measurement

_SECONDS = 20
_SIZE = {"cuda": 8192, "cpu": 2048}
_BUDGET_S = 25.0
_QUARTERS = 4


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """One request in which all ranks compute at the same time: the power supply and the cooling are
    shared.
    """
    size = _SIZE[context.device]
    case: Case = {"dtype": _dtype(context), "m": size, "n": size, "k": size, "seconds": _SECONDS}
    return (
        on_every_device(
            context, "sustained", f"matrix multiply for {_SECONDS} s", budget_s=_BUDGET_S, cases=(case,)
        ),
    )


def _dtype(context: BenchContext) -> str:
    """On CPUs fp32, which every one computes at its own rate; on GPUs the tensor cores, which draw the most
    power.
    """
    if context.device == "cpu":
        return "fp32"
    return "bf16" if context.model.precision == "bf16" else "fp16"


def sustained_fraction(rates: tuple[float, ...]) -> float | None:
    """Median of the last quarter over median of the first; None of fewer than four."""
    quarter = len(rates) // _QUARTERS
    if not quarter:
        return None
    return quantile(rates[-quarter:], 0.5) / quantile(rates[:quarter], 0.5)


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """The rate of every rank over time, and how much of it is left at the end."""
    measurements: list[Measurement] = []
    for found in answered(request, lines_by_rank):
        rates = found.rates(2.0 * float(found.case["m"]) * float(found.case["n"]) * float(found.case["k"]))
        over_time = found.measurement("gemm_flops_per_s", "flop/s", rates)
        measurements.append(msgspec.structs.replace(over_time, series=found.sample.series))
        fraction = sustained_fraction(rates)
        if fraction is not None:
            measurements.append(found.measurement("sustained_fraction", "1", (fraction,), {}))
    return tuple(measurements) or failure_of(request, lines_by_rank)
