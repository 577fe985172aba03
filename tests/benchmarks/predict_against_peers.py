"""Compare rigtune's predictions of published runs with those of other predictors (peers) on the cases that both answer.

    python tests/benchmarks/predict_against_peers.py [--peer NAME=INTERPRETER ...] [--timeout SECONDS] [--data
    FOLDER]

    deepspeed       estimators of ZeRO's model states: memory, fit
    accelerate      `accelerate estimate-memory`: memory, fit
    llm-analysis    analytic model of GPT training: memory, fit, speed
    aiconfigurator  tables of matrix products and collectives, each point predicted from the other points

Each peer runs in its own interpreter, by default this one, and is left out if it cannot be imported. `deepspeed` and
`accelerate` need torch, which is best installed first; llm-analysis needs `pip install --no-deps llm-analysis fire
termcolor`. A peer gets the sizes, layout, precision and batch that rigtune read from the row, so an unknown name costs
it nothing. The measures are |predicted / measured - 1|, and the share of runs whose fit into the memory was predicted
wrongly. `ratio` is the peer's error over rigtune's; below 1 the peer is ahead.

The script reads `training_open.csv`, `device_open.csv` and `collectives_open.csv` in the folder `data` of
$RIGTUNE_SHARED (by default `../shared`).
"""

from __future__ import annotations

import argparse
import collections
import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from probes.base.record import Unknown
from probes.catalogue.hardware import load_catalogue
from recipes.cases.case import Case, CaseError, case_of_row, cluster_of_case
from recipes.cases.collective import predict_collective_row
from recipes.cases.prediction import predict_row
from recipes.cases.resolved import resolve
from recipes.cases.resolved_case import ResolvedCase
from recipes.job.models.blocks import blocks_of, head_product
from recipes.job.models.counts import parameter_count
from recipes.job.workload import TransformerModel, Workload
from recipes.predict.speed.rates import product_rates, product_time_s
from tests.benchmarks.peer_comparison import SPEEDS, Comparison, compare, compared, positive

ADAPTERS = Path(__file__).resolve().parent / "peers"
TRAINING_PEERS = {
    "deepspeed": "zero_estimators.py",
    "accelerate": "accelerate_estimator.py",
    "llm-analysis": "llm_analysis_estimator.py",
}
TABLES = "aiconfigurator"
TABLES_ADAPTER = "aiconfigurator_tables.py"
NOT_INSTALLED = 3


def question_of(case_id: str, resolved: ResolvedCase) -> dict[str, Any]:
    """Return the description of a case that a peer needs, with the field names of the questions."""
    workload, candidate, case = resolved.workload, resolved.candidate, resolved.case
    if not isinstance(workload, Workload):
        raise ValueError("only transformers are asked for")
    model, degrees = workload.model, candidate.degrees
    return {
        "id": case_id,
        "gpu": case.gpu,
        "gpu_mem_gb": case.gpu_mem_gb,
        "layers": model.layers,
        "hidden": model.hidden,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "ffn_hidden": model.expert_ffn_hidden if model.is_moe else model.ffn_hidden,
        "gated": model.gated_mlp,
        "vocab": model.vocab,
        "experts": model.experts,
        "experts_per_token": model.experts_per_token,
        "plain": is_plain(model),
        "parameters": int((case.params_b or 0) * 1e9) or int(parameter_count(model)),
        "largest_weight": largest_weight(model),
        "tuning": workload.tuning,
        "precision": workload.precision,
        "pure_weights": workload.pure_weights,
        "adam": case.optimizer == "" or "adam" in case.optimizer.lower().replace("muon+adamw", "muon"),
        "sharding": candidate.sharding,
        "dp": degrees.dp,
        "fsdp": degrees.fsdp,
        "tp": degrees.tp,
        "pp": degrees.pp,
        "cp": degrees.cp,
        "ep": degrees.ep,
        "sequence_parallel": candidate.sequence_parallel is not False and degrees.tp > 1,
        "micro_batch": candidate.micro_batch,
        "grad_accum": candidate.grad_accum,
        "sequence_length": workload.sequence_length,
        "checkpointing": candidate.activation_checkpointing,
        "flash_attention": candidate.flash_attention is not False,
    }


def is_plain(model: TransformerModel) -> bool:
    """Return whether each layer consists of one attention and either one MLP or routed experts."""
    return (
        model.kind != "encoder-decoder"
        and not model.key_value_latent
        and not model.shared_ffn_hidden
        and not (model.is_moe and model.dense_layers)
        and model.attention_layers is None
        and not model.state_space_layers
    )


