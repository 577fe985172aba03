"""Check that the variables for interfaces and ports name the right interfaces and ports.

NCCL treats names as prefixes unless `=` comes first, and a user's list replaces NCCL's own filter for docker
and loopback. Gloo accepts only whole names. Source: NVIDIA NCCL user guide, NCCL_SOCKET_IFNAME and
NCCL_IB_HCA; NVIDIA/nccl#286, #913; aws-samples/aws-do-eks#50 (gloo).
"""

import shlex
from collections.abc import Iterable

import msgspec

from probes.base.record import Unknown, quoted
from probes.facts import EnvironmentVariable, MachineFacts
from probes.judging.environment_values import (
    NameList,
    Variables,
    chosen,
    on_variables,
    parse_names,
    setting,
)
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.rails import NOT_A_NETWORK, default_interface, is_up, training_rails
from probes.judging.reporting import HOST, fold_names

INTERFACES = Judge(
    check_id="nccl-interfaces",
    why="Ranks on an interface that others cannot reach wait for each other until the timeout.",
)
PORTS = Judge(
    check_id="nccl-hcas",
    why="A port that is not for training slows the training down or cannot reach the other ports. A port "
    "that the list leaves out is not used.",
)
GLOO = Judge(
    check_id="gloo-interface",
    why="Gloo ends with an error, or binds to an address that other nodes cannot reach.",
)


@on_variables(INTERFACES)
def nccl_interfaces(variables: Variables, evidence: Evidence) -> Finding:
    variable = variables.get("NCCL_SOCKET_IFNAME")
    if variable is None or not variable.value:
        return INTERFACES.skipped(HOST, "NCCL_SOCKET_IFNAME is not set, see interface-choice")
    interfaces = evidence.facts.interfaces
    if isinstance(interfaces, Unknown):
        return INTERFACES.undetermined(
            HOST, interfaces, what="the network interfaces", evidence=variable.evidence
        )
    wanted = parse_names(variable.value)
    selected = chosen(wanted, (interface.name for interface in interfaces if interface.addresses != ()))
    best = _best(evidence.facts)
    expected = f"NCCL_SOCKET_IFNAME=={best}" if best else "the exact name of one interface"
    problem = _of_interfaces(wanted, selected)
    if problem is None:
        return INTERFACES.passed(
            HOST,
            "NCCL_SOCKET_IFNAME names interfaces that can be used",
            observed=setting(variable),
            evidence=variable.evidence,
        )
    return _warned(
        INTERFACES,
        variable,
        problem,
        expected,
        f"{setting(variable)}: {', '.join(selected[:8]) or 'no interface'}",
    )


def _of_interfaces(wanted: NameList, selected: tuple[str, ...]) -> str | None:
    if not selected:
        return "NCCL_SOCKET_IFNAME names no interface of this machine that has an address"
    local = [name for name in selected if name.startswith(NOT_A_NETWORK)]
    if wanted.excludes and local:
        return f"NCCL_SOCKET_IFNAME replaces NCCL's own filter and lets {', '.join(local[:4])} through"
    if local:
        return f"NCCL_SOCKET_IFNAME names {local[0]}, which reaches no other node"
    if len(selected) > 1 and not wanted.exact and not wanted.excludes and len(selected) > len(wanted.names):
        return "NCCL_SOCKET_IFNAME is the prefix of several names, and the first of these is used"
    return None


