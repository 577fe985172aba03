"""Fit the rates in `recipes/predict/speed/rates.py` to published measurements of single kernels.

python tests/calibration/fit_products.py [--write] [--leave-one-out]

It reads `device_open.csv` in the folder `data` of $RIGTUNE_SHARED (by default `../shared`). With
`--leave-one-out`, a group that is left out has one GPU, one precision, one kind of kernel and one source.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.score_products import Kernel, measured_kernels, predicted_flops_per_s
from tests.calibration.fitting import Item, fit, leave_one_out, report, residuals, write_values

SLOWER = {("B200-SXM", "simumax"): 0.72}
"""In SimuMax's tables, products on a B200 reach this share of their rate in aiconfigurator's tables.

The clock or the library differs. SimuMax's dense products are left out of the fit. Its grouped products and
its attention are divided by the share, because the model derives attention's rate from that of products.
"""


def items(prefix: str) -> list[Item]:
    """Return the products or, for the prefix `attention.`, the attention kernels of the fit.

    The best shapes of a search are left out; only the score uses them.
    """
    collected = []
    for kernel in measured_kernels():
        slower = SLOWER.get((kernel.gpu, kernel.source), 1.0)
        attention = kernel.kind.startswith("attention")
        if (
            kernel.kind == "best product"
            or attention != (prefix == "attention.")
            or (slower < 1.0 and kernel.kind == "product")
        ):
            continue
        measured = kernel.flops_per_s / slower
        source = f"{kernel.gpu} {kernel.precision} {kernel.kind} {kernel.source}"
        collected.append(Item(source, _prediction(kernel), measured, str(kernel.sizes)))
    return collected


def _prediction(kernel: Kernel):
    return lambda: predicted_flops_per_s(kernel)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--write", action="store_true")
    arguments.add_argument("--leave-one-out", action="store_true")
    chosen = arguments.parse_args()
    for prefix in ("gemm.", "attention."):
        measured = items(prefix)
        report(measured, residuals(measured, {}))
        best = fit(measured, prefix)
        for name, value in sorted(best.values.items()):
            sys.stdout.write(f"{name:45s} {value:.4g}\n")
        report(measured, best.residuals, worst=10)
        if chosen.leave_one_out:
            report(measured, leave_one_out(measured, prefix, best.values))
        if chosen.write:
            write_values(best.values)


if __name__ == "__main__":
    main()
