"""Evaluation of the conditions of rows, and recognition of the platform."""

from fnmatch import fnmatchcase

from probes.base.record import items_of, known
from probes.base.versions import at_least
from probes.catalogue.hardware import Vendor
from probes.catalogue.nccl_variables import load_variables
from probes.facts import value_of
from probes.judging.rails import training_ports
from recipes.environment.environment_rows import Platform, Rule, When, load_platforms
from recipes.environment.job_situation import Situation
from recipes.environment.predicates import PREDICATES, Words


def words_of(when: When, situation: Situation) -> Words | None:
    """Return the words of all predicates of a condition; None if a part of the condition does not hold."""
    cluster, facts = situation.cluster, situation.facts
    names = {interface.name for interface in items_of(facts.interfaces)}
    parts = (
        when.device in (None, cluster.device),
        when.several_nodes in (None, cluster.nodes > 1),
        not when.transports or cluster.transport in when.transports,
        not when.gpus or cluster.gpu in when.gpus,
        not when.architectures or cluster.architecture in when.architectures,
        _is_of_vendor(when, cluster.vendor),
        not when.programs or situation.program in when.programs,
        names.issuperset(when.interfaces),
        not when.files or not set(when.files).isdisjoint(items_of(facts.cloud.files)),
        all(value_of(facts, name) == value for name, value in when.environment.items()),
    )
    if not all(parts):
        return None
    words: Words = {}
    for name in when.facts:
        answer = PREDICATES[name](situation)
        if answer is None:
            return None
        words |= answer
    return words


_WITH_NCCL: tuple[Vendor, ...] = ("nvidia", "amd")
"""Vendors whose library of collectives and allocator in torch read the variables of NCCL and of CUDA."""


def _is_of_vendor(when: When, vendor: Vendor) -> bool:
    """Return whether the row applies to GPUs of this vendor. Intel's HCCL reads no variable of NCCL."""
    wanted = when.vendors or (_WITH_NCCL if when.device == "cuda" else ())
    return not wanted or vendor in wanted


def fits_versions(rule: Rule, situation: Situation) -> bool:
    """Return whether the row applies to the versions of NCCL and torch.

    An unknown version is treated as the current version, so rows for older versions do not apply, with one
    exception: if torch is unknown, both names of a variable that torch renamed are exported. A variable that
    NCCL does not know yet has no effect and is left out.
    """
    if rule.renamed and situation.torch is None:
        return True
    return (
        _is_within(situation.nccl, rule.nccl_since, rule.nccl_until)
        and _is_within(situation.torch, rule.torch_since, rule.torch_until)
        # Only a known version needs the table of variables.
        and (situation.nccl is None or _is_within(situation.nccl, _first_version(rule.variable), ""))
    )


def _first_version(variable: str) -> str:
    """Return the first version of NCCL that knows the variable; empty if that is unknown."""
    row = load_variables().find(variable)
    return row.since or "" if row is not None and row.reader == "nccl" else ""


def _is_within(version: str | None, since: str, until: str) -> bool:
    if version is None:
        return not until
    is_late = not since or at_least(version, since) is True
    return is_late and not (until and at_least(version, until) is True)


def platform_of(situation: Situation) -> Platform | None:
    """Return the platform whose marks the facts show; None if they show none."""
    return next((row for row in load_platforms() if _is_recognised(row, situation)), None)


def _is_recognised(row: Platform, situation: Situation) -> bool:
    cloud, ports = situation.facts.cloud, items_of(training_ports(situation.facts))
    is_named = cloud.provider in row.providers if row.providers else not isinstance(cloud.provider, str)
    stated = cloud.machine_type if known(cloud.machine_type) else None
    is_type = not row.machine_types or (
        stated is not None and any(fnmatchcase(stated, name) for name in row.machine_types)
    )
    has_prefix = not row.device_prefix or (
        bool(ports) and all(port.name.startswith(row.device_prefix) for port in ports)
    )
    return is_named and is_type and has_prefix and words_of(row.when, situation) is not None
