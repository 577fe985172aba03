"""Measure whether the rate of a matrix product stays constant: `gemm_flops_per_s`, `sustained_fraction`.

The samples are the rate of each second in order. Further series are the GPU's sensor values (`sm_clock_hz`,
`temperature_c`, `power_w`), if the training interpreter can read them. `sustained_fraction` is the median of
the last quarter of the seconds divided by the median of the first quarter. If the fraction is clearly below
1, the GPU slows down as its temperature rises.
"""

import msgspec

from probes.base.statistics import quantile
from probes.bench.answers import case_answers, failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome

_SECONDS = 20
_SIZE = {"cuda": 8192, "cpu": 2048}
_BUDGET_S = 25.0
_QUARTERS = 4


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request in which all ranks compute at once, because they share power supply and cooling."""
    size = _SIZE[context.device]
    case: Case = {"dtype": _dtype(context), "m": size, "n": size, "k": size, "seconds": _SECONDS}
    return (
        context.on_every_device(
            "sustained", f"matrix multiply for {_SECONDS} s", budget_s=_BUDGET_S, cases=(case,)
        ),
    )


def _dtype(context: BenchContext) -> str:
    """Return fp32 for CPUs, which all compute it at full rate, and a type of the tensor cores for GPUs.

    The tensor cores use most power.
    """
    if context.device == "cpu":
        return "fp32"
    return "bf16" if context.model.precision == "bf16" else "fp16"


def sustained_fraction(rates: tuple[float, ...]) -> float | None:
    """Return the last quarter's median divided by the first quarter's; None for fewer than four rates."""
    quarter = len(rates) // _QUARTERS
    if not quarter:
        return None
    return quantile(rates[-quarter:], 0.5) / quantile(rates[:quarter], 0.5)


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the rate of every rank over time, and the fraction of the rate that remains at the end."""
    measurements = []
    for answer in case_answers(request, lines_by_rank):
        rates = answer.rates(
            2.0 * float(answer.case["m"]) * float(answer.case["n"]) * float(answer.case["k"])
        )
        over_time = answer.measurement("gemm_flops_per_s", "flop/s", rates)
        measurements.append(msgspec.structs.replace(over_time, series=answer.sample.series))
        fraction = sustained_fraction(rates)
        if fraction is not None:
            measurements.append(answer.measurement("sustained_fraction", "1", (fraction,), {}))
    return tuple(measurements) or failure_of(request, lines_by_rank)
