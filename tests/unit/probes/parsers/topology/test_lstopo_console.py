"""Outputs of lstopo on a console, verbose and short."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from probes.parsers.topology.lstopo_console import (
    parse_cpu,
    parse_devices,
    parse_dmi,
    parse_gpus,
    parse_numa_nodes,
    recognise,
)
from tests.support.damage import damaged

VERBOSE = """\
Machine (P#0 total=300GiB DMIProductName="Box 9")
  Package L#0 (P#0 total=100GiB CPUModel="Some CPU")
    NUMANode L#0 (P#0 local=100GiB total=100GiB)
    NUMANode(GPUMemory) L#1 (P#255 local=15GiB total=15GiB PCIBusID=0004:05:00.0)
    L3Cache L#0 (size=10MiB)
      Core L#0 (P#8)
        PU L#0 (P#0)
        PU L#1 (P#1)
    HostBridge L#0 (buses=0004:[05-05])
      PCI L#0 (busid=0004:05:00.0 id=0000:0000 class=0300(VGA))
  Package L#1 (P#8)
    NUMANode L#2 (P#8 local=200GiB total=200GiB)
    Core L#1 (P#16) + PU L#2 (P#88)
depth 0: 1 Machine (type #0)
"""
SHORT = """\
Machine (31GB total)
  Package L#0
    NUMANode L#0 (P#0 31GB)
    L3 L#0 (8192KB) + L2 L#0 (256KB) + Core L#0 + PU L#0 (P#0)
    HostBridge
      PCIBridge
        PCI 19:00.0 (3D)
          CoProc(CUDA) "cuda0"
      PCI 1a:00.0 (InfiniBand)
        OpenFabrics "mlx5_0"
"""


def test_verbose() -> None:
    assert recognise(VERBOSE)
    cpu = parse_cpu(VERBOSE)
    assert (cpu.sockets, cpu.physical_cores, cpu.logical_cpus, cpu.model) == (2, 2, 3, "Some CPU")
    assert parse_dmi(VERBOSE).product_name == "Box 9"
    assert [(node.index, node.cpus, node.is_gpu_memory) for node in parse_numa_nodes(VERBOSE)] == [
        (0, "0-1", False),
        (8, "88", False),
        (255, "", True),
    ]
    assert [(gpu.pci_bus_id, gpu.numa_node) for gpu in parse_gpus(VERBOSE)] == [("0004:05:00.0", 0)]


def test_short() -> None:
    assert recognise(SHORT)
    assert [(device.bus_id, device.kind, device.numa_node) for device in parse_devices(SHORT)] == [
        ("0000:19:00.0", "gpu", 0),
        ("0000:1a:00.0", "rdma", 0),
    ]
    assert [(node.cpus, node.memory_bytes) for node in parse_numa_nodes(SHORT)] == [("0", 31 * 2**30)]


def test_other_texts_are_not_recognised() -> None:
    assert not recognise("")
    assert not recognise("Machine learning (1)\n  is fun\n")


def test_the_identity_of_a_device_before_the_brackets() -> None:
    text = (
        "Machine (P#0)\n  HostBridge L#0\n    PCI 1137:0043 (busid=0000:0b:00.0 class=0200(Ether) "
        'PCIVendor="C")\n'
    )
    (device,) = parse_devices(text)
    assert (device.bus_id, device.device_id, device.class_code, device.kind) == (
        "0000:0b:00.0",
        "1137:0043",
        "0200",
        "ethernet",
    )


@given(st.one_of(st.text(max_size=200), damaged(VERBOSE), damaged(SHORT)))
def test_damage_raises_nothing(text: str) -> None:
    recognise(text)
    parse_cpu(text), parse_dmi(text), parse_numa_nodes(text)
    assert all(
        gpu.pci_bus_id[5:] in text.lower() for gpu in parse_gpus(text) if isinstance(gpu.pci_bus_id, str)
    )
