"""Test that the published JSON Schemas are current, and that the output of commands conforms to them.

The output must also have the field names on which other programs rely.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from assistant.formats.json_answer import json_answer
from assistant.formats.schemas import FOLDER, PLAN_FILE, POLICY, RECORDS, schema_for
from assistant.usecases.advise import advise_install
from assistant.usecases.check import check_machine
from probes.base.errors import UsageError
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from probes.judging.affinity import report_of
from recipes.advice.advice_lines import Subject
from recipes.launch.plan_json import plan_file
from tests.support.advice_cases import CASES, advised
from tests.support.machines import cpu_box, evidence_of, h100_node

MACHINES = {"h100": h100_node(), "cpu": cpu_box(), "unknown": MachineFacts()}


def verdict_json(facts: MachineFacts) -> Any:
    *_, finished = check_machine(evidence_of(facts))
    return json.loads(json_answer(finished.result))  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", [*RECORDS, POLICY, PLAN_FILE])
def test_published_schema_is_current(command: str) -> None:
    assert (FOLDER / f"{command}.json").read_bytes() == schema_for(command), (
        "run python -m assistant.formats.schemas"
    )


def test_nothing_else_is_published() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted([*RECORDS, POLICY, PLAN_FILE])


@pytest.mark.parametrize("command", [*RECORDS, POLICY, PLAN_FILE])
def test_schema_is_a_schema(command: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_for(command)))


def test_unknown_command_has_no_schema() -> None:
    with pytest.raises(UsageError, match="'probes'"):
        schema_for("probes")


@pytest.mark.parametrize("name", MACHINES)
def test_probe_conforms(name: str) -> None:
    jsonschema.validate(json.loads(json_answer(report_of(MACHINES[name]))), json.loads(schema_for("probe")))


@pytest.mark.parametrize("name", MACHINES)
def test_check_conforms(name: str) -> None:
    jsonschema.validate(verdict_json(MACHINES[name]), json.loads(schema_for("check")))


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("subject", CASES)
def test_advice_conforms(name: str, subject: Subject) -> None:
    answer = json.loads(json_answer(advised(subject, MACHINES[name])))
    jsonschema.validate(answer, json.loads(schema_for("advise")))
    assert set(answer) >= {"schema_version", "subject", "machine", "lines", "documents"}


def test_installation_advice_conforms() -> None:
    advice = advise_install(h100_node(), load_catalogue(), operating_system="Ubuntu 24.04")
    jsonschema.validate(json.loads(json_answer(advice)), json.loads(schema_for("advise-install")))


def test_the_plan_of_an_export_conforms(make_recipe) -> None:
    plan = json.loads(plan_file(make_recipe()).text)
    jsonschema.validate(plan, json.loads(schema_for(PLAN_FILE)))
    del plan["degrees"]["fsdp"]
    with pytest.raises(jsonschema.ValidationError, match="fsdp"):
        jsonschema.validate(plan, json.loads(schema_for(PLAN_FILE)))


def test_titles_name_the_command() -> None:
    assert json.loads(schema_for("advise-install"))["title"] == "rigtune advise install --format json"
    assert json.loads(schema_for("plan-nodes"))["title"] == "rigtune plan --nodes --format json"


def test_a_missing_field_does_not_conform() -> None:
    incomplete = json.loads(json_answer(report_of(h100_node())))
    del incomplete["gpus"][0]["memory_bytes"]
    with pytest.raises(jsonschema.ValidationError, match="memory_bytes"):
        jsonschema.validate(incomplete, json.loads(schema_for("probe")))


def test_names_that_others_rely_on() -> None:
    probe = json.loads(json_answer(report_of(h100_node())))
    assert (probe["schema_version"], probe["hostname"]) == (1, "node17")
    assert (
        probe["gpus"][0].items()
        >= {"index": 0, "name": "NVIDIA H100 80GB HBM3", "driver_version": "550.54.15"}.items()
    )
    assert probe["gpus"][0].items() >= {"memory_bytes": 81559 * 2**20, "pci_bus_id": "0000:19:00.0"}.items()
    assert (
        probe["nics"][0].items()
        >= {"name": "mlx5_0", "link_layer": "InfiniBand", "state": "ACTIVE", "rate_gbps": 400.0}.items()
    )
    assert (
        probe["links"][0].items() >= {"a": "GPU0", "b": "GPU1", "kind": "NVLINK", "nvlink_count": 18}.items()
    )
    check = verdict_json(h100_node())
    assert (check["schema_version"], check["verdict"]) == (1, "PASS")
    assert set(check["rigtune"]) == set(probe["rigtune"]) == {"version", "commit"}
    wanted = {
        "check_id",
        "subject",
        "status",
        "summary",
        "expected",
        "observed",
        "why",
        "remedy",
        "evidence",
        "waived",
    }
    assert all(set(finding) >= wanted for finding in check["findings"])
