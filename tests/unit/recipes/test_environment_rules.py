"""Every environment rule has a machine that triggers it and one that does not."""

from __future__ import annotations

import msgspec
import pytest

from probes.facts import Interface, MachineFacts, TrainingPython
from recipes.job.models.names import find_model
from recipes.machine.from_facts import cluster_from_facts
from recipes.planning.environment_rules import PREDICATES, environment, load_rules
from recipes.planning.plan import EnvVar
from recipes.predict.candidate_prediction import predict_memory
from tests.support.clusters import case, figure
from tests.support.machines import CATALOGUE, cpu_box, h100_node, storage_port

SECOND = Interface(
    name="ens5f0",
    up=True,
    speed_gbps=100.0,
    addresses=("10.2.0.17",),
    is_virtual=False,
    is_default_route=False,
)


def variables(facts: MachineFacts, nodes: int = 1, *, tight: bool = False, **changes) -> dict[str, EnvVar]:
    cluster = cluster_from_facts(facts, (), CATALOGUE, nodes=nodes)
    memory = predict_memory(*case(find_model("gpt2"), ranks=cluster.world_size, precision="fp32"), cluster)
    if tight:
        cluster = msgspec.structs.replace(cluster, memory_bytes_per_rank=figure(memory.upper / 0.95))
    cluster = msgspec.structs.replace(cluster, **changes)
    return {variable.name: variable for variable in environment(facts, cluster, memory)}


def node(**changes) -> MachineFacts:
    return h100_node(nics=h100_node().nics[:8], **changes)


def two_interfaces(facts: MachineFacts) -> MachineFacts:
    return msgspec.structs.replace(facts, interfaces=(*facts.interfaces, SECOND))


OLD_TORCH = TrainingPython(torch_version="2.6.0+cu124")
NEW_TORCH = TrainingPython(torch_version="2.13.0+cu130")

CASES = {
    "uses_nccl": (lambda: variables(node()), lambda: variables(cpu_box())),
    "cores_known": (
        lambda: variables(node()),
        lambda: variables(node(), physical_cores_per_rank=None),
    ),
    "nccl_interface_ambiguous": (lambda: variables(two_interfaces(node()), 2), lambda: variables(node(), 2)),
    "gloo_interface_ambiguous": (
        lambda: variables(two_interfaces(cpu_box()), 2),
        lambda: variables(two_interfaces(cpu_box())),
    ),
    "other_ports_active": (lambda: variables(h100_node(), 2), lambda: variables(node(), 2)),
    "memory_tight": (
        lambda: variables(node(training=NEW_TORCH), tight=True),
        lambda: variables(node(training=OLD_TORCH), tight=True),
    ),
    "memory_tight_before_torch_2_9": (
        lambda: variables(node(training=OLD_TORCH), tight=True),
        lambda: variables(node(training=OLD_TORCH)),
    ),
}


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.variable)
def test_a_rule_is_set_where_it_applies_and_nowhere_else(rule):
    triggers, does_not = CASES[rule.when]
    assert rule.variable in triggers()
    assert rule.variable not in does_not()


def test_every_predicate_has_a_row_and_every_row_its_source():
    assert {rule.when for rule in load_rules()} == set(PREDICATES)
    assert all(rule.source and rule.why and rule.versions for rule in load_rules())


def test_a_healthy_node_gets_two_variables():
    assert set(variables(node())) == {"NCCL_DEBUG", "OMP_NUM_THREADS"}


def test_values_are_exact_names():
    environment_variables = variables(two_interfaces(h100_node()), 2)
    assert environment_variables["NCCL_SOCKET_IFNAME"].value == "=eno1"
    assert environment_variables["NCCL_IB_HCA"].value == "=" + ",".join(f"mlx5_{n}:1" for n in range(8))
    assert "mlx5_8:1" in environment_variables["NCCL_IB_HCA"].why
    assert variables(two_interfaces(cpu_box()), 2)["GLOO_SOCKET_IFNAME"].value == "eno1"
    assert environment_variables["OMP_NUM_THREADS"].value == "14"


def test_an_inactive_storage_port_is_no_reason():
    nics = (*node().nics, storage_port(8, state="DOWN"))
    assert "NCCL_IB_HCA" not in variables(h100_node(nics=nics), 2)


def test_two_candidates_without_a_default_route_are_left_to_nccl():
    facts = node(interfaces=(SECOND, msgspec.structs.replace(SECOND, name="ens6")))
    assert "NCCL_SOCKET_IFNAME" not in variables(facts, 2)


@pytest.mark.parametrize("version", ["", "nightly", "2", "2.x", None])
def test_an_odd_torch_version_gets_the_present_name(version):
    environment_variables = variables(node(training=TrainingPython(torch_version=version)), tight=True)
    assert "PYTORCH_ALLOC_CONF" in environment_variables


def test_no_rule_touches_the_debugging_class():
    forbidden = {
        "NCCL_P2P_DISABLE",
        "NCCL_IB_DISABLE",
        "NCCL_SHM_DISABLE",
        "NCCL_ALGO",
        "NCCL_PROTO",
        "NCCL_IB_GID_INDEX",
    }
    assert not forbidden & {rule.variable for rule in load_rules()}
