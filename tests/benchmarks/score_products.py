"""Score the rates of products and attention (`recipes/predict/speed/rates.py`) against published measurements of single
kernels.

    python tests/benchmarks/score_products.py

It reads `device_open.csv` in the folder `data` of $RIGTUNE_SHARED (by default `../shared`), and prints the median and
the 90th percentile of |predicted / measured - 1| by GPU, precision, kind and source.
"""

from __future__ import annotations

import csv
import os
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from probes.catalogue.hardware import load_catalogue
from recipes.cases.case import Case, CaseError, cluster_of_case
from recipes.predict.speed.rates import (
    AttentionKernel,
    attention_rates,
    attention_time_s,
    grouped_training_time_s,
    product_rates,
    product_time_s,
)

DATA = Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "data" / "device_open.csv"
_GEMM = re.compile(r"(grouped_)?gemm_(bf16|fp8)_tflops(_max)?")
_ATTENTION = re.compile(r"flash_attn_(fwd|bwd)_bf16_tflops")
_STAGES = {"fwd": 0, "bwd_grad_act": 1, "bwd_grad_w": 2}


_LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
_H100_ATTENTION = (
    # FlashAttention-3 (arXiv 2407.08608), figures 5 and 6: TFLOP/s on an H100 SXM with 16384 tokens and
    # hidden size 2048, by kernel, head size, mask, pass and sequence length
    ("flash2", 64, False, "fwd", (180, 229, 262, 284, 295, 299)),
    ("cudnn", 64, False, "fwd", (225, 288, 334, 363, 379, 388)),
    ("flash3", 64, False, "fwd", (197, 265, 371, 420, 460, 473)),
    ("flash2", 128, False, "fwd", (309, 350, 362, 368, 370, 370)),
    ("cudnn", 128, False, "fwd", (497, 574, 617, 609, 600, 595)),
    ("flash3", 128, False, "fwd", (467, 565, 625, 638, 646, 648)),
    ("flash2", 128, True, "fwd", (191, 260, 298, 319, 333, 335)),
    ("cudnn", 128, True, "fwd", (315, 410, 484, 518, 529, 539)),
    ("flash3", 128, True, "fwd", (292, 423, 521, 579, 602, 616)),
    ("flash2", 64, False, "bwd", (198, 238, 264, 279, 287, 291)),
    ("cudnn", 64, False, "bwd", (266, 348, 395, 417, 432, 433)),
    ("flash3", 64, False, "bwd", (272, 363, 422, 453, 472, 474)),
    ("flash2", 128, False, "bwd", (214, 260, 291, 310, 318, 322)),
    ("cudnn", 128, False, "bwd", (305, 408, 465, 499, 518, 516)),
    ("flash3", 128, False, "bwd", (316, 424, 501, 542, 559, 561)),
)


class Kernel(NamedTuple):
    """One measured kernel."""

    gpu: str
    precision: str
    kind: str
    source: str
    sizes: dict[str, str]
    flops_per_s: float


class Error(NamedTuple):
    kernel: Kernel
    predicted_flops_per_s: float

    @property
    def ratio(self) -> float:
        return self.predicted_flops_per_s / self.kernel.flops_per_s


