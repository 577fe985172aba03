"""The resolved plan as JSON, which a training program finds through `RIGTUNE_RECIPE`."""

import msgspec

from recipes.launch.recipe import Artifact, Recipe, resolved_plan

PLAN_FILE = "plan.json"


def plan_file(recipe: Recipe) -> Artifact:
    """Return plan.json, with one decision per line."""
    text = msgspec.json.format(msgspec.json.encode(resolved_plan(recipe)), indent=2).decode()
    return Artifact(path=PLAN_FILE, text=f"{text}\n")
