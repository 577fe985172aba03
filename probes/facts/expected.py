"""Records in the JSON of `rigtune probe` that are always unknown: no input of rigtune contains them."""

from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown


class Profile(Record, kw_only=True):
    """The hardware that a machine should have."""

    devices: Unknown = NOT_RECORDED
    ports: Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class Cluster(Record, kw_only=True):
    """The switch tree around a machine."""

    nodes: Unknown = NOT_RECORDED
    switches: Unknown = NOT_RECORDED
    tiers: Unknown = NOT_RECORDED
    nvlink_domains: Unknown = NOT_RECORDED
    nodes_per_domain: Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()
