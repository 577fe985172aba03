"""Check that the training ports belong to one working network.

InfiniBand ports need a subnet manager and must be in one partition; all ports must be of one kind. NCCL uses
every port that is up unless NCCL_IB_HCA selects ports; InfiniBand and RoCE ports cannot communicate with each
other. Source: NCCL user guide, troubleshooting: networking (NCCL_IB_HCA, NCCL_IB_PKEY, NCCL_IB_TC);
InfiniBand Architecture Specification volume 1, subnet management.
"""

import shlex
from collections import Counter

from probes.base.patterns import pattern
from probes.base.record import Unknown, items_of, known, only_known, value_or
from probes.facts import Nic, value_of
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.rails import is_up, training_rails
from probes.judging.reporting import HOST, Judged, each_port, fold_names, judge_each, on_nics, subject_name

SUBNET_MANAGER = Judge(
    check_id="nic-subnet-manager",
    why="Without a subnet manager a port has no address and no routes; if the subnet manager fails later, "
    "links that go down do not come back.",
)
PKEY = Judge(
    check_id="nic-pkey",
    why="Ports in different partitions cannot reach each other: some pairs of ranks hang.",
)
MIXTURE = Judge(
    check_id="nic-mixture",
    why="NCCL takes all ports that are up: InfiniBand and RoCE ports, or different cards, cannot work "
    "together as rails.",
)
TRAFFIC_CLASS = Judge(
    check_id="roce-traffic-class",
    why="RoCE traffic outside the lossless class is dropped under load: training is fast on two nodes but "
    "very slow on many.",
)
_FULL_MEMBER = 0x8000
"""Bit of a partition key that is set for full members."""
_PKEY = pattern(r"0x[0-9a-fA-F]{1,4}")
_UNCONFIGURED = ("INIT", "ARMED")
"""States of a port that has a link but was not set up by a subnet manager."""
_NO_INFINIBAND = "no training port that is up is InfiniBand"
_NO_ROCE = "no training port that is up is RoCE"


@each_port(
    SUBNET_MANAGER,
    lambda evidence: [
        nic
        for nic in items_of(evidence.facts.nics)
        if nic.link_layer == "InfiniBand" and (is_up(nic) or nic.state in _UNCONFIGURED)
    ],
    absent="no InfiniBand port has a link",
    what="the subnet manager",
    good="a subnet manager serves every port",
)
def nic_subnet_manager(nic: Nic, evidence: Evidence) -> Judged:
    if nic.state not in _UNCONFIGURED:
        if isinstance(nic.sm_lid, Unknown):
            return nic.sm_lid
        if nic.sm_lid:
            return f"LID {nic.sm_lid}"
    return SUBNET_MANAGER.failed(
        subject_name(nic),
        "no subnet manager has set up this port",
        expected="ACTIVE, and the LID of a subnet manager",
        observed=f"{nic.state}, SM lid {value_or(nic.sm_lid, 'not known')}",
        remedy=Remedy(
            text="Start the subnet manager of this fabric (opensm, UFM), or ask its administrator to; the "
            "cable is fine.",
            command="sminfo",
        ),
    )


