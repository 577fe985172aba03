"""Facts from measurements: bandwidths of nccl-tests, results of other benchmarks, and training steps."""

from typing import Any

from probes.logs.event import Event
from probes.logs.events.log_record import fields_of
from probes.logs.events.measurement_events import (
    BenchLatency,
    BenchResult,
    NcclTestsRank,
    NcclTestsSummary,
    NcclTestsWrong,
    NvbandwidthResult,
    PerftestResult,
)
from probes.logs.events.process_events import TrainingCourse

_MOST_COLLECTIVES = 16
_MOST_GPUS = 1 << 16
_MOST_MODELS = 16
_MOST_TESTS = 64


class BenchFacts:
    """Facts from measurements and training steps, collected event by event."""

    def __init__(self) -> None:
        self._gpus: dict[tuple[object, ...], str] = {}
        """Model of each GPU, with host, bus id and GPU number as the key."""
        self._bandwidth: dict[str, dict[str, object]] = {}
        self._ranks = 0
        self._nodes = 0
        self._wrong = 0
        self._measured: dict[str, dict[str, object]] = {}
        self._training: dict[str, Any] = {}

    def add(self, event: Event) -> None:
        """Add an event; only measurements and summaries of training have an effect."""
        match event.what:
            case NcclTestsRank() as device if len(self._gpus) < _MOST_GPUS:
                self._gpus.setdefault((device.host, device.bus, device.gpu), device.name)
            case NcclTestsSummary() as summary:
                self._add_summary(summary)
            case TrainingCourse() as course if course.step >= self._training.get("step", 0):
                self._training = fields_of(course)
            case NcclTestsWrong(count=count):
                self._wrong += count
            case NvbandwidthResult() as result:
                self._add_rates("", result.test, result)
            case BenchResult() as result:
                self._add_rates(result.tool, result.test, result)
            case BenchLatency(tool=tool, test=test, usec=usec):
                self._add_measurement((tool, test), {"us": usec})
            case PerftestResult(gbit_per_s=None, usec=float(usec)) as result:
                self._add_measurement((result.test, result.device), {"us": usec, "at_bytes": result.bytes})
            case PerftestResult(gbit_per_s=float(rate)) as result:
                self._add_measurement(
                    (result.test, result.device), {"gigabits_per_s": rate, "at_bytes": result.bytes}
                )

    def as_dict(self) -> dict[str, object]:
        """Return the reported facts; `ranks` and `nodes` belong to the nccl-tests run with the most ranks."""
        models: dict[str, int] = {}
        for model in self._gpus.values():
            if model and (model in models or len(models) < _MOST_MODELS):
                models[model] = models.get(model, 0) + 1
        facts: dict[str, object] = {
            "ranks": self._ranks or None,
            "nodes": self._nodes or None,
            "gpus": models,
            "bandwidth": self._bandwidth,
            "wrong_values": self._wrong or None,
            "measured": self._measured,
            "training": self._training,
        }
        return {name: value for name, value in facts.items() if value not in (None, {})}

    def _add_rates(self, tool: str, test: str, result: NvbandwidthResult | BenchResult) -> None:
        row: dict[str, object] = {"gigabytes_per_s": result.median_gbps}
        if result.slowest_gbps != result.median_gbps:
            row |= {
                "slowest": result.slowest_gbps,
                "slowest_at": result.slowest,
                "fastest": result.fastest_gbps,
            }
        if isinstance(result, BenchResult) and result.peak_gbps is not None:
            row["peak"] = result.peak_gbps
        self._add_measurement((tool, test), row)

    def _add_measurement(self, names: tuple[str, ...], row: dict[str, object]) -> None:
        test = " ".join(dict.fromkeys(name for name in names if name))
        if test in self._measured or len(self._measured) < _MOST_TESTS:
            self._measured[test] = row

    def _add_summary(self, summary: NcclTestsSummary) -> None:
        values = {
            "ranks": summary.ranks,
            "nodes": summary.nodes,
            "largest_bytes": summary.max_bytes,
            "busbw_of_largest": summary.max_busbw_gbps,
            "busbw_best": summary.peak_busbw_gbps,
            "busbw_average": summary.avg_busbw_gbps,
        }
        row: dict[str, object] = {name: value for name, value in values.items() if value is not None}
        collective = summary.collective or "collective"
        if collective in self._bandwidth or len(self._bandwidth) < _MOST_COLLECTIVES:
            before = self._bandwidth.get(collective, {})
            if (summary.peak_busbw_gbps or 0.0) >= _number(before.get("busbw_best")):
                self._bandwidth[collective] = row
        if summary.ranks is not None and summary.ranks > self._ranks:
            self._ranks, self._nodes = summary.ranks, summary.nodes or 0


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
