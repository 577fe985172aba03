"""Test the texts that users copy: tools know every name, shells accept the commands, the figures agree."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from assistant.usecases.plan import PlanRequest, plan_of
from probes.base.errors import UsageError
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts, MigDevice, PcieLink
from recipes.advice.advice_lines import Advice
from recipes.job.pins import Pins
from recipes.machine.mig_profiles import memory_of, mig_model
from tests.support.advice_cases import (
    AZURE,
    BLANK,
    CASES,
    CONTAINER,
    DIVIDED,
    GRACE,
    KUBELET,
    NETWORK,
    NODE,
    NUMA,
    ROCE,
    STATED,
    advised,
    changed,
    ids,
    of_model,
    parts,
)
from tests.support.machines import with_gpus, with_nics

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAMES: dict[str, Any] = tomllib.loads(
    (Path(__file__).parents[3] / "support" / "advice_names.toml").read_text("utf-8")
)


def document(advice: Advice, name: str) -> str:
    return next(each.text for each in advice.documents if each.name == name)


def options(tool: str, facts: MachineFacts) -> list[str]:
    """Return the options of a tool's command line, as the shell splits them."""
    words = shlex.split(document(advised("container", facts), tool).replace("\\\n", " "))
    assert words[:4] == [tool, "run", "--rm", "-it"]
    assert words[-1] == "IMAGE"
    return words[4:-1]


CONTAINERS = [case.facts for pair in CONTAINER.values() for case in pair]


@pytest.mark.parametrize("tool", ["docker", "podman"])
@pytest.mark.parametrize("facts", CONTAINERS)
def test_container_tools_know_every_option(tool: str, facts: MachineFacts) -> None:
    for option in options(tool, facts):
        name, _, value = option.partition("=")
        assert name in NAMES[tool]["options"]
        assert value
        if name == "--cap-add":
            assert value in NAMES[tool]["capabilities"]
        if name == "--ulimit":
            assert value.partition("=")[0] in NAMES[tool]["ulimits"]


@pytest.mark.parametrize("facts", CONTAINERS)
def test_lxd_knows_every_key_of_the_profile(facts: MachineFacts) -> None:
    profile = yaml.safe_load(document(advised("container", facts), "lxd"))
    assert set(profile) <= set(NAMES["lxd"]["profile"])
    assert set(profile["config"]) <= set(NAMES["lxd"]["config"])
    assert all(isinstance(value, str) for value in profile["config"].values())
    for device in profile["devices"].values():
        assert set(device) <= set(NAMES["lxd"]["devices"][device["type"]])
        assert all(isinstance(value, str) for value in device.values())
        if device["type"] == "gpu":
            assert set(device) >= set(NAMES["lxd"]["gputype"][device["gputype"]])


def test_options_of_a_healthy_node() -> None:
    assert options("docker", NODE) == [
        "--gpus=all",
        "--shm-size=16g",
        "--ulimit=stack=67108864",
        "--cap-add=SYS_NICE",
        "--device=/dev/infiniband",
        "--cap-add=IPC_LOCK",
        "--ulimit=memlock=-1",
        "--network=host",
    ]
    assert options("podman", NODE)[0] == "--device=nvidia.com/gpu=all"


def test_options_of_one_instance() -> None:
    assert options("docker", DIVIDED)[0] == '--gpus="device=MIG-1"'  # docker needs the inner quotes
    assert options("podman", DIVIDED)[0] == "--device=nvidia.com/gpu=0:0"
    profile = yaml.safe_load(document(advised("container", DIVIDED), "lxd"))
    gpu = {"type": "gpu", "gputype": "mig", "mig.uuid": "MIG-1", "pci": "0000:19:00.0"}
    assert profile["devices"]["gpu"] == gpu


def test_azure_mounts_its_topology_files() -> None:
    assert "--volume=/opt/microsoft:/opt/microsoft:ro" in options("docker", AZURE)


