"""Predict the memory and speed of runs before they are started."""

import functools
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

from assistant.usecases.case_rows import CaseRow
from assistant.usecases.events import Event, StageStarted, stage
from probes.base.errors import UsageError
from probes.base.record import Record
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement
from recipes.cases.case import COLUMNS, CaseError
from recipes.cases.collective import CollectivePrediction, predict_collective_row
from recipes.cases.model import OwnModels
from recipes.cases.prediction import SCHEMA_VERSION, CasePrediction, predict_row
from recipes.cases.resolved import Here
from recipes.machine.cluster_records import Cluster
from recipes.machine.from_facts import cluster_from_facts
from recipes.machine.ranks import default_ranks

OTHER = "other"
"""Key for the number of refusals whose reason does not begin with the name of a column."""


COLLECTIVE_COLUMNS = (
    "case_id",
    "platform",
    "gpu",
    "n_gpus",
    "n_nodes",
    "intra",
    "inter",
    "collective",
    "bytes",
)
"""The columns that `rigtune predict --collectives` reads."""
Answer = CasePrediction | CollectivePrediction


class CollectiveReport(Record, kw_only=True):
    """The output of `rigtune predict --collectives --format json`."""

    schema_version: int = SCHEMA_VERSION
    cases: tuple[CollectivePrediction, ...] = ()


class CaseAnswered(Event, kw_only=True):
    """One case was predicted, or refused with a reason."""

    answer: Answer


class PredictSummary(Record, kw_only=True):
    """The number of predicted cases, and the number of refused cases."""

    predicted: int = 0
    refused: int = 0
    refused_for: dict[str, int] = {}
    """Number of refused cases for each column that their reason names, and for `OTHER`, largest first."""


def predict_cases(
    rows: Iterable[CaseRow], here: Here | None = None, own_models: OwnModels | None = None
) -> Iterator[Event]:
    """Yield a `CaseAnswered` for each row, in order; the last event's result is a `PredictSummary`.

    `here` returns this machine, for cases that name no GPU or the GPU of this machine; `own_models` are the
    user's models by name. An InputError that `rows` raises is passed on.
    """
    return _answered(rows, functools.partial(predict_row, here=here, own_models=own_models), CasePrediction)


def predict_collectives(rows: Iterable[CaseRow]) -> Iterator[Event]:
    """Predict single collectives of NCCL or RCCL, which the columns `COLLECTIVE_COLUMNS` describe."""
    return _answered(rows, predict_collective_row, CollectivePrediction)


@stage("predict")
def _answered(
    rows: Iterable[CaseRow],
    answer: Callable[[Mapping[str, str]], Answer],
    refused_as: type[CasePrediction] | type[CollectivePrediction],
) -> Generator[Event, None, PredictSummary]:
    yield StageStarted(stage="predict", title="Predicting")
    predicted, refused = 0, Counter[str]()
    for row in rows:
        case_id = row.cells.get("case_id", "").strip()
        given = (
            refused_as(case_id=case_id, status="refused", reason=row.fault)
            if row.fault
            else answer(row.cells)
        )
        if given.status == "predicted":
            predicted += 1
        else:
            refused[_column(given.reason)] += 1
        yield CaseAnswered(answer=given)
    return PredictSummary(
        predicted=predicted, refused=refused.total(), refused_for=dict(refused.most_common())
    )


def _column(reason: str) -> str:
    """Return the column that a reason names as its first word, else `OTHER`."""
    word = reason.split(" ", 1)[0]
    return word if word in COLUMNS or word in COLLECTIVE_COLUMNS else OTHER


def machine_here(facts: MachineFacts, measurements: tuple[Measurement, ...]) -> Here:
    """Return a function that returns the cluster for a case on this machine, as probed and measured.

    A case may use any number of this machine's GPUs, and several nodes equal to this machine.
    """
    usual = default_ranks(facts)

    @functools.lru_cache(maxsize=64)
    def cluster(gpus: int | None, per_node: int | None) -> Cluster:
        ranks = min(per_node or usual, gpus or usual)
        if gpus and gpus % ranks:
            raise CaseError(
                f"n_gpus is {gpus}, which is not a whole number of nodes with {ranks}: give gpus_per_node"
            )
        try:
            return cluster_from_facts(
                facts, measurements, load_catalogue(), nodes=(gpus or ranks) // ranks, ranks_per_node=ranks
            )
        except UsageError as error:
            raise CaseError(
                f"gpus_per_node does not suit this machine: {error.message}; {error.hint}"
            ) from error

    return cluster