@on_variables(PORTS)
def nccl_hcas(variables: Variables, evidence: Evidence) -> Finding:
    variable = variables.get("NCCL_IB_HCA")
    if variable is None or not variable.value:
        return PORTS.skipped(HOST, "NCCL_IB_HCA is not set, see nic-mixture")
    nics = evidence.facts.nics
    if isinstance(nics, Unknown):
        return PORTS.undetermined(HOST, nics, what="the RDMA ports", evidence=variable.evidence)
    rails = training_rails(evidence.facts)
    wanted = _without_ports(parse_names(variable.value))
    selected = chosen(wanted, dict.fromkeys(nic.name for nic in nics))
    active = [nic.name for nic in rails.active]
    idle = [name for name in active if name not in selected]
    foreign = [
        nic.name
        for nic in (*rails.slower, *rails.others)
        if nic.name in selected and nic.name not in active and is_up(nic)
    ]
    # NCCL treats names as prefixes: `mlx5_1` also selects `mlx5_10` to `mlx5_19`.
    prefixes = () if wanted.exact or wanted.excludes else wanted.names
    extra = [name for name in selected if name not in prefixes and _is_number_longer(name, prefixes)]
    expected = f"NCCL_IB_HCA=={','.join(dict.fromkeys(active))}" if active else "names of training ports"
    if not selected:
        problem = "NCCL_IB_HCA names no RDMA device of this machine"
    elif extra:
        problem = (
            f"NCCL_IB_HCA also selects {fold_names(extra)}, because a listed name is a prefix of these names"
        )
    elif foreign:
        problem = f"NCCL_IB_HCA also selects {fold_names(foreign)}: too slow, or not for training"
    elif idle:
        problem = f"NCCL_IB_HCA leaves out {fold_names(idle)}"
    else:
        return PORTS.passed(
            HOST,
            "NCCL_IB_HCA names the training ports",
            observed=setting(variable),
            evidence=variable.evidence,
        )
    return _warned(
        PORTS, variable, problem, expected, f"{setting(variable)}: {fold_names(selected) or 'no device'}"
    )


@on_variables(GLOO)
def gloo_interface(variables: Variables, evidence: Evidence) -> Finding:
    variable = variables.get("GLOO_SOCKET_IFNAME")
    if variable is None or not variable.value:
        return GLOO.skipped(HOST, "GLOO_SOCKET_IFNAME is not set, see hostname-address")
    interfaces = evidence.facts.interfaces
    best = _best(evidence.facts)
    expected = f"GLOO_SOCKET_IFNAME={best}" if best else "the whole name of an interface"
    if variable.value[0] in "^=":
        return _warned(
            GLOO, variable, "Gloo accepts only whole names, without ^ and =", expected, setting(variable)
        )
    if isinstance(interfaces, Unknown):
        return GLOO.undetermined(HOST, interfaces, what="the network interfaces", evidence=variable.evidence)
    names = [name for name in variable.value.split(",") if name]
    present = {interface.name for interface in interfaces}
    missing = [name for name in names if name not in present]
    if missing or any(name.startswith(NOT_A_NETWORK) for name in names):
        absent = f"there is no interface {quoted(', '.join(missing[:4]))}"
        problem = absent if missing else "the interface reaches no other node"
        return _warned(GLOO, variable, problem, expected, setting(variable))
    return GLOO.passed(
        HOST, "GLOO_SOCKET_IFNAME names an interface", observed=setting(variable), evidence=variable.evidence
    )


def _best(facts: MachineFacts) -> str:
    """Return the name of the interface of the default route; empty if it is unknown."""
    default = default_interface(facts)
    return default.name if default is not None else ""


def _without_ports(wanted: NameList) -> NameList:
    """Return the names without ports: `mlx5_0:1` names a port of mlx5_0."""
    names = tuple(name.partition(":")[0] for name in wanted.names)
    return msgspec.structs.replace(wanted, names=names)


def _is_number_longer(name: str, prefixes: Iterable[str]) -> bool:
    """Return whether a prefix matches a name only because the number is longer (`mlx5_1`, `mlx5_10`).

    A prefix without a number, such as `mlx5`, is meant to match all devices.
    """
    return any(
        entry[-1:].isdecimal() and name.startswith(entry) and name[len(entry) :].isdecimal() and "_" in entry
        for entry in prefixes
    )


def _warned(
    judge: Judge, variable: EnvironmentVariable, summary: str, expected: str, observed: str
) -> Finding:
    name, sets, value = expected.partition("=")
    return judge.warned(
        HOST,
        summary,
        expected=expected,
        observed=observed,
        remedy=Remedy(
            text=f"Set {expected}." if sets else f"Set the variable to {expected}.",
            command=f"export {name}={shlex.quote(value)}" if sets else "",
        ),
        evidence=variable.evidence,
    )
