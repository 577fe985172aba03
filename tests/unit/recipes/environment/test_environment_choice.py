"""Every row of environment.toml has a machine that triggers it, and one that does not."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.record import NOT_RECORDED
from probes.facts import Interface, MachineFacts, TrainingPython
from recipes.environment.environment_rows import load_platforms, load_rules
from recipes.environment.predicates import PREDICATES
from recipes.job.candidate import Degrees
from tests.support.clusters import figure
from tests.support.machines import cpu_box, h100_node, storage_port
from tests.support.platform_machines import (
    MLX8,
    PLATFORM_MACHINES,
    in_container,
    interface,
    machine,
    roce,
    with_file,
    with_imex,
    with_nccl,
)
from tests.support.worlds import World, world

SECOND = Interface(
    name="ens5f0",
    up=True,
    speed_gbps=100.0,
    addresses=("10.2.0.17",),
    is_virtual=False,
    is_default_route=False,
)
FSDP = {"sharding": "zero3", "degrees": Degrees(fsdp=16)}
MEGATRON = {"program": "megatron", "degrees": Degrees(tp=8, dp=2)}
DGX = PLATFORM_MACHINES["bare-dgx"]
OLD_TORCH = TrainingPython(torch_version="2.6.0+cu124")
NEW_TORCH = TrainingPython(torch_version="2.13.0+cu130")


def job(facts: MachineFacts, nodes: int = 2, **settings) -> World:
    return world("test", facts, nodes, **settings)


def node(**changes) -> MachineFacts:
    return h100_node(nics=h100_node().nics[:8], **changes)


def two_interfaces(facts: MachineFacts) -> MachineFacts:
    return msgspec.structs.replace(facts, interfaces=(*facts.interfaces, SECOND))


def software(facts: MachineFacts, **changes) -> MachineFacts:
    return msgspec.structs.replace(facts, software=msgspec.structs.replace(facts.software, **changes))


def on_loopback(facts: MachineFacts) -> MachineFacts:
    naming = msgspec.structs.replace(facts.naming, addresses=("127.0.1.1",))
    return msgspec.structs.replace(facts, naming=naming)


def on_ethernet(rate_gbps: float) -> MachineFacts:
    only = msgspec.structs.replace(interface("eno1", is_default=True), speed_gbps=rate_gbps)
    return msgspec.structs.replace(PLATFORM_MACHINES["bare-ethernet"], interfaces=(only,))


def rtx_4090(driver: str) -> MachineFacts:
    gpus = tuple(
        msgspec.structs.replace(gpu, name="NVIDIA GeForce RTX 4090", driver_version=driver)
        for gpu in h100_node().gpus[:2]
    )
    return software(msgspec.structs.replace(h100_node(), gpus=gpus, nics=()), driver_version=driver)


GB200 = PLATFORM_MACHINES["bare-nvl72"]
MIXED = h100_node(
    gpus=(msgspec.structs.replace(h100_node().gpus[0], name="NVIDIA A100-SXM4-80GB"), *h100_node().gpus[1:])
)
CASES = {
    "NCCL_DEBUG=WARN": (job(node(), 1), job(cpu_box(), 1)),
    "OMP_NUM_THREADS={cores}": (job(node(), 1), job(node(), 1, physical_cores_per_rank=None)),
    "NCCL_SOCKET_IFNAME=={interface}": (job(two_interfaces(node())), job(node())),
    "GLOO_SOCKET_IFNAME={interface}": (job(two_interfaces(cpu_box())), job(two_interfaces(cpu_box()), 1)),
    "GLOO_SOCKET_IFNAME={interface} required": (job(on_loopback(node())), job(node())),
    "NCCL_NET={network}": (
        job(software(node(), nccl_network="IB")),
        job(software(node(), nccl_network="Socket")),
    ),
    "NCCL_IB_HCA=={ports}": (job(h100_node()), job(node())),
    "NCCL_IB_GID_INDEX={index}": (
        job(with_nccl(PLATFORM_MACHINES["bare-roce"], "2.20.5")),
        job(with_nccl(PLATFORM_MACHINES["bare-roce"], "2.21.5")),
    ),
    "NCCL_IB_QPS_PER_CONNECTION=2": (job(PLATFORM_MACHINES["bare-roce"]), job(DGX)),
    "NCCL_IB_TIMEOUT=22": (job(with_nccl(DGX, "2.22.3")), job(with_nccl(DGX, "2.23.4"))),
    "NCCL_COLLNET_ENABLE=1": (
        job(software(DGX, nccl_plugins=("/opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so",))),
        job(DGX),
    ),
    "NCCL_SOCKET_NTHREADS=4": (job(on_ethernet(50.0)), job(on_ethernet(25.0))),
    "NCCL_NSOCKS_PERTHREAD=4": (job(on_ethernet(50.0)), job(on_ethernet(25.0))),
    "NCCL_P2P_DISABLE=1": (job(rtx_4090("535.104.05"), 1), job(rtx_4090("550.40.07"), 1)),
    "NCCL_CUMEM_HOST_ENABLE=0": (
        job(with_nccl(in_container(DGX), "2.25.1"), 1),
        job(with_nccl(in_container(DGX, "sys_nice"), "2.25.1"), 1),
    ),
    "NCCL_MNNVL_ENABLE=1": (job(GB200), job(with_imex(GB200, NOT_RECORDED))),
    "NCCL_NET_GDR_C2C=1": (job(with_nccl(GB200, "2.26.2")), job(with_nccl(GB200, "2.27.3"))),
    "PYTORCH_ALLOC_CONF=expandable_segments:True": (
        job(node(training=NEW_TORCH), tight=True),
        job(node(training=OLD_TORCH), tight=True),
    ),
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True": (
        job(node(training=OLD_TORCH), tight=True),
        job(node(training=NEW_TORCH), tight=True),
    ),
    "TORCH_NCCL_AVOID_RECORD_STREAMS=1": (
        job(node(training=OLD_TORCH), tight=True, layout=FSDP),
        job(node(training=NEW_TORCH), tight=True, layout=FSDP),
    ),
    "CUDA_DEVICE_MAX_CONNECTIONS=1": (job(DGX, layout=MEGATRON), job(GB200, layout=MEGATRON)),
    "CUDA_DEVICE_MAX_CONNECTIONS=32": (job(DGX, layout=FSDP), job(DGX)),
    "CUDA_DEVICE_ORDER=PCI_BUS_ID": (job(MIXED, 1), job(node(), 1)),
    "FI_EFA_USE_HUGE_PAGE=0": (job(PLATFORM_MACHINES["aws-p5"]), job(DGX)),
    "UCX_MAX_RNDV_RAILS={rails}": (job(DGX, layout={"program": "horovod"}), job(DGX)),
}
"""For each row (its variable and value), a job to which it applies, then a job to which it does not."""


def title(rule) -> str:
    words = f"{rule.variable}={rule.value}"
    return f"{words} required" if f"{words} required" in CASES and rule.tier == "required" else words


def chosen(job: World) -> set[str]:
    """Return name and value of all variables that the job exports or would try."""
    return {f"{row.name}={row.value}" for row in (*job.variables.values(), *job.plan.experiments)}


@pytest.mark.parametrize("rule", load_rules(), ids=title)
def test_a_row_applies_to_the_first_job_of_its_case_and_not_to_the_second(rule):
    triggers, does_not = CASES[title(rule)]
    name = rule.variable
    words = {row.name: row for row in (*triggers.variables.values(), *triggers.plan.experiments)}
    assert name in words
    assert words[name].tier == rule.tier
    value = words[name].value
    assert rule.value in (value, f"{{{value}}}") or "{" in rule.value
    assert f"{name}={value}" not in chosen(does_not)
    assert (name in triggers.variables) == (rule.tier != "experiment")


def test_every_row_has_a_case_and_every_predicate_a_row():
    assert {title(rule) for rule in load_rules()} == set(CASES)
    rows = [*load_rules(), *(rule for row in load_platforms() for rule in row.rules)]
    assert {name for rule in rows for name in rule.when.facts} == set(PREDICATES)


def test_every_row_has_reason_source_and_date():
    assert all(rule.source and rule.why and rule.date for rule in load_rules())
    needs_expiry = [rule for rule in load_rules() if rule.nccl_until or rule.tier == "workaround"]
    assert all(rule.expires for rule in needs_expiry)


def test_a_healthy_node_gets_two_variables():
    assert set(job(node(), 1).variables) == {"NCCL_DEBUG", "OMP_NUM_THREADS"}


def test_values_are_exact_names():
    values = job(two_interfaces(h100_node())).values
    assert values["NCCL_SOCKET_IFNAME"] == "=eno1"
    assert values["NCCL_IB_HCA"] == "=" + ",".join(f"mlx5_{n}:1" for n in range(8))
    assert job(two_interfaces(cpu_box())).values["GLOO_SOCKET_IFNAME"] == "eno1"
    assert values["OMP_NUM_THREADS"] == "14"
    assert job(with_nccl(PLATFORM_MACHINES["bare-roce"], "2.20.5")).values["NCCL_IB_GID_INDEX"] == "3"


def test_ports_with_different_gid_tables_get_no_index():
    mixed = (*roce(MLX8[:4]), *roce(MLX8[4:], index=5))
    facts = with_nccl(machine("h100-sxm", nics=mixed), "2.20.5")
    assert "NCCL_IB_GID_INDEX" not in job(facts).variables


def test_an_inactive_storage_port_is_no_reason():
    nics = (*node().nics, storage_port(8, state="DOWN"))
    assert "NCCL_IB_HCA" not in job(h100_node(nics=nics)).variables


@pytest.mark.parametrize(("share", "is_tight"), [(0.95, True), (0.85, False)])
def test_memory_is_tight_from_nine_tenths_of_the_limit(share, is_tight):
    memory = job(DGX).situation.memory.upper
    variables = job(DGX, memory_bytes_per_rank=figure(memory / share)).variables
    assert ("PYTORCH_ALLOC_CONF" in variables) == is_tight


@pytest.mark.parametrize(("ports", "rails"), [(1, ""), (2, "2"), (8, "8")])
def test_rails_are_counted_where_there_are_several(ports, rails):
    here = job(msgspec.structs.replace(DGX, nics=DGX.nics[:ports]), layout={"program": "horovod"})
    tried = {row.name: row.value for row in here.plan.experiments}
    assert tried.get("UCX_MAX_RNDV_RAILS", "") == rails


def test_two_candidates_without_a_default_route_are_left_to_nccl():
    facts = node(interfaces=(SECOND, msgspec.structs.replace(SECOND, name="ens6")))
    assert "NCCL_SOCKET_IFNAME" not in job(facts).variables


@pytest.mark.parametrize("version", ["", "nightly", "2", "2.x", None, NOT_RECORDED])
def test_an_unknown_torch_gets_both_names(version):
    variables = job(node(training=TrainingPython(torch_version=version)), tight=True).variables
    assert {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"} <= set(variables)


@pytest.mark.parametrize("version", [None, "nightly", NOT_RECORDED])
def test_an_unknown_nccl_gets_no_variable_of_old_versions(version):
    facts = with_nccl(PLATFORM_MACHINES["bare-roce"], version)
    assert not {"NCCL_IB_GID_INDEX", "NCCL_NET_GDR_C2C"} & set(job(facts).variables)


def test_a_variable_that_nccl_does_not_know_yet_is_left_out():
    facts = with_nccl(PLATFORM_MACHINES["gcp-a4"], "2.20.5")
    assert "NCCL_NVLS_CHUNKSIZE" not in job(facts).variables
    assert "NCCL_NVLS_CHUNKSIZE" in job(with_nccl(facts, "2.21.5")).variables


def test_wsl_has_no_growing_segments():
    container = msgspec.structs.replace(node().container, runtime="wsl")
    assert "PYTORCH_ALLOC_CONF" not in job(node(container=container), tight=True).variables


def test_a_variable_in_a_file_of_the_machine_takes_precedence_over_a_recommendation():
    result = job(with_file(two_interfaces(node()), NCCL_SOCKET_IFNAME="=ens5f0"))
    assert "NCCL_SOCKET_IFNAME" not in result.variables
    (row,) = [row for row in result.plan.effective if row.name == "NCCL_SOCKET_IFNAME"]
    assert (row.value, row.origin, row.advised) == ("=ens5f0", "/etc/nccl.conf", "=eno1")


def test_a_shell_on_a_host_does_not_count_as_a_setting():
    result = job(with_file(two_interfaces(node()), "environment", NCCL_SOCKET_IFNAME="=ens5f0"))
    assert result.values["NCCL_SOCKET_IFNAME"] == "=eno1"
    (row,) = [row for row in result.plan.effective if row.name == "NCCL_SOCKET_IFNAME"]
    assert (row.origin, row.overridden) == ("plan", ("environment: =ens5f0",))


def test_a_required_variable_replaces_the_setting_of_a_file():
    facts = with_nccl(PLATFORM_MACHINES["bare-roce"], "2.20.5")
    result = job(with_file(facts, NCCL_IB_GID_INDEX="0"))
    assert result.values["NCCL_IB_GID_INDEX"] == "3"


def test_a_variable_that_conflicts_with_a_setting_is_left_out():
    facts = node(training=NEW_TORCH)
    rack = job(PLATFORM_MACHINES["oci-gb200"], tight=True).variables
    assert ("NCCL_NVLS_ENABLE" in rack, "PYTORCH_ALLOC_CONF" in rack) == (True, False)
    hooked = with_file(in_container(facts), "environment", TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK="1")
    assert "PYTORCH_ALLOC_CONF" in job(in_container(facts), tight=True).variables
    assert "PYTORCH_ALLOC_CONF" not in job(hooked, tight=True).variables
