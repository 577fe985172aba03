"""Collect the machine's own name, its addresses, and its vendor and model."""

import msgspec

from probes.base.record import Reason, Unknown, command_ref, file_ref, items_of, known, map_known, value_or
from probes.collect.collecting import CollectOptions
from probes.facts import Dmi, Naming
from probes.parsers.host.network_files import parse_ahosts, parse_hosts
from probes.reading.merging import fill_unknown
from probes.reading.texts import outputs
from probes.sources.base import Source, read_text

_HOSTS = "/etc/hosts"
_DMI = "/sys/class/dmi/id"
_BMC = "/sys/class/ipmi/ipmi0/device/bmc/firmware_revision"
"""File with the major and minor version (Linux, drivers/char/ipmi/ipmi_msghandler.c)."""


def hostname_of(source: Source) -> str | Unknown:
    """Return the name of the host, as the kernel states it."""
    return read_text(source, "/proc/sys/kernel/hostname")


def collect_hostname(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `hostname` and `naming`."""
    hostname = hostname_of(source)
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
    """Return the field `dmi`: vendor, model and firmware, as the firmware reports them."""
    values = {
        "system_vendor": _firmware_value(source, "sys_vendor"),
        "product_name": _firmware_value(source, "product_name"),
        "board_name": _firmware_value(source, "board_name"),
        "bios_version": _firmware_value(source, "bios_version"),
    }
    is_stated = any(isinstance(value, str) for value in values.values())
    bmc = read_text(source, _BMC)
    refs = [file_ref(path) for path, is_read in ((_DMI, is_stated), (_BMC, known(bmc))) if is_read]
    dmi = Dmi(**values, bmc_version=bmc, evidence=tuple(refs))
    for kind in ("dmidecode", "hwloc", "ipmi"):
        for output in items_of(outputs(source, kind)):
            filled = fill_unknown(dmi, _given(kind, output.text))
            if filled is not dmi:
                dmi = msgspec.structs.replace(filled, evidence=(*dmi.evidence, output.evidence))
    return {"dmi": dmi}


def _given(kind: str, text: str) -> dict[str, object]:
    """Return the fields of `Dmi` that a given text states."""
    from probes.parsers.host import ipmi  # noqa: PLC0415 - only given texts need these parsers
    from probes.parsers.topology import dmidecode, hwloc_xml  # noqa: PLC0415

    if kind == "ipmi":
        return {"bmc_version": ipmi.parse_firmware(text)}
    dmi = (dmidecode if kind == "dmidecode" else hwloc_xml).parse_dmi(text)
    return {name: getattr(dmi, name) for name in dmi.__struct_fields__ if name != "evidence"}


def _firmware_value(source: Source, name: str) -> str | Unknown:
    return read_text(source, f"{_DMI}/{name}") or Unknown(
        Reason.NOT_SUPPORTED, f"the firmware leaves {name} empty"
    )