def largest_weight(model: TransformerModel) -> int:
    products = [head_product(model), *(product for block in blocks_of(model) for product in block.products)]
    return max(product.inputs * product.outputs for product in products)


def finished(said: dict[str, Any], resolved: ResolvedCase) -> dict[str, Any]:
    """Return a peer's answer with the two speeds that follow from its step time, and whether its memory fits the GPU."""
    candidate, workload = resolved.candidate, resolved.workload
    if (seconds := positive(said, "step_time_s")) and isinstance(workload, Workload):
        said["samples_per_s"] = candidate.global_batch / seconds
        said["tokens_per_s_per_gpu"] = workload.tokens_per_step / seconds / resolved.gpus
    if (peak := positive(said, "peak_mem_gib")) and resolved.case.gpu_mem_gb:
        said["fits"] = peak <= resolved.case.gpu_mem_gb
    return said


def ask(
    interpreter: str, adapter: str, questions: Iterable[Mapping[str, Any]], timeout_s: float
) -> tuple[str, dict[str, Any]]:
    """Return the peer's version and its answers by id; raise LookupError with the reason if it does not answer."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    try:
        done = subprocess.run(
            (interpreter, str(ADAPTERS / adapter)),
            input=lines,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LookupError(f"no answer in {timeout_s:.0f} s") from None
    except OSError as error:
        raise LookupError(f"{interpreter} cannot be started: {error.strerror}") from None
    if done.returncode == NOT_INSTALLED:
        raise LookupError("not installed")
    if done.returncode:
        raise LookupError(f"ended with status {done.returncode}: {done.stderr.strip()[-200:]}")
    first, *answers = map(json.loads, done.stdout.splitlines())
    return first["version"], {answer.pop("id"): answer for answer in answers}


def show(peer: str, comparisons: Sequence[Comparison]) -> None:
    for row in comparisons:
        note = "  <- the peer is ahead" if row.behind else ""
        print(
            f"{peer:24s} {row.measure:27s} {row.cases:6d} {row.ours:8.1%} {row.theirs:8.1%} "
            f"{row.ratio:7.2f}{note}"
        )
        peer = ""


def show_unsaid(peer: str, answers: Mapping[str, Any], asked: int) -> None:
    reasons = collections.Counter(answer["cannot"] for answer in answers.values() if "cannot" in answer)
    words = "; ".join(f"{reason} {count}" for reason, count in reasons.most_common(8))
    print(f"{peer}: cannot express {sum(reasons.values())} of {asked}: {words or '-'}")


def against_training(
    path: Path, interpreters: Mapping[str, str], timeout_s: float
) -> list[tuple[str, Comparison]]:
    with path.open(newline="") as file:
        measured = {row["case_id"]: row for row in csv.DictReader(file)}
    resolved = {}
    for case_id, row in measured.items():
        try:
            case = resolve(case_of_row(row))
        except CaseError:
            continue
        if isinstance(case.workload, Workload):
            resolved[case_id] = case
    ours = {}
    for case_id in resolved:
        prediction = predict_row(measured[case_id])
        if prediction.status == "predicted":
            ours[case_id] = {key: getattr(prediction, key) for key in (*SPEEDS, "peak_mem_gib", "fits")}
    print(f"{len(measured)} runs; transformers that rigtune resolves {len(resolved)}, predicts {len(ours)}")
    print(f"{'peer':24s} {'measure':27s} {'cases':>6s} {'rigtune':>8s} {'peer':>8s} {'ratio':>7s}")
    questions = [question_of(case_id, case) for case_id, case in resolved.items()]
    comparisons, notes = [], []
    for peer, adapter in TRAINING_PEERS.items():
        try:
            version, answers = ask(interpreters[peer], adapter, questions, timeout_s)
        except LookupError as error:
            print(f"{peer}: left out, {error}")
            continue
        theirs = {
            case: finished(said, resolved[case]) for case, said in answers.items() if "cannot" not in said
        }
        rows = compare(measured, ours, theirs)
        show(f"{peer} {version}", rows)
        notes.append((peer, answers, theirs.keys() - ours.keys()))
        comparisons += [(peer, row) for row in rows]
    for peer, answers, alone in notes:
        show_unsaid(peer, answers, len(questions))
        if alone:
            print(f"{peer}: answers {len(alone)} cases that rigtune refuses")
    return comparisons


_SHAPE = re.compile(r"\bm=(\d+) n=(\d+) k=(\d+)")
_TABLE = re.compile(r"/systems/(data/[\w./-]+\.parquet)$")


class Point(NamedTuple):
    """A measured matrix product or collective that is a point of the peer's tables."""

    question: dict[str, Any]
    measured_s: float
    ours_s: float | None


