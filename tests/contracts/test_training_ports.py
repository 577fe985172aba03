"""Test that `check`, the plan's network rate and the exported script agree on the ports that train.

The tests use every recording, every machine of the catalogue, and machines for which the three once gave
different answers.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator

import msgspec
import pytest

from probes.base.errors import InputError
from probes.base.record import NOT_RECORDED, Unknown
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.collect.collector_table import PROBES
from probes.facts import EnvironmentVariable, Interface, MachineFacts, Nic
from probes.judging.check_table import CHECKS
from probes.judging.findings import Evidence, Finding, Status
from probes.judging.rails import default_interface, is_up, training_ports, training_rails
from probes.sources.choose import open_source
from probes.sources.loose import open_loose
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.launch.launch_files import launch_files
from recipes.launch.recipe import Command
from recipes.launch.resolve import recipe_of
from recipes.machine.from_facts import cluster_from_facts
from recipes.planning.planner import default_workload, make_plan
from tests.support.machines import h100_node, ndr_port, storage_port, with_nics
from tests.support.recordings import MACHINES, index, needs_recordings

COLLECTORS = [row for row in PROBES if row.id in {"hostname", "topology", "pci", "infiniband", "interfaces"}]
ASKED = {"nccl-hcas", "nccl-interfaces", "interface-choice", "interface-subnets"}
CHECK_ROWS = [row for row in CHECKS if row.id in ASKED]
BIG_NODE = h100_node()


def interface(name: str, address: str = "10.9.0.1/24", **changes: object) -> Interface:
    own = {
        "up": True,
        "speed_gbps": 100.0,
        "addresses": (address,),
        "is_virtual": False,
        "is_default_route": False,
        "bond": None,
    }
    return Interface(name=name, **{**own, **changes})  # type: ignore[arg-type]


def with_own_network(facts: MachineFacts) -> MachineFacts:
    """Return the healthy node with the network of `facts`, because most recordings contain only a network."""
    return msgspec.structs.replace(BIG_NODE, nics=facts.nics, interfaces=facts.interfaces, links=facts.links)


def script_variables(facts: MachineFacts) -> dict[str, str]:
    """Return the variables that the exported script of a plan over two nodes sets."""
    cluster = cluster_from_facts(facts, (), load_catalogue(), nodes=2)
    pins = Pins(strategy="ddp", micro_batch=1)
    plan = make_plan(default_workload(find_model("gpt2"), cluster, global_batch=64), cluster, facts, pins)
    recipe = recipe_of(plan, name="job", command=Command(kind="script", target="train.py"), python="")
    (script,) = (
        artifact.text for artifact in launch_files(recipe, "slurm") if artifact.path.endswith(".sbatch")
    )
    exports = (
        shlex.split(line)[1] for line in script.splitlines() if line.startswith("export ") and "$" not in line
    )
    return dict(export.split("=", 1) for export in exports)


def ports_in_figure(facts: MachineFacts) -> int | None:
    """Return the number of RDMA ports in the plan's network rate; None if it is no rate of RDMA ports."""
    figure = cluster_from_facts(facts, (), load_catalogue(), nodes=2).inter_bus_bandwidth_bytes_per_s
    match = re.match(r"(\d+) x \S+ Gb/s RDMA", figure.source) if figure is not None else None
    return int(match[1]) if match else None


def findings(facts: MachineFacts, variables: dict[str, str]) -> dict[str, Finding]:
    rows = tuple(
        EnvironmentVariable(name=name, value=variables[name], origin="environment")
        for name in ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME")
        if name in variables
    )
    evidence = Evidence(facts=msgspec.structs.replace(facts, environment=rows), catalogue=load_catalogue())
    return {finding.check_id: finding for row in CHECK_ROWS for finding in row.run(evidence)}


def names(ports: tuple[Nic, ...] | list[Nic]) -> list[str]:
    return [f"{port.name}:{port.port}" for port in ports]


def disagreements(facts: MachineFacts) -> Iterator[str]:
    facts = with_own_network(facts)
    variables, counted, ports = script_variables(facts), ports_in_figure(facts), training_ports(facts)
    nics = () if isinstance(facts.nics, Unknown) else facts.nics
    hca = variables.get("NCCL_IB_HCA")
    if isinstance(ports, Unknown):
        if (counted, hca) != (None, None):
            yield f"the ports are {ports}, the plan counts {counted}, the script sets {hca}"
    else:
        checked = names(training_rails(facts).active)
        used = hca.removeprefix("=").split(",") if hca else names([nic for nic in nics if is_up(nic)])
        if (names(ports), used) != (checked, checked):
            yield f"check names {checked}, the answer is {names(ports)}, the script uses {used}"
        has_rates = not any(isinstance(port.rate_gbps, Unknown) for port in ports)
        if counted != (len(ports) if ports and has_rates else None):
            yield f"{len(ports)} ports train, and the plan counts {counted}"
    forced, unforced = findings(facts, variables), findings(facts, {})
    for name in ("nccl-hcas", "nccl-interfaces"):
        if forced[name].status not in (Status.PASS, Status.SKIP):
            yield f"{name} does not accept the script: {forced[name].summary}, {forced[name].observed}"
    chosen, choice, default = (
        variables.get("NCCL_SOCKET_IFNAME"),
        unforced["interface-choice"],
        default_interface(facts),
    )
    if chosen is not None and (choice.status, choice.observed) != (Status.PASS, chosen.removeprefix("=")):
        yield f"the script sets {chosen}, interface-choice: {choice.summary} {choice.observed}"
    if default is not None and choice.observed != default.name:
        yield f"{default.name} has the default route, interface-choice: {choice.summary} {choice.observed}"


