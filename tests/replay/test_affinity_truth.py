"""Test the map of GPUs to NICs and CPUs on recorded servers whose wiring INDEX.csv states.

The recordings are outside the project, in the folder that RIGTUNE_SHARED names. `-s` prints how many GPUs
were mapped as stated.
"""

from __future__ import annotations

import pytest

from probes.base.record import Unknown
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.judging.affinity import affinity_of
from probes.sources.loose import open_loose
from tests.support.recordings import MACHINES, needs_recordings

pytestmark = needs_recordings

PAIRS = {
    "a100-8x-10nic-nps4.txt": "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7",
    "a100-8x-nv12-10nic-2numa.txt": "mlx5_2 mlx5_3 mlx5_0 mlx5_1 mlx5_8 mlx5_9 mlx5_4 mlx5_5",
    "a800-8x-8bond-vm-complete.txt": " ".join(f"mlx5_bond_{index}" for index in range(8)),
    "b300-8x-8bond-cx8-complete.txt": " ".join(f"mlx5_bond_{index}" for index in range(8)),
    "b200-8x-12nic-glued-cpu-affinity-truncated.txt": "NIC0 NIC3 NIC4 NIC5 ? ? ? ?",
    "b200-8x-16nic-two-rows.txt": "NIC4 NIC7 ? ? ? ? ? ?",
    "b200-8x-9nic-4numa-truncated.txt": "NIC0 NIC1 NIC2 NIC3 NIC4 ? ? ?",
    "dgx-a100-2x-10nic-slurm-truncated.txt": "NIC0 NIC1",
    "dgx-a100-8x-12mlx5.txt": "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_6 mlx5_7 mlx5_8 mlx5_9",
    "dgx1-p100-8x-4mlx5-glued-header.txt": "mlx5_0 mlx5_0 mlx5_1 mlx5_1 mlx5_2 mlx5_2 mlx5_3 mlx5_3",
    "gb200-4x-8nic-gpu-numa-id.txt": "? ? ? ?",
    "h100-8x-12nic-gpu-rows-only.txt": "NIC0 NIC1 NIC2 NIC3 NIC6 NIC7 NIC8 NIC9",
    "h100-8x-12nic-numa-off.txt": "NIC0 NIC1 NIC2 NIC5 NIC6 NIC7 NIC8 NIC11",
    "h100-8x-vm-9nic-reversed-rails.txt": "NIC8 NIC7 NIC6 NIC5 NIC4 NIC3 NIC2 NIC1",
    "h20-8x-8nic-rail-optimized.txt": " ".join(f"mlx5_{index}" for index in range(1, 9)),
    "v100-sxm2-32gb-8x-1nic.txt": " ".join(["NIC0"] * 8),
}
"""One port for each GPU; `?` if the matrix was cut before the GPU's row, or hides the places of all ports."""

NODES = {
    "a100-8x-10nic-nps4.txt": (3, 3, 1, 1, 7, 7, 5, 5),
    "dgx-a100-8x-12mlx5.txt": (3, 3, 1, 1, 7, 7, 5, 5),
    "rtx4090-5x-odd-numa.txt": (1, 0, 0, 0, 0),
    "h100-8x-12nic-numa-off.txt": (0,) * 8,
}


def mapped(name: str) -> list[tuple[str, int | Unknown]]:
    """Return the ports and the NUMA node of every GPU in a matrix."""
    source = open_loose(((name, (MACHINES / "topo_m" / name).read_bytes()),))
    entries = affinity_of(assemble(source.title, list(gather(source, CollectOptions()))))
    assert isinstance(entries, tuple)
    return [
        ("?" if isinstance(entry.nics, Unknown) else "+".join(entry.nics), entry.numa_node)
        for entry in entries
    ]


def test_every_gpu_has_the_port_that_the_index_states() -> None:
    mapped_nics = {name: " ".join(nics for nics, _ in mapped(name)) for name in PAIRS}
    right = sum(
        a == b for name in PAIRS for a, b in zip(mapped_nics[name].split(), PAIRS[name].split(), strict=True)
    )
    count = sum(len(pairs.split()) for pairs in PAIRS.values())
    print(f"{right} of {count} GPUs in {len(PAIRS)} matrices have their port")  # noqa: T201 - the score
    assert mapped_nics == PAIRS


@pytest.mark.parametrize("name", NODES)
def test_the_numa_node_of_every_gpu(name: str) -> None:
    assert tuple(node for _, node in mapped(name)) == NODES[name]