def products(rows: Iterable[Mapping[str, str]]) -> Iterator[Point]:
    for number, row in enumerate(rows):
        shape, table = _SHAPE.search(row["how"]), _TABLE.search(row["source_url"])
        rate = positive(row, "value")
        metric = re.fullmatch(r"gemm_(\w+)_tflops", row["metric"])
        if shape and table and rate and metric:
            m, n, k = map(int, shape.groups())
            asked = {
                "id": number,
                "kind": "product",
                "table": table[1],
                "precision": metric[1],
                "m": m,
                "n": n,
                "k": k,
            }
            yield Point(asked, 2 * m * n * k / (rate * 1e12), our_product_s(row["gpu"], metric[1], m, n, k))


def our_product_s(gpu: str, precision: str, m: int, n: int, k: int) -> float | None:
    try:
        cluster = cluster_of_case(Case(case_id="", gpu=gpu), 1, load_catalogue())
    except CaseError:
        return None
    rates = product_rates(cluster, precision)
    return None if isinstance(rates, Unknown) else product_time_s(rates, m, n, k)


def collectives(rows: Iterable[Mapping[str, str]]) -> Iterator[Point]:
    for row in rows:
        table, time_us = _TABLE.search(row["source_url"]), positive(row, "time_us")
        if table and time_us:
            asked = {
                "id": row["case_id"],
                "kind": "collective",
                "table": table[1],
                "gpus": int(row["n_gpus"]),
            }
            ours_us = predict_collective_row(row).time_us
            sizes = {"collective": row["collective"], "bytes": int(row["bytes"])}
            yield Point({**asked, **sizes}, time_us / 1e6, ours_us and ours_us / 1e6)


def against_tables(folder: Path, interpreter: str, timeout_s: float) -> list[tuple[str, Comparison]]:
    """Compare products and collectives with predictions from the peer's tables, without the point in question."""
    points = {}
    for measure, points_of, name in (
        ("product, time", products, "device_open.csv"),
        ("collective, time", collectives, "collectives_open.csv"),
    ):
        with (folder / name).open(newline="") as file:
            points[measure] = list(points_of(csv.DictReader(file)))
    try:
        questions = [point.question for some in points.values() for point in some]
        version, answers = ask(interpreter, TABLES_ADAPTER, questions, timeout_s)
    except LookupError as error:
        print(f"{TABLES}: left out, {error}")
        return []
    comparisons = []
    for measure, some in points.items():
        pairs = []
        for point in some:
            theirs_s = answers[point.question["id"]].get("seconds")
            if point.ours_s is not None and theirs_s is not None:
                pairs.append((point.ours_s / point.measured_s - 1, theirs_s / point.measured_s - 1))
        comparisons += compared(measure, pairs)
    show(f"{TABLES} {version}, tables", comparisons)
    show_unsaid(TABLES, answers, len(answers))
    return [(TABLES, row) for row in comparisons]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=INTERPRETER",
        help="run this peer with that interpreter",
    )
    parser.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="for each peer (300)")
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "data"
    )
    options = parser.parse_args()
    interpreters = dict.fromkeys((*TRAINING_PEERS, TABLES), sys.executable)
    for given in options.peer:
        name, _, interpreter = given.partition("=")
        if name not in interpreters or not interpreter:
            parser.error(f"--peer {given}: give one of {', '.join(interpreters)}, = and its interpreter")
        interpreters[name] = interpreter
    if not (options.data / "training_open.csv").is_file():
        parser.error(f"there is no training_open.csv in {options.data}")
    comparisons = against_training(options.data / "training_open.csv", interpreters, options.timeout)
    comparisons += against_tables(options.data, interpreters[TABLES], options.timeout)
    behind = [f"{peer}: {row.measure}" for peer, row in comparisons if row.behind]
    print(
        f"rigtune is behind on {len(behind)} of {len(comparisons)} measures"
        + "".join(f"\n    {line}" for line in behind)
    )


if __name__ == "__main__":
    main()
