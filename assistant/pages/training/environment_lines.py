"""Show the environment of a plan's processes beyond the variables that the plan exports."""

from assistant.pages.blocks import Column, Section, Table, Words, section, words
from recipes.environment.environment_plan import EffectiveVariable, EnvironmentPlan
from recipes.machine.cluster_records import Cluster


def environment_section(environment: EnvironmentPlan, cluster: Cluster) -> Section:
    """Return the platform, and every variable that the machine sets or that several owners set differently.

    Then follow the variables that only a measurement or the owner of the network can decide. The section is
    empty if there is no such variable and no platform.
    """
    notable = [row for row in environment.effective if row.origin != "plan" or row.overridden]
    undecided = _undecided(environment, cluster)
    if not notable and not environment.platform and not undecided:
        return section("", [])
    rows = tuple((words((row.name, "strong")), row.value, _origin(row)) for row in notable)
    table = [Table((Column(fixed=True), Column(most=40), Column()), rows)] if rows else []
    is_bare = environment.platform and not rows
    lines = [words(("no variable is set by the machine or its platform", "dim"))] if is_bare else []
    title = f"Environment  {environment.platform_title}" if environment.platform else "Environment"
    return section(title, [*table, *lines, *undecided], indent=2)


def _undecided(environment: EnvironmentPlan, cluster: Cluster) -> list[str]:
    """Return the variables that only a measurement or the owner of the network can decide."""
    lines = []
    if environment.experiments:
        names = ", ".join(f"{row.name}={row.value}" for row in environment.experiments)
        lines.append(f"may help, not set: {names}; `rigtune tune RECIPE --variables` measures")
    is_roce = cluster.transport == "roce" and cluster.nodes > 1
    if is_roce and all(row.name != "NCCL_IB_TC" for row in environment.effective):
        lines.append("NCCL_IB_TC, the class of RoCE traffic, is not known: see `rigtune advise network`")
    return lines


def _origin(row: EffectiveVariable) -> Words:
    text = words("set by this plan" if row.origin == "plan" else f"set by {row.origin}")
    if row.overridden:
        text += words((f"; it hides {', '.join(row.overridden)}", "caution"))
    if row.advised:
        text += words((f"; this plan recommends {row.advised}, but keeps the machine's value", "caution"))
    return text
