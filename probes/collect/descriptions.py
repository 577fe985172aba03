"""Collect a person's descriptions of the expected machine and its cluster."""

from __future__ import annotations

import msgspec

from probes.base.record import Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import Cluster, Profile
from probes.reading.outputs import outputs
from probes.sources.base import Source


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `profile` and `cluster`: the first of each that was given."""
    return {"profile": _profile(source), "cluster": _cluster(source)}


def _profile(source: Source) -> Profile:
    given = outputs(source, "machine-profile")
    if isinstance(given, Unknown):
        return Profile()
    # Only given texts need this module.
    from probes.parsers.topology.machine_profile import parse_machine_profile  # noqa: PLC0415

    return msgspec.structs.replace(parse_machine_profile(given[0].text), evidence=(given[0].evidence,))


def _cluster(source: Source) -> Cluster:
    given = outputs(source, "cluster-model")
    if isinstance(given, Unknown):
        return Cluster()
    from probes.parsers.fabric.cluster_model import parse_cluster  # noqa: PLC0415 - likewise

    return msgspec.structs.replace(parse_cluster(given[0].text), evidence=(given[0].evidence,))
