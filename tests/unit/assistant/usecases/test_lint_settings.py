"""Test from which file `rigtune lint` reads its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.usecases.lint_settings import settings_in

OWN = 'ignore = ["own"]'
SHARED = '[tool.rigtune.lint]\nignore = ["shared"]'


@pytest.mark.parametrize(
    ("files", "ignored"),
    [
        ({}, ()),
        ({"rigtune-lint.toml": OWN}, ("own",)),
        ({"pyproject.toml": SHARED}, ("shared",)),
        ({"rigtune-lint.toml": OWN, "pyproject.toml": SHARED}, ("own",)),
        # The search passes over a pyproject.toml that has no table of lint or is not valid TOML.
        ({"pyproject.toml": '[tool.rigtune]\nname = "x"', "../rigtune-lint.toml": OWN}, ("own",)),
        ({"pyproject.toml": "[tool.ruff\n", "../rigtune-lint.toml": OWN}, ("own",)),
        # The root of a repository ends the search.
        ({".git": "", "../rigtune-lint.toml": OWN}, ()),
    ],
)
def test_the_nearest_file_with_settings_decides(
    files: dict[str, str], ignored: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "job"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    assert settings_in(folder).ignore == ignored
