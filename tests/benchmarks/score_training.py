"""Scores the memory and time models on published DDP and FSDP runs of dense decoders.

    python tests/benchmarks/score_training.py

Reads `training_open.csv` below $RIGTUNE_SHARED/data (default ../shared). Prints the median error and the spread of measured
over modelled, by source and device. Nothing is fitted to a source or a model.
"""

from __future__ import annotations

import collections
import csv
import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from probes.record import Unknown
from recipes.constants import constant
from recipes.plan import Candidate, Cluster, Degrees, Figure
from recipes.predict import model_step, predict_memory
from recipes.workload import TransformerModel, Workload

GIB = 2**30
DEVICES = {
    # bf16 peak, best GEMM, memory bandwidth, memory, ring bus bandwidth (datasheets; stas00/ml-engineering; nccl-tests)
    "A100-SXM-80GB": (312e12, 271e12, 2.04e12, 80 * GIB, 235e9),
    "A100-SXM-40GB": (312e12, 271e12, 1.555e12, 40 * GIB, 235e9),
    "H100-SXM-80GB": (989e12, 794e12, 3.35e12, 80 * GIB, 367e9),
    "H100-SXM-96GB(HBM2e,500W)": (989e12, 794e12, 2.4e12, 96 * GIB, 367e9),
    "H200-SXM-141GB": (989e12, 794e12, 4.8e12, 141 * GIB, 367e9),
    "B200-SXM": (2250e12, 1745e12, 8e12, 180 * GIB, 680e9),
    "GB200": (2500e12, 1822e12, 8e12, 186 * GIB, 680e9),
}
IMPLEMENTATIONS = {
    "composer-fsdp": "fused",
    "torchtitan": "rigtune-worker",
    "megatron-core": "fused",
    "flash-attention": "fused",
    "nanochat": "fused",
    "hf-trainer": "hf-eager",
    "litgpt": "rigtune-worker",
}
NODE_NETWORK_BYTES_PER_S = {"A100": 200e9, "H100": 400e9}
"""8 x 200 and 8 x 400 Gb/s, where the row does not say: the reference designs of these machines."""


def figure(value: float) -> Figure:
    return Figure(value=value, basis="modelled", source="benchmark")


def cluster_of_row(row: dict[str, str]) -> Cluster | None:
    if row["gpu"] not in DEVICES or not row["n_gpus"]:
        return None
    peak, gemm, bandwidth, memory, ring = DEVICES[row["gpu"]]
    gpus = int(row["n_gpus"])
    per_node = min(gpus, int(row["gpus_per_node"] or 8))
    network = NODE_NETWORK_BYTES_PER_S.get(row["gpu"][:4], 400e9)
    return Cluster(
        title=row["gpu"],
        device="cuda",
        device_name=row["gpu"],
        nodes=gpus // per_node,
        ranks_per_node=per_node,
        memory_bytes_per_rank=figure(memory),
        flops_per_s={"bf16": figure(gemm)},
        peak_flops_per_s={"bf16": figure(peak)},
        memory_bandwidth_bytes_per_s=figure(bandwidth * constant("achievable_memory_fraction")),
        intra_bus_bandwidth_bytes_per_s=figure(ring),
        intra_latency_s=figure(constant("nvlink_hop_s")),
        inter_bus_bandwidth_bytes_per_s=figure(network * constant("rdma_fraction")),
        inter_latency_s=figure(constant("network_hop_s")),
    )


def cases(path: Path) -> Iterator[tuple[dict[str, str], Workload, Candidate, Cluster]]:
    """Rows of full-parameter bf16 training of dense decoders with data parallelism alone, and all sizes stated."""
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            alone = all(row[axis] in ("", "1") for axis in ("tp", "pp", "cp", "ep"))
            if row["family"] != "dense" or row["task"] not in ("pretrain", "sft") or not alone or row["oom"] == "true":
                continue
            if row["precision"] not in ("bf16-mixed", "bf16") or row["sharding"] not in ("fsdp", "ddp", "single"):
                continue
            if row["stack"] not in IMPLEMENTATIONS or row["activation_checkpointing"] not in ("", "none", "full"):
                continue
            needed = ("n_layers", "hidden", "n_heads", "ffn_hidden", "vocab", "seq_len", "micro_batch")
            cluster = cluster_of_row(row)
            if cluster is None or any(not row[name] for name in needed):
                continue
            yield row, *case_of_row(row, cluster), cluster


