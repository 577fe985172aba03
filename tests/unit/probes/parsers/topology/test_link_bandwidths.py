"""Test how many NVLinks a matrix of bandwidths shows."""

from __future__ import annotations

import pytest

from probes.parsers.topology.hwloc_distances import Matrix, nvlink_counts

ADDRESSES = {("OSDev", 1): "0000:18:00.0", ("OSDev", 2): "0000:38:00.0", ("PCIDev", 9): "0000:05:00.0"}
PAIR = frozenset(("0000:18:00.0", "0000:38:00.0"))


def counts(
    *values: int, model: str = "NVIDIA A100", name: str = "NVLinkBandwidth", switch: bool = False
) -> dict[frozenset[str], int | None]:
    indexes = ("OSDev:1", "OSDev:2", *(["PCIDev:9"] if switch else []))
    matrix = Matrix(name=name, kind="", indexes=indexes, values=values)
    return nvlink_counts([matrix], ADDRESSES, {"0000:18:00.0": model, "0000:38:00.0": model})


@pytest.mark.parametrize(
    ("megabytes", "model", "expected"),
    [
        (100_000, "NVIDIA A100", 4),
        (25_000, "NVIDIA H100", 1),
        (80_000, "Tesla P100", 4),
        (100_001, "NVIDIA A100", None),
        (100_000, "NVIDIA X900", None),
    ],
)
def test_each_link_of_a_generation_has_one_bandwidth(
    megabytes: int, model: str, expected: int | None
) -> None:
    assert counts(0, megabytes, megabytes, 0, model=model) == {PAIR: expected}


def test_a_matrix_of_another_kind_or_without_values_shows_no_link() -> None:
    assert counts(0, 100_000, 100_000, 0, name="NUMALatency") == {}
    assert counts(0, 100_000, 100_000) == {}
    assert counts(0, 0, 0, 0) == {}


def test_gpus_behind_switches_have_the_links_of_the_gpu_with_fewer() -> None:
    values = (0, 0, 150_000, 0, 0, 100_000, 150_000, 100_000, 0)
    assert counts(*values, switch=True) == {PAIR: 4}
