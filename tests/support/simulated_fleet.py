"""Fleets with known faults: chips differ by 1 %, runs by 0.5 %, racks by an argument of the test."""

from __future__ import annotations

import datetime
import json
import random
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from assistant.usecases.fleet.run_folder import OUTCOMES, RAW
from probes.fleet.node_report import Metric, NodeReport
from probes.judging.findings import Status

CHIP_SD, RUN_SD, RUNS, GPUS = 0.01, 0.005, 3, 8
RATE = 700e12


class Fleet:
    """Nodes with GPUs of known true speed; `factor(node, gpu)` makes some of them slow."""

    def __init__(
        self,
        nodes: int,
        seed: int = 0,
        *,
        factor: Callable[[int, int], float] = lambda node, gpu: 1.0,
        attributes: Callable[[int], dict[str, str]] = lambda node: {},
        rack_sd: float = 0.0,
        rack_size: int = 32,
    ) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a simulation
        self.nodes, self.factor, self.attributes = nodes, factor, attributes
        racks = [self.random.gauss(1, rack_sd) for _ in range(nodes // rack_size + 1)]
        self.chips = [
            [racks[node // rack_size] * self.random.gauss(1, CHIP_SD) for _ in range(GPUS)]
            for node in range(nodes)
        ]
        self.rack_size = rack_size

    def run(self, *, with_faults: bool = True, change: float = 1.0) -> list[NodeReport]:
        """Return the reports of one run, with `RUNS` samples of every GPU."""
        return [
            NodeReport(
                node=f"n{node}",
                outcome="ok",
                verdict=Status.PASS,
                attributes={
                    "rack": f"r{node // self.rack_size}",
                    "gpu_model": "H100",
                    **self.attributes(node),
                },
                metrics=tuple(
                    Metric(
                        part_kind="gpu",
                        part_id=f"GPU-{node}-{gpu}",
                        slot=f"GPU{gpu}",
                        metric="gemm_flops_per_s",
                        unit="flop/s",
                        samples=tuple(
                            RATE * speed * change * self.random.gauss(1, RUN_SD) for _ in range(RUNS)
                        ),
                    )
                    for gpu, chip in enumerate(chips)
                    for speed in [chip * (self.factor(node, gpu) if with_faults else 1.0)]
                ),
            )
            for node, chips in enumerate(self.chips)
        ]


def past_of(runs: list[list[NodeReport]]) -> dict[tuple[str, str], list[float]]:
    """Return the medians of earlier runs by metric and part."""
    past: dict[tuple[str, str], list[float]] = {}
    for reports in runs:
        for report in reports:
            for metric in report.metrics:
                key = (metric.metric, metric.part_id)
                past.setdefault(key, []).append(statistics.median(metric.samples))
    return past


def write_run(folder: Path, reports: Iterable[NodeReport], at: datetime.datetime | None = None) -> Path:
    """Write the raw lines and outcomes of a run that began at `at`, as the journal does."""
    folder.mkdir(parents=True, exist_ok=True)
    since = at.timestamp() if at is not None else 0.0
    with (folder / RAW).open("w") as raw, (folder / OUTCOMES).open("w") as outcomes:
        for report in reports:
            text = msgspec.json.encode(report).decode()
            end = {"node": report.node, "outcome": report.outcome, "exit_code": 0, "detail": report.detail}
            if report.outcome == "ok":
                entry = {"node": report.node, "since": since, "at": since + 1, "text": text}
                raw.write(json.dumps(entry) + "\n")
            outcomes.write(json.dumps(end) + "\n")
    return folder
