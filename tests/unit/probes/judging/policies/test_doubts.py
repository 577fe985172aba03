"""Test that a learned policy names the values that may come from a fault of the node."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from assistant.usecases.check import evidence_under, verdict_on
from assistant.usecases.events import Progress
from assistant.usecases.learn import learn_policy, read_policy
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts, PcieLink, Sysctl
from probes.judging.check_table import CHECKS
from probes.judging.policies.doubts import CHECKS_OF, doubts_of
from probes.judging.policies.learning import learned_policy
from probes.judging.policies.policy import (
    GpuExpectation,
    HostExpectation,
    NicExpectation,
    Policy,
    SoftwareExpectation,
)
from tests.support.machines import cpu_box, h100_node, with_gpus, with_nics, with_part

DAY = datetime.date(2026, 11, 21)


def doubts(facts: MachineFacts) -> dict[str, str]:
    verdict = verdict_on(evidence_under(Policy(), facts, today=DAY))
    doubts_of_policy = doubts_of(learned_policy(facts, load_catalogue()), facts, verdict.findings)
    assert len({doubt.place for doubt in doubts_of_policy}) == len(doubts_of_policy)
    return {doubt.place: doubt.reason for doubt in doubts_of_policy}


@pytest.mark.parametrize(
    "facts", [h100_node(), cpu_box(), MachineFacts()], ids=["8 x H100", "no GPU", "unread"]
)
def test_a_healthy_node_leaves_no_doubt(facts: MachineFacts) -> None:
    assert doubts(facts) == {}


@pytest.mark.parametrize(
    ("facts", "place", "words"),
    [
        (
            with_gpus(h100_node(), power_limit_w=500.0),
            "gpu.power_limit_w",
            "gpu-power-limit WARN on GPU0-7: the power limit is below the default (500 W)",
        ),
        (
            with_gpus(h100_node(), 3, power_limit_w=690.0, power_limit_default_w=690.0),
            "gpu.power_limit_w",
            "not expected, because GPU3 has 690, and GPU0-2, GPU4-7 have 700",
        ),
        (with_gpus(h100_node(), 2, ecc_enabled=False), "gpu.ecc", "GPU2 has the mode off"),
        (
            with_gpus(h100_node(), 5, vbios_version="96.00.61.00.01"),
            "gpu.vbios",
            "vbios WARN on GPU5",
        ),
        (
            with_gpus(h100_node(), 1, pcie=PcieLink(generation=5, generation_max=5, width=8, width_max=16)),
            "gpu.pcie_width",
            "GPU1",
        ),
        (
            with_nics(h100_node(), "mlx5_4", firmware_version="28.33.1"),
            "nic.firmware.MT4129",
            "each version is expected, because mlx5_4 has 28.33.1",
        ),
        (with_nics(h100_node(), "mlx5_7", state="DOWN"), "nic.count", "nic-state FAIL on mlx5_7"),
        (
            with_part(
                h100_node(),
                "kernel",
                numa_balancing=True,
                sysctls=(Sysctl(name="kernel.numa_balancing", value=1),),
            ),
            "host.sysctl.kernel.numa_balancing",
            "numa-balancing WARN on host",
        ),
    ],
)
def test_a_value_of_a_sick_node_is_named(facts: MachineFacts, place: str, words: str) -> None:
    assert words in doubts(facts)[place]


def test_every_learned_expectation_has_an_entry_with_existing_checks() -> None:
    ids = {row.id for row in CHECKS}
    assert {check for checks in CHECKS_OF.values() for check in checks} <= ids
    sections = {
        "gpu": GpuExpectation,
        "nic": NicExpectation,
        "software": SoftwareExpectation,
        "host": HostExpectation,
    }
    fields = {f"{name}.{field}" for name, kind in sections.items() for field in kind.__struct_fields__}
    never_learned = {
        "gpu.memory_tolerance_percent",
        "host.memory_tolerance_percent",
        "host.kernel_arguments_absent",
    }
    assert {place for place in CHECKS_OF if place.count(".") == 1} == fields - never_learned


def test_doubts_stand_above_their_fields_and_on_the_screen(tmp_path: Path) -> None:
    sick = with_nics(with_gpus(h100_node(), power_limit_w=500.0), "mlx5_4", firmware_version="28.33.1")
    other = with_part(h100_node(hostname="node18\x1b[2J"), "software", kernel="5.15.0-99-generic")
    verdict = verdict_on(evidence_under(Policy(), sick, today=DAY))
    path = tmp_path / "site.toml"
    *events, _ = learn_policy(sick, verdict, path, force=False, today=DAY, others=(other, h100_node()))
    said = [event.message for event in events if isinstance(event, Progress)]
    lines = path.read_text().splitlines()
    assert "\x1b" not in path.read_text()
    for place, field in (
        ("gpu.power_limit_w", "power_limit_w = 500.0"),
        ("software.kernel", 'kernel = "5.15.0-91-generic"'),
        ("nic.firmware.MT4129", "MT4129 = ["),
    ):
        comments = [line for line in lines if line.startswith(f"# CHECK {place}: ")]
        assert comments
        assert [line for line in said if line.startswith(f"check {place}: ")]
        at = lines.index(field)
        assert set(comments) <= {line for line in lines[at - 4 : at] if line.startswith("#")}
    assert "another machine differs: node18" in path.read_text()
    assert read_policy(path).gpu.power_limit_w == 500
