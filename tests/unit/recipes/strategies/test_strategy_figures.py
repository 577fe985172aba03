"""Figures of strategies that follow from the sizes of the job, worked out by hand."""

from __future__ import annotations

import re

import msgspec
import pytest

from recipes.constants import constant
from recipes.job.candidate import Degrees
from recipes.job.models.names import find_model
from recipes.strategies.compression import low_rank_share
from recipes.strategies.strategy_table import load_strategies, strategy_named
from recipes.strategies.verdicts import candidate_of_choice, copying_s, trained_parameters
from recipes.strategies.verdicts import judged as verdict_on
from tests.support.clusters import h100_cluster
from tests.support.strategy_cases import DDP, FAST, RECOMMENDED, SLOW, judged, model_of_tables, situation


def test_a_low_rank_has_the_rows_and_columns_of_each_matrix() -> None:
    """Llama 3.2 1B has 16 layers with matrices to 3072, 2048 and 16384 outputs, and one from 8192 inputs.

    Rank 1 sends rows + columns of each matrix and of the table, and all 2 x 2048 weights of the norms.
    """
    layer = (3072 + 2048) + (2048 + 2048) + (16384 + 2048) + (2048 + 8192)
    sent = 16 * (layer + 2 * 2048) + (128256 + 2048)
    whole = 16 * (3072 + 2048 + 16384 + 8192) * 2048 + 128256 * 2048 + 16 * 2 * 2048
    model = find_model("llama-3.2-1b")
    assert low_rank_share(model, 1, 2) == pytest.approx(sent / whole, rel=1e-4)
    untied = msgspec.structs.replace(model, tied_embeddings=False)
    more = (sent + 128256 + 2048) / (whole + 128256 * 2048)
    assert low_rank_share(untied, 1, 2) == pytest.approx(more, rel=1e-4)


@pytest.mark.parametrize(("nodes", "per_node", "times"), [(4, 1, "1"), (2, 2, "2"), (2, 4, "4"), (1, 2, "1")])
def test_every_rank_of_a_node_sends_gradients_to_the_servers(nodes: int, per_node: int, times: str) -> None:
    answer = judged(
        "ps", "llama-3.2-1b", nodes=nodes, per_node=per_node, network=SLOW, pins=DDP, global_batch=8
    )
    assert answer.because[1].startswith(f"every link carries {times} times the bytes of an all-reduce")


def test_unused_rows_of_the_embedding_need_not_be_sent() -> None:
    """Two tables of 768 million weights and 14 million others: one table has 49.5 % of all weights."""
    answer = judged(
        "ps",
        model_of_tables(),
        sequence_length=128,
        nodes=4,
        per_node=1,
        network=SLOW,
        pins=DDP,
        global_batch=8,
    )
    assert answer.because[1].startswith("every link carries 0.505 times the bytes")
    assert answer.because[2].startswith("the embedding has 49.5 % of the weights")


def test_jobs_on_instances_share_the_gpu() -> None:
    here = situation(**RECOMMENDED["mig"])
    answer = judged("mig", **RECOMMENDED["mig"])
    assert isinstance(here.total_s, float)
    assert isinstance(answer.gain, float)
    assert isinstance(answer.step_time_s, float)
    assert answer.gain == pytest.approx(1 - answer.step_time_s / 7 / here.total_s)
    numbers = re.search(r"needs ([\d.]+) GiB, ([\d.]+) % of the GPU's memory", answer.because[1])
    assert numbers is not None
    assert float(numbers[2]) == pytest.approx(100 * float(numbers[1]) / 79.0, rel=0.03)


@pytest.mark.parametrize(
    ("nodes", "per_node", "words"),
    [
        (4, 1, "several nodes with several ranks each"),
        (1, 8, "several nodes with several ranks each"),
        (2, 2, "in two levels"),
    ],
)
def test_two_levels_need_nodes_and_ranks(nodes: int, per_node: int, words: str) -> None:
    here = {"nodes": nodes, "per_node": per_node, "network": SLOW, "pins": DDP, "global_batch": 8}
    assert words in judged("hierarchical", "llama-3.2-1b", **here).because[0]


@pytest.mark.parametrize(
    ("degrees", "is_plain"),
    [
        ({}, True),
        ({"tp": 2}, False),
        ({"pp": 2}, False),
        ({"cp": 2}, False),
        ({"ep": 2}, False),
        ({"tp": 2, "pp": 2}, False),
        ({"cp": 2, "ep": 2}, False),
    ],
)
def test_ranks_have_the_whole_model_only_without_other_degrees(
    degrees: dict[str, int], is_plain: bool
) -> None:
    here = situation("gpt2", pins=DDP)
    choice = msgspec.structs.replace(here.plan.chosen, degrees=Degrees(dp=8, fsdp=1, **degrees))
    changed = here._replace(plan=msgspec.structs.replace(here.plan, chosen=choice))
    assert changed.is_plain is is_plain
    assert candidate_of_choice(choice).strategy == "ddp"
    sharded = msgspec.structs.replace(choice, sharding="zero3")
    assert candidate_of_choice(sharded).strategy == "fsdp"


def test_copies_cost_the_rate_of_the_memory() -> None:
    cluster = h100_cluster(nodes=1)
    rate = cluster.memory_bandwidth_bytes_per_s
    assert rate is not None
    assert copying_s(2 * rate.value, cluster) == 2.0
    assert copying_s(1e12, msgspec.structs.replace(cluster, memory_bandwidth_bytes_per_s=None)) == 0.0


@pytest.mark.parametrize(("more", "status"), [(0.0, "recommended"), (-1e-9, "not-worth")])
def test_a_gain_at_the_limit_is_worth_an_experiment(more: float, status: str) -> None:
    here, gain = situation("gpt2", pins=DDP), constant("strategy_worth") + more
    assert verdict_on(strategy_named("bf16-compression"), here, gain, 1.0, ()).status == status


def test_all_weights_of_a_model_are_trained() -> None:
    assert trained_parameters(situation("gpt2", pins=DDP).job) == pytest.approx(124.4e6, rel=0.01)


def test_partitions_are_those_of_the_catalogue_and_missing_figures_are_0() -> None:
    rows = load_strategies()
    divided = {name for name, row in rows.items() if row.partitions}
    assert divided == {name for name, row in rows.items() if row.kind == "partitions"} == {"mig"}
    assert rows["mig"].partitions[0][0] == 7
    assert rows["mig"].figure("sent_bytes") == 0.0


def test_on_fast_links_the_gain_is_at_most_the_exposed_communication() -> None:
    here = situation("llama-3.2-1b", nodes=2, network=FAST, pins=DDP)
    answer = judged("local-sgd", "llama-3.2-1b", nodes=2, network=FAST, pins=DDP)
    assert isinstance(answer.gain, float)
    assert isinstance(here.total_s, float)
    assert answer.gain <= here.exposed_s / here.total_s
