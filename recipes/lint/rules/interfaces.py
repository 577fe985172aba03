"""Network interfaces over which the processes connect."""

import ipaddress
import re

from probes.base.record import known
from probes.facts import Interface
from probes.judging.environment_values import chosen, parse_names
from probes.judging.rails import BRIDGES_AND_TUNNELS
from recipes.lint.context import Context
from recipes.lint.document import Document, Place, Setting
from recipes.lint.editing import rewrite
from recipes.lint.finding import LintFinding
from recipes.lint.reach import nodes_that_get, text_in
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    code_lines,
    first_line,
    is_one_machine,
    literal_settings,
    mentions,
    nodes_of,
    resolved,
)

_HCA = re.compile(r"(?:mlx[45]_|bnxt_re|rxe|irdma|erdma_|ionic_|rdmap|efa_)\S*")
_BARE_KINDS = ("eth", "en", "ens", "eno", "enp", "em", "ib", "bond", "wl")
_LOOPBACK = r"(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|::1)"


@per_document()
def gloo(document: Document, context: Context) -> Findings:
    """Check names for Gloo, which accepts neither `^` nor `=` nor prefixes."""
    for item, text in literal_settings(document, "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        names = text.split(",")
        if text.startswith(("^", "=")):
            yield make_finding(
                "gloo-interface-syntax",
                document,
                item.place,
                f"{item.name}={text}: Gloo does not support ^ and =, so it looks for an interface of that "
                "literal name",
                fix="Write the name of an interface, as `ip route get ADDRESS` shows it.",
                edits=rewrite(document, item, text[1:]) if text.startswith("=") and "," not in text else (),
            )
        elif any(name.strip() in _BARE_KINDS for name in names):
            yield make_finding(
                "gloo-interface-prefix",
                document,
                item.place,
                f"{item.name}={text}: Gloo does not support prefixes of names",
                fix="Write the whole name of an interface, such as eth0.",
            )


@per_document()
def sockets(document: Document, context: Context) -> Findings:
    """Check the interfaces that NCCL_SOCKET_IFNAME selects."""
    for item, text in literal_settings(document, "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME"):
        wanted = parse_names(text)
        if wanted.excludes:
            yield from _exclusion(document, item, text, wanted.names, context)
        elif any(_HCA.fullmatch(name) for name in wanted.names):
            yield make_finding(
                "interface-is-an-hca",
                document,
                item.place,
                f"{item.name}={text} names an RDMA device, not a network interface",
                fix="RDMA devices belong in NCCL_IB_HCA; write an interface that `ip address` lists.",
            )
        elif "lo" in wanted.names and not is_one_machine(document) and nodes_that_get(document, item) != 1:
            yield make_finding(
                "interface-loopback",
                document,
                item.place,
                f"{item.name}={text}: other machines cannot be reached over the loopback",
                fix="Name the interface that reaches the other machines.",
                severity="error" if (nodes_that_get(document, item) or 1) > 1 else None,
            )
        elif any(name.startswith(BRIDGES_AND_TUNNELS) for name in wanted.names):
            yield make_finding(
                "interface-bridge",
                document,
                item.place,
                f"{item.name}={text} names a bridge or tunnel that other machines cannot reach",
                fix="Name the interface that has the route to the other machines.",
            )
        elif len(wanted.names) > 1 and sum(name in _BARE_KINDS for name in wanted.names) > 1:
            yield make_finding(
                "interface-guess",
                document,
                item.place,
                f"{item.name}={text} selects nearly every interface, and NCCL uses the first that matches",
                fix="Name the interface of the cluster, such as =eth0; if machines differ, list the exact "
                "names.",
            )
        if item.name == "NCCL_SOCKET_IFNAME":
            yield from _on_machine(document, item, text, context)


def _exclusion(
    document: Document, item: Setting, text: str, names: tuple[str, ...], context: Context
) -> Findings:
    # NCCL's own filter excludes lo and docker0; a value that starts with ^ replaces this filter
    # a pod with a network of its own has no bridge of Docker
    is_pod = document.kind == "kubernetes" and not mentions(document, r"hostNetwork:\s*true")
    candidates = ("lo",) if is_pod else ("lo", "docker0")
    lets_in = [name for name in candidates if not any(name.startswith(entry) for entry in names)]
    interfaces = _interfaces(context)
    if interfaces is not None:
        lets_in = [face.name for face in interfaces if face.name in lets_in]
    if lets_in:
        yield make_finding(
            "interface-exclusion",
            document,
            item.place,
            f"{item.name}={text} replaces NCCL's own filter, so {' and '.join(lets_in)} can be chosen",
            fix="Exclude all such interfaces with ^lo,docker,veth,virbr; better, name the right interface.",
            edits=rewrite(document, item, ",".join((text, *(name.rstrip("0") for name in lets_in))))
            if "=" not in text
            else (),
            severity=None if "lo" in lets_in or interfaces is not None else "note",
        )


def _interfaces(context: Context) -> tuple[Interface, ...] | None:
    if context.machine is None or not known(context.machine.interfaces):
        return None
    return context.machine.interfaces


def _on_machine(document: Document, item: Setting, text: str, context: Context) -> Findings:
    interfaces = _interfaces(context)
    if not interfaces:
        return
    wanted = parse_names(text)
    names = chosen(wanted, [face.name for face in interfaces])
    if not names:
        yield make_finding(
            "interface-missing",
            document,
            item.place,
            f"NCCL_SOCKET_IFNAME={text} matches none of the machine's "
            f"{', '.join(face.name for face in interfaces)[:200]}",
            fix="Name an interface that every machine has; if the names differ, list all of them or write "
            "/etc/nccl.conf on each machine.",
        )
    elif not wanted.excludes and not wanted.exact:
        more = [name for name in names if name not in wanted.names]
        meant = [name for name in wanted.names if name in names]
        if meant and more:
            yield make_finding(
                "interface-prefix",
                document,
                item.place,
                f"NCCL_SOCKET_IFNAME={text} is a prefix and also matches {', '.join(more)}",
                fix="Put = in front for the exact name.",
                edits=rewrite(document, item, f"={text}") if len(meant) == len(wanted.names) else (),
            )
    yield from _other_route(document, item, names, interfaces)


def _other_route(
    document: Document, item: Setting, names: tuple[str, ...], here: tuple[Interface, ...]
) -> Findings:
    """Check that the master's address is in the network of a selected interface."""
    master = next((text for given in document.environments if (text := text_in(given, "MASTER_ADDR"))), None)
    try:
        address = ipaddress.ip_address(master or "")
    except ValueError:
        return
    holders = [face.name for face in here if _holds(face, address)]
    if names and holders and not set(holders) & set(names):
        yield make_finding(
            "interface-other-route",
            document,
            item.place,
            f"MASTER_ADDR {master} is in the network of {', '.join(holders)}, but NCCL uses "
            f"{', '.join(names)}",
            fix="Use the address of the master on that interface, or name the interface of that address.",
        )


def _holds(face: Interface, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if not known(face.addresses):
        return False
    for text in face.addresses:
        try:
            if address in ipaddress.ip_interface(text).network:
                return True
        except ValueError:
            continue
    return False


@per_document()
def pairs(document: Document, context: Context) -> Findings:
    """Check that Gloo and NCCL use the same interface."""
    for given in document.environments:
        gloo_name, nccl_name = text_in(given, "GLOO_SOCKET_IFNAME"), text_in(given, "NCCL_SOCKET_IFNAME")
        item = given.get("GLOO_SOCKET_IFNAME")
        if not gloo_name or not nccl_name or item is None or gloo_name.startswith(("^", "=")):
            continue
        if not chosen(parse_names(nccl_name), gloo_name.split(",")):
            yield make_finding(
                "interface-two-routes",
                document,
                item.place,
                f"GLOO_SOCKET_IFNAME={gloo_name} is not an interface of NCCL_SOCKET_IFNAME={nccl_name}",
                fix="Name the same interface in both variables, unless you want two networks.",
            )


@per_document()
def masters(document: Document, context: Context) -> Findings:
    """Check the address at which ranks meet."""
    nodes = nodes_of(document)
    for item in document.given:
        if item.name not in ("MASTER_ADDR", "MASTER_ADDRESS", "PET_MASTER_ADDR"):
            continue
        text = item.value if item.is_literal else None
        if text and re.fullmatch(_LOOPBACK, text.strip()):
            machines = nodes_that_get(document, item)
            if machines is not None and machines > 1:
                yield make_finding(
                    "master-loopback",
                    document,
                    item.place,
                    f"{item.name}={text} is every machine's own address, but the job has {machines} nodes",
                    fix="Use the address of the first node.",
                )
        elif "SLURM_LAUNCH_NODE_IPADDR" in item.written or "SLURM_SUBMIT_HOST" in item.written:
            yield make_finding(
                "master-wrong-variable",
                document,
                item.place,
                f"{item.name} is the machine on which srun or sbatch was called, which may not be a node "
                "of the job",
                fix='Use the first of `scontrol show hostnames "$SLURM_JOB_NODELIST"`.',
            )
        elif re.search(r"hostname (?:-I|-i|--ip-address|--all-ip-addresses)\b", item.written) and nodes != 1:
            yield _hostname(document, item.place.line, item.name, item.written)
    yield from _hostnames(document, nodes)


def _hostname(document: Document, line: int, name: str, text: str) -> LintFinding:
    return make_finding(
        "master-hostname",
        document,
        Place(line=line),
        f"{name or 'the master'} is the output of `hostname`, which may be several addresses or 127.0.1.1",
        fix="Resolve the name of the first node, or find the address with `ip -4 route get`.",
        severity=None if re.search(r"hostname (?:-I|--all-ip-addresses)\b", text) else "note",
    )


def _hostnames(document: Document, nodes: int | None) -> Findings:
    """Check variables other than MASTER_ADDR that contain the address of the master.

    An example is `head_node_ip=$(srun ... hostname --ip-address)`.
    """
    if nodes == 1 or document.kind not in ("shell", "sbatch"):
        return
    judged_lines = {item.place.line for item in document.settings if item.name.startswith("MASTER_ADDR")}
    pattern = re.compile(
        r"^\s*(?:export\s+)?(\w*(?:head|master|MASTER|HEAD|rdzv)\w*)=.*"
        r"hostname (?:-I|-i|--ip-address|--all-ip-addresses)\b"
    )
    for index, line in code_lines(document):
        match = pattern.match(line)
        if match is not None and index not in judged_lines:
            yield _hostname(document, index, match[1], line)


@per_document()
def hosts(document: Document, context: Context) -> Findings:
    """Check for names of machines that resolve to the loopback."""
    if document.kind in ("shell", "sbatch", "dockerfile"):
        at = first_line(document, r"127\.0\.[01]\.1\s+(?!localhost)[\w$({-].*/etc/hosts")
        if at is not None:
            yield _hosts_finding(document, at[0].line)
    for item in document.entries:
        text = str(item.value)
        is_alias = re.search(r"hostAliases\[\d+\]\.ip$", item.path) and text.startswith("127.")
        is_extra = re.search(r"\.extra_hosts(?:\[\d+\])?(?:\.[\w.-]+)?$", item.path) and re.search(
            r"(?:^|[:=])127\.", text
        )
        if (is_alias or is_extra) and "localhost" not in text:
            yield _hosts_finding(document, item.place.line)


def _hosts_finding(document: Document, line: int) -> LintFinding:
    return make_finding(
        "hosts-loopback",
        document,
        Place(line=line),
        "the machine's own name resolves to 127.x, so Gloo and the rendezvous give other machines a useless "
        "address",
        fix="Give the name the machine's address on the network of the cluster.",
    )


@per_document()
def proxies(document: Document, context: Context) -> Findings:
    """Check for a proxy that also gets the traffic inside the cluster."""
    for given in document.environments:
        names = {name.lower(): item for name, item in given.items() if item.value or not item.is_literal}
        item = names.get("http_proxy") or names.get("https_proxy") or names.get("all_proxy")
        trains = any(
            word in document.text
            for word in (
                "torchrun",
                "torch.distributed",
                "TF_CONFIG",
                "deepspeed",
                "accelerate launch",
                "ray start",
            )
        )
        if item is not None and "no_proxy" not in names and trains and "unset " not in document.text:
            yield make_finding(
                "proxy-without-exceptions",
                document,
                item.place,
                f"{item.name} is set without no_proxy: gRPC and HTTP between the machines go to the proxy",
                fix="Set no_proxy to the machines' names and networks, or unset the proxy before training.",
            )


@per_document()
def firewalls(document: Document, context: Context) -> Findings:
    """Check for a firewall or a network policy that opens only the port of the rendezvous."""
    opens = (
        r"(?:ufw allow|firewall-cmd .*--add-port=?|iptables .*--dports? ?|"
        r"authorize-security-group-ingress .*--port )\D*"
        r"(?P<port>29\d\d\d|12355|6000|1234)\b(?![-:]\d)"
    )
    wide = (
        r"ufw allow (?:from|in on)|--add-(?:source|interface)|--dports? \d+:\d+|--add-port=\d+-\d+|"
        r"--zone=trusted|--source-group|iptables .* -s \S+ .*ACCEPT"
    )
    at = first_line(document, opens)
    if at is not None and first_line(document, wide) is None and nodes_of(document) != 1:
        yield make_finding(
            "firewall-one-port",
            document,
            at[0],
            f"only port {at[1]['port']} is open: the rendezvous succeeds, and then NCCL hangs on its "
            "random ports",
            fix="Open all ports between the machines, or the range of net.ipv4.ip_local_port_range.",
        )
    yield from _policy(document)


def _policy(document: Document) -> Findings:
    kinds = [
        item
        for item in document.entries
        if item.path.split(".")[-1] == "kind" and item.value == "NetworkPolicy"
    ]
    ports = [
        item for item in document.entries if re.search(r"ingress\[\d+\]\.ports\[\d+\]\.port$", item.path)
    ]
    if (
        kinds
        and ports
        and not any(item.path.endswith(".endPort") for item in document.entries)
        and resolved(document, str(ports[0].value)) is not None
        and len(ports) <= 2
    ):
        yield make_finding(
            "firewall-one-port",
            document,
            ports[0].place,
            f"the policy allows only port {' and '.join(str(item.value) for item in ports)}, but NCCL uses "
            "random ports",
            fix="Allow all ports between the pods of the job.",
        )
