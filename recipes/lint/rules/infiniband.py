"""RDMA ports, their queues and the traffic classes of the fabric."""

import re

from probes.base.record import items_of, known
from probes.base.units import plural
from probes.facts import Nic
from probes.judging.environment_values import chosen, parse_names
from probes.judging.rails import is_down, is_up
from recipes.lint.context import Context
from recipes.lint.document import Document, Setting
from recipes.lint.editing import removal, rewrite
from recipes.lint.finding import Edit
from recipes.lint.rule_table import Documents, Findings, make_finding, per_document
from recipes.lint.views import (
    is_on_cloud,
    is_one_machine,
    last,
    literal_settings,
    may_use_rdma,
    mentions,
    number,
    value,
)

_CLASSES = {41: "OCI", 136: "Alibaba", 52: "GCP", 96: "CoreWeave", 84: "GCP"}
"""Traffic classes that clouds publish for their own fabrics."""
_INTERFACE = re.compile(r"(?:eth|en[opsx]|bond|ib)\d[\w.]*")


def hcas(documents: Documents, context: Context) -> Findings:
    """Check the RDMA ports that NCCL_IB_HCA selects."""
    ports = items_of(context.machine.nics) if context.machine is not None else ()
    chosen_ports = (
        (document, *each) for document in documents for each in literal_settings(document, "NCCL_IB_HCA")
    )
    for document, item, text in chosen_ports:
        wanted = parse_names(text)
        names = tuple(name.partition(":")[0].strip() for name in wanted.names)
        if (
            names
            and all(_INTERFACE.fullmatch(name) for name in names)
            and not any(port.name in names for port in ports)
        ):
            yield make_finding(
                "hca-is-an-interface",
                document,
                item.place,
                f"NCCL_IB_HCA={text} names network interfaces, not RDMA devices: NCCL finds no port and "
                "uses TCP",
                fix="Write names from /sys/class/infiniband, such as =mlx5_0; network interfaces belong in "
                "NCCL_SOCKET_IFNAME.",
            )
            continue
        doubled = sorted({name for name in wanted.names if wanted.names.count(name) > 1})
        if doubled:
            yield make_finding(
                "hca-twice",
                document,
                item.place,
                f"NCCL_IB_HCA={text} names {', '.join(doubled)} twice, and may miss another port",
                fix="State each port once.",
            )
        if not wanted.exact and not wanted.excludes:
            yield from _beginnings(document, item, text, names, ports)
        if any("bond" in name for name in names) and any(re.fullmatch(r"mlx5_\d+", name) for name in names):
            yield make_finding(
                "hca-mixed",
                document,
                item.place,
                f"NCCL_IB_HCA={text} mixes a bond with single ports",
                fix="Name either the bonds or the ports of the compute network.",
            )
        if ports:
            yield from _on_machine(document, item, text, names, ports)
    if ports and not any(last(document, "NCCL_IB_HCA") for document in documents):
        yield from _unset(documents, ports, context.training_ports)


def _beginnings(
    document: Document, item: Setting, text: str, names: tuple[str, ...], ports: tuple[Nic, ...]
) -> Findings:
    # without =, a name is a prefix for NCCL; the usual mistake is mlx5_1
    numbered = {name for name in names if re.fullmatch(r"mlx5_[1-9]", name)}
    others = {port.name for port in ports} | {name for name in names if re.fullmatch(r"mlx5_\d\d", name)}
    caught = sorted(
        other
        for other in others - set(names)
        if other not in names and any(other.startswith(name) for name in numbered)
    )
    if caught:
        yield make_finding(
            "hca-prefix",
            document,
            item.place,
            f"NCCL_IB_HCA={text}: names are prefixes, so they also select {', '.join(caught)} of this "
            "machine",
            fix="Put = in front for exact names.",
            edits=_exactly(document, item, text, names),
            severity="warning",
        )
    elif not ports and "mlx5_1" in numbered and not any(re.fullmatch(r"mlx5_\d\d", name) for name in names):
        yield make_finding(
            "hca-prefix",
            document,
            item.place,
            f"NCCL_IB_HCA={text}: mlx5_1 is a prefix, and also selects mlx5_10 to mlx5_19 if a machine has "
            "them",
            fix="Put = in front for exact names.",
            edits=_exactly(document, item, text, names),
        )


