"""Compare the output of `bench` byte for byte. RIGTUNE_UPDATE_GOLDEN=1 writes the files anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest

from assistant.formats.bench_csv import csv_text
from assistant.pages.measured.bench_costs import list_page
from assistant.pages.measured.bench_page import bench_page
from assistant.text.plain_writer import text_of
from assistant.usecases.bench.bench_list import BenchEntry
from probes.bench.bench_report import report_of
from tests.support.tui_measured import judged_on_gpus, measured_on_cpu, measured_on_gpus

FOLDER = Path(__file__).parent / "text"
GPUS, JUDGED = measured_on_gpus(), judged_on_gpus()
FEW = msgspec.structs.replace(
    GPUS, measurements=tuple(row for row in GPUS.measurements if row.subject in ("GPU5", "8 ranks"))
)
ENTRY = BenchEntry(
    id="gemm",
    title="Matrix multiplication rate",
    suites=("quick", "full"),
    cost_s=15,
    full_cost_s=60,
    occupies="all GPUs",
    applies=True,
)
ENTRIES = (
    ENTRY,
    msgspec.structs.replace(
        ENTRY, id="isolation", suites=("full",), applies=False, why_not="needs several GPUs"
    ),
    msgspec.structs.replace(ENTRY, id="own-step", suites=(), applies=False, why_not="needs --step"),
)


def render_measurements(*arguments, width: int, colour: bool = False, show_all: bool = False) -> str:
    return text_of(bench_page(*arguments, width=width, show_all=show_all), width=width, colour=colour)


TEXTS = {
    "bench-gpus-80.txt": render_measurements(GPUS, JUDGED, width=80),
    "bench-gpus-140.txt": render_measurements(GPUS, JUDGED, width=140),
    "bench-gpus-unjudged.txt": render_measurements(GPUS, width=100),
    "bench-gpus-all.txt": render_measurements(FEW, JUDGED, width=120, show_all=True),
    "bench-cpu.txt": render_measurements(measured_on_cpu(), width=80),
    "bench-list.txt": text_of(list_page(ENTRIES, width=140), width=140),
    "bench.csv": csv_text(report_of(FEW, JUDGED)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name: str) -> None:
    file = FOLDER / name
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_bytes(TEXTS[name].encode())
    assert file.read_bytes().decode() == TEXTS[name]


def test_nothing_is_wider_than_the_terminal() -> None:
    for width in (80, 140):
        lines = render_measurements(GPUS, JUDGED, width=width).splitlines()
        assert not [line for line in lines if len(line) > width and "again:" not in line]


def test_colour_is_escape_codes_alone() -> None:
    coloured = render_measurements(GPUS, JUDGED, width=100, colour=True)
    assert "\x1b[" in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert "\x1b" not in render_measurements(GPUS, JUDGED, width=100)
    assert [line.rstrip() for line in plain.splitlines()] == render_measurements(
        GPUS, JUDGED, width=100
    ).splitlines()
