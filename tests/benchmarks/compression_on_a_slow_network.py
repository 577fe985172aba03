"""Compare the gains of gradient compression and local SGD over a slow network with rigtune's predictions.

    sudo .venv/bin/python -m tests.benchmarks.compression_on_a_slow_network --python PATH [--rate 100mbit]

Two ranks train in two network namespaces, whose link is limited by `tc`, with gloo on CPUs. The rate is scaled
down so that communication dominates the step of a small model, as 10 Gb/s does for Llama 3 8B on two nodes of
H100. In each round every way of exchanging gradients takes some steps, in random order; its gain is relative to
plain DDP in the same round. The predictor gets the rates of all-reduce, product and copy from the same rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from assistant.usecases.bench.bench_context import shape_of
from probes.base.record import Unknown
from probes.base.units import duration
from probes.facts import MachineFacts
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.job.workload import TransformerModel
from recipes.machine.cluster_records import Cluster, Figure
from recipes.planning.planner import default_workload, make_plan
from recipes.strategies.strategy_table import strategy_named
from recipes.strategies.verdicts import Situation
from recipes.strategies.why_not import verdict
from tests.support.slow_link import ADDRESSES, DEVICE, refusal, slow_link

WORKER = Path(__file__).with_name("compression_ranks.py")
WAYS = ("fp16-compression", "bf16-compression", "powersgd", "local-sgd")
KINDS = ("tbf", "htb", "netem", "fq_codel", "cake")
MODEL = "rigtune-mini"
MICRO_BATCH = 4
LIMIT_S = 900


def model_on_the_link() -> TransformerModel:
    """Return the reference model with short sequences, so that computation is a small part of a step."""
    return msgspec.structs.replace(find_model(MODEL), sequence_length=64)


def measure(python: str, kind: str, rate: str, rounds: int) -> dict[str, Any]:
    """Return the seconds of a step by way and round, and the measured rates of each round."""
    settings = {
        "shape": shape_of(model_on_the_link()),
        "ways": ("ddp", "alone", *WAYS),
        "micro_batch": MICRO_BATCH,
        "period": int(strategy_named("local-sgd").figure("period")),
        "rank": int(strategy_named("powersgd").figure("rank")),
        "warm_up": 4,
        "rounds": rounds,
    }
    environment = os.environ | {
        "GLOO_SOCKET_IFNAME": DEVICE,
        "OMP_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    with slow_link(kind, rate) as link, contextlib.ExitStack() as stack:
        ranks = []
        for rank, output in ((0, subprocess.PIPE), (1, subprocess.DEVNULL)):
            worker = (python, str(WORKER), str(rank), ADDRESSES[0], json.dumps(settings))
            started = subprocess.Popen(link.command(rank, *worker), stdout=output, text=True, env=environment)
            ranks.append(stack.enter_context(started))
            stack.callback(started.kill)
        answer, _ = ranks[0].communicate(timeout=LIMIT_S)
        ranks[1].wait(timeout=60)
    return json.loads(answer.splitlines()[-1])


def cluster_of(measured: dict[str, Any]) -> Cluster:
    """Return two nodes of one rank each, with the medians of the measured rates."""
    rates = {name: statistics.median(row[name] for row in measured["rates"]) for name in measured["rates"][0]}

    def figure(value: float) -> Figure:
        return Figure(value=value, basis="measured", source="this benchmark")

    # Two ranks: a ring has two hops, and each rank sends the whole size once.
    return Cluster(
        title="two namespaces",
        device="cpu",
        device_name="CPU",
        nodes=2,
        ranks_per_node=1,
        memory_bytes_per_rank=figure(8e9),
        flops_per_s={"fp32": figure(rates["flops_per_s"])},
        memory_bandwidth_bytes_per_s=figure(rates["bytes_per_s"]),
        inter_bus_bandwidth_bytes_per_s=figure(measured["bytes"] / (rates["large_s"] - rates["small_s"])),
        inter_latency_s=figure(rates["small_s"] / 2),
    )


def situation_on(cluster: Cluster) -> Situation:
    """Return the plan of the benchmark's job: plain DDP over two ranks."""
    model = model_on_the_link()
    workload = default_workload(
        model, cluster, global_batch=2 * MICRO_BATCH, sequence_length=model.sequence_length, precision="fp32"
    )
    pins = Pins(strategy="ddp", micro_batch=MICRO_BATCH)
    return Situation(make_plan(workload, cluster, MachineFacts(), pins), MachineFacts(), pins)


def gains(measured: dict[str, Any], way: str) -> list[float]:
    """Return the share of the time of a DDP step that a way saved, round by round."""
    pairs = zip(measured["times"][way], measured["times"]["ddp"], strict=True)
    return [1 - taken / plain for taken, plain in pairs]


def compared(measured: dict[str, Any]) -> list[tuple[str, list[float], float]]:
    """Return each way with its measured gains and its predicted gain."""
    here = situation_on(cluster_of(measured))
    rows = []
    for way in WAYS:
        if way in measured["times"]:
            # Without NCCL rigtune does not offer the bf16 hook; fp16 gradients have as many bytes.
            gain = verdict(strategy_named("fp16" if way == "bf16-compression" else way), here).gain
            assert not isinstance(gain, Unknown), gain
            rows.append((way, gains(measured, way), gain))
    return rows


def report(measured: dict[str, Any], rate: str) -> None:
    here = situation_on(cluster_of(measured))
    total = here.total_s
    assert not isinstance(total, Unknown)
    plain = measured["times"]["ddp"]
    alone = statistics.median(measured["times"]["alone"])
    reduced = measured["bytes"] / statistics.median(row["large_s"] for row in measured["rates"])
    print(
        f"  gradients {measured['bytes'] / 1e6:.1f} MB; an all-reduce reaches {reduced * 8 / 1e6:.0f} Mbit/s of {rate}"
    )
    print(
        f"  DDP step measured {duration(statistics.median(plain))} ({duration(min(plain))} to "
        f"{duration(max(plain))}), predicted {duration(total)}; without communication measured "
        f"{duration(alone)}, predicted {duration(total - here.exposed_s)}"
    )
    print(f"  {'strategy':<18} {'measured gain':>14} {'spread':>18} {'predicted':>10} {'error':>8}")
    for way, won, predicted in compared(measured):
        middle = statistics.median(won)
        spread = f"{100 * min(won):.1f} to {100 * max(won):.1f} %"
        error = f"{100 * (predicted - middle):+.1f}"
        print(f"  {way:<18} {100 * middle:>12.1f} % {spread:>18} {100 * predicted:>8.1f} % {error:>8}")
    for way, why in measured["refused"].items():
        print(f"  {way:<18} unproven: gloo refuses ({why})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="interpreter with torch")
    parser.add_argument("--rate", action="append", help="rate of the link; repeatable")
    parser.add_argument(
        "--kind", action="append", choices=("tbf", "htb"), help="queue of the link; repeatable"
    )
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    for kind in KINDS:
        why = refusal(kind)
        print(f"tc {kind}: {'works' if not why else f'unproven here, refused: {why}'}")
    for kind in options.kind or ("tbf", "htb"):
        for rate in options.rate or ("100mbit",):
            print(f"\n{kind}, {rate}, {options.rounds} rounds")
            report(measure(options.python, kind, rate, options.rounds), rate)


if __name__ == "__main__":
    main()