def _exactly(document: Document, item: Setting, text: str, names: tuple[str, ...]) -> tuple[Edit, ...]:
    """Return the edit that adds `=`, if each name is complete.

    With `=`, the names `mlx5` and `mlx5_bond` would select no port.
    """
    return (
        rewrite(document, item, f"={text}") if all(re.fullmatch(r"\w+_\d+", name) for name in names) else ()
    )


def _on_machine(
    document: Document, item: Setting, text: str, names: tuple[str, ...], ports: tuple[Nic, ...]
) -> Findings:
    wanted = parse_names(text)
    plain = wanted.__class__(excludes=wanted.excludes, exact=wanted.exact, names=names)
    taken = [port for port in ports if port.name in chosen(plain, [port.name for port in ports])]
    if not taken:
        have = ", ".join(port.name for port in ports)[:200]
        yield make_finding(
            "hca-missing",
            document,
            item.place,
            f"NCCL_IB_HCA={text} matches none of the devices of this machine: {have}",
            fix="Write names of RDMA devices of this machine.",
        )
        return
    yield from _links(document, item, [port for port in taken if is_up(port)])
    idle = [port.name for port in taken if is_down(port)]
    if idle and wanted.exact:
        yield make_finding(
            "hca-down",
            document,
            item.place,
            f"NCCL_IB_HCA={text} names {', '.join(idle)}, whose link is not up",
            fix="Repair the link, or remove the device from the list.",
        )


def _links(document: Document, item: Setting, active: list[Nic]) -> Findings:
    layers = {str(port.link_layer) for port in active if known(port.link_layer)}
    if len(layers) > 1:
        yield make_finding(
            "hca-mixed",
            document,
            item.place,
            f"{item.name} selects ports of {' and '.join(sorted(layers))}: "
            f"{', '.join(port.name for port in active)}",
            fix="List only the ports of the compute network, with = in front.",
            severity="error",
        )


def _unset(documents: Documents, ports: tuple[Nic, ...], training: tuple[Nic, ...]) -> Findings:
    """Report active ports of two kinds if NCCL_IB_HCA is not set and the ranks are on several machines."""
    names = f": ={','.join(dict.fromkeys(port.name for port in training))}" if training else ""
    layers = {str(port.link_layer) for port in ports if is_up(port) and known(port.link_layer)}
    for document in documents:
        if (
            len(layers) > 1
            and not is_one_machine(document)
            and may_use_rdma(document)
            and document.settings
            and any(command.program == "torchrun" for command in document.commands)
        ):
            yield make_finding(
                "hca-mixed",
                document,
                document.settings[0].place,
                f"the machine has active ports of {' and '.join(sorted(layers))}, and NCCL_IB_HCA selects "
                "none",
                fix=f"List the ports of the compute network in NCCL_IB_HCA, with = in front{names}.",
            )


@per_document()
def gids(document: Document, context: Context) -> Findings:
    """Check for a GID index that is right on one machine only."""
    automatic = context.nccl_is_at_least("2.21")
    for item, text in literal_settings(document, "NCCL_IB_GID_INDEX"):
        # OCI (traffic class 41) and Alibaba (136) publish the GID index for their machines
        published = number(value(document, "NCCL_IB_TC")) in (41, 136) or is_on_cloud(document)
        if number(text) is None or number(text) == 0 or automatic is False or published:
            continue
        if item is not last(document, "NCCL_IB_GID_INDEX") or value(document, "NCCL_IB_DISABLE") == "1":
            continue
        yield make_finding(
            "gid-index-fixed",
            document,
            item.place,
            f"NCCL_IB_GID_INDEX={text} depends on the machine: NCCL finds the RoCE v2 entry itself since "
            "2.21",
            fix="Remove the line on NCCL 2.21 or newer.",
            severity="warning" if automatic else None,
        )


