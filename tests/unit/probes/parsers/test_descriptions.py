"""Descriptions of machines, GPU models, hardware profiles and clusters."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Reason, Unknown
from probes.catalogue.kinds import KINDS
from probes.facts import NvLink
from probes.parsers.fabric import cluster_model
from probes.parsers.nvidia_smi import mock_gpu, mock_machine
from probes.parsers.tools.documents import load_yaml
from probes.parsers.topology import machine_profile

MACHINE = """\
version: "1.0"
system:
  driver_version: "550.90.07"
  cuda_version: "12.4"
device_defaults:
  name: "NVIDIA H100 80GB HBM3"
  serial: "1"
  compute_capability: {major: 9, minor: 0}
  memory: {total_bytes: 85899345920, used_bytes: 0}
  pci: {device_id: 0x233010DE}
  pcie: {max_link_gen: 5, current_link_gen: 1, max_link_width: 16, current_link_width: 16, replay_counter: 0}
  power: {enforced_limit_mw: 700000, default_limit_mw: 700000, current_draw_mw: 70500}
  clocks_throttle_reasons: {gpu_idle: true, hw_slowdown: false, display_clocks_setting: true}
  fabric: {state: "completed", clique_id: 3}
  fan: {speed_percent: "N/A"}
  ecc: {mode_current: "enabled", errors: {volatile: {single_bit: {total: 2}, double_bit: {total: 1}}}}
  mig: {mode_current: "disabled"}
  persistence_mode: "disabled"
  compute_mode: "exclusive_process"
  remapped_rows: {pending: true, failure_occurred: false, correctable: 1, availability_histogram: {max: 639, none: 1}}
devices:
  - index: 0
    uuid: "GPU-00000000-1111-2222-3333-444444444444"
    pci: {bus_id: "0000:1B:00.0"}
  - index: 1
    name: "NVIDIA H200"
    pci: {bus_id: "0000:2B:00.0"}
nvlink:
  links_per_gpu: 2
  bandwidth_per_link_mbps: 26562
  switches:
    - bdf: "0000:05:00.0"
infiniband: {enabled: true, hca_type: "MT4129", link_layer: "InfiniBand", rate_gbps: 400, port_state: "ACTIVE", hcas_per_gpu: 2}
pcie_topology:
  root_complexes:
    - {id: "pci0000:00", numa_node: 0, devices: ["0000:1B:00.0"]}
    - {id: "pci0000:20", numa_node: 1, devices: ["0000:2B:00.0"]}
"""
MODEL = {
    "variants": {
        "X_SXM5": {"Name": "Mock NVIDIA X", "MemoryMB": 81920, "CudaMajor": 9, "CudaMinor": 0, "PciDeviceId": "0x233010DE",
                   "MIGProfiles": "x_MIGProfiles"},
    },
    "mig_gpu_instance_profiles": {
        "x_GpuInstanceProfiles": [
            {"profile": "GPU_INSTANCE_PROFILE_1_SLICE", "MemorySizeMB": 9856},
            {"profile": "GPU_INSTANCE_PROFILE_1_SLICE_REV1", "MemorySizeMB": 9856},
            {"profile": "GPU_INSTANCE_PROFILE_7_SLICE", "MemorySizeMB": 80384, "mig_name": "7g.80gb"},
        ]
    },
    "dgx_server": {"gpus": 8},
}  # fmt: skip
PROFILE = {
    "pci": {
        "0000:07:00.0": {"type": "gpu", "dev": "/dev/nvidia0", "slot": "GPU_0", "link_speed": ["16 GT/s", "16.0 GT/s PCIe"],
                         "link_width": "16", "topology_critical": "true"},
        "nonsense": {"type": "gpu"},
    },
    "ib": {"link_rate": "200 Gb/sec (4X HDR)", "firmware_version": ["20.31.2354"], "interfaces": {"ib0": {"mlx": "mlx5_0"}}},
    "eth": {"PCIE_5": {"netdev": "enp97s0f0", "speed": 200000, "mtu": 9192}},
}  # fmt: skip
CLUSTER = """\
switches:
  spine:
    switches: [leaf1, leaf2]
