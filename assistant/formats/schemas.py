"""Generate the JSON Schemas of the output of `--format json`, and of policies, from the records themselves.

The schemas are published in `assistant/docs/schemas/`; `python -m assistant.formats.schemas` rewrites them.
"""

import importlib
import inspect
from pathlib import Path
from typing import Any

import msgspec

from assistant.formats.json_answer import FIELD
from probes.base.errors import UsageError
from probes.base.record import to_json

RECORDS: dict[str, tuple[str, str]] = {
    "probe": ("probes.judging.affinity", "ProbeReport"),
    "check": ("probes.judging.verdict", "Verdict"),
    "bench": ("probes.bench.bench_report", "BenchReport"),
    "bench-find-bad-hosts": ("assistant.usecases.bench.find_bad_nodes", "HostSearch"),
    "plan": ("recipes.planning.plan", "Plan"),
    "plan-nodes": ("recipes.planning.what_if", "ScalingCurve"),
    "plan-sensitivity": ("recipes.planning.what_if", "Sensitivity"),
    "plan-from-script": ("recipes.launch.imports.better_plan", "ScriptPlan"),
    "plan-compare": ("recipes.planning.what_if", "Comparison"),
    "export": ("assistant.usecases.export", "Exported"),
    "import": ("recipes.launch.imports.adopted", "Imported"),
    "tune": ("recipes.tuning.tune_result", "TuneResult"),
    "verify": ("recipes.launch.verification", "Verification"),
    "verify-dry-run": ("recipes.launch.verification", "VerifyPlan"),
    "plan-why-not": ("recipes.strategies.verdicts", "StrategyAnswers"),
    "list-strategies": ("recipes.strategies.strategy_table", "StrategyList"),
    "predict": ("recipes.cases.prediction", "PredictReport"),
    "predict-collectives": ("assistant.usecases.predict", "CollectiveReport"),
    "explain": ("probes.logs.diagnosis", "Explanation"),
    "fleet-check": ("probes.fleet.fleet_result", "FleetResult"),
    "fleet-capture": ("assistant.usecases.fleet.capture_fleet", "FleetCapture"),
    "fleet-compare": ("probes.fleet.run_differences", "RunComparison"),
    "fleet-accept": ("probes.fleet.acceptance", "Acceptance"),
    "fleet-history": ("assistant.usecases.fleet.fleet_store", "History"),
    "fleet-schedule": ("probes.fleet.check_schedule", "Schedule"),
    "lint": ("recipes.lint.finding", "LintReport"),
    "diff": ("probes.compare.differences", "Comparison"),
    "advise": ("recipes.advice.advice_lines", "Advice"),
    "advise-install": ("recipes.advice.installation", "InstallationAdvice"),
}
"""The module and name of the record that each command, or command and option, prints."""
POLICY = "policy"
"""Name of the schema of policy files, with which an editor completes and checks them."""
PLAN_FILE = "plan-file"
"""Name of the schema of plan.json in an export folder."""

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas"


def schema_for(command: str) -> bytes:
    """Return the schema of a command's JSON, as the bytes of its published file. Raises UsageError."""
    if command == POLICY:
        return _policy_schema()
    if command == PLAN_FILE:
        return _plan_file_schema()
    if command not in RECORDS:
        raise UsageError(f"no schema for {command!r}", f"schemas exist for {', '.join(RECORDS)}")
    module, name = RECORDS[command]
    schema = msgspec.json.schema(getattr(importlib.import_module(module), name))
    schema["$defs"][name]["properties"][FIELD] = {
        "description": "The rigtune that wrote the answer.",
        "type": "object",
        "properties": {"version": {"type": "string"}, "commit": {"type": "string"}},
        "required": ["version", "commit"],
    }
    for definition in schema["$defs"].values():
        _tighten(definition)
    # A subcommand follows its command without dashes; an option follows with dashes.
    is_subcommand = command.startswith(("advise-", "fleet-"))
    words = command.replace("-", " " if is_subcommand else " --", 1)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"rigtune {words} --format json",
    }
    return to_json(head | schema)


def _policy_schema() -> bytes:
    """Return the schema of a policy. A section for hosts has the tables of a policy, and names."""
    from probes.judging.policies.policy import Policy  # noqa: PLC0415

    schema = msgspec.json.schema(Policy)
    fields = schema["$defs"]["Policy"]["properties"]
    tables = {name: value for name, value in fields.items() if name not in ("hosts", "schema_version")}
    names = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}
    fields["hosts"]["items"] = {
        "type": "object",
        "properties": {"names": names, **tables},
        "required": ["names"],
        "additionalProperties": False,
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "rigtune policy file (TOML)"}
    return to_json(head | schema)


def _plan_file_schema() -> bytes:
    """Return the schema of plan.json, which the user's own program reads."""
    from recipes.launch.placeholders import ResolvedPlan  # noqa: PLC0415

    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rigtune plan.json of an export folder",
    }
    return to_json(head | msgspec.json.schema(ResolvedPlan))


def _tighten(definition: dict[str, Any]) -> None:
    """Make every field of a record required, except in Unknown, which leaves out an empty `detail`."""
    if "properties" in definition and definition["title"] != "Unknown":
        definition["required"] = list(definition["properties"])
    if "description" in definition:
        definition["description"] = inspect.cleandoc(definition["description"])


def publish(folder: Path = FOLDER) -> None:
    """Write all schemas into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for command in (*RECORDS, POLICY, PLAN_FILE):
        (folder / f"{command}.json").write_bytes(schema_for(command))


if __name__ == "__main__":
    publish()