@functools.cache
def of_recording(path: str) -> MachineFacts | None:
    try:
        source = open_loose([(path, (MACHINES / path).read_bytes())])
    except InputError:
        return None
    return assemble(path, gather(source, CollectOptions(ask_interpreters=False), COLLECTORS))


@needs_recordings
@pytest.mark.parametrize("kind", ["hwloc", "ib", "machines", "nccl_topo", "pci", "topo_m"])
def test_recorded_machines(kind: str) -> None:
    machines = {path: of_recording(path) for path in index() if path.startswith(f"{kind}/")}
    assert [
        (path, problem) for path, facts in machines.items() if facts for problem in disagreements(facts)
    ] == []


@needs_recordings
def test_a_listing_of_netdevs_has_eight_training_ports() -> None:
    facts = of_recording("ib/ibdev2netdev-h100-roce-12dev.txt")
    assert facts is not None
    ports = training_ports(facts)
    assert isinstance(ports, tuple)
    assert [port.name for port in ports] == [f"mlx5_{n}" for n in (0, 1, 11, 2, 5, 6, 7, 8)]
    wanted = "=" + ",".join(names(ports))
    assert script_variables(with_own_network(facts))["NCCL_IB_HCA"] == wanted


@pytest.mark.parametrize("machine", [row.id for row in load_catalogue().machines])
def test_catalogue_machines(machine: str) -> None:
    facts = assemble(
        machine, gather(open_source((), machine), CollectOptions(ask_interpreters=False), COLLECTORS)
    )
    assert list(disagreements(facts)) == []


SAME_TYPE = with_nics(h100_node(), "mlx5_8", link_layer="InfiniBand", rate_gbps=400.0, device_type="MT4129")
BOND = interface("bond0", is_virtual=True, bond_members=("eth0", "eth1"), is_default_route=True)
MEMBERS = tuple(interface(f"eth{n}", bond="bond0") for n in range(2))
HAND_MADE = {
    "a storage port of the rails' type": SAME_TYPE,
    "a slow rail": with_nics(h100_node(), "mlx5_3", rate_gbps=200.0),
    "a rail that is down": with_nics(h100_node(), "mlx5_3", state="DOWN"),
    "all ports down": with_nics(h100_node(), state="DOWN"),
    "no ports": h100_node(nics=()),
    "RoCE beside more storage ports of a lower rate": h100_node(
        nics=(
            *(storage_port(n) for n in range(4)),
            *(ndr_port(n, link_layer="Ethernet") for n in range(4, 12)),
        ),
        links=NOT_RECORDED,
    ),
    "a bond of the rails' rate": h100_node(
        nics=(*(ndr_port(n) for n in range(8)), ndr_port(8, name="mlx5_bond_0")), links=NOT_RECORDED
    ),
    "a bond with the default route": h100_node(interfaces=(*MEMBERS, BOND, interface("eth2", "10.8.0.1/24"))),
    "a bridge with an address": h100_node(
        interfaces=(interface("veth1"), interface("eth0"), interface("eth1", "10.8.0.1/24"))
    ),
    "two default routes": h100_node(
        interfaces=(
            interface("eth0", is_default_route=True),
            interface("eth1", "10.8.0.1/24", is_default_route=True),
        )
    ),
}


@pytest.mark.parametrize("facts", HAND_MADE.values(), ids=HAND_MADE)
def test_hand_made_machines(facts: MachineFacts) -> None:
    assert list(disagreements(facts)) == []


def test_the_script_leaves_a_storage_port_of_the_same_type_out() -> None:
    assert script_variables(SAME_TYPE)["NCCL_IB_HCA"] == "=" + ",".join(f"mlx5_{n}:1" for n in range(8))


def test_the_script_takes_the_bond_that_has_the_default_route() -> None:
    assert script_variables(HAND_MADE["a bond with the default route"])["NCCL_SOCKET_IFNAME"] == "=bond0"


UNKNOWN = {
    "ports": h100_node(nics=NOT_RECORDED),
    "states of all ports": with_nics(h100_node(), state=NOT_RECORDED, netdev_up=NOT_RECORDED),
    "the state of one rail": with_nics(h100_node(), "mlx5_3", state=NOT_RECORDED, netdev_up=NOT_RECORDED),
    "the rate of one port": h100_node(
        nics=(*(ndr_port(n) for n in range(7)), ndr_port(7, rate_gbps=NOT_RECORDED), storage_port(8)),
        links=NOT_RECORDED,
    ),
}


@pytest.mark.parametrize("facts", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_ports_stay_unknown_everywhere(facts: MachineFacts) -> None:
    assert isinstance(training_ports(facts), Unknown)
    assert ports_in_figure(facts) is None
    assert cluster_from_facts(facts, (), load_catalogue(), nodes=2).transport == "unknown"
    assert "NCCL_IB_HCA" not in script_variables(facts)
