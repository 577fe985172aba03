"""Collect the machine's own name and its addresses."""

from __future__ import annotations

from probes.base.evidence import command_ref, file_ref
from probes.base.record import Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import Naming
from probes.parsers.host.network_files import parse_ahosts, parse_hosts
from probes.sources.base import Source, read_text

_HOSTS = "/etc/hosts"


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `hostname` and `naming`."""
    hostname = read_text(source, "/proc/sys/kernel/hostname")
    if isinstance(hostname, Unknown):
        return {"hostname": hostname, "naming": Naming(addresses=hostname)}
    return {"hostname": hostname, "naming": _naming(source, hostname, deep=options.deep)}


def _naming(source: Source, hostname: str, *, deep: bool) -> Naming:
    """Return the addresses of the name.

    Resolvers usually read /etc/hosts first. A name server may take seconds, so that only deep checks ask one.
    """
    text = read_text(source, _HOSTS)
    listed = () if isinstance(text, Unknown) else parse_hosts(text, hostname)
    if listed:
        return Naming(addresses=listed, evidence=(file_ref(_HOSTS),))
    if not deep:
        return Naming(
            addresses=Unknown(
                Reason.NOT_RECORDED, "not in /etc/hosts; name servers are asked with --tier deep only"
            )
        )
    argv = ("getent", "ahosts", hostname)
    answer = source.run(argv).text()
    addresses = () if isinstance(answer, Unknown) else parse_ahosts(answer)
    if isinstance(answer, Unknown) and answer.reason is not Reason.ERROR:
        return Naming(addresses=answer, evidence=(command_ref(argv),))
    # getent ends with an error and no output if the name is unknown.
    return Naming(addresses=addresses, evidence=(command_ref(argv),))
