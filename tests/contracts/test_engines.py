"""Test that every engine of the table has the functions of the protocol, with the same parameters."""

from __future__ import annotations

import importlib
import inspect

import pytest

from assistant.engines.engine_table import ENGINES, Engine, EngineRow

DEMANDED = [name for name, _ in inspect.getmembers(Engine, inspect.isfunction) if not name.startswith("_")]


def test_the_protocol_requires_the_main_functions():
    assert {"nodes", "plan", "run"} <= set(DEMANDED)


@pytest.mark.parametrize("row", ENGINES, ids=lambda row: row.id)
def test_an_engine_has_the_functions_of_the_protocol(row: EngineRow):
    module = importlib.import_module(row.module)
    for name in DEMANDED:
        _, *wanted = inspect.signature(getattr(Engine, name)).parameters
        assert list(inspect.signature(getattr(module, name)).parameters) == wanted, name
    assert hasattr(module, "places") == row.knows_places
    assert bool(row.reach_hint) == row.joins_nodes