blocks:
- switch: leaf1
  nodes: ["n[01-18]", "n20"]
  annotations: {accelerator.example/domain: nvl1, accelerator.example/sub-domain: rack}
- switch: leaf2
  nodes: ["n[31-34,36]"]
  annotations: {accelerator.example/domain: nvl2}
"""
TEXTS = {
    "mock-machine": MACHINE,
    "mock-gpu": json.dumps(MODEL, indent=1),
    "machine-profile": json.dumps(PROFILE, indent=1),
    "cluster-model": CLUSTER,
}
PARSERS: tuple[Callable[[str], object], ...] = (
    mock_machine.parse_gpus,
    mock_machine.parse_nics,
    mock_machine.parse_devices,
    mock_machine.parse_software,
    mock_machine.attached_gpus,
    mock_gpu.parse_gpus,
    machine_profile.parse_machine_profile,
    cluster_model.parse_cluster,
)


@pytest.mark.parametrize("kind", TEXTS)
def test_each_is_recognised_as_its_own_kind_alone(kind: str) -> None:
    assert [row.id for row in KINDS if row.load().recognise(TEXTS[kind])] == [kind]


def test_devices_override_the_defaults() -> None:
    first, second = mock_machine.parse_gpus(MACHINE)
    assert (first.name, second.name) == ("NVIDIA H100 80GB HBM3", "NVIDIA H200")
    assert (first.pci_bus_id, first.pci_device_id, first.numa_node) == ("0000:1b:00.0", "10de:2330", 0)
    assert (second.pci_device_id, second.numa_node) == ("10de:2330", 1)
    assert (first.driver_version, first.compute_capability, first.memory_bytes) == (
        "550.90.07",
        "9.0",
        85899345920,
    )
    assert (first.power_w, first.power_limit_w) == (70.5, 700.0)
    assert (first.pcie.generation, first.pcie.generation_max, first.pcie.width) == (1, 5, 16)
    assert first.throttle_reasons == ("gpu_idle", "display_clock_setting")
    assert (first.fabric_state, first.fabric.clique_id) == ("completed", 3)
    assert (first.persistence_mode, first.compute_mode, first.mig_enabled) == (
        False,
        "exclusive process",
        False,
    )
    assert (first.ecc_enabled, first.ecc_corrected_volatile, first.ecc_uncorrected_volatile) == (True, 2, 1)
    assert (first.row_remap_pending, first.row_remap_failed) == (True, False)
    assert first.nvlinks == tuple(
        NvLink(index=port, active=True, bandwidth_bytes_per_s=26.562e9, remote="switch") for port in range(2)
    )
    assert isinstance(second.uuid, Unknown)


def test_links_without_switches_are_not_called_up() -> None:
    text = MACHINE.replace('  switches:\n    - bdf: "0000:05:00.0"\n', "")
    links = mock_machine.parse_gpus(text)[0].nvlinks
    assert isinstance(links, tuple)
    assert all(
        isinstance(link.active, Unknown) and link.active.reason is Reason.NOT_RECORDED for link in links
    )


def test_ports_devices_and_software_of_a_machine() -> None:
    nics = mock_machine.parse_nics(MACHINE)
    assert [nic.name for nic in nics] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
    assert {(nic.rate_gbps, nic.state, nic.device_type) for nic in nics} == {(400.0, "ACTIVE", "MT4129")}
    assert mock_machine.parse_nics(MACHINE.replace("enabled: true, hca", "enabled: false, hca")) == ()
    kinds = {device.bus_id: device.kind for device in mock_machine.parse_devices(MACHINE)}
    assert kinds == {"0000:1b:00.0": "gpu", "0000:2b:00.0": "gpu", "0000:05:00.0": "nvswitch"}
    software = mock_machine.parse_software(MACHINE)
    assert (software.driver_version, software.cuda_driver_version) == ("550.90.07", "12.4")
    assert mock_machine.attached_gpus(MACHINE) == 2


def test_a_model_with_one_variant_describes_every_gpu_of_its_server() -> None:
    gpus = mock_gpu.parse_gpus(json.dumps(MODEL))
    assert [gpu.index for gpu in gpus] == list(range(8))
    assert (gpus[0].name, gpus[0].memory_bytes, gpus[0].compute_capability) == (
        "NVIDIA X",
        81920 * 1024**2,
        "9.0",
    )
    profiles = gpus[0].mig_profiles
    assert isinstance(profiles, tuple)
    assert [profile.profile for profile in profiles] == ["1g.10gb", "7g.80gb"]


def test_of_several_variants_only_what_they_share_is_known() -> None:
    other = MODEL["variants"]["X_SXM5"] | {"Name": "NVIDIA X 2", "MemoryMB": 40960}  # type: ignore[index]
    two = MODEL | {"variants": MODEL["variants"] | {"Y_SXM5": other}}  # type: ignore[operator]
    gpu = mock_gpu.parse_gpus(json.dumps(two))[0]
    assert isinstance(gpu.name, Unknown)
    assert isinstance(gpu.memory_bytes, Unknown)
    assert gpu.compute_capability == "9.0"


def test_a_hardware_profile() -> None:
    profile = machine_profile.parse_machine_profile(json.dumps(PROFILE))
    assert isinstance(profile.devices, tuple)
    (device,) = profile.devices
    assert (device.bus_id, device.kind, device.generations, device.width, device.is_critical) == (
        "0000:07:00.0",
        "gpu",
        (4,),
        16,
        True,
    )
    assert isinstance(profile.ports, tuple)
    ib, eth = profile.ports
    assert (ib.name, ib.netdev, ib.rate_gbps, ib.firmware_versions) == (
        "mlx5_0",
        "ib0",
        200.0,
        ("20.31.2354",),
    )
    assert (eth.name, eth.rate_gbps, eth.mtu) == ("enp97s0f0", 200.0, 9192)


def test_a_cluster_model() -> None:
    cluster = cluster_model.parse_cluster(CLUSTER)
    assert (cluster.nodes, cluster.switches, cluster.tiers) == (24, 3, 2)
    assert (cluster.nvlink_domains, cluster.nodes_per_domain) == (2, (19, 5))


def test_a_tree_that_bites_its_tail_ends() -> None:
    cluster = cluster_model.parse_cluster(
        "switches:\n  a: {switches: [b]}\n  b: {switches: [a]}\nblocks: []\n"
    )
    assert (cluster.switches, cluster.tiers) == (2, 0)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",  # an alias bomb in small
        "[" * 50_000,
        "a: " + "9" * 6000,
        "? [a, b]\n: c\n",
        "!!python/object/apply:os.system [true]",
        "a: 2026-99-99",
        "\0",
        "x: " + "y" * 500_000,
    ],
)
def test_hostile_yaml_is_no_document(text: str) -> None:
    assert load_yaml(text) == {}


@given(text=st.text(max_size=400))
def test_arbitrary_text_is_nothing(text: str) -> None:
    for row in KINDS:
        if row.id in TEXTS:
            assert isinstance(row.load().recognise(text), bool)
    for parse in PARSERS:
        parse(text)


@given(data=st.data(), kind=st.sampled_from(sorted(TEXTS)))
def test_mutated_text_never_raises_and_invents_no_device(data: st.DataObject, kind: str) -> None:
    lines = TEXTS[kind].splitlines()
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = data.draw(
            st.sampled_from(
                ["", lines[at][: len(lines[at]) // 2], lines[at] * 2, "\t" + lines[at], "- 7", "}"]
            )
        )
    text = "\n".join(lines)
    for parse in PARSERS:
        parse(text)
    assert len(mock_machine.parse_gpus(text)) <= 4
    assert all(isinstance(gpu.name, Unknown) or gpu.name in text for gpu in mock_machine.parse_gpus(text))