def test_names_from_a_recording_stay_quoted() -> None:
    hostile = with_gpus(DIVIDED, mig_devices=(MigDevice(uuid="x;rm -rf /"),))
    assert '--gpus="device=x;rm -rf /"' in options("docker", hostile)


KUBELETS = [case.facts for pair in KUBELET.values() for case in pair]


def fragment(facts: MachineFacts) -> dict[str, Any]:
    fields = yaml.safe_load(document(advised("kubelet", facts), "kubelet"))
    assert isinstance(fields, dict)
    return fields


@pytest.mark.parametrize("facts", [facts for facts in KUBELETS if facts is not BLANK])
def test_kubelet_knows_every_field(facts: MachineFacts) -> None:
    known = NAMES["kubelet"]
    fields = fragment(facts)
    for name, value in fields.items():
        if name == "reservedMemory":
            assert all(set(each) == {"numaNode", "limits"} for each in value)
        elif name in known["texts"]:
            assert set(value) <= set(known["options"][name])
            assert all(isinstance(each, str) for each in value.values())
        else:
            assert name in known["text"]
            assert value in known["values"].get(name, (value,))
    # The CPU manager policy `static` needs reserved CPUs, which no container gets.
    assert "reservedSystemCPUs" in fields or int(fields["kubeReserved"]["cpu"]) > 0


@pytest.mark.parametrize("facts", [facts for facts in KUBELETS if facts is not BLANK])
def test_every_field_of_the_kubelet_has_a_reason(facts: MachineFacts) -> None:
    lines = document(advised("kubelet", facts), "kubelet").splitlines()
    assert lines[0].startswith("# ")
    assert sum(line.startswith("# ") for line in lines) >= 3


def test_reserved_memory_adds_up() -> None:
    fields = fragment(NUMA)
    mebibytes = [int(each["limits"]["memory"].removesuffix("Mi")) for each in fields["reservedMemory"]]
    assert sum(mebibytes) == int(fields["systemReserved"]["memory"].removesuffix("Mi")) + 100
    assert mebibytes == [20972, 20972]  # 2 % of 2048 GiB on two nodes, rounded up


def test_reserved_cores_are_whole() -> None:
    assert fragment(NUMA)["reservedSystemCPUs"] == "0,56,112,168"


def test_two_options_of_the_topology_manager_are_merged() -> None:
    more = changed(NUMA, numa_nodes=(*GRACE, msgspec.structs.replace(GRACE[0], index=11)))
    assert fragment(more)["topologyManagerPolicyOptions"] == {
        "prefer-closest-numa-nodes": "true",
        "max-allowable-numa-nodes": "11",
    }


def test_a_nic_slot_is_named_by_its_present_generation() -> None:
    slow = with_nics(NODE, pcie=PcieLink(generation=4, generation_max=5, width=16, width_max=16))
    line = next(line for line in advised("hardware", slow).lines if line.id == "nic-slot-slow")
    assert "PCIe 4 x16 carries 252 Gb/s, and the port has 400 Gb/s" in line.text


@given(st.integers(0, 63))
def test_the_traffic_class_is_the_dscp_shifted(dscp: int) -> None:
    advice = advised("network", ROCE, dscp=dscp)
    line = next(line for line in advice.lines if line.id == "dscp-stated")
    assert line.commands == (f"export NCCL_IB_TC={dscp << 2}",)
    host = next(line for line in advice.lines if line.id == "host-mlx")
    assert f"cma_roce_tos -d mlx5_0 -t {dscp << 2}" in host.commands
    assert f"DSCP {dscp} (traffic class {dscp << 2}), priority {dscp // 8}" in document(advice, "fabric")


