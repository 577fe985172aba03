"""Detect the cloud provider by names in the DMI table.

No metadata service is asked: rigtune uses no network.
"""

from __future__ import annotations

from probes.base.evidence import file_ref
from probes.base.record import Reason, Record, Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import Cloud
from probes.sources.base import Source, read_text

_DMI = "/sys/class/dmi/id"


class _Mark(Record, kw_only=True):
    field: str
    text: str
    """Beginning of the value."""
    provider: str
    names_machine_type: bool = False
    """True if `product_name` is the machine type."""


_MARKS = (
    _Mark(field="sys_vendor", text="Amazon EC2", provider="aws", names_machine_type=True),
    _Mark(field="product_name", text="Google Compute Engine", provider="gcp"),
    _Mark(field="chassis_asset_tag", text="7783-7084-3265-9085-8269-3286-77", provider="azure"),
    _Mark(field="chassis_asset_tag", text="OracleCloud.com", provider="oci"),
    _Mark(field="product_name", text="Alibaba Cloud ECS", provider="alibaba"),
    _Mark(field="chassis_vendor", text="IBM:Cloud Compute Server", provider="ibm"),
    _Mark(field="sys_vendor", text="DigitalOcean", provider="digitalocean"),
    _Mark(field="sys_vendor", text="Hetzner", provider="hetzner"),
    _Mark(field="sys_vendor", text="Scaleway", provider="scaleway", names_machine_type=True),
    _Mark(field="sys_vendor", text="Vultr", provider="vultr"),
    _Mark(field="sys_vendor", text="UpCloud", provider="upcloud"),
    _Mark(field="product_name", text="OpenStack", provider="openstack"),
)
"""DMI values that identify a provider.

Sources: cloud-init 0066a6b, tools/ds-identify; for Amazon systemd, src/basic/virt.c; for IBM public node
agents. Read 2026-11.
"""


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `cloud`."""
    values = {mark.field: read_text(source, f"{_DMI}/{mark.field}") for mark in _MARKS}
    mark = next((mark for mark in _MARKS if _matches(values[mark.field], mark.text)), None)
    evidence = tuple(
        file_ref(f"{_DMI}/{name}") for name, value in values.items() if not isinstance(value, Unknown)
    )
    if mark is not None:
        return {
            "cloud": Cloud(
                provider=mark.provider, machine_type=_machine_type(source, mark), evidence=evidence
            )
        }
    # A known vendor rules all of them out; an unknown vendor leaves the provider unknown.
    vendor = values["sys_vendor"]
    provider = vendor if isinstance(vendor, Unknown) else None
    return {"cloud": Cloud(provider=provider, machine_type=provider, evidence=evidence)}


def _matches(value: str | Unknown, text: str) -> bool:
    return not isinstance(value, Unknown) and value.startswith(text)


def _machine_type(source: Source, mark: _Mark) -> str | Unknown:
    if not mark.names_machine_type:
        return Unknown(Reason.NOT_SUPPORTED, "only the provider's metadata service names the machine type")
    return read_text(source, f"{_DMI}/product_name")
