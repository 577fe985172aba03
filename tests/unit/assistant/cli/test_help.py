"""Test that help texts are complete on a terminal of 80 columns and name every table of `rigtune list`."""

import re
from pathlib import Path

import pytest

from assistant.cli import command_line
from assistant.usecases.listing import KINDS


@pytest.mark.parametrize("group", [[], ["advise"]])
def test_the_list_of_commands_is_not_cut_off(group, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert command_line([*group, "--help"]) == 0
    listed = capsys.readouterr().out.split("Commands:\n")[1].splitlines()
    assert len(listed) >= 6
    assert not [line for line in listed if line.endswith("...") or len(line) > 80]


def test_readme_and_help_name_every_table_of_list(capsys):
    assert command_line(["list", "--help"]) == 0
    # the usage line may be broken after a hyphen
    described = " ".join(capsys.readouterr().out.lower().split()).replace("- ", "-")
    readme = (Path(__file__).resolve().parents[4] / "README.md").read_text("utf-8")
    assert f"`rigtune list {'|'.join(KINDS)}`" in readme
    assert [kind for kind in KINDS if not re.search(rf"\b{kind}\b", described.split("options:")[0])] == []
