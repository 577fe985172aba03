"""Plans of well-known models on test machines."""

from __future__ import annotations

from probes.facts import MachineFacts
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.planning.plan import Plan
from recipes.planning.planner import default_workload, make_plan
from tests.support.clusters import figure, h100_cluster

FACTS = MachineFacts()


def plan(model_id: str, cluster=None, pins: Pins | None = None, headroom=None, **choices) -> Plan:
    cluster = cluster or h100_cluster()
    workload = default_workload(find_model(model_id), cluster, **choices)
    return make_plan(workload, cluster, FACTS, pins or Pins(), headroom=headroom)


def free_of(made: Plan) -> float:
    """Return the part of the memory that the plan leaves free, as its decision states it."""
    shown = [decision.value for decision in made.decisions if decision.name == "memory_headroom"]
    return float(shown[0].removesuffix(" %")) / 100 if shown else 0.0


RATES = {name: figure(794e12) for name in ("bf16", "fp16", "fp32", "tf32", "fp8")}
