"""Test how names and settings in environment variables are read, and which software is judged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from probes.base.record import NOT_RECORDED
from probes.facts import EnvironmentVariable, MachineFacts
from probes.judging.environment_values import (
    asks_for_training,
    chosen,
    judged_nccl_version,
    nccl_version,
    parse_names,
    removal,
    setting,
)
from probes.judging.policies.policy import CheckPolicy, Policy, SoftwareExpectation
from tests.support.machines import evidence_of, h100_node, with_part

NODE = h100_node()


def versions(training: Any, system: Any, found_by: str = "PATH") -> MachineFacts:
    facts = with_part(NODE, "training", nccl_version=training, found_by=found_by)
    return with_part(facts, "software", nccl_version=system)


@pytest.mark.parametrize(
    ("training", "system", "expected"),
    [
        ("2.21.5", "2.18.1", "2.21.5"),
        (None, "2.18.1", "2.18.1"),
        (NOT_RECORDED, "2.18.1", "2.18.1"),
        ("2.21.5", None, "2.21.5"),
        (None, None, None),
        (NOT_RECORDED, None, NOT_RECORDED),
        (None, NOT_RECORDED, NOT_RECORDED),
    ],
)
def test_the_nccl_of_torch_comes_before_that_of_the_system(training: Any, system: Any, expected: Any) -> None:
    assert nccl_version(versions(training, system)) == expected


@pytest.mark.parametrize(
    ("found_by", "policy", "is_judged"),
    [
        ("PATH", Policy(), False),
        ("--python", Policy(), True),
        ("PATH", Policy(software=SoftwareExpectation(torch="2.6.0")), True),
        ("PATH", Policy(software=SoftwareExpectation(nccl="2.21.5")), True),
        ("PATH", Policy(software=SoftwareExpectation(kernel="6.1")), False),
        ("PATH", Policy(checks=CheckPolicy(required=("nccl-version",))), True),
        ("PATH", Policy(checks=CheckPolicy(required=("numa",))), False),
    ],
)
def test_the_training_software_is_judged_if_somebody_asks_for_it(
    found_by: str, policy: Policy, is_judged: bool
) -> None:
    evidence = msgspec.structs.replace(evidence_of(versions("2.21.5", "2.18.1", found_by)), policy=policy)
    assert asks_for_training(evidence, "nccl-version") is is_judged
    assert judged_nccl_version(evidence, "nccl-version") == ("2.21.5" if is_judged else "2.18.1")


@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        ("eth", ("eth0", "eth1", "ethx")),
        ("=eth0", ("eth0",)),
        ("=eth", ()),
        ("^eth", ("lo", "docker0")),
        ("^=eth0,lo", ("eth1", "ethx", "docker0")),
        ("^docker0,lo", ("eth0", "eth1", "ethx")),
        ("eth1,,lo", ("eth1", "lo")),
        ("", ()),
        ("^", ("eth0", "eth1", "ethx", "lo", "docker0")),
        ("=^eth0", ()),
    ],
)
def test_lists_of_interfaces(text: str, admitted: tuple[str, ...]) -> None:
    assert chosen(parse_names(text), ("eth0", "eth1", "ethx", "lo", "docker0")) == admitted


@pytest.mark.parametrize(
    ("name", "value", "origin", "words", "command"),
    [
        ("NCCL_DEBUG", "INFO", "environment", "NCCL_DEBUG=INFO", "unset NCCL_DEBUG"),
        ("NCCL_DEBUG", "INFO", "/etc/nccl.conf", "NCCL_DEBUG=INFO (/etc/nccl.conf)", ""),
        ("A;B", "1", "environment", "A;B=1", ""),
        ("A;B", "1", "/etc/nccl.conf", "A;B=1 (/etc/nccl.conf)", ""),
        ("X", "y" * 80, "environment", "X=" + "y" * 80, "unset X"),
        ("X", "y" * 81, "environment", "X=" + "y" * 80, "unset X"),
    ],
)
def test_a_setting_and_its_removal(name: str, value: str, origin: str, words: str, command: str) -> None:
    variable = EnvironmentVariable(name=name, value=value, origin=origin)
    assert setting(variable) == words
    assert removal(variable) == command
