"""Test the table of actions: one meaning per key, a handler per action, a footer that fits."""

from __future__ import annotations

from collections import Counter

import pytest

from assistant.tui.actions import ACTIONS, actions_of, shown_key
from assistant.tui.app import RigtuneApp
from assistant.tui.fleet_app import FleetApp

SCREENS = FleetApp.SCREEN_ROWS
GLOBAL = [row for row in ACTIONS if not row.screens]
SCREEN_IDS = {row.id for row in SCREENS}


def test_ids_are_unique():
    assert not [
        name for name, number in Counter(row.id for row in (*ACTIONS, *SCREENS)).items() if number > 1
    ]


def test_global_keys_are_never_reused():
    keys = Counter(row.key for row in (*SCREENS, *GLOBAL) if row.key)
    assert not [key for key, number in keys.items() if number > 1]
    assert not {row.key for row in ACTIONS if row.screens} & set(keys)


@pytest.mark.parametrize("screen", sorted(SCREEN_IDS))
def test_a_key_has_one_meaning_per_screen(screen):
    keys = Counter(row.key for row in actions_of(screen) if row.key)
    assert not [key for key, number in keys.items() if number > 1]


def test_every_key_has_one_meaning_on_all_screens():
    meanings: dict[str, set[str]] = {}
    for row in ACTIONS:
        if row.key and row.key != "enter":  # enter has another meaning on each screen
            meanings.setdefault(row.key, set()).add(row.id)
    assert not {key: ids for key, ids in meanings.items() if len(ids) > 1}


def test_the_digits_of_later_screens_stay_free():
    used = {row.key for row in (*ACTIONS, *SCREENS)}
    assert {row.key for row in SCREENS} == {"0", "1", "3", "4", "5", "6"}
    assert not used & {"2", "7"}


@pytest.mark.parametrize("action", ACTIONS, ids=lambda row: row.id)
def test_every_action_has_its_handler(action):
    assert set(action.screens) <= SCREEN_IDS
    owners = [FleetApp.MODES[name] for name in action.screens] or [RigtuneApp]
    for owner in owners:
        assert callable(getattr(owner, f"action_{action.id}", None)), owner


@pytest.mark.parametrize("action", ACTIONS, ids=lambda row: row.id)
def test_every_action_explains_itself(action):
    assert action.title
    assert len(action.help) > len(action.title)


@pytest.mark.parametrize("screen", sorted(SCREEN_IDS))
def test_the_footer_fits_eighty_columns(screen):
    shown = [row for row in actions_of(screen) if row.key and row.footer]
    assert len(shown) <= 8
    # Textual puts a cell left and right of the key and one right of the words.
    assert sum(len(shown_key(row)) + len(row.title) + 3 for row in shown) <= 80


def test_every_screen_is_a_mode():
    assert set(FleetApp.MODES) == SCREEN_IDS
    assert set(RigtuneApp.MODES) == {row.id for row in RigtuneApp.SCREEN_ROWS}
