"""Rows of environment variables and of platforms, as `recipes/data` contains them."""

import functools
from typing import Literal

from msgspec.structs import replace

from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from probes.catalogue.hardware import Vendor
from recipes.machine.cluster_records import Transport

Tier = Literal["required", "recommended", "default", "experiment", "workaround"]
"""Importance of a variable.

Without a `required` variable, the job fails. A `recommended` variable is a documented need; a `default` is
useful everywhere. A `workaround` avoids a fault that a fact shows. An `experiment` should be measured before
it is used, and a plan never exports it.
"""


class When(StrictRecord, kw_only=True):
    """Condition of a row; every given field must hold, and a field whose fact is unknown does not hold."""

    device: Literal["cuda", "cpu"] | None = None
    several_nodes: bool | None = None
    transports: tuple[Transport, ...] = ()
    """Transports between nodes, one of which the cluster has."""
    gpus: tuple[str, ...] = ()
    """Ids of GPU rows, one of which the cluster has."""
    architectures: tuple[str, ...] = ()
    vendors: tuple[Vendor, ...] = ()
    """Vendors of the GPUs; empty for all GPUs whose collectives are NCCL's or RCCL's if `device` is cuda."""
    programs: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    """Network interfaces, all of which exist."""
    files: tuple[str, ...] = ()
    """Paths of `PLATFORM_FILES` of `probes/collect/surroundings.py`, one of which exists."""
    environment: dict[str, str] = {}
    """Variables that already have these values."""
    facts: tuple[str, ...] = ()
    """Names of predicates (`predicates.py`), all of which hold."""


class Rule(StrictRecord, kw_only=True):
    """One variable: its condition, its value, the reason and the source."""

    variable: str
    value: str
    """Value; `{name}` is a word that a predicate returns."""
    when: When = When()
    tier: Tier = "recommended"
    why: str
    source: str = ""
    """Source; a platform's row without a source has the source of the platform."""
    date: str = ""
    nccl_since: str = ""
    """First version of NCCL to which the row applies, if later than the first version with the variable."""
    nccl_until: str = ""
    """First version of NCCL that no longer needs the row."""
    torch_since: str = ""
    torch_until: str = ""
    """First version of torch that no longer needs the row."""
    renamed: bool = False
    """True if torch renamed the variable, so that two rows exist; an unknown torch gets both names."""
    expires: str = ""
    """Event after which a person should remove the variable."""
    conflicts: tuple[str, ...] = ()
    """Variables, or variables with a value (`NAME=1`), that must not be set together with this one."""
    launchers: tuple[str, ...] = ()
    """Launchers that need the variable; empty for all."""
    preset_by: str = ""
    """Owner that already sets the variable: the path of a configuration file, or a plugin or image in words.
    """


class Platform(StrictRecord, kw_only=True):
    """A cloud's machine type, the facts by which it is recognised, and its documented variables."""

    id: str
    title: str
    providers: tuple[str, ...] = ()
    """Names of `Cloud.provider`; empty if the DMI table of these machines names no cloud."""
    machine_types: tuple[str, ...] = ()
    """Patterns for the machine type in the DMI table, one of which must match; empty for any type."""
    device_prefix: str = ""
    """Beginning of the names of all training ports; empty for any names."""
    when: When = When()
    """Further conditions of the platform."""
    applies: When = When(device="cuda", several_nodes=True)
    """Condition of all rules of the platform; the default excludes jobs on one node, which use no network."""
    extends: str = ""
    """Id of a platform whose rules apply here too, except those for variables that have a rule here."""
    source: str
    date: str
    notes: str = ""
    rules: tuple[Rule, ...] = ()


@functools.lru_cache(maxsize=1)
def load_rules() -> tuple[Rule, ...]:
    """Return the rows of `recipes/data/environment.toml`, which do not depend on the platform."""
    return load_rows("recipes", "rules", Rule, file="environment")


@functools.lru_cache(maxsize=1)
def load_platforms() -> tuple[Platform, ...]:
    """Return the platforms of `recipes/data/platforms`, each with the rules of the platform it extends."""
    rows = load_rows("recipes", "platforms", Platform)
    by_id = {row.id: row for row in rows}

    def rules(row: Platform) -> tuple[Rule, ...]:
        own = {rule.variable for rule in row.rules}
        return (*row.rules, *(rule for rule in inherited(row) if rule.variable not in own))

    def inherited(row: Platform) -> tuple[Rule, ...]:
        return rules(by_id[row.extends]) if row.extends else ()

    return tuple(_cited(row, rules(row)) for row in rows)


def _cited(row: Platform, rules: tuple[Rule, ...]) -> Platform:
    """Return the platform with these rules, each with a source and a date."""
    cited = tuple(
        replace(rule, source=rule.source or row.source, date=rule.date or row.date) for rule in rules
    )
    return replace(row, rules=cited)
