"""Each rule has an example: the bad text has the mistake, and the good text does not have it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from recipes.lint.context import Context
from recipes.lint.rule_table import Example, help_link, load_examples, load_rules
from tests.support.lint_script_texts import CONTEXT_MISTAKES
from tests.support.linting import rule_ids

_CASES = Path(__file__).parent / "cases"
_CONTEXTS = {
    (path.parent / "rule").read_text("utf-8").strip(): msgspec.json.decode(path.read_bytes(), type=Context)
    for path in sorted(_CASES.glob("*/context.json"))
} | {rule_id: context for rule_id, _, _, context in CONTEXT_MISTAKES}
_OF_ONE_FILE = [example for example in load_examples().values() if "," not in example.name]


def test_every_rule_has_an_example():
    assert load_examples().keys() == load_rules().keys()


@pytest.mark.parametrize("example", _OF_ONE_FILE, ids=lambda example: example.id)
def test_only_the_bad_text_has_the_mistake(example: Example):
    context = _CONTEXTS.get(example.id) if example.when else None
    if example.id != "hostfile-refused":  # the rule needs the command that reads the list
        assert example.id in rule_ids(example.name, example.bad, context=context)
    if example.id != "machine-shm":  # the correction is a change of the machine
        assert example.id not in rule_ids(example.name, example.good, context=context)


def test_links_are_addresses():
    links = [help_link(rule) for rule in load_rules().values()]
    assert all(link is None or link.startswith("https://") for link in links)
    assert sum(link is not None for link in links) > len(links) * 0.9
