"""Test that doubling a rate, size or count of a GPU changes a figure of a run or a machine with this GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec
import pytest

from probes.catalogue import hardware
from probes.catalogue.hardware import GpuModel, load_catalogue
from recipes.cases.prediction import predict_row
from recipes.machine.from_words import MachineWords, cluster_from_words
from tests.quantities.changing import figures, forget

_FIELDS = (
    "memory_bytes",
    "memory_bandwidth_bytes_per_s",
    "nvlink_count",
    "nvlink_bandwidth_bytes_per_s",
    "ring_bus_bandwidth_bytes_per_s",
    "pcie_width",
    "host_link_bytes_per_s",
    "power_limit_w",
    "multiprocessors",
)
_PRECISIONS = {"bf16": "bf16-mixed", "fp16": "fp16-mixed"}
_RUN = {
    "stack": "torch",
    "model": "Llama 2 7B",
    "seq_len": "2048",
    "micro_batch": "1",
    "activation_checkpointing": "full",
}
_ROOMS = ("recipes.", "probes.catalogue")


class _Rate(NamedTuple):
    gpu: str
    field: str
    dtype: str = ""

    def changed(self, row: GpuModel) -> GpuModel:
        """Return the row with twice the figure.

        A power limit is divided by eight instead, because most GPUs never draw as much as their limit.
        """
        value: Any = getattr(row, self.field)
        other = {**value, self.dtype: 2 * value[self.dtype]} if self.dtype else 2 * value
        if self.field == "power_limit_w":
            other = value / 8
        return msgspec.structs.replace(row, **{self.field: other})


def _rates() -> Iterator[_Rate]:
    for row in load_catalogue().gpus:
        for field in _FIELDS:
            if getattr(row, field):
                yield _Rate(row.id, field)
        for field in ("peak_flops_per_s", "achievable_flops_per_s"):
            for dtype in getattr(row, field):
                yield _Rate(row.id, field, dtype)


RATES = tuple(_rates())


def _reason(rate: _Rate) -> str:
    """Return why no answer depends on a figure; blank if an answer must depend on it."""
    row = next(row for row in load_catalogue().gpus if row.id == rate.gpu)
    half = row.peak_flops_per_s.keys() & {"bf16", "fp16"}
    is_measured = row.ring_bus_bandwidth_bytes_per_s is not None and not row.nvlink_bridge
    if rate.field in ("nvlink_count", "nvlink_bandwidth_bytes_per_s") and is_measured:
        return "the bandwidth of a ring was measured, and counts instead of that of links"
    if rate.field == "pcie_width" and row.host_link_bytes_per_s:
        return "the processor is reached over a link of its own"
    if rate.field == "power_limit_w" and not half:
        return "without tensor cores no product draws so much that clocks fall"
    if rate.field == "ring_bus_bandwidth_bytes_per_s" and row.nvlink_bridge:
        return "bridged GPUs are no domain behind a switch, whose ring this is"
    return ""


def _answers(rate: _Rate) -> Iterator[tuple[float | bool, ...]]:
    """Yield the figures of a run on eight GPUs, of a run that offloads on one GPU, and of two machines."""
    run = {**_RUN, "gpu": rate.gpu, "precision": _PRECISIONS.get(rate.dtype, rate.dtype or "bf16-mixed")}
    yield figures(predict_row({**run, "n_gpus": "8", "global_batch": "8", "sharding": "fsdp"}))
    yield figures(predict_row({**run, "n_gpus": "1", "global_batch": "1", "sharding": "zero3 offload"}))
    for words in (MachineWords(gpu=rate.gpu, gpus=8), MachineWords(gpu=rate.gpu, gpus=2, intra="NVLink")):
        yield figures(cluster_from_words(words, load_catalogue()))


class _Shipped:
    """Stand-in for the files of GPUs, in which a test can change one row."""

    def __init__(self) -> None:
        self.rows = load_catalogue().gpus
        self._load_rows = hardware.load_rows
        self._present: dict[_Rate, tuple[tuple[float | bool, ...], ...]] = {}

    def load_rows(self, package: str, table: str, row_type: type, **choices: Any) -> Any:
        """Return the present rows of GPUs; for other tables, return the rows of their files."""
        return self.rows if table == "gpus" else self._load_rows(package, table, row_type, **choices)

    def present(self, rate: _Rate) -> tuple[tuple[float | bool, ...], ...]:
        """Return the figures with the shipped rows, which are the same for all rates of a GPU and a type."""
        key = rate._replace(field="")
        if key not in self._present:
            self._present[key] = tuple(_answers(rate))
        return self._present[key]

    @contextmanager
    def changed(self, rate: _Rate) -> Iterator[None]:
        """Change one figure while the body runs."""
        shipped = self.rows
        self.rows = tuple(rate.changed(row) if row.id == rate.gpu else row for row in shipped)
        _forget()
        try:
            yield
        finally:
            self.rows = shipped
            _forget()


def _forget() -> None:
    load_catalogue.cache_clear()
    forget(*_ROOMS)


@pytest.fixture(scope="module")
def shipped() -> Iterator[_Shipped]:
    """Yield the rows of GPUs in a form in which a test can change them."""
    rows = _Shipped()
    with patch.object(hardware, "load_rows", rows.load_rows):
        yield rows
    _forget()


@pytest.mark.parametrize("rate", RATES, ids=lambda rate: "-".join(rate).rstrip("-"))
def test_twice_a_figure_of_a_gpu_moves_a_prediction(rate: _Rate, shipped: _Shipped) -> None:
    present = shipped.present(rate)
    with shipped.changed(rate):
        moved = any(now != before for now, before in zip(_answers(rate), present, strict=False))
    assert moved == (not _reason(rate))
