"""Jobs on many machines, each with the environment that a plan chooses for it."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import msgspec

from probes.base.record import NOT_RECORDED
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from recipes.environment.choosing_variables import environment_of
from recipes.environment.environment_plan import EnvironmentPlan, EnvVar
from recipes.environment.job_situation import Situation
from recipes.job.candidate import Degrees
from recipes.job.models.names import find_model
from recipes.machine.cluster_records import Cluster
from recipes.machine.from_facts import cluster_from_facts
from tests.support.clusters import case, figure, predicted_memory
from tests.support.machines import cpu_box, h100_node, storage_port
from tests.support.platform_machines import (
    NEWEST,
    PLATFORM_MACHINES,
    in_container,
    interface,
    with_file,
    with_nccl,
)


class World(NamedTuple):
    """A job and its environment."""

    name: str
    situation: Situation
    variables: dict[str, EnvVar]
    plan: EnvironmentPlan

    @property
    def facts(self) -> MachineFacts:
        return self.situation.facts

    @property
    def cluster(self) -> Cluster:
        return self.situation.cluster

    @property
    def values(self) -> dict[str, str]:
        return {name: variable.value for name, variable in self.variables.items()}


def world(
    name: str,
    facts: MachineFacts,
    nodes: int = 2,
    *,
    tight: bool = False,
    layout: dict[str, Any] | None = None,
    **changes: Any,
) -> World:
    """Return a job on `nodes` machines; `tight` leaves little free memory, `changes` alter the cluster."""
    cluster = cluster_from_facts(facts, (), load_catalogue(), nodes=nodes)
    memory = predicted_memory(*case(find_model("gpt2"), ranks=cluster.world_size, precision="fp32"), cluster)
    if tight:
        changes = {"memory_bytes_per_rank": figure(memory.upper / 0.95), **changes}
    situation = Situation(
        facts=facts, cluster=msgspec.structs.replace(cluster, **changes), memory=memory, **layout or {}
    )
    exported, plan = environment_of(situation)
    return World(name, situation, {variable.name: variable for variable in exported}, plan)


LAYOUTS: dict[str, dict[str, Any]] = {
    "ddp": {},
    "fsdp": {"sharding": "zero3", "degrees": Degrees(fsdp=16)},
    "megatron-tp": {"program": "megatron", "degrees": Degrees(tp=8, dp=2)},
    "megatron-fsdp-tp": {"program": "megatron", "sharding": "zero3", "degrees": Degrees(tp=8, fsdp=2)},
    "torchtitan-cp": {"program": "torchtitan", "sharding": "zero3", "degrees": Degrees(cp=2, fsdp=8)},
}
VERSIONS = [("2.18.6", "2.1.0"), ("2.22.3", "2.6.0"), ("2.26.2", "2.7.1"), (NEWEST, "2.13.0")]
UNKNOWN_VERSIONS = [(NOT_RECORDED, NOT_RECORDED), (None, None), ("nightly", "nightly")]


@functools.cache
def worlds() -> tuple[World, ...]:
    """Return jobs on invented machines.

    Each machine has jobs on one and two nodes and jobs with several versions of NCCL and torch. Five machines
    also have jobs with other layouts.
    """
    made = dict(PLATFORM_MACHINES)
    made |= {f"several-interfaces {name}": _crowded(facts) for name, facts in PLATFORM_MACHINES.items()}
    made |= {f"container {name}": in_container(facts) for name, facts in PLATFORM_MACHINES.items()}
    made["storage port"] = h100_node()
    made["bond of storage"] = h100_node(nics=(*h100_node().nics, storage_port(9, name="mlx5_bond_0")))
    made["cpu"] = cpu_box()
    made["cpu, two interfaces"] = _crowded(cpu_box())
    made["left over"] = with_file(
        h100_node(), "environment", NCCL_P2P_DISABLE="1", NCCL_IB_DISABLE="1", NCCL_ALGO="Ring"
    )
    made["rtx 40"] = _rtx_40("535.104.05")
    made["rtx 40, new driver"] = _rtx_40("550.54.15")
    made["mixed"] = _mixed()
    made["nothing known"] = MachineFacts()
    return (
        *(world(f"{name}, {nodes} nodes", facts, nodes) for name, facts in made.items() for nodes in (1, 2)),
        *(
            world(f"{name}, NCCL {nccl}, torch {torch}", with_nccl(facts, nccl, torch), tight=True)
            for name, facts in made.items()
            for nccl, torch in (*VERSIONS, *UNKNOWN_VERSIONS)
        ),
        *(
            world(f"{name}, {title}", facts, layout=layout)
            for name, facts in made.items()
            if name in ("bare-dgx", "aws-p5", "bare-nvl72", "gcp-a4", "oci-a100")
            for title, layout in LAYOUTS.items()
        ),
    )


def _crowded(facts: MachineFacts) -> MachineFacts:
    """Return the machine with bridges, a tunnel, the loopback and a second network."""
    others = [
        msgspec.structs.replace(interface(name), is_virtual=name != "ens99")
        for name in ("lo", "docker0", "veth12ab", "virbr0", "tun0", "ens99")
    ]
    present = facts.interfaces if isinstance(facts.interfaces, tuple) else ()
    return msgspec.structs.replace(facts, interfaces=(*others, *present))


def _rtx_40(driver: str) -> MachineFacts:
    facts = h100_node(nics=(), links=())
    gpus = tuple(
        msgspec.structs.replace(gpu, name="NVIDIA GeForce RTX 4090", driver_version=driver)
        for gpu in facts.gpus[:2]  # type: ignore[index]
    )
    software = msgspec.structs.replace(facts.software, driver_version=driver)
    return msgspec.structs.replace(facts, gpus=gpus, software=software)


def _mixed() -> MachineFacts:
    facts = h100_node()
    first, *rest = facts.gpus  # type: ignore[misc]
    return msgspec.structs.replace(
        facts, gpus=(msgspec.structs.replace(first, name="NVIDIA A100-SXM4-80GB"), *rest)
    )
