"""The launcher that the README shows as an example starts a program."""

from __future__ import annotations

import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from jinja2 import ChoiceLoader, DictLoader

from recipes.launch.launch_files import program_files
from recipes.launch.recipe import Command
from recipes.launch.script_parts import templates
from tests.support.launch_bench import NASTY, put_files

README = Path(__file__).parents[4] / "README.md"


@pytest.fixture
def example(monkeypatch):
    """Return the namespace of the example's module, whose template is installed."""
    section = README.read_text().partition("**A launcher, complete.**")[2]
    blocks = re.findall(r"(?:^(?: {4}.*)?\n)+", section, re.MULTILINE)
    module, template = [textwrap.dedent(block).strip() + "\n" for block in blocks if block.strip()][:2]
    engine = templates()
    loader = ChoiceLoader([DictLoader({"mine.sh.j2": template}), engine.loader])
    monkeypatch.setattr(engine, "loader", loader)
    names: dict[str, object] = {}
    exec(module, names)  # noqa: S102 - the text of the README
    return names


def test_the_launcher_of_the_readme_starts_a_program(example, make_recipe, launch_bench, tmp_path):
    recipe = make_recipe(command=Command(kind="script", target="train it.py", arguments=("$HOME",)))
    script = put_files(tmp_path / "launch", example["render"](recipe, program_files(recipe)))
    (tmp_path / "launch" / "plan.json").touch()
    if shutil.which("shellcheck"):
        checked = subprocess.run(("shellcheck", str(script)), capture_output=True, text=True, check=False)
        assert checked.stdout == ""
    launch_bench.stand_in("my-starter", 'test "$1 $2" = "-n 2" && exec "${@:3}"')
    words = example["start"](recipe, str(script.parent), NASTY)
    outcome = launch_bench.run(*words, cwd=tmp_path)
    assert outcome.exit_code == 0, outcome.words
    (call,) = outcome.calls
    assert call.arguments == ["-u", "train it.py", "$HOME", *NASTY]
