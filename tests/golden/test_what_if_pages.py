"""Compare the pages of a run and of what-if questions. RIGTUNE_UPDATE_GOLDEN=1 writes the files anew."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from assistant.pages.training.run_lines import run_section
from assistant.pages.training.strategies_page import strategies_page
from assistant.pages.training.what_if_page import comparison_page, scaling_page, sensitivity_page
from assistant.text.plain_writer import text_of
from recipes.planning.plan import Experiment, FastestProgram, Plan, RunCost
from recipes.planning.what_if import Change, Sensitivity, comparison, scaling_curve
from recipes.strategies.verdicts import Status, StrategyAnswers, Verdict
from tests.support.tui_plans import gpu_plan
from tests.support.what_if import NO_PLAN, refused_answer, timed_answer

FOLDER = Path(__file__).parent / "what_if"
SMALL = RunCost(
    length_from="assumed",
    steps=1000,
    samples=512_000,
    tokens=4_194_304_000,
    hours=1.45,
    gpu_hours=11.6,
    interruptions=0.0002,
    lost_hours=0.0001,
    lost_share=0.00005,
)
LARGE = RunCost(
    length_from="tokens",
    steps=1_000_000,
    samples=2_000_000_000,
    tokens=15_000_000_000_000,
    hours=1300.0,
    gpu_hours=21_300_000.0,
    interruptions=419.0,
    lost_hours=122.0,
    lost_share=0.086,
    price_per_gpu_hour=2.0,
    cost=46_600_000.0,
)
MEGATRON = FastestProgram(
    program="megatron",
    title="Megatron-LM, Megatron-Bridge, NeMo",
    layout="dp 64 tp 4 pp 4 vp 10, zero1",
    step_time_s=4.0,
    speed_up=1.52,
    compared=("megatron", "torchtitan"),
)
OWN = FastestProgram(
    program="own", title="own", step_time_s=1.0, speed_up=0.0, compared=("megatron", "torchtitan")
)
CURVE = scaling_curve(
    [
        (1, refused_answer("1 node", "llama-3-70b does not fit: needs 154.4 GiB of 78.5 GiB")),
        (2, timed_answer(16, 1000.0)),
        (4, timed_answer(32, 1900.0, layout="zero1 tp 4 pp 8 vp 5 with full checkpointing, micro-batch 1")),
        (8, timed_answer(64, 2500.0)),
    ]
)


def change(name: str, more: float, twice: float | None) -> Change:
    return Change(
        name=name,
        more=timed_answer(16, 1000.0 * (1 + more)),
        gain=more,
        twice=None if twice is None else timed_answer(16, 1000.0 * (1 + twice)),
        twice_gain=twice,
    )


EFFECTS = Sensitivity(
    base=timed_answer(16, 1000.0),
    changes=(
        change("matrix rate", 0.068, 0.542),
        change("network bandwidth", 0.012, 0.06),
        change("one GPU fewer per node", -0.12, None),
    ),
    best_change="matrix rate",
    best_gain=0.542,
    best_other_change="network bandwidth",
    best_other_gain=0.06,
)
NOTHING = refused_answer("as it is", "llama-3-70b does not fit")
UNFIT = Sensitivity(
    base=NOTHING,
    changes=(
        Change(
            name="memory size", more=NOTHING, gain=NO_PLAN, twice=timed_answer(16, 900.0), twice_gain=NO_PLAN
        ),
    ),
    best_change="memory size",
    best_gain=NO_PLAN,
    best_other_change="memory size",
    best_other_gain=NO_PLAN,
)


def plan(run: RunCost, fastest: FastestProgram | None) -> Plan:
    return msgspec.structs.replace(gpu_plan(), run=run, fastest_program=fastest)


EXPERIMENTS = (
    Experiment(
        strategy="diloco",
        title="DiLoCo",
        step_time_s=40.6,
        saved_share=0.492,
        ranks=16,
        because="replicas average 29.9 GiB of weights every 500 steps",
        unproven="the effect on the loss",
    ),
    Experiment(
        strategy="bf16-compression",
        title="gradients in bf16 on the wire",
        step_time_s=60.7,
        saved_share=0.242,
        ranks=16,
        because="gradients have 50 % of their bytes on the wire",
        unproven="the effect on the loss",
    ),
)


def verdict(name: str, status: Status, gain: float | None, *because: str) -> Verdict:
    return Verdict(
        strategy=name,
        title=name,
        status=status,
        because=because,
        gain=NO_PLAN if gain is None else gain,
        step_time_s=NO_PLAN if gain is None else 82.3 * (1 - gain),
        unproven="the effect on the loss" if status == "recommended" else "",
        setting=f"turn_on('{name}')",
        how=f"How {name} works.",
        chosen_when="The network is slow.",
        not_when="The network is fast.",
        source="a paper",
    )


BOUND = "exposed communication is 50.6 % of the step (41.6 s of 1 min 22 s), so this can win at most 50.6 %"
VERDICTS = StrategyAnswers(
    layout="HSDP over 2 × 8 GPUs",
    step_time_s=82.3,
    exposed_communication_s=41.6,
    verdicts=(
        verdict("diloco", "recommended", 0.506, "replicas average 29.9 GiB every 500 steps: 42.9 s", BOUND),
        verdict("hsdp", "chosen", 0.0, "HSDP over 2 × 8 GPUs"),
        verdict("local-sgd", "not-worth", 0.008, BOUND),
        verdict("fsdp", "not-worth", -6.69, "FSDP over 16 GPUs: 10 min 32 s per step, 669 % longer"),
        verdict("horovod-fusion", "not-worth", 0.0, "no multiple up to 50 is faster"),
        verdict("mig", "not-applicable", None, "the job uses 16 GPUs together", "and a second reason"),
        verdict("powersgd", "unknown", None, "the shapes of the trained tensors are unknown"),
    ),
)
TEXTS = {
    "run-small": text_of((run_section(plan(SMALL, OWN)),), width=100),
    "run-large": text_of((run_section(plan(LARGE, MEGATRON)),), width=100),
    "run-experiments": text_of(
        (run_section(msgspec.structs.replace(plan(SMALL, OWN), experiments=EXPERIMENTS)),), width=100
    ),
    "why-not": text_of(strategies_page(VERDICTS), width=100),
    "run-unknown": text_of(
        (run_section(plan(msgspec.structs.replace(SMALL, hours=NO_PLAN, gpu_hours=NO_PLAN), None)),)
    ),
    "nodes": text_of(scaling_page(CURVE), width=100),
    "sensitivity": text_of(sensitivity_page(EFFECTS), width=100),
    "sensitivity-unfit": text_of(sensitivity_page(UNFIT), width=100),
    "compare": text_of(
        comparison_page(
            comparison((timed_answer(16, 1000.0, "dgx-h100"), timed_answer(16, 2790.0, "dgx-b200"), NOTHING))
        ),
        width=100,
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_page(name: str) -> None:
    file = FOLDER / f"{name}.txt"
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_text(TEXTS[name], "utf-8")
    assert file.read_text("utf-8") == TEXTS[name]