@per_document()
def classes(document: Document, context: Context) -> Findings:
    """Check the traffic class of RoCE."""
    layers = {str(port.link_layer) for port in context.training_ports}
    for item, text in literal_settings(document, "NCCL_IB_TC"):
        tc = number(text)
        if tc is None or tc == 0 or tc > 255:
            continue
        if layers == {"InfiniBand"}:
            yield make_finding(
                "traffic-class",
                document,
                item.place,
                f"NCCL_IB_TC={text} is meant for RoCE, but the training ports are InfiniBand",
                fix="Remove the line.",
                edits=removal(document, item),
                severity="warning",
            )
        elif tc not in _CLASSES:
            yield make_finding(
                "traffic-class",
                document,
                item.place,
                f"NCCL_IB_TC={text} (DSCP {tc // 4}): a switch without a lossless queue for it drops packets",
                fix="Ask the operators of the switches for the class, or read it with mlnx_qos on the hosts.",
            )


@per_document()
def queues(document: Document, context: Context) -> Findings:
    """Check timeouts and numbers of queue pairs."""
    for item, text in literal_settings(document, "NCCL_IB_TIMEOUT"):
        exponent = number(text)
        if exponent is not None and 24 <= exponent <= 31:
            # InfiniBand specification: 4.096 us * 2^timeout for each attempt, of which there are about 8
            seconds = 4.096e-6 * 2**exponent * 8
            yield make_finding(
                "ib-timeout-long",
                document,
                item.place,
                f"NCCL_IB_TIMEOUT={text} waits about {plural(round(seconds / 60), 'minute')} before "
                "a dead link is reported",
                fix="Remove the line: 20 is the default since NCCL 2.23; 22 is enough for a large fabric.",
            )
    for item, text in literal_settings(document, "NCCL_IB_QPS_PER_CONNECTION"):
        pairs = number(text)
        if pairs is not None and 8 < pairs <= 128:
            yield make_finding(
                "ib-many-queues",
                document,
                item.place,
                f"NCCL_IB_QPS_PER_CONNECTION={text}: beyond 8 queue pairs memory and latency grow, but not "
                "the rate",
                fix="Measure 2, 4 and 8, and keep the smallest number that makes the job faster.",
            )


@per_document()
def rails(document: Document, context: Context) -> Findings:
    """Check for NICs that communicate across rails."""
    for item, text in literal_settings(document, "NCCL_CROSS_NIC"):
        rails_only = mentions(
            document,
            r"NCCL_NET=[\"']?(?:gIB|FasTrak|GPUDirectTCPX)|NCCL_FASTRAK_|NCCL_GPUDIRECTTCPX_|"
            r"(?i:rail[-_ ]only)",
        )
        rails_only = rails_only or re.search(r"(?i)rail[-_ ]only", document.text) is not None
        if text in ("1", "2") and rails_only:
            yield make_finding(
                "cross-nic-on-rails",
                document,
                item.place,
                f"NCCL_CROSS_NIC={text} sends from one rail to another, which this network does not connect",
                fix="Set NCCL_CROSS_NIC=0.",
                edits=rewrite(document, item, "0"),
            )
        elif text == "1" and not is_on_cloud(document):
            yield make_finding(
                "cross-nic-forced",
                document,
                item.place,
                "NCCL_CROSS_NIC=1 suits NICs that share one switch; on a network with rails it adds hops, or "
                "fails",
                fix="Leave the choice to NCCL (the default, 2), or set 0 on a rail network.",
            )


@per_document()
def sharp(document: Document, context: Context) -> Findings:
    """Check for SHARP in jobs that run at the same time."""
    for item, text in literal_settings(document, "NCCL_COLLNET_ENABLE"):
        if text != "1":
            continue
        # jobs of an array, or steps in the background, run at the same time
        array = any(directive.name in ("array", "a") for directive in document.directives)
        background = (
            len(re.findall(r"^\s*(?:srun|mpirun|torchrun)\b.*&\s*$", document.text, re.MULTILINE)) > 1
        )
        if array or background:
            yield make_finding(
                "sharp-shared",
                document,
                item.place,
                "NCCL_COLLNET_ENABLE=1 in jobs that run at the same time: switches have few reduction trees, "
                "and the second job fails to get a tree",
                fix="Use SHARP in one job at a time; remove the variable from the other jobs.",
            )