@on_nics(PKEY)
def nic_pkey(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    rails = [nic for nic in training_rails(evidence.facts).active if nic.link_layer == "InfiniBand"]
    if not rails:
        return PKEY.skipped(HOST, _NO_INFINIBAND)
    usual = Counter(_partition(nic.pkeys) for nic in rails if known(nic.pkeys) and nic.pkeys).most_common(1)

    def judge(nic: Nic) -> Judged:
        if isinstance(nic.pkeys, Unknown):
            return nic.pkeys
        own = _partition(nic.pkeys)
        if usual and own == usual[0][0]:
            return own
        return PKEY.failed(
            subject_name(nic),
            "the port is in another partition than the other training ports"
            if nic.pkeys
            else "the port is in no partition",
            expected=usual[0][0] if usual else "a partition key",
            observed=own,
            remedy=Remedy(
                text="Ask the fabric's administrator for one partition, or set NCCL_IB_PKEY and NCCL_IB_HCA "
                "to match."
            ),
        )

    return judge_each(
        PKEY, rails, judge, what="the partition keys", good="the training ports are in one partition"
    )


def _partition(pkeys: tuple[str, ...]) -> str:
    """Return each key as the key of a full member, because a limited member is in the same partition."""
    numbers = sorted({int(key, 16) | _FULL_MEMBER for key in pkeys if _PKEY.fullmatch(key)})
    return ", ".join(f"0x{number:04x}" for number in numbers) or "none"


@on_nics(MIXTURE)
def nic_mixture(nics: tuple[Nic, ...], evidence: Evidence) -> Finding:
    # If the environment was not recorded, it is unknown whether a variable selects the ports.
    chosen = not known(evidence.facts.environment) or value_of(evidence.facts, "NCCL_IB_HCA") is not None
    rails = [nic for nic in training_rails(evidence.facts).active if known(nic.link_layer)]
    if not rails:
        return MIXTURE.skipped(HOST, "no training port is up, or the link layers are unknown")
    layer = rails[0].link_layer
    others = [nic for nic in nics if is_up(nic) and value_or(nic.link_layer, layer) != layer]
    kinds = set(only_known(nic.device_type for nic in rails))
    if len(kinds) > 1:
        return MIXTURE.warned(
            fold_names([subject_name(nic) for nic in rails]),
            "the training ports are of different cards",
            expected="one part number",
            observed=", ".join(sorted(kinds)),
            remedy=Remedy(text="Use cards of one kind, or select cards of one kind with NCCL_IB_HCA."),
        )
    observed = f"{rails[0].link_layer}: {fold_names([subject_name(nic) for nic in rails])}"
    if others and not chosen and _comparable(others, rails):
        return MIXTURE.warned(
            fold_names([subject_name(nic) for nic in others]),
            "both InfiniBand and RoCE ports are up at the rate of the rails, and no setting selects the "
            "ports "
            "for NCCL",
            expected="NCCL_IB_HCA names the training ports",
            observed=f"{observed}; {others[0].link_layer}: "
            f"{fold_names([subject_name(nic) for nic in others])}",
            remedy=Remedy(text=f"Set NCCL_IB_HCA=={','.join(nic.name for nic in rails)}."),
        )
    return MIXTURE.passed(HOST, "the training ports are of one kind", observed=observed)


def _comparable(others: list[Nic], rails: list[Nic]) -> bool:
    """Return whether NCCL would use the other ports too: it skips ports that are slower than the best."""
    rate = rails[0].rate_gbps
    return known(rate) and any(known(nic.rate_gbps) and nic.rate_gbps >= rate for nic in others)


@on_nics(TRAFFIC_CLASS)
def roce_traffic_class(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    rails = [nic for nic in training_rails(evidence.facts).active if nic.link_layer == "Ethernet"]
    if not rails:
        return TRAFFIC_CLASS.skipped(HOST, _NO_ROCE)
    usual = Counter(only_known(nic.traffic_class for nic in rails)).most_common(1)
    forced = value_of(evidence.facts, "NCCL_IB_TC")

    def judge(nic: Nic) -> Judged:
        if isinstance(nic.traffic_class, Unknown):
            # Only the vendor's own drivers have this setting.
            return f"NCCL_IB_TC={forced}" if forced is not None else nic.traffic_class
        if nic.traffic_class == usual[0][0]:
            return f"class {nic.traffic_class}" if nic.traffic_class else "none is forced"
        return TRAFFIC_CLASS.warned(
            subject_name(nic),
            "the port sends its RoCE traffic in another class than the others",
            expected=f"class {usual[0][0]}",
            observed=f"class {nic.traffic_class}",
            remedy=Remedy(
                text="Set the same class on all training ports, as the owner of the network specifies.",
                command=f"cma_roce_tos -d {shlex.quote(nic.name)} -p {nic.port}",
                needs_root=True,
            ),
        )

    return judge_each(
        TRAFFIC_CLASS,
        rails,
        judge,
        what="the RoCE traffic class",
        good="the training ports have the same class",
    )
