"""Show the environment of a plan's processes beyond the variables that the plan exports."""

from assistant.pages.blocks import Column, Section, Table, Words, section, words
from recipes.environment.environment_plan import EffectiveVariable, EnvironmentPlan


def environment_section(environment: EnvironmentPlan) -> Section:
    """Return the platform, and every variable that the machine sets or that two owners set differently.

    The section is empty on a machine without such variables.
    """
    notable = [row for row in environment.effective if row.origin != "plan" or row.overridden]
    if not notable and not environment.platform:
        return section("", [])
    rows = tuple((words((row.name, "strong")), row.value, _origin(row)) for row in notable)
    table = [Table((Column(fixed=True), Column(most=40), Column()), rows)] if rows else []
    lines = [words(("no variable is set by the machine or its platform", "dim"))] if not rows else []
    title = f"Environment  {environment.platform_title}" if environment.platform else "Environment"
    return section(title, [*table, *lines], indent=2)


def _origin(row: EffectiveVariable) -> Words:
    text = words("set by this plan" if row.origin == "plan" else f"set by {row.origin}")
    if row.overridden:
        text += words((f"; it hides {', '.join(row.overridden)}", "caution"))
    if row.advised:
        text += words((f"; this plan recommends {row.advised}, but keeps the machine's value", "caution"))
    return text