def test_commands_of_a_roce_host() -> None:
    host = next(line for line in advised("network", ROCE, **STATED).lines if line.id == "host-mlx")
    assert host.commands[:5] == (
        "mlnx_qos -i eth0 --trust=dscp --dscp2prio=set,26,3 --pfc=0,0,0,1,0,0,0,0",
        "echo 1 > /sys/class/net/eth0/ecn/roce_np/enable/3",
        "echo 1 > /sys/class/net/eth0/ecn/roce_rp/enable/3",
        "echo 104 > /sys/class/infiniband/mlx5_0/tc/1/traffic_class",
        "cma_roce_tos -d mlx5_0 -t 104",
    )
    assert len(host.commands) == 5 * 8


@pytest.mark.parametrize(
    ("facts", "row"),
    [
        (with_nics(ROCE, traffic_class=106), "dscp-forced"),
        (NETWORK["dscp-environment"][0].facts, "dscp-environment"),
    ],
)
def test_a_class_with_ecn_bits_is_kept(facts: MachineFacts, row: str) -> None:
    advice = advised("network", facts)
    line = next(line for line in advice.lines if line.id == row)
    assert "106" in line.text
    assert "DSCP 26" in line.text
    assert line.fact.endswith("106")
    assert "DSCP 26 (traffic class 106), priority 3" in document(advice, "fabric")


def test_a_proposal_is_no_setting() -> None:
    text = document(advised("network", ROCE), "fabric")
    assert "(proposed, not in use yet)" in text
    stated = document(advised("network", ROCE, **STATED), "fabric")
    assert "(as stated by the owner of the machines)" in stated
    used = with_nics(ROCE, traffic_class=106)
    assert "(in use on the machines)" in document(advised("network", used), "fabric")


def test_an_unknown_class_names_the_variable_that_cannot_be_used() -> None:
    facts = changed(ROCE, environment=NETWORK["dscp-invalid"][0].facts.environment)
    line = next(line for line in advised("network", facts).lines if line.id == "dscp-unknown")
    assert "NCCL_IB_TC=300" in line.fact


def test_the_rate_of_a_port_is_named_if_only_its_slots_generation_is_unknown() -> None:
    facts = with_nics(ROCE, pcie=PcieLink(width=16, width_max=16), rate_gbps=200.0)
    line = next(line for line in advised("hardware", facts).lines if line.id == "nic-link-full")
    assert "nics[].rate_gbps: 200 Gb/s" in line.fact


