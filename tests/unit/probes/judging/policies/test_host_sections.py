"""Check which sections of a policy hold for a host, and what they change."""

from __future__ import annotations

import datetime

import pytest

from probes.base.errors import InputError
from probes.base.record import NOT_RECORDED
from probes.catalogue.hardware import load_catalogue
from probes.judging.policies.file import load_policy, thresholds_under
from probes.judging.policies.host_sections import for_host
from probes.judging.policies.policy import Policy

TEXT = """
fail_on = "warn"
checks = {required = ["memlock"], off = {nofile = "x"}}
thresholds = {nofile_minimum = 1}
gpu = {count = 8, power_limit_w = 700}
nic = {firmware = {MT4129 = "28.39.1002"}}
host = {services = ["s"], memory_bytes = 1000, memory_tolerance_percent = 5, sysctl = {"vm.swappiness" = 10}}
waivers = [{check = "nofile", reason = "x", expires = 2027-01-31}]
site_checks = [{name = "a", command = ["true"]}, {name = "b", command = ["true"]}]

[[hosts]]
names = ["gpu-b*", "GPU-C0[1-2]"]
fail_on = "fail"
checks = {off = {persistence-mode = "y"}}
thresholds = {nofile_recommended = 2}
gpu = {power_limit_w = 400}
nic = {firmware = {MT4123 = "20.1"}}
host = {services = [], memory_tolerance_percent = 2.0, sysctl = {"vm.swappiness" = 1}}
waivers = [{check = "memlock", reason = "y", expires = 2027-02-28}]
site_checks = [{name = "b", command = ["false"]}, {name = "c", command = ["true"]}]

[[hosts]]
names = ["*-b1"]
gpu = {count = 4}
"""


def policy_of(text: str) -> Policy:
    return load_policy(text, "site.toml", load_catalogue())


@pytest.mark.parametrize(
    ("host", "count", "power_limit_w"),
    [
        ("gpu-a1", 8, 700),
        ("gpu-b2", 8, 400),
        ("GPU-B2.cluster.example", 8, 400),
        ("gpu-b1", 4, 400),
        ("gpu-b1.cluster.example", 4, 400),
        ("gpu-c02", 8, 400),
        ("gpu-c03", 8, 700),
        (NOT_RECORDED, 8, 700),
    ],
)
def test_sections_hold_for_the_hosts_that_they_name(host: str, count: int, power_limit_w: int) -> None:
    gpu = for_host(policy_of(TEXT), host).gpu
    assert (gpu.count, gpu.power_limit_w) == (count, power_limit_w)


def test_a_host_section_replaces_single_fields_of_the_policy() -> None:
    policy = for_host(policy_of(TEXT), "gpu-b7")
    assert policy.fail_on == "fail"
    assert policy.checks.required == ("memlock",)
    assert policy.checks.off == {"nofile": "x", "persistence-mode": "y"}
    assert policy.thresholds == {"nofile_minimum": 1, "nofile_recommended": 2}
    assert thresholds_under(policy).nofile_recommended.value == 2
    assert policy.nic.firmware == {"MT4129": "28.39.1002", "MT4123": "20.1"}
    assert (policy.host.services, policy.host.memory_bytes) == ((), 1000)
    assert policy.host.memory_tolerance_percent == 2.0, "stated, although it is the tolerance of GPUs"
    assert policy.host.sysctl == {"vm.swappiness": 1}
    assert [waiver.expires for waiver in policy.waivers] == [
        datetime.date(2027, 1, 31),
        datetime.date(2027, 2, 28),
    ]
    assert [(check.name, check.command) for check in policy.site_checks] == [
        ("a", ("true",)),
        ("b", ("false",)),
        ("c", ("true",)),
    ]


def test_a_policy_without_sections_is_not_changed() -> None:
    policy = policy_of("[gpu]\ncount = 8")
    assert for_host(policy, "node17") is policy


@pytest.mark.parametrize(
    ("section", "words", "hint"),
    [
        ("gpu = {count = 8}", ("hosts[0].names", "list"), 'names = ["gpu-a*"'),
        ("names = []", ("hosts[0].names",), "names"),
        ("names = 'gpu1'", ("hosts[0].names",), "names"),
        ("names = ['']", ("hosts[0].names",), "names"),
        ("names = ['gpu[001-016]']", ("gpu[001-016]", "one character"), "names"),
        ("names = ['gpu[1,3]']", ("gpu[1,3]", "one character"), "names"),
        ("names = ['a']\ngpu = {cuont = 8}", ("hosts[0]", "gpu.cuont"), "did you mean count?"),
        ("names = ['a']\ngpu = 8", ("hosts[0]", "gpu"), ""),
        ("names = ['a']\ngpus = {}", ("hosts[0]", "gpus"), "gpu"),
        ("names = ['a']\nhosts = []", ("hosts[0]", "outside"), ""),
        ("names = ['a']\nschema_version = 1", ("hosts[0]", "outside"), ""),
        ("names = ['a']\nchecks = {off = {nofil = 'x'}}", ("hosts[0]", "nofil"), "did you mean nofile?"),
        ("names = ['a']\ngpu = {driver = '>=x'}", ("hosts[0]", "gpu.driver"), "range"),
    ],
)
def test_a_wrong_section_is_named(section: str, words: tuple[str, ...], hint: str) -> None:
    with pytest.raises(InputError) as caught:
        policy_of(f"[[hosts]]\n{section}")
    for word in ("site.toml", *words):
        assert word in caught.value.message
    assert hint in caught.value.hint


def test_a_section_that_contradicts_the_rest_is_named() -> None:
    text = "checks = {required = ['nofile']}\n[[hosts]]\nnames = ['a']\nchecks = {off = {nofile = 'x'}}"
    with pytest.raises(InputError, match=r"hosts\[0\]: checks.required: nofile is also in off"):
        policy_of(text)
