"""Choice of the environment variables of a job, by the rows of `recipes/data`.

Few variables are set. A setting that the machine already has (in a configuration file, a container's
environment or a platform's preset) is never repeated. Only a `required` row or a `workaround` replaces a
setting of a file or of a container, and no row replaces a preset.
"""

import msgspec

from probes.base.record import items_of, known
from probes.facts import MachineFacts
from recipes.environment.binding import binding_words, host_settings, rank_bindings
from recipes.environment.conditions import fits_versions, platform_of, words_of
from recipes.environment.effective import effective_view
from recipes.environment.environment_plan import EnvironmentPlan, EnvVar
from recipes.environment.environment_rows import Platform, Rule, load_rules
from recipes.environment.job_situation import Situation

_BINDING = ("required", "workaround")
"""Tiers that replace a setting of a configuration file or of a container."""


class _Choice:
    """Variables that rows have chosen: exported, offered as experiments, already preset, or only advised."""

    def __init__(self) -> None:
        self.exported: dict[str, EnvVar] = {}
        self.experiments: dict[str, EnvVar] = {}
        self.presets: dict[str, EnvVar] = {}
        self.advised: dict[str, str] = {}


def environment_of(situation: Situation) -> tuple[tuple[EnvVar, ...], EnvironmentPlan]:
    """Return the variables that the scripts export, and all other decisions about the environment."""
    platform = platform_of(situation)
    standing = _standing(situation.facts)
    choice = _Choice()
    for rule, owner in (*_platform_rules(platform, situation), *((rule, "") for rule in load_rules())):
        _place(rule, owner, situation, standing, choice)
    presets = {name: variable.value for name, variable in choice.presets.items()}
    exported = tuple(_without_conflicts(choice, {**presets, **standing}))
    bindings = rank_bindings(situation)
    return exported, EnvironmentPlan(
        platform=platform.id if platform else "",
        platform_title=platform.title if platform else "",
        experiments=tuple(
            variable for name, variable in choice.experiments.items() if name not in choice.exported
        ),
        effective=effective_view(
            exported, items_of(situation.facts.environment), tuple(choice.presets.values()), choice.advised
        ),
        bindings=bindings,
        binding_words=binding_words(bindings, situation.torch),
        host=host_settings(situation, bindings),
    )


def _platform_rules(platform: Platform | None, situation: Situation) -> tuple[tuple[Rule, str], ...]:
    """Return the platform's rules, each with the owner that presets its variable; an empty text for none.

    The result is empty if the platform's rules do not apply to this job.
    """
    if platform is None or words_of(platform.applies, situation) is None:
        return ()
    return tuple((rule, rule.preset_by) for rule in platform.rules)


def _standing(facts: MachineFacts) -> dict[str, str]:
    """Return the settings that every process of the job gets without the plan, by name.

    These are the settings in NCCL's configuration files and, in a container, in the environment. The
    environment of a shell on a host does not count, because other shells and other nodes may lack it.
    """
    runtime = facts.container.runtime
    is_image = known(runtime) and runtime is not None
    return {
        variable.name: variable.value
        for variable in items_of(facts.environment)
        if variable.is_effective and (is_image or variable.origin != "environment")
    }


def _place(
    rule: Rule,
    owner: str,
    situation: Situation,
    standing: dict[str, str],
    choice: _Choice,
) -> None:
    """Add the variable of one row to the choice, if the row applies and no earlier row sets the variable."""
    if rule.variable in choice.exported or rule.variable in choice.presets:
        return
    words = words_of(rule.when, situation)
    if words is None or not fits_versions(rule, situation):
        return
    variable = _variable(rule, words)
    if rule.tier == "experiment":
        choice.experiments.setdefault(rule.variable, variable)
    elif standing.get(rule.variable) == variable.value or (
        rule.variable in standing and rule.tier not in _BINDING
    ):
        choice.advised.setdefault(rule.variable, variable.value)
    elif owner and _is_preset(owner, situation.facts):
        choice.presets[rule.variable] = msgspec.structs.replace(variable, source=owner)
    else:
        choice.exported[rule.variable] = variable


def _is_preset(owner: str, facts: MachineFacts) -> bool:
    """Return whether the owner sets its variables.

    An owner that is a configuration file of a cloud's image is assumed to set its variables only while NCCL's
    files are unread; files that were read count instead, because a container may not mount the file. Plugins
    and platforms always set their variables.
    """
    return not owner.startswith("/") or not known(facts.environment)


def _variable(rule: Rule, words: dict[str, str]) -> EnvVar:
    limits = (rule.nccl_since and f"from {rule.nccl_since}", rule.nccl_until and f"before {rule.nccl_until}")
    return EnvVar(
        name=rule.variable,
        value=rule.value.format(**words),
        why=f"{rule.why.format(**words)}{f'; no longer needed with {rule.expires}' if rule.expires else ''}",
        source=rule.source,
        date=rule.date,
        tier=rule.tier,
        nccl=" ".join(filter(None, limits)),
        expires=rule.expires,
        conflicts=rule.conflicts,
        launchers=rule.launchers,
    )


def _without_conflicts(choice: _Choice, standing: dict[str, str]) -> list[EnvVar]:
    """Return the exported variables without those that contradict a setting that stays.

    A `required` variable or a `workaround` stays, and the variables of other rows that contradict it are left
    out.
    """
    ordered = sorted(choice.exported.values(), key=lambda variable: variable.tier not in _BINDING)
    standing = {name: value for name, value in standing.items() if name not in choice.exported}
    settings = {*standing, *(f"{name}={value}" for name, value in standing.items())}
    kept: list[EnvVar] = []
    for variable in ordered:
        own = {variable.name, f"{variable.name}={variable.value}"}
        is_free = settings.isdisjoint(variable.conflicts) and all(
            own.isdisjoint(other.conflicts) for other in kept
        )
        if is_free or variable.tier in _BINDING:
            kept.append(variable)
            settings |= own
    return [variable for variable in choice.exported.values() if variable in kept]
