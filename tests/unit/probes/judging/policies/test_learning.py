"""Test which values of a good machine become expectations, and the expectations of the command line."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest

from probes.base.errors import UsageError
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.catalogue.hardware import load_catalogue
from probes.checks.policy.expected_devices import policy_gpus
from probes.facts import MachineFacts
from probes.facts.host_facts import Sysctl
from probes.judging.policies.compared import is_near
from probes.judging.policies.expectation import expects_gpus, with_expectations
from probes.judging.policies.learning import (
    Doubt,
    expectation_count,
    learned_policy,
    policy_text,
    stated,
)
from probes.judging.policies.policy import GpuExpectation, HostExpectation, NicExpectation, Policy
from tests.support.machines import evidence_of, h100_node, with_gpus, with_nics, with_part

CATALOGUE = load_catalogue()
NODE = h100_node()
DAY = datetime.date(2026, 11, 20)


def learned(facts: MachineFacts) -> Policy:
    return learned_policy(facts, CATALOGUE)


def kernel(**changes: Any) -> MachineFacts:
    return with_part(NODE, "kernel", **changes)


def test_what_all_gpus_share_is_expected() -> None:
    gpu = learned(NODE).gpu
    assert (gpu.model, gpu.count, gpu.power_limit_w, gpu.ecc, gpu.mig) == ("h100-sxm", 8, 700.0, True, False)
    assert gpu.nvlinks == 18
    assert learned(with_gpus(NODE, 3, power_limit_w=650.0)).gpu.power_limit_w is None
    assert learned(with_gpus(NODE, power_limit_w=649.6)).gpu.power_limit_w == 650.0
    assert learned(with_gpus(NODE, 3, power_limit_w=NOT_RECORDED)).gpu.power_limit_w is None
    assert learned(with_gpus(NODE, power_limit_w=0.0)).gpu.power_limit_w is None
    assert learned(with_gpus(NODE, power_limit_w=float("inf"))).gpu.power_limit_w is None
    assert learned(h100_node(gpus=NOT_RECORDED)).gpu.count is None


def test_all_versions_that_occur_are_expected() -> None:
    assert learned(NODE).gpu.vbios == "96.00.89.00.01"
    assert learned(with_gpus(NODE, 3, vbios_version="96.00.9f")).gpu.vbios == ("96.00.89.00.01", "96.00.9f")
    assert learned(with_gpus(NODE, 3, vbios_version=NOT_RECORDED)).gpu.vbios is None
    assert learned(h100_node(gpus=())).gpu.vbios is None


@pytest.mark.parametrize(
    ("layer", "expected"), [("InfiniBand", "InfiniBand"), ("Ethernet", "Ethernet"), ("EFA", None)]
)
def test_the_link_layer_is_expected_if_a_policy_can_state_it(layer: str, expected: str | None) -> None:
    nics = with_nics(h100_node(nics=NODE.nics[:8]), link_layer=layer)  # type: ignore[index]
    assert learned(nics).nic.link_layer == expected


def test_the_places_of_ports_are_expected_if_they_are_full_addresses() -> None:
    places = learned(with_nics(NODE, "mlx5_1", pci_bus_id="2a:00.0")).nic.places
    assert places["mlx5_0"] == "0000:1a:00.0"
    assert "mlx5_1" not in places
    assert "mlx5_2" not in learned(with_nics(NODE, "mlx5_2", pci_bus_id=NOT_RECORDED)).nic.places


@pytest.mark.parametrize(
    ("value", "is_learned"),
    [
        (4096, True),
        (-1, True),
        (2**63 - 1, True),
        (2**63, False),
        ("0", True),
        ("fq", True),
        ("<5", False),
        (">=5", False),
        ("!5", False),
        ("=5", False),
        ("4*", False),
        ("[1]", False),
        ("", False),
        ("x" * 200, True),
        ("x" * 201, False),
        ("a\nb", False),
        (Unknown(Reason.PERMISSION), False),
    ],
)
def test_kernel_settings_are_learned_if_they_match_only_themselves(value: Any, is_learned: bool) -> None:
    settings = (Sysctl(name="net.core.somaxconn", value=value), Sysctl(name="kernel.hostname", value="n"))
    expected = {"net.core.somaxconn": value} if is_learned else {}
    assert learned(kernel(sysctls=settings)).host.sysctl == expected


def test_only_kernel_arguments_that_matter_for_training_are_learned() -> None:
    line = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet iommu=pt hugepages=1?"
    assert learned(kernel(command_line=line)).host.kernel_arguments == ("iommu=pt",)
    assert learned(kernel(command_line=NOT_RECORDED)).host.kernel_arguments == ()


def test_only_active_services_are_expected() -> None:
    facts = with_part(
        NODE,
        "software",
        services=tuple(
            type(NODE.software.services[0])(name=name, value=value)  # type: ignore[index]
            for name, value in (("a", "active"), ("b", "failed"), ("c", "active"), ("c.service", "failed"))
        ),
    )
    assert learned(facts).host.services == ("a",)


def test_the_number_of_expectations_counts_each_firmware_but_no_tolerance() -> None:
    assert expectation_count(Policy()) == 0
    assert expectation_count(Policy(gpu=GpuExpectation(count=8, model="h100-sxm"))) == 2
    assert expectation_count(Policy(host=HostExpectation(mounts=("/", "/data")))) == 2
    assert expectation_count(Policy(nic=NicExpectation(firmware={"a": "1", "b": "2", "c": "3"}))) == 3
    assert expectation_count(Policy(host=HostExpectation(memory_bytes=1 << 40))) == 1


def test_a_tolerance_is_no_expectation_by_itself() -> None:
    assert stated(HostExpectation()) == {}
    assert "memory_tolerance_percent" in stated(HostExpectation(memory_bytes=2**40))
    assert stated(GpuExpectation(ecc=False)) == {"ecc": False}


def test_a_doubt_stands_above_its_field_or_at_the_head_of_its_section() -> None:
    policy = Policy(gpu=GpuExpectation(count=8, power_limit_w=650.0))
    doubts = (
        Doubt(place="gpu.power_limit_w", reason="below its default\x1b"),
        Doubt(place="gpu.ecc", reason="unknown"),
    )
    lines = policy_text(policy, "node17", DAY, doubts).splitlines()
    section = lines[lines.index("# Every GPU.") + 1 :][:5]
    assert section[:2] == ["# CHECK gpu.ecc: unknown", "[gpu]"]
    at = section.index("power_limit_w = 650.0")
    assert section[at - 1].startswith("# CHECK gpu.power_limit_w: below its default")
    assert section[at - 1].isprintable()
    assert "learned from it on 2026-11-20" in lines[0]


@pytest.mark.parametrize(
    ("machine", "gpus", "model", "count", "stated_by"),
    [
        (None, None, None, None, {}),
        (None, 4, None, 4, {"gpu.count": "--expect-gpus 4"}),
        (None, 0, None, 0, {"gpu.count": "--expect-gpus 0"}),
        ("dgx-h100", None, "h100-sxm", 8, {"gpu.count": "--expect dgx-h100"}),
        ("dgx-h100", 4, "h100-sxm", 4, {"gpu.count": "--expect-gpus 4"}),
    ],
)
def test_expectations_of_the_command_line(
    machine: str | None, gpus: int | None, model: str | None, count: int | None, stated_by: dict[str, str]
) -> None:
    expected = with_expectations(Policy(), CATALOGUE, machine=machine, gpus=gpus)
    assert (expected.policy.gpu.model, expected.policy.gpu.count) == (model, count)
    assert expected.stated_by.get("gpu.count") == stated_by.get("gpu.count")
    assert ("nic.count" in expected.stated_by) is (machine is not None)
    assert expects_gpus(expected.policy) is (count is not None)


@pytest.mark.parametrize(
    ("machine", "gpus", "words"),
    [
        (None, None, "as the policy expects"),
        (None, 8, "as --expect-gpus 8 and the policy expect"),
        ("dgx-h100", None, "as --expect dgx-h100 expects"),
        ("dgx-h100", 8, "as --expect-gpus 8 and --expect dgx-h100 expect"),
    ],
)
def test_a_pass_names_what_states_the_expectations(machine: str | None, gpus: int | None, words: str) -> None:
    policy = Policy() if machine else Policy(gpu=GpuExpectation(model="h100-sxm"))
    expected = with_expectations(policy, CATALOGUE, machine=machine, gpus=gpus)
    evidence = msgspec.structs.replace(
        evidence_of(NODE), policy=expected.policy, stated_by=expected.stated_by
    )
    assert [finding.summary for finding in policy_gpus(evidence)] == [words]


def test_a_named_machine_is_expected_with_its_ports() -> None:
    nic = with_expectations(Policy(), CATALOGUE, machine="dgx-h100", gpus=None).policy.nic
    assert (nic.count, nic.rate_gbps, nic.link_layer) == (8, 400.0, "InfiniBand")
    for row in CATALOGUE.machines:
        expected = with_expectations(Policy(), CATALOGUE, machine=row.id, gpus=None).policy.nic
        assert expected.count == (row.nic_count or None)
        assert expected.link_layer in ("InfiniBand", "Ethernet", None)
    with pytest.raises(UsageError):
        with_expectations(Policy(), CATALOGUE, machine="no such machine", gpus=None)


def test_a_named_machine_leaves_the_values_that_its_row_does_not_state() -> None:
    stated = Policy(nic=NicExpectation(link_layer="Ethernet", firmware={"a": "1"}))
    machine = next(row for row in CATALOGUE.machines if row.nic_count and row.nic_link_layer == "Unspecified")
    expected = with_expectations(stated, CATALOGUE, machine=machine.id, gpus=None)
    assert (expected.policy.nic.link_layer, expected.policy.nic.firmware) == ("Ethernet", {"a": "1"})
    assert "nic.link_layer" not in expected.stated_by


def test_a_policy_expects_gpus_by_their_model_or_their_number() -> None:
    assert not expects_gpus(Policy())
    assert expects_gpus(Policy(gpu=GpuExpectation(model="h100-sxm")))
    assert expects_gpus(Policy(gpu=GpuExpectation(count=0)))


@pytest.mark.parametrize(
    ("size", "percent", "near"),
    [
        (1000, 0.0, True),
        (1050, 5.0, True),
        (1051, 5.0, False),
        (950, 5.0, True),
        (949, 5.0, False),
        (1001, 0.0, False),
    ],
)
def test_a_size_is_near_within_its_tolerance(size: int, percent: float, near: bool) -> None:
    """The wanted size is 1000, so 5 % is 50."""
    assert is_near(size, 1000, percent) is near
