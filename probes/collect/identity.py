"""Collect the machine's own name, its addresses, and its maker and model."""

from probes.base.record import Reason, Unknown, command_ref, file_ref, map_known, value_or
from probes.collect.collecting import CollectOptions
from probes.facts import Dmi, Naming
from probes.parsers.host.network_files import parse_ahosts, parse_hosts
from probes.sources.base import Source, read_text

_HOSTS = "/etc/hosts"
_DMI = "/sys/class/dmi/id"


def collect_hostname(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `hostname` and `naming`."""
    hostname = read_text(source, "/proc/sys/kernel/hostname")
    if isinstance(hostname, Unknown):
        return {"hostname": hostname, "naming": Naming(addresses=hostname)}
    return {"hostname": hostname, "naming": _naming(source, hostname, deep=options.deep)}


def _naming(source: Source, hostname: str, *, deep: bool) -> Naming:
    """Return the addresses of the name.

    Resolvers usually read /etc/hosts first. A name server may take seconds, so only deep checks query a name
    server.
    """
    listed = parse_hosts(value_or(read_text(source, _HOSTS), ""), hostname)
    if listed:
        return Naming(addresses=listed, evidence=(file_ref(_HOSTS),))
    if not deep:
        reason = "not in /etc/hosts; name servers are queried only with --tier deep"
        return Naming(addresses=Unknown(Reason.NOT_RECORDED, reason))
    argv = ("getent", "ahosts", hostname)
    answer = source.run(argv).text()
    if isinstance(answer, Unknown) and answer.reason is Reason.ERROR:
        answer = ""  # getent ends with an error and no output if the name is unknown
    return Naming(addresses=map_known(answer, parse_ahosts), evidence=(command_ref(argv),))


def collect_dmi(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `dmi`: maker and model, as the firmware reports them."""
    values = {
        "system_vendor": _firmware_value(source, "sys_vendor"),
        "product_name": _firmware_value(source, "product_name"),
        "board_name": _firmware_value(source, "board_name"),
        "bios_version": _firmware_value(source, "bios_version"),
    }
    is_stated = any(isinstance(value, str) for value in values.values())
    return {"dmi": Dmi(**values, evidence=(file_ref(_DMI),) if is_stated else ())}


def _firmware_value(source: Source, name: str) -> str | Unknown:
    return read_text(source, f"{_DMI}/{name}") or Unknown(
        Reason.NOT_SUPPORTED, f"the firmware leaves {name} empty"
    )
