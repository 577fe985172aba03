"""Test that the example of the page on policies is valid, and that the page names every field of a policy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import msgspec
import pytest

import assistant
from assistant.formats.schemas import POLICY, schema_for
from probes.base.toml_text import parse_toml
from probes.catalogue.hardware import load_catalogue
from probes.judging.policies.file import load_policy
from probes.judging.policies.host_sections import for_host
from probes.judging.policies.learning import learned_policy
from probes.judging.policies.policy import SiteCheck
from tests.support.machines import h100_node

PAGE = (Path(assistant.__file__).parent / "docs" / "policy.md").read_text("utf-8")
(EXAMPLE,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
SCHEMA = json.loads(schema_for(POLICY))


def plain(text: str) -> object:
    return json.loads(msgspec.json.encode(parse_toml(text, "example")))


def test_the_example_is_a_policy() -> None:
    policy = load_policy(EXAMPLE, "example", load_catalogue())
    jsonschema.validate(plain(EXAMPLE), SCHEMA)
    assert for_host(policy, "gpu-b03").gpu.power_limit_w == 400
    assert for_host(policy, "n1.test.example").host.services == ()


def test_every_field_of_a_site_check_is_explained() -> None:
    assert [name for name in SiteCheck.__struct_fields__ if f"`{name}`" not in PAGE] == []


def test_a_learned_policy_conforms_to_the_schema() -> None:
    learned = learned_policy(h100_node(), load_catalogue())
    jsonschema.validate(json.loads(msgspec.json.encode(learned)), SCHEMA)


@pytest.mark.parametrize("wrong", ["gpus = {}", "[gpu]\ncuont = 8", "[[hosts]]\ngpu = {count = 8}"])
def test_a_mistake_does_not_conform(wrong: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(plain(wrong), SCHEMA)