def case_of_row(row: dict[str, str], cluster: Cluster) -> tuple[Workload, Candidate]:
    heads, hidden, mpt = int(row["n_heads"]), int(row["hidden"]), row["stack"] == "composer-fsdp"
    gpt = mpt or row["model"].startswith("gpt")
    model = TransformerModel(
        id=row["model"].lower(),
        title=row["model"],
        layers=int(row["n_layers"]),
        hidden=hidden,
        heads=heads,
        kv_heads=int(row["n_kv_heads"] or heads),
        head_dim=hidden // heads,
        ffn_hidden=int(row["ffn_hidden"]),
        vocab=int(row["vocab"]),
        gated_mlp=not gpt,
        tied_embeddings=gpt,
        norm="layernorm" if gpt else "rmsnorm",
        sequence_length=int(row["seq_len"]),
        learning_rate=1e-4,
        learning_rate_batch_tokens=1_000_000,
        source="",
        date="",
    )
    micro_batch, accumulation = int(row["micro_batch"]), int(row["grad_accum"] or 1)
    global_batch = micro_batch * accumulation * cluster.world_size
    workload = Workload(model=model, sequence_length=model.sequence_length, global_batch=global_batch)
    sharded = row["sharding"] == "fsdp"
    return workload, Candidate(
        strategy="fsdp" if sharded else "ddp",
        degrees=Degrees(fsdp=cluster.world_size) if sharded else Degrees(dp=cluster.world_size),
        micro_batch=micro_batch,
        grad_accum=accumulation,
        global_batch=global_batch,
        activation_checkpointing="full" if row["activation_checkpointing"] == "full" else "none",
        precision="bf16",
    )


def score(path: Path) -> dict[str, dict[tuple[str, ...], list[float]]]:
    """Measured over modelled, for `time` and `memory`, by source and device."""
    ratios: dict[str, dict[tuple[str, ...], list[float]]] = {
        "time": collections.defaultdict(list),
        "memory": collections.defaultdict(list),
    }
    for row, workload, candidate, cluster in cases(path):
        key = (row["stack"], row["gpu"], row["sharding"], row["activation_checkpointing"] or "not stated")
        implementation = IMPLEMENTATIONS[row["stack"]]
        if row["tokens_per_s_per_gpu"]:
            terms = model_step(workload, candidate, cluster, implementation=implementation)
            assert not isinstance(terms, Unknown)
            measured_s = workload.tokens_per_step / cluster.world_size / float(row["tokens_per_s_per_gpu"])
            ratios["time"][key].append(measured_s / terms.total)
        if row["peak_mem_gib"] and row["precision"] == "bf16-mixed":
            memory = predict_memory(workload, candidate, cluster, implementation=implementation)
            modelled = memory.allocated if row["memory_figure"] == "allocated" else memory.total
            ratios["memory"][key].append(float(row["peak_mem_gib"]) * GIB / modelled)
    return ratios


def median_error(ratios: list[float]) -> float:
    """Median of |modelled - measured| / measured."""
    return statistics.median(abs(1 / ratio - 1) for ratio in ratios)


def line(what: str, name: str, ratios: list[float]) -> str:
    """One group: how many, median error, median and 10th to 90th percentile of measured over modelled."""
    ordered = sorted(ratios)
    low, high = ordered[len(ordered) // 10], ordered[len(ordered) * 9 // 10]
    spread = f"{statistics.median(ordered):.2f} ({low:.2f} to {high:.2f})"
    return f"{what:7} {len(ordered):4}  median error {median_error(ordered):6.1%}  measured/modelled {spread}  {name}\n"


def main() -> int:
    path = Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "data" / "training_open.csv"
    if not path.is_file():
        sys.stderr.write(f"{path} is absent; set RIGTUNE_SHARED\n")
        return 0
    for what, groups in score(path).items():
        for key, ratios in sorted(groups.items()):
            sys.stdout.write(line(what, " ".join(key), ratios))
        everything = [ratio for ratios in groups.values() for ratio in ratios]
        if everything:
            sys.stdout.write(line(what, "ALL", everything))
    return 0


if __name__ == "__main__":
    sys.exit(main())