@pytest.mark.parametrize(("network", "words"), [("fast", "no rate"), ("2000x400G IB", "2000 ports")])
def test_an_impossible_network_is_refused_with_the_reason(network: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parts(network=network)


def test_the_traffic_class_of_ports_takes_precedence_over_the_environment() -> None:
    facts = changed(
        with_nics(ROCE, traffic_class=106), environment=NETWORK["dscp-invalid"][1].facts.environment
    )
    assert {"dscp-forced"} <= ids("network", facts)
    assert "dscp-mismatch" not in ids("network", facts)


COMMANDS = sorted(
    {
        command
        for subject, rows in CASES.items()
        for pair in rows.values()
        for facts, question in pair
        for line in advised(subject, facts, **question).lines
        for command in line.commands
    }
)
SCRIPTS = {
    each.text
    for facts in CONTAINERS
    for each in advised("container", facts).documents
    if each.language == "sh"
}


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_shellcheck_accepts_commands() -> None:
    script = "\n".join(["#!/usr/bin/env bash", *COMMANDS, *sorted(SCRIPTS)]) + "\n"
    done = subprocess.run(["shellcheck", "-"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_complete(command: str) -> None:
    assert not re.search(r"[{}]", command)
    assert "unknown" not in command


@given(st.floats(0.1, 79.0))
def test_a_mig_partition_has_the_memory_that_a_job_needs(need_gib: float) -> None:
    lines = {line.id: line for line in advised("mig", NODE, need_gib=need_gib).lines}
    assert len({"partition", "whole-gpu"} & set(lines)) == 1
    if "partition" in lines:
        memory = re.search(r"x \dg\.\d+gb \(([\d.]+) GiB\)", lines["partition"].text)
        assert memory is not None
        assert float(memory[1]) + 0.05 >= need_gib


@pytest.mark.parametrize(
    ("need_gib", "profile", "jobs"),
    [(9.0, "7 x 1g.10gb", 56), (10.0, "4 x 1g.20gb", 32), (20.0, "2 x 3g.40gb", 16)],
)
def test_the_smallest_profile_gives_most_jobs(need_gib: float, profile: str, jobs: int) -> None:
    text = next(line.text for line in advised("mig", NODE, need_gib=need_gib).lines if line.id == "partition")
    assert profile in text
    assert f"Jobs at the same time: {jobs}," in text


@pytest.mark.parametrize(("need_gib", "memory"), [(8.0, "2g.20gb (19.6 GiB)"), (16.0, "2g.20gb (19.6 GiB)")])
def test_a_larger_profile_states_its_own_memory(need_gib: float, memory: str) -> None:
    lines = {line.id: line for line in advised("mig", NODE, need_gib=need_gib).lines}
    assert f"3 x {memory} gives each job more compute" in lines["partition-faster"].text


@pytest.mark.parametrize("gpu", ["NVIDIA H100 80GB HBM3", "NVIDIA B200", "NVIDIA A100-SXM4-40GB"])
@pytest.mark.parametrize("model", ["gpt2", "gpt2-medium", "gpt2-large", "llama-3.2-1b"])
def test_a_job_fits_a_partition_by_the_rule_of_a_plan(gpu: str, model: str) -> None:
    row = load_catalogue().gpu(gpu)
    profiles = mig_model(row) if row is not None else None
    assert row is not None
    assert profiles is not None
    request = PlanRequest(model=model, gpu=row.id, gpus=1, pins=Pins(micro_batch=1))
    plan = plan_of(MachineFacts(), (), request)
    memory, room = plan.chosen.predicted.memory_bytes_per_gpu, plan.cluster.memory_bytes_per_rank
    assert room is not None
    sizes = {each: memory_of(each, profiles, row).size_bytes / row.memory_bytes for each in profiles.profiles}
    fitting = [each for each, size in sizes.items() if memory.needed <= size * room.value]
    lines = {line.id: line.text for line in advised("mig", of_model(gpu), model=model).lines}
    best = max(fitting, key=lambda each: each.count)
    if best is profiles.profiles[-1]:
        assert "whole-gpu" in lines
    else:
        assert f"into {best.count} x {best.name} " in lines["partition"]
        assert ("partition-tight" in lines) == (memory.upper > sizes[best] * room.value)


def test_the_need_of_a_model_requires_a_known_gpu() -> None:
    with pytest.raises(UsageError, match="the GPU is unknown"):
        advised("mig", MachineFacts(), model="gpt2")


@pytest.mark.parametrize("name", ["a;reboot", "$(reboot)", "`reboot`", "a b", "'", '"', "-x", "é"])
def test_names_of_interfaces_are_one_word_of_a_command(name: str) -> None:
    advice = advised("network", with_nics(ROCE, netdev=name))
    commands = [line for each in advice.lines if each.id.startswith("host-") for line in each.commands]
    assert commands
    words = [shlex.split(command.removeprefix("# ")) for command in commands]
    assert any(name in word for line in words for word in line)
    assert not any(word in ("reboot", ";reboot") for line in words for word in line)


@pytest.mark.parametrize("name", ["a\nreboot", "a\rreboot", "\x1b[2J", "\u2028"])
def test_an_interface_whose_name_has_control_characters_gets_no_command(name: str) -> None:
    advice = advised("network", with_nics(ROCE, netdev=name))
    assert not [each for each in advice.lines if each.id.startswith("host-")]
    (line,) = [each for each in advice.lines if "control characters" in each.text + each.why + each.fact]
    assert line.kind == "unknown"
