"""Compare the bill of `rigtune predict` byte for byte. RIGTUNE_UPDATE_GOLDEN=1 writes the files anew."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from assistant.pages.training.predict_page import case_page
from assistant.text.plain_writer import text_of
from probes.base.units import GIB
from recipes.cases.collective import CollectivePrediction
from recipes.cases.prediction import CasePrediction, Recomputing
from recipes.predict.breakdowns import MemoryBreakdown, TimeBreakdown

FOLDER = Path(__file__).parent / "predict"

MEMORY = MemoryBreakdown(
    total=48.7 * GIB,
    parameters=3.7 * GIB,
    gradients=0.0,
    optimizer=7.5 * GIB,
    activations=24.0 * GIB,
    logits=2.5 * GIB,
    buffers=3.0 * GIB,
    overhead=8.0 * GIB,
    allocated=40.7 * GIB,
    reserved=47.0 * GIB,
    needed=42.0 * GIB,
    upper=48.7 * GIB,
    logged=1.0,
    logged_figure="reserved",
)
TIME = TimeBreakdown(
    total=1.25,
    compute=1.0,
    exposed_communication=0.1,
    optimizer=0.0125,
    bubble=0.125,
    overhead=0.0125,
    low=1.25,
    high=1.25,
)
RUN = CasePrediction(
    case_id="run-17",
    status="predicted",
    fits=True,
    step_time_s=1.25,
    tokens_per_s_per_gpu=6553.6,
    samples_per_s=6.4,
    peak_mem_gib=47.0,
    mfu=0.334,
    step_time_low_s=1.0,
    step_time_high_s=1.6,
    peak_mem_low_gib=40.0,
    peak_mem_high_gib=56.4,
    memory_figure="reserved",
    memory_limit_gib=78.5,
    global_batch=8,
    title="Llama 3 8B, sequence 8192, bf16, on 8 x H100 SXM 80 GB, torchtitan with FSDP2",
    layout="fsdp 8, zero3, micro-batch 1 x 1, global batch 8",
    memory=MEMORY,
    time=TIME,
    rests_on=(
        "989.4 TFLOP/s at most in bf16 (catalogue: h100-sxm)",
        "360 GB/s from node to node "
        "(usual network, eight GPUs on an NVSwitch board, a 400 Gb/s port each: 3200 Gb/s)",
    ),
    assumed=("micro_batch 1", "optimizer adamw"),
)
CASES: dict[str, CasePrediction | CollectivePrediction] = {
    "run": RUN,
    "another-stage-is-logged": CasePrediction(
        case_id="x",
        status="predicted",
        fits=True,
        memory=msgspec.structs.replace(MEMORY, logged=0.5),
        logged_stage=True,
        peak_mem_gib=0.48,
        peak_mem_low_gib=0.4,
        peak_mem_high_gib=1.1,
        memory_figure="allocated",
    ),
    "fits-by-recomputing": CasePrediction(
        case_id="x",
        status="predicted",
        fits=True,
        fits_by_recomputing=Recomputing(layout="checkpointing full of 25 % of the layers", total_gib=38.2),
        memory=msgspec.structs.replace(MEMORY, needed=48.0 * GIB, margin=9.0 * GIB, upper=57.0 * GIB),
        peak_mem_gib=47.0,
        memory_figure="reserved",
        memory_limit_gib=46.5,
    ),
    "needs-more-than-it-keeps": CasePrediction(
        case_id="x",
        status="predicted",
        fits=False,
        memory=msgspec.structs.replace(MEMORY, needed=50.0 * GIB, upper=50.0 * GIB),
        memory_limit_gib=49.0,
    ),
    "memory-alone": CasePrediction(
        case_id="x", status="predicted", fits=False, memory=MEMORY, peak_mem_gib=48.7, memory_figure="device"
    ),
    "speed-alone": CasePrediction(case_id="x", status="predicted", time=TIME, samples_per_s=2541.0),
    "refused": CasePrediction(
        case_id="x", status="refused", reason="gpu 'Abacus' is not in the catalogue: give its peaks"
    ),
    "hostile": CasePrediction(case_id="\x1b[2Jx", status="refused", reason="model '\x07' is none"),
    "collective": CollectivePrediction(
        case_id="c",
        status="predicted",
        reason="gpu taken from platform: H100-SXM-80GB",
        time_us=4220.0,
        time_us_low=3170.0,
        time_us_high=5910.0,
        busbw_gbps=445.3,
        algorithm="nvls",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_text(name: str) -> None:
    text = text_of(case_page(CASES[name]), width=100)
    file = FOLDER / f"{name}.txt"
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_text(text, "utf-8")
    assert file.read_text("utf-8") == text
