"""Test that a cause explains a slow measurement only if the traffic passes the faulty part."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.record import NOT_RECORDED, Unknown
from probes.compare.slow_causes import (
    changed_since,
    forbids_nvls,
    of_collective,
    of_compute,
    of_host_copy,
    of_network,
    of_peer_copy,
)
from probes.facts import (
    EnvironmentVariable,
    GpuLimits,
    GpuProcess,
    MachineFacts,
    NvLink,
    PcieLink,
    PeerAccess,
)
from probes.facts.measurements import Measurement
from tests.support.machines import evidence_of, h100_node, healthy_link, with_gpus, with_nics, with_part
from tests.support.machines_pci import bridge_address
from tests.support.measured import gemm


def application_clock(mhz: int | Unknown, default_mhz: int | Unknown) -> GpuLimits:
    return GpuLimits(application_sm_clock_mhz=mhz, application_sm_clock_default_mhz=default_mhz)


def redirecting(facts: MachineFacts) -> MachineFacts:
    """Return the facts with ACS on the bridge above GPU2."""
    devices = tuple(
        msgspec.structs.replace(device, acs=("request_redirect",))
        if device.bus_id == bridge_address(2)
        else device
        for device in facts.pci_devices
    )
    return msgspec.structs.replace(facts, pci_devices=devices)


NVLINKED = redirecting(h100_node())
OVER_PCIE = with_gpus(NVLINKED, nvlinks=NOT_RECORDED)


@pytest.mark.parametrize(("facts", "explains"), [(NVLINKED, False), (OVER_PCIE, True)])
def test_redirects_do_not_slow_what_goes_over_nvlink(facts, explains):
    evidence = evidence_of(facts)
    for cause in (of_peer_copy(evidence, ("GPU2", "GPU3")), of_collective(evidence)):
        assert (cause is not None and bridge_address(2) in cause.words) is explains


def test_redirects_slow_what_goes_from_gpus_to_nics():
    assert bridge_address(2) in of_network(evidence_of(NVLINKED)).words
    assert of_network(evidence_of(h100_node())) is None


@pytest.mark.parametrize(
    ("name", "value", "forbids"),
    [
        ("NCCL_NVLS_ENABLE", "0", True),
        ("NCCL_NVLS_ENABLE", "1", False),
        ("NCCL_ALGO", "Ring,Tree", True),
        ("NCCL_ALGO", "Ring,NVLS", False),
        ("NCCL_ALGO", "^Ring", False),
        ("NCCL_ALGO", "^NVLS,NVLSTree", True),
        ("NCCL_ALGO", "nvls; allreduce:ring", True),
        ("NCCL_ALGO", "ring;allreduce:nvls", False),
        ("NCCL_ALGO", "allgather:ring", False),
    ],
)
def test_a_variable_can_keep_an_all_reduce_out_of_the_switch(name, value, forbids):
    assert forbids_nvls(h100_node(environment=variable(name, value))) == (
        f"{name}={value}" if forbids else ""
    )


def compute_cause(*measurements: Measurement, **changes: object) -> str:
    """Return why GPU2 computes slowly, if its facts have `changes`."""
    facts = with_gpus(h100_node(), 2, **changes)
    cause = of_compute(msgspec.structs.replace(evidence_of(facts), measurements=measurements), "GPU2")
    return "" if cause is None else cause.words


def clocks(*mhz: float, bench: str = "gemm") -> list[Measurement]:
    """Return matrix products with the SM clock of each GPU during the measurement."""
    return [
        msgspec.structs.replace(entry, conditions={"sm_clock_hz": clock * 1e6})
        for entry, clock in zip(gemm(*([700.0] * len(mhz)), bench=bench), mhz, strict=True)
    ]


def throttled(reasons: str, subject: int = 2) -> Measurement:
    entry = gemm(700.0, 700.0, 700.0)[subject]
    return msgspec.structs.replace(entry, conditions={"throttle_reasons": reasons})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"power_limit_w": 400.0}, "its power limit is 400 W, below the default of 700 W"),
        ({"power_limit_w": 699.0}, "its power limit is 699 W, below the default of 700 W"),
        ({"power_limit_w": 699.6}, ""),
        ({"power_limit_w": 750.0}, ""),
        ({"power_limit_w": NOT_RECORDED}, ""),
        ({"power_limit_w": 400.0, "power_limit_default_w": NOT_RECORDED}, ""),
        ({"throttle_reasons": ("hw_thermal_slowdown",)}, "the GPU or its memory is too hot"),
        ({"throttle_reasons": ("gpu_idle",)}, ""),
        ({"limits": application_clock(1410, 1980)}, "is set to 1410 MHz, below the default of 1980 MHz"),
        ({"limits": application_clock(1980, 1980)}, ""),
        ({"limits": application_clock(1410, NOT_RECORDED)}, ""),
        ({"limits": application_clock(NOT_RECORDED, 1980)}, ""),
        ({"processes": (GpuProcess(pid=1), GpuProcess(pid=2))}, "2 other processes compute on it"),
        ({"processes": ()}, ""),
        ({"processes": NOT_RECORDED}, ""),
    ],
)
def test_facts_that_explain_a_gpu_that_computes_slowly(changes: dict[str, object], words: str) -> None:
    cause = compute_cause(**changes)
    assert words in cause
    assert bool(cause) is bool(words)


def test_a_gpu_that_the_facts_do_not_contain_has_no_cause() -> None:
    assert of_compute(evidence_of(h100_node()), "GPU8") is None
    assert of_host_copy(evidence_of(h100_node()), "GPU8") is None


@pytest.mark.parametrize(
    ("measurements", "words"),
    [
        # The others run at 1980 MHz, so that a clock below nine tenths of it, 1782 MHz, is a cause.
        (clocks(1980, 1980, 1783), ""),
        (clocks(1980, 1980, 1781), "its SM clock was 1781 MHz under load, that of the others 1980 MHz"),
        (clocks(1980, 1980, 1000, bench="attention"), "its SM clock was 1000 MHz"),
        (clocks(1980, 1980, 1000, bench="memory-copy"), ""),
        (clocks(1000, 1000, 1980), ""),
        (clocks(1980, 1980, 1000)[2:], ""),
        (clocks(1980, 1980), ""),
        # Clocks of different benchmarks are not compared.
        ([*clocks(1980, 1980), clocks(0, 0, 1000, bench="attention")[2]], ""),
        ([throttled("sw_power_cap, hw_slowdown")], "the hardware cut the clocks to half or less"),
        ([throttled("hw_slowdown", subject=1)], ""),
    ],
)
def test_clocks_that_explain_a_gpu_that_computes_slowly(measurements: list[Measurement], words: str) -> None:
    cause = compute_cause(*measurements)
    assert words in cause
    assert bool(cause) is bool(words)


def test_the_reason_of_the_driver_stands_beside_a_low_clock() -> None:
    low = clocks(1980, 1980, 1000)
    low[2] = msgspec.structs.replace(
        low[2], conditions={**low[2].conditions, "throttle_reasons": "sw_power_cap, applications_clocks"}
    )
    assert compute_cause(*low).endswith("1980 MHz (applications_clocks, sw_power_cap)")
    assert compute_cause(*clocks(1980, 1980, 1000)).endswith("1980 MHz")


def test_another_user_of_the_gpu_explains_its_own_measurement_only() -> None:
    shared = {"gpu_shared_with": "GPU2: process 4711 (python)"}
    own, other = (msgspec.structs.replace(gemm(1.0, 1.0, 1.0)[n], conditions=shared) for n in (2, 1))
    assert compute_cause(own) == "process 4711 (python) used it at the same time"
    assert compute_cause(other) == ""


@pytest.mark.parametrize(
    ("pcie", "iommu", "words"),
    [
        (PcieLink(width=8, width_max=16), "off", "its PCIe link has 8 of 16 lanes"),
        (PcieLink(width=16, width_max=16), "off", ""),
        (PcieLink(width=8), "off", ""),
        (PcieLink(width_max=16), "off", ""),
        (PcieLink(width=16, width_max=16), "translated", "the IOMMU translates every transfer"),
        (PcieLink(width=8, width_max=16), "translated", "its PCIe link has 8 of 16 lanes"),
    ],
)
def test_causes_of_slow_copies_between_host_and_gpu(pcie: PcieLink, iommu: str, words: str) -> None:
    facts = with_part(with_gpus(h100_node(), 2, pcie=pcie), "kernel", iommu=iommu)
    cause = of_host_copy(evidence_of(facts), "GPU2")
    assert ("" if cause is None else cause.words) == words


def nvlinks(down: int, *, disabled: bool = False) -> tuple[NvLink, ...]:
    return tuple(
        msgspec.structs.replace(link, active=False, disabled=disabled) if link.index < down else link
        for link in (healthy_link(number) for number in range(18))
    )


def access(a: int, b: int, capability: str, status: str) -> PeerAccess:
    return PeerAccess(a=f"GPU{a}", b=f"GPU{b}", capability=capability, status=status)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (h100_node(), ""),
        (with_gpus(h100_node(), 3, nvlinks=nvlinks(1)), "GPU3 has 1 of 18 NVLinks down"),
        (with_gpus(h100_node(), 3, nvlinks=nvlinks(17)), "GPU3 has 17 of 18 NVLinks down"),
        # All links down is a machine without NVLink, and disabled links are the site's choice.
        (with_gpus(h100_node(), 3, nvlinks=nvlinks(18)), ""),
        (with_gpus(h100_node(), 3, nvlinks=nvlinks(2, disabled=True)), ""),
        (with_gpus(h100_node(), 4, nvlinks=nvlinks(2)), ""),
        (h100_node(peer_access=(access(3, 2, "read", "GNS"),)), "the driver refuses peer access (GNS)"),
        (h100_node(peer_access=(access(2, 3, "write", "CNS"),)), "the driver refuses peer access (CNS)"),
        (h100_node(peer_access=(access(2, 3, "nvlink", "GNS"),)), ""),
        (h100_node(peer_access=(access(2, 4, "read", "GNS"),)), ""),
        (with_part(h100_node(), "kernel", iommu="translated"), "the IOMMU translates every transfer"),
    ],
)
def test_causes_of_slow_copies_between_gpus(facts: MachineFacts, words: str) -> None:
    cause = of_peer_copy(evidence_of(facts), ("GPU2", "GPU3"))
    assert ("" if cause is None else cause.words) == words


def variable(name: str, value: str, *, is_effective: bool = True) -> tuple[EnvironmentVariable, ...]:
    return (EnvironmentVariable(name=name, value=value, origin="the shell", is_effective=is_effective),)


@pytest.mark.parametrize(
    ("variables", "disables_a_path", "forbids_reduction"),
    [
        (variable("NCCL_P2P_DISABLE", "1"), True, ""),
        (variable("NCCL_P2P_DISABLE", "0"), False, ""),
        (variable("NCCL_P2P_DISABLE", "1", is_effective=False), False, ""),
        (variable("NCCL_DEBUG", "1"), False, ""),
        (variable("NCCL_NVLS_ENABLE", "0"), False, "NCCL_NVLS_ENABLE=0"),
        (variable("NCCL_NVLS_ENABLE", "1"), False, ""),
        (variable("NCCL_NVLS_ENABLE", "0", is_effective=False), False, ""),
        (variable("NCCL_ALGO", "Ring,Tree"), False, "NCCL_ALGO=Ring,Tree"),
        (variable("NCCL_ALGO", "Ring,NVLS"), False, ""),
        (variable("NCCL_PROTO", "0"), False, ""),
    ],
)
def test_variables_that_slow_nccl(
    variables: tuple[EnvironmentVariable, ...], disables_a_path: bool, forbids_reduction: str
) -> None:
    facts = h100_node(environment=variables)
    for cause in (of_collective(evidence_of(facts)), of_network(evidence_of(facts))):
        assert (cause is not None) is disables_a_path
    assert forbids_nvls(facts) == forbids_reduction


def test_one_slow_gpu_explains_a_slow_collective() -> None:
    cause = of_collective(evidence_of(with_gpus(h100_node(), 5, power_limit_w=300.0)))
    assert cause is not None
    assert cause.words.startswith("of GPU5: its power limit is 300 W")


@pytest.mark.parametrize(
    ("ports", "changes", "words"),
    [
        (("mlx5_1",), {"state": "DOWN"}, "mlx5_1 is not up"),
        (("mlx5_1", "mlx5_2"), {"state": "DOWN"}, "mlx5_1-2 are not up"),
        (("mlx5_1",), {"rate_gbps": 200.0}, "mlx5_1 is slower than the others"),
    ],
)
def test_ports_that_slow_nccl(ports: tuple[str, ...], changes: dict[str, object], words: str) -> None:
    cause = of_network(evidence_of(with_nics(h100_node(), *ports, **changes)))
    assert cause is not None
    assert cause.words == words
    # If no port is up, there is no network whose speed could be explained.
    assert of_network(evidence_of(with_nics(h100_node(), state="DOWN"))) is None


def test_versions_that_changed_between_two_runs() -> None:
    before, after = gemm(1.0, 1.0)
    before.conditions.update({"torch_version": "2.4.0", "device_name": "H100", "threads": 8})
    after.conditions.update({"torch_version": "2.5.1", "device_name": "H100", "cuda_version": "12.4"})
    assert changed_since(before, after) == ("torch 2.4.0 -> 2.5.1",)
    assert changed_since(after, before) == ("torch 2.5.1 -> 2.4.0",)
    assert changed_since(before, before) == ()


def test_the_median_of_several_clocks_counts() -> None:
    """Two of three readings of GPU2 are low; the highest reading alone would hide them."""
    others = clocks(1980, 1980)
    own = [clocks(0, 0, mhz)[2] for mhz in (1000, 1000, 1980)]
    assert compute_cause(*others, *own).startswith("its SM clock was 1000 MHz")
    # One high reading of another GPU does not make this GPU slow.
    assert compute_cause(*clocks(1000, 1980), *clocks(1000, 1000)[:1], *clocks(0, 0, 1000)[2:]) == ""
