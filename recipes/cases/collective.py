"""Predictions for the rows of a table of measured collectives: duration and bus bandwidth."""

import functools
import math
import re
from collections.abc import Mapping
from typing import Literal

from probes.base.record import Record, quoted
from probes.base.units import plural
from probes.catalogue.hardware import load_catalogue
from recipes.cases.case import MISSING, Case, CaseError, cluster_of_case
from recipes.machine.cluster_records import Cluster
from recipes.machine.from_words import gpu_named
from recipes.predict.parameters import parameter
from recipes.predict.speed.collectives import (
    COLLECTIVES,
    Collective,
    Group,
    algorithms,
    unknown_link,
    wire_bytes,
)

_MOST_GPUS = 10**6
_MOST_BYTES = 10**18
_NAMES: dict[str, Collective] = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "sendrecv": "sendrecv",
    "p2p": "sendrecv",
}
_GPU_WORDS = (
    # GPU name by the name of a platform or of a cloud instance
    (re.compile(r"\bGB300\b", re.IGNORECASE), "GB300"),
    (re.compile(r"\bGB200\b|\bp6e-gb200", re.IGNORECASE), "GB200"),
    (re.compile(r"\bB300\b|\bp6-b300", re.IGNORECASE), "B300-SXM"),
    (re.compile(r"\bB200\b|\bp6-b200|\ba4-highgpu", re.IGNORECASE), "B200-SXM"),
    (re.compile(r"\bH200\b|\bp5en?\.48|\ba3-ultra", re.IGNORECASE), "H200-SXM-141GB"),
    (re.compile(r"\bH100\b|\bp5\b|\ba3-(?:high|mega)gpu|\bND[ms]*_?H100", re.IGNORECASE), "H100-SXM-80GB"),
    (re.compile(r"\bp4de\b|\ba2-ultragpu|\bNDm_?A100", re.IGNORECASE), "A100-SXM-80GB"),
    (re.compile(r"\bp4d\b|\ba2-(?:high|mega)gpu|\bNDv4\b|\bND_?A100_?v4", re.IGNORECASE), "A100-SXM-40GB"),
    (re.compile(r"\bA100\b", re.IGNORECASE), "A100-SXM-80GB"),
    (re.compile(r"\bMI300X\b", re.IGNORECASE), "MI300X"),
    (re.compile(r"\bL40S\b", re.IGNORECASE), "L40S"),
    (re.compile(r"\bV100\b|\bp3dn\b", re.IGNORECASE), "V100-SXM2-32GB"),
)


class CollectivePrediction(Record, kw_only=True):
    """The prediction for one row. Figures are None if the row is refused."""

    case_id: str
    status: Literal["predicted", "refused"]
    reason: str = ""
    """Reason for a refusal, or the assumptions."""
    time_us: float | None = None
    time_us_low: float | None = None
    """Eight of ten measured times are between `low` and `high`."""
    time_us_high: float | None = None
    busbw_gbps: float | None = None
    """Bus bandwidth in 1e9 bytes per second, as nccl-tests defines it."""
    algorithm: str = ""


def predict_collective_row(row: Mapping[str, str | None]) -> CollectivePrediction:
    """Return the prediction for one row.

    The columns that are read are platform, gpu, n_gpus, n_nodes, intra, inter, collective and bytes. Never
    raises an error: a row that cannot be read or predicted is refused with the reason.
    """
    case_id = _cell(row, "case_id")
    try:
        collective = _collective(_cell(row, "collective"))
        gpus = _whole(row, "n_gpus", _MOST_GPUS)
        size = _whole(row, "bytes", _MOST_BYTES)
        if gpus is None or size is None:
            raise CaseError(f"{'n_gpus' if gpus is None else 'bytes'} is blank: give a whole number")
        if gpus == 1:
            raise CaseError("n_gpus is 1: a collective needs two ranks or more")
        gpu, assumed = _gpu(_cell(row, "gpu"), _cell(row, "platform"))
        cluster = _cluster(
            gpu, gpus, _whole(row, "n_nodes", _MOST_GPUS), _cell(row, "intra"), _cell(row, "inter")
        )
        group = Group(ranks=gpus, nodes=cluster.nodes)
        unknown = unknown_link(group, cluster)
        if unknown is not None:
            raise CaseError(f"{unknown.detail} is not known")
    except CaseError as error:
        return CollectivePrediction(case_id=case_id, status="refused", reason=str(error))
    best = min(algorithms(collective, group, cluster), key=lambda algorithm: algorithm.time_s(size))
    time_s = best.time_s(size)
    return CollectivePrediction(
        case_id=case_id,
        status="predicted",
        reason=assumed,
        time_us=time_s * 1e6,
        time_us_low=time_s * 1e6 * parameter("collective.low"),
        time_us_high=time_s * 1e6 * parameter("collective.high"),
        busbw_gbps=wire_bytes(collective, size, gpus) / time_s / 1e9,
        algorithm=best.name,
    )


@functools.lru_cache(maxsize=256)
def _gpu(gpu: str, platform: str) -> tuple[str, str]:
    """Return the GPU's name, and assumptions. Raises CaseError if neither column names a GPU."""
    if gpu:
        return gpu, ""
    named = next((name for pattern, name in _GPU_WORDS if pattern.search(platform)), "")
    if not named:
        raise CaseError(
            "gpu is blank, and platform does not determine the GPU: give its name, such as `H100-SXM-80GB`"
        )
    return named, f"gpu taken from platform: {named}"


@functools.lru_cache(maxsize=256)
def _cluster(gpu: str, gpus: int, nodes: int | None, intra: str, inter: str) -> Cluster:
    """Return the machine of the row. Raises CaseError for impossible numbers and for an unknown GPU."""
    if nodes is not None and nodes > gpus:
        raise CaseError(f"n_nodes is {nodes}, with {plural(gpus, 'GPU')}: give at most as many nodes as GPUs")
    case = Case(
        case_id="",
        gpu=gpu,
        n_gpus=gpus,
        gpus_per_node=-(-gpus // nodes) if nodes is not None else None,
        interconnect_intra=intra,
        interconnect_inter=inter,
    )
    if gpu_named(gpu, None, load_catalogue()) is None:  # only tables of runs have columns with a GPU's rates
        raise CaseError(f"gpu {quoted(gpu)} is not in the catalogue: give one of `rigtune list gpus`")
    return cluster_of_case(case, gpus, load_catalogue())


def _cell(row: Mapping[str, str | None], column: str) -> str:
    cell = (row.get(column) or "").strip()
    return "" if cell.lower() in MISSING else cell


def _collective(words: str) -> Collective:
    plain = re.sub(r"[\s_-]", "", words).lower().removesuffix("perf")
    if plain not in _NAMES:
        raise CaseError(f"collective is {quoted(words)}: give one of {', '.join(COLLECTIVES)}")
    return _NAMES[plain]


def _whole(row: Mapping[str, str | None], column: str, most: int) -> int | None:
    cell = _cell(row, column)
    if not cell:
        return None
    try:
        number = float(cell)
    except ValueError:
        raise CaseError(f"{column} is {quoted(cell)}: give a whole number") from None
    if not math.isfinite(number) or number != int(number) or not 1 <= number <= most:
        raise CaseError(f"{column} is {quoted(cell)}: give a whole number from 1 to {most}")
    return int(number)