def measured_kernels() -> list[Kernel]:
    """Return the products and attention of `device_open.csv` whose shape is given, and those of a paper."""
    kernels = []
    with DATA.open(newline="") as file:
        for row in csv.DictReader(file):
            how = row["how"]
            source = "simumax" if "SimuMax" in how else "mamf" if "mamf" in how else "aiconfigurator"
            sizes = {key.lower(): value for key, value in re.findall(r"(\w+)=([\w.]+)", how)}
            shape = re.search(r"MxNxK (\d+)x(\d+)x(\d+)", how)
            if shape:
                sizes |= dict(zip("mnk", shape.groups(), strict=True))
            if (gemm := _GEMM.fullmatch(row["metric"])) and {"m", "n", "k"} <= set(sizes):
                kind = "best product" if gemm[3] else "grouped" if gemm[1] else "product"
                kernels.append(Kernel(row["gpu"], gemm[2], kind, source, sizes, float(row["value"]) * 1e12))
            elif attention := _ATTENTION.fullmatch(row["metric"]):
                kernels.append(
                    Kernel(
                        row["gpu"],
                        "bf16",
                        f"attention {attention[1]}",
                        source,
                        sizes,
                        float(row["value"]) * 1e12,
                    )
                )
    for kernel, head, causal, name, speeds in _H100_ATTENTION:
        for length, speed in zip(_LENGTHS, speeds, strict=True):
            heads = str(2048 // head)
            sizes = {
                "batch": str(16384 // length),
                "seq_len": str(length),
                "head_num": heads,
                "kv_head_num": heads,
            }
            sizes |= {
                "qk_head_dim": str(head),
                "v_head_dim": str(head),
                "causal": str(causal),
                "kernel": kernel,
            }
            # The paper counts only scores that the mask leaves; the table below counts all scores.
            rate = speed * 1e12 * (2.0 if causal else 1.0)
            kernels.append(
                Kernel("H100-SXM-80GB", "bf16", f"attention {name}", f"flash3 paper, {kernel}", sizes, rate)
            )
    return kernels


def predicted_flops_per_s(kernel: Kernel) -> float | None:
    """Return the rate by the model, with FLOPs counted as in the source; None for a GPU outside the catalogue."""
    try:
        cluster = cluster_of_case(Case(case_id="", gpu=kernel.gpu), 1, load_catalogue())
    except CaseError:
        return None
    size = {key: int(value) for key, value in kernel.sizes.items() if value.isdigit()}
    if kernel.kind.startswith("attention"):
        usual: AttentionKernel = "cudnn" if cluster.architecture == "blackwell" else "flash2"
        rates = attention_rates(cluster, "bf16", kernel.sizes.get("kernel", usual))  # type: ignore[arg-type]
        heads, length, wide, narrow = (
            size["head_num"],
            size["seq_len"],
            size["qk_head_dim"],
            size["v_head_dim"],
        )
        forward, backward = attention_time_s(
            rates,  # type: ignore[arg-type]
            sequences=size["batch"],
            heads=heads,
            kv_heads=size["kv_head_num"],
            queries=length,
            keys=length,
            query_key_dim=wide,
            value_dim=narrow,
            causal=kernel.sizes.get("causal") != "False",
        )
        # The source counts the scores that the mask hides as well.
        flops = 2.0 * size["batch"] * heads * length * length * (wide + narrow)
        return flops / forward if kernel.kind.endswith("fwd") else 2.5 * flops / backward
    rates = product_rates(cluster, kernel.precision)
    m, n, k = size["m"], size["n"], size["k"]
    if kernel.kind == "grouped":
        groups = size["ng"]
        # A weight's gradient is added to the earlier sum, which is read and written.
        added = 8.0 if kernel.sizes["main_grad_dtype"] == "fp32" else 4.0
        times = grouped_training_time_s(rates, m * groups, k, n, groups, gradient_bytes=added)  # type: ignore[arg-type]
        return 2.0 * m * n * k * groups / times[_STAGES[kernel.sizes["stage"]]]
    adds = kernel.sizes.get("accumulate") == "True"
    output = (4.0 if kernel.sizes.get("out_dtype") == "fp32" else 2.0) * (2.0 if adds else 1.0)
    return 2.0 * m * n * k / product_time_s(rates, m, n, k, output_bytes=output)  # type: ignore[arg-type]


def errors(kernels: Iterable[Kernel] | None = None) -> list[Error]:
    """Return the measured kernels on GPUs of the catalogue, each with the prediction of the model."""
    scored = [
        (one, predicted_flops_per_s(one)) for one in (measured_kernels() if kernels is None else kernels)
    ]
    return [Error(one, rate) for one, rate in scored if rate is not None]


def summary(found: Iterable[Error]) -> dict[tuple[str, str, str, str], tuple[int, float, float, float]]:
    """Return number, median error, 90th percentile and median ratio by kind, GPU, precision and source."""
    groups: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    for one in found:
        kernel = one.kernel
        groups[kernel.kind, kernel.gpu, kernel.precision, kernel.source].append(one.ratio)
    table = {}
    for key, ratios in groups.items():
        apart = sorted(abs(ratio - 1) for ratio in ratios)
        ninety = apart[int(0.9 * (len(apart) - 1))]
        table[key] = (len(ratios), statistics.median(apart), ninety, statistics.median(ratios))
    return table


def main() -> None:
    for key, (count, median, ninety, ratio) in sorted(summary(errors()).items()):
        kind, gpu, precision, source = key
        print(
            f"{kind:14s} {gpu:26s} {precision:5s} {source:15s} {count:4d}  {median:6.1%}  {ninety:6.1%}  "
            f"ratio {ratio:5.2f}"
        )


if __name__ == "__main__":
    main()
