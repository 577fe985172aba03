"""Test the lines about a run, its strategies, its environment, and what-if questions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from assistant.pages.training.environment_lines import environment_section
from assistant.pages.training.run_lines import hours, number, program_line, run_lines, run_section
from assistant.pages.training.strategies_page import experiment_line, strategies_page
from assistant.pages.training.what_if_page import best_words, comparison_page, sensitivity_page
from assistant.text.plain_writer import text_of
from probes.base.record import Reason, Unknown
from recipes.environment.environment_plan import EffectiveVariable, EnvironmentPlan, EnvVar
from recipes.planning.plan import Experiment, FastestProgram, RunCost
from recipes.planning.what_if import Change, Comparison, Sensitivity
from recipes.strategies.verdicts import StrategyAnswers, Verdict
from tests.support.clusters import h100_cluster
from tests.support.tui_plans import gpu_plan
from tests.support.what_if import timed_answer

UNKNOWN = Unknown(Reason.NOT_RECORDED, "no rate")


def lines_of(*sections: Any) -> list[str]:
    return [" ".join(line.split()) for line in text_of(sections, width=300).splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5 / 3600, "0.5 s"),
        (59 / 3600, "59 s"),
        (1 / 60, "1 min"),
        (0.5, "30 min"),
        (1.0, "1 h"),
        (71.9, "71.9 h"),
        (72.0, "3 days"),
        (23_976.0, "999 days"),
        (24_000.0, "1000 days"),
        (240_000.0, "10000 days"),
    ],
)
def test_hours_are_written_in_the_unit_that_people_use(value, text):
    assert hours(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1.2345, "1.23"), (99.94, "99.9"), (100.0, "100"), (1234.4, "1234")]
)
def test_amounts_have_three_digits_or_all(value, text):
    assert number(value) == text


def cost(**fields: Any) -> RunCost:
    base = {
        "length_from": "tokens", "steps": 1000, "samples": 8000, "tokens": 32000, "hours": 10.0,
        "gpu_hours": 80.0, "interruptions": 0.5, "lost_hours": 1.0, "lost_share": 0.1,
    }  # fmt: skip
    return RunCost(**{**base, **fields})


LENGTH = "1000 steps, 8000 samples, 32000 tokens"


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, [f"{LENGTH}: 10 h, 80 GPU hours"]),
        ({"tokens": 0}, ["1000 steps, 8000 samples: 10 h, 80 GPU hours"]),
        (
            {"length_from": "assumed"},
            [f"{LENGTH} (assumed: give --tokens, --samples or --steps): 10 h, 80 GPU hours"],
        ),
        ({"hours": UNKNOWN}, [f"{LENGTH}: hours unknown, because the step time is unknown"]),
        ({"gpu_hours": UNKNOWN}, [f"{LENGTH}: hours unknown, because the step time is unknown"]),
        ({"cost": 200.0}, [f"{LENGTH}: 10 h, 80 GPU hours, price 200"]),
        (
            {"interruptions": 1.0},
            [
                f"{LENGTH}: 10 h, 80 GPU hours",
                "expected: about 1 interruption by failures, with 1 h lost (10 % of the time)",
            ],
        ),
        (
            {"interruptions": 2.4, "cost": 200.0},
            [
                f"{LENGTH}: 10 h, 80 GPU hours, price 200",
                "expected: about 2 interruptions by failures, with 1 h lost (10 % of the time); "
                "the price includes this time",
            ],
        ),
        ({"interruptions": 0.99}, [f"{LENGTH}: 10 h, 80 GPU hours"]),
        ({"interruptions": UNKNOWN}, [f"{LENGTH}: 10 h, 80 GPU hours"]),
    ],
)
def test_a_run_is_described_by_its_length_and_its_price(fields, lines):
    assert run_lines(cost(**fields), is_gpu=True) == lines


def test_ranks_on_cpus_are_not_called_gpus():
    assert run_lines(cost(), is_gpu=False) == [f"{LENGTH}: 10 h, 80 rank hours"]


def fastest(speed_up: float) -> FastestProgram:
    return FastestProgram(
        program="megatron", title="Megatron-LM", layout="tp 2", step_time_s=1.0, speed_up=speed_up,
        compared=("a", "b"),
    )  # fmt: skip


def experiment(strategy: str, **fields: Any) -> Experiment:
    base = {
        "title": strategy, "step_time_s": 2.0, "saved_share": 0.25, "ranks": 8, "because": "", "unproven": "",
    }  # fmt: skip
    return Experiment(**{"strategy": strategy, **base, **fields})


def test_the_section_of_a_run_names_the_fastest_program_and_an_experiment():
    slower = "no other program is clearly faster here (compared: 2)"
    faster = "fastest program here: Megatron-LM, 25 % faster (tp 2); --program megatron plans for it"
    assert program_line(fastest(0.0)) == slower
    assert program_line(fastest(0.25)) == faster
    plan = msgspec.structs.replace(
        gpu_plan(), run=cost(), fastest_program=fastest(0.25), experiments=(experiment("fp8"),)
    )
    assert lines_of(run_section(plan)) == [
        "Run",
        f"{LENGTH}: 10 h, 80 GPU hours",
        faster,
        "experiment: fp8 saves 25 % of the step (2 s); --why-not fp8 explains",
    ]
    bare = msgspec.structs.replace(gpu_plan(), run=None, fastest_program=None, experiments=())
    assert len(lines_of(run_section(bare))) <= 1


@pytest.mark.parametrize(
    ("experiments", "line"),
    [
        ((), ""),
        (
            (experiment("fp8", ranks=16),),
            "experiment: fp8 saves 25 % of the step (2 s on all 16 GPUs); --why-not fp8 explains",
        ),
        (
            (experiment("fp8"), experiment("tp", saved_share=0.1), experiment("pp")),
            "experiment: fp8 saves 25 % of the step (2 s); tp saves 10 %; --why-not fp8 explains",
        ),
    ],
)
def test_two_experiments_are_named_in_one_line(experiments, line):
    plan = msgspec.structs.replace(gpu_plan(), experiments=experiments)
    assert plan.cluster.world_size == 8
    assert experiment_line(plan) == line


def verdict(status: str, gain: Any = 0.1, after: Any = 1.8, **fields: Any) -> Verdict:
    base = {"strategy": "fp8", "title": "FP8", "because": ("first", "second"), "source": "handbook"}
    return Verdict(**{**base, "status": status, "gain": gain, "step_time_s": after, **fields})


def strategy(made: Verdict, step: Any = 2.0) -> list[str]:
    answers = StrategyAnswers(layout="tp 2", step_time_s=step, exposed_communication_s=0.0, verdicts=(made,))
    return lines_of(*strategies_page(answers))


@pytest.mark.parametrize(
    ("made", "first"),
    [
        (verdict("chosen"), "fp8: the plan uses it: first"),
        (verdict("not-applicable"), "fp8: not applicable: first"),
        (verdict("unknown"), "fp8: gain unknown (unproven): first"),
        (verdict("not-worth", UNKNOWN), "fp8: gain unknown"),
        (verdict("recommended", 0.1, UNKNOWN), "fp8: gain unknown"),
        (verdict("recommended"), "fp8: worth an experiment: saves 10 % of the step (2 s -> 1.8 s)"),
        (verdict("not-worth"), "fp8: not worth the effort: saves 10 % of the step (2 s -> 1.8 s)"),
        (verdict("not-worth", 0.002), "fp8: not worth the effort: saves 0.2 % of the step (2 s -> 1.8 s)"),
        (verdict("not-worth", 0.001), "fp8: gains nothing here: the step changes by less than 0.2 %"),
        (verdict("not-worth", -0.001), "fp8: gains nothing here: the step changes by less than 0.2 %"),
        (verdict("not-worth", 0.0), "fp8: gains nothing here"),
        (verdict("not-worth", -0.1, 2.2), "fp8: slower: the step takes 10 % longer (2 s -> 2.2 s)"),
    ],
)
def test_the_answer_about_a_strategy_comes_before_its_reasons(made, first):
    lines = strategy(made)
    assert lines[0] == first
    assert ("first" in lines) is not first.endswith("first")
    assert lines[-2:] == ["source: handbook", "Compared with tp 2: 2 s per step"]


def test_without_a_step_time_no_gain_is_stated():
    lines = strategy(verdict("recommended"), UNKNOWN)
    assert lines[0] == "fp8: gain unknown"
    assert lines[-1] == "Compared with tp 2: step time unknown"


@pytest.mark.parametrize(
    ("status", "details"),
    [
        ("chosen", ["chosen when: c", "setting: s"]),
        ("recommended", ["chosen when: c", "setting: s"]),
        ("not-worth", ["not chosen when: n", "setting: s"]),
        ("not-applicable", ["not chosen when: n"]),
    ],
)
def test_the_details_fit_the_answer(status, details):
    made = verdict(status, how="h", chosen_when="c", not_when="n", setting="s", unproven="u", source="x")
    lines = strategy(made)
    assert lines[lines.index("how: h") : -1] == ["how: h", *details, "unproven: u", "source: x"]


def variable(name: str = "NCCL_DEBUG", **fields: Any) -> EffectiveVariable:
    return EffectiveVariable(**{"name": name, "value": "INFO", "origin": "plan", **fields})


def environment(
    *effective: EffectiveVariable, nodes: int = 1, transport: str = "", **fields: Any
) -> list[str]:
    cluster = h100_cluster(nodes=nodes, transport=transport)
    return lines_of(environment_section(EnvironmentPlan(effective=effective, **fields), cluster))


CLASS = "NCCL_IB_TC, the class of RoCE traffic, is not known: see `rigtune advise network`"


def test_variables_of_the_plan_alone_need_no_section():
    assert environment(variable()) == []


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (variable(origin="/etc/nccl.conf"), "NCCL_DEBUG INFO set by /etc/nccl.conf"),
        (
            variable(overridden=("/etc/nccl.conf: 22", "x: 1")),
            "NCCL_DEBUG INFO set by this plan; it hides /etc/nccl.conf: 22, x: 1",
        ),
        (
            variable(origin="environment", advised="WARN"),
            "NCCL_DEBUG INFO set by environment; this plan recommends WARN, but keeps the machine's value",
        ),
    ],
)
def test_variables_that_others_set_are_listed_with_their_owner(made, line):
    assert environment(made, variable("OTHER")) == ["Environment", line]


def test_a_platform_that_sets_nothing_is_named():
    bare = ["Environment AWS", "no variable is set by the machine or its platform"]
    assert environment(platform="aws", platform_title="AWS") == bare
    assert environment(variable(origin="x"), platform="aws", platform_title="AWS") == [
        "Environment AWS", "NCCL_DEBUG INFO set by x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "transport", "effective", "lines"),
    [
        (2, "roce", (), ["Environment", CLASS]),
        (1, "roce", (), []),
        (2, "infiniband", (), []),
        (2, "roce", (variable("NCCL_IB_TC"),), []),
        (2, "roce", (variable("OTHER"),), ["Environment", CLASS]),
    ],
)
def test_the_traffic_class_is_asked_for_on_roce_between_nodes(nodes, transport, effective, lines):
    assert environment(*effective, nodes=nodes, transport=transport) == lines


def test_variables_to_measure_are_named():
    tried = EnvVar(name="NCCL_ALGO", value="Ring", why="", source="")
    assert environment(experiments=(tried,)) == [
        "Environment",
        "may help, not set: NCCL_ALGO=Ring; `rigtune tune RECIPE --variables` measures",
    ]


BASE = timed_answer(8, 1000.0)


def sensitivity(**fields: Any) -> Sensitivity:
    base = {
        "base": BASE, "changes": (), "best_change": "network", "best_gain": 0.06, "best_other_change": "",
        "best_other_gain": 0.0,
    }  # fmt: skip
    return Sensitivity(**{**base, **fields})


BEST = "The single change that would gain most: twice the network: "


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, f"{BEST}+6.0 %"),
        ({"best_change": ""}, "No single change of the hardware would gain anything"),
        ({"best_gain": UNKNOWN}, "Nothing fits; with twice the network the job fits"),
        ({"best_other_change": "network"}, f"{BEST}+6.0 %"),
        (
            {"best_other_change": "memory", "best_other_gain": 0.02},
            f"{BEST}+6.0 %; without faster computation, twice the memory: +2.0 %",
        ),
        (
            {"base": msgspec.structs.replace(BASE, tokens_per_s=UNKNOWN)},
            "The speed is unknown, and so is the effect of the hardware: no rate",
        ),
    ],
)
def test_the_best_change_of_the_hardware_is_one_sentence(fields, sentence):
    assert best_words(sensitivity(**fields)) == sentence


def test_each_hardware_number_has_its_effect():
    other = msgspec.structs.replace(BASE, layout="pp 4")
    missing = msgspec.structs.replace(BASE, layout="", label="half the memory", reason="too small")
    changes = (
        Change(name="network", more=BASE, gain=0.01, twice=BASE, twice_gain=0.06),
        Change(name="one GPU fewer", more=other, gain=-0.1, twice=None, twice_gain=None),
        Change(name="memory", more=BASE, gain=0.0, twice=missing, twice_gain=UNKNOWN),
    )
    lines = lines_of(*sensitivity_page(sensitivity(changes=changes)))
    network, fewer = (next(line for line in lines if line.startswith(name)) for name in ("network", "one"))
    assert network == "network +1.0 % +6.0 % the same"
    assert fewer == "one GPU fewer -10.0 % pp 4"
    assert lines[-1] == "half the memory: too small"


def test_a_price_has_its_column_if_one_machine_has_a_price():
    free = msgspec.structs.replace(BASE, cost=None)
    with_price = lines_of(*comparison_page(Comparison(answers=(free, BASE), speed=(1.0, 1.0))))
    without = lines_of(*comparison_page(Comparison(answers=(free, free), speed=(1.0, 1.0))))
    assert "price" in "\n".join(with_price)
    assert "price" not in "\n".join(without)
