"""Help texts are complete on a terminal of 80 columns."""

import pytest

from assistant.cli import command_line


@pytest.mark.parametrize("group", [[], ["advise"]])
def test_the_list_of_commands_is_not_cut_off(group, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert command_line([*group, "--help"]) == 0
    listed = capsys.readouterr().out.split("Commands:\n")[1].splitlines()
    assert len(listed) >= 6
    assert not [line for line in listed if line.endswith("...") or len(line) > 80]
