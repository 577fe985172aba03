"""The environment variables of a job, chosen by rules in `recipes/data/environment.toml`.

Usually only few variables are set. A row's predicate reads facts and plan. It returns the words for the row's
value and reason, or None. NCCL's debugging variables (NCCL_P2P_DISABLE, NCCL_IB_DISABLE, NCCL_ALGO ...) have
no rows: they hide faults and cost speed. NCCL_IB_GID_INDEX has no row either: since version 2.21 NCCL chooses
the index itself.
"""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Literal

from probes.base.record import Record, StrictRecord, items_of, known
from probes.base.rows import load_rows
from probes.base.units import percent
from probes.facts import MachineFacts
from probes.judging.rails import candidate_interfaces, default_interface, is_up, training_ports
from recipes.machine.cluster_records import Cluster
from recipes.planning.plan import EnvVar
from recipes.predict.breakdowns import MemoryBreakdown

_TIGHT = 0.9
"""Share of the memory limit above which fragmentation may determine whether a job fits."""
_ALLOC_CONF_SINCE = (2, 9)
"""The torch version that renamed PYTORCH_CUDA_ALLOC_CONF."""


class Rule(StrictRecord, kw_only=True):
    """One row: a variable, its condition, its value, the reason and the source."""

    variable: str
    when: str
    value: str
    why: str
    source: str
    versions: str
    tier: Literal["required", "recommended", "default", "experiment"]


class Situation(Record, kw_only=True):
    """Facts, cluster and memory that predicates read."""

    facts: MachineFacts
    cluster: Cluster
    memory: MemoryBreakdown


Words = dict[str, str]
"""Texts that a predicate returns, by the names under which the row's `value` and `why` use them."""


def _cores_known(situation: Situation) -> Words | None:
    cores = situation.cluster.physical_cores_per_rank
    return None if cores is None else {"cores": str(cores)}


def _interface_ambiguous(situation: Situation, device: str) -> Words | None:
    """Return the interface of the default route if there are several nodes and candidate interfaces."""
    is_alone = situation.cluster.nodes == 1 or situation.cluster.device != device
    if is_alone or len(items_of(candidate_interfaces(situation.facts))) < 2:
        return None
    interface = default_interface(situation.facts)
    return None if interface is None else {"interface": interface.name}


def _other_ports_active(situation: Situation) -> Words | None:
    """Return the names of training ports if other ports are up too, because NCCL would use all ports.

    None if the training ports are unknown.
    """
    if situation.cluster.nodes == 1 or situation.cluster.device != "cuda":
        return None
    training = items_of(training_ports(situation.facts))
    others = [port for port in items_of(situation.facts.nics) if is_up(port) and port not in training]
    if not training or not others:
        return None
    return {
        "ports": ",".join(f"{port.name}:{port.port}" for port in training),
        "others": ", ".join(f"{port.name}:{port.port}" for port in others),
    }


def _memory_share(situation: Situation) -> Words | None:
    limit = situation.cluster.memory_bytes_per_rank
    if situation.cluster.device != "cuda" or limit is None or situation.memory.upper < _TIGHT * limit.value:
        return None
    return {"share": percent(min(1.0, situation.memory.upper / limit.value))}


def _torch_version(facts: MachineFacts) -> tuple[int, int] | None:
    version = facts.training.torch_version
    if not known(version) or version is None:
        return None
    match = re.match(r"(\d+)\.(\d+)(\.|$)", version)
    return (int(match[1]), int(match[2])) if match else None


def _memory_tight(situation: Situation, *, is_old: bool) -> Words | None:
    """Return the predicted share of the memory limit for an old or a current torch; if torch's version is
    unknown, the plan requires a current version.
    """
    version = _torch_version(situation.facts)
    return (
        _memory_share(situation) if is_old == (version is not None and version < _ALLOC_CONF_SINCE) else None
    )


PREDICATES: dict[str, Callable[[Situation], Words | None]] = {
    "uses_nccl": lambda situation: {} if situation.cluster.device == "cuda" else None,
    "cores_known": _cores_known,
    "nccl_interface_ambiguous": lambda situation: _interface_ambiguous(situation, "cuda"),
    "gloo_interface_ambiguous": lambda situation: _interface_ambiguous(situation, "cpu"),
    "other_ports_active": _other_ports_active,
    "memory_tight": lambda situation: _memory_tight(situation, is_old=False),
    "memory_tight_before_torch_2_9": lambda situation: _memory_tight(situation, is_old=True),
}


@functools.lru_cache(maxsize=1)
def load_rules() -> tuple[Rule, ...]:
    """Return the rows of `recipes/data/environment.toml`."""
    return load_rows("recipes", "rules", Rule, file="environment")


def environment(facts: MachineFacts, cluster: Cluster, memory: MemoryBreakdown) -> tuple[EnvVar, ...]:
    """Return the environment variables of a job on this machine, in the order of the rows.

    Variables of tier `experiment` are left out: they need a measurement before and after.
    """
    return tuple(variable for tier, variable in _applying(facts, cluster, memory) if tier != "experiment")


def experiments(facts: MachineFacts, cluster: Cluster, memory: MemoryBreakdown) -> tuple[EnvVar, ...]:
    """Return the variables of tier `experiment` that apply here, which `rigtune tune` can measure."""
    return tuple(variable for tier, variable in _applying(facts, cluster, memory) if tier == "experiment")


def _applying(facts: MachineFacts, cluster: Cluster, memory: MemoryBreakdown) -> Iterator[tuple[str, EnvVar]]:
    """Yield the variables whose condition holds, each with its tier."""
    situation = Situation(facts=facts, cluster=cluster, memory=memory)
    for rule in load_rules():
        words = PREDICATES[rule.when](situation)
        if words is not None:
            value, why = rule.value.format(**words), rule.why.format(**words)
            yield rule.tier, EnvVar(name=rule.variable, value=value, why=why, source=rule.source)
