"""Test which files commands read: hooks in folders, launch files below folders, settings and logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.usecases import hooks, lint
from assistant.usecases.explain_files import is_packed, some
from assistant.usecases.hooks import Hook, judge_hooks
from assistant.usecases.lint import lint_files
from assistant.usecases.lint_settings import LintSettings, settings_of
from assistant.usecases.model_file import model_named
from probes.base.errors import InputError, UsageError
from recipes.lint.context import Context

THIS = {"version": "1.2", "commit": "abc"}


@pytest.mark.parametrize(
    ("head", "state", "words"),
    [
        ("# Written by rigtune 1.2 (commit abc)", "same", "written by 1.2 (commit abc)"),
        ("# Written by rigtune 1.1 (commit abc)", "differs", "written by 1.1 (commit abc); this is 1.2"),
        ("# Written by rigtune 1.2 (commit def)", "differs", "written by 1.2 (commit def); this is 1.2"),
        ("# Written by rigtune 1.2 (commit unknown)", "unknown", "by 1.2 (commit unknown); this is 1.2"),
        ("# Written by rigtune 1.1 (commit unknown)", "differs", "by 1.1 (commit unknown); this is 1.2"),
        ("# Written by rigtune.", "differs", "version of rigtune that did not write its number"),
        ("#!/bin/sh", "no hook", "which `export --provision` writes"),
    ],
)  # fmt: skip
def test_a_hook_is_compared_with_the_version_that_wrote_it(
    tmp_path: Path, head: str, state: str, words: str
) -> None:
    (tmp_path / "hook").write_text(f"{head}\n")
    (found,) = judge_hooks((tmp_path / "hook",), **THIS)
    assert (found.path, found.state) == (str(tmp_path / "hook"), state)
    assert words in found.words


def test_only_hooks_of_a_folder_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "hook").write_text("# Written by rigtune 1.2 (commit abc)\n")
    (tmp_path / "other").write_text("x")
    assert judge_hooks((tmp_path,), **THIS) == (
        Hook(path=str(tmp_path / "a" / "hook"), state="same", words="written by 1.2 (commit abc)"),
    )
    monkeypatch.setattr(hooks, "_MOST_FILES", 2)
    assert judge_hooks((tmp_path,), **THIS)
    monkeypatch.setattr(hooks, "_MOST_FILES", 1)
    with pytest.raises(InputError, match="contains more than 1 files"):
        judge_hooks((tmp_path,), **THIS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="contains no hook of rigtune"):
        judge_hooks((tmp_path / "empty",), **THIS)
    with pytest.raises(UsageError, match="needs a file or a folder"):
        judge_hooks((), **THIS)


def test_a_folder_has_at_most_so_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.sbatch", "b.sbatch", "c.py"):
        (tmp_path / name).write_text("#!/bin/bash\n#SBATCH --nodes=2\nsrun x\n")
    (tmp_path / "link.sbatch").symlink_to(tmp_path / "a.sbatch")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "d.sbatch").write_text("#!/bin/bash\n")
    monkeypatch.setattr(lint, "_MOST_FILES", 3)
    linted = lint_files((tmp_path,), Context())
    assert sorted(Path(name).name for name in linted.report.documents) == ["a.sbatch", "b.sbatch"]
    monkeypatch.setattr(lint, "_MOST_FILES", 2)
    with pytest.raises(InputError, match="contains more than 2 files"):
        lint_files((tmp_path,), Context())


def test_a_named_file_without_settings_has_none(tmp_path: Path) -> None:
    shared = tmp_path / "pyproject.toml"
    shared.write_text("[project]\nname = 'x'\n")
    assert settings_of(shared) == LintSettings()
    shared.write_text("[tool.rigtune.lint]\nignore = ['a']\n")
    assert settings_of(shared).ignore == ("a",)
    own = tmp_path / "rigtune-lint.toml"
    own.write_text("ignore = ['b']\n")
    assert settings_of(own).ignore == ("b",)


@pytest.mark.parametrize(
    ("error", "words"),
    [(OSError(5, "Input/output error"), "input/output error"), (OSError(), "error"), (OSError("x"), "error")],
)
def test_a_log_that_cannot_be_read_is_named_with_the_reason(error: OSError, words: str) -> None:
    def fail(_: int) -> bytes:
        raise error

    with pytest.raises(InputError, match=f"cannot read a.log: {words}"):
        some("a.log", fail)
    assert some("a.log", lambda _: None) == b""


def test_compressed_logs_are_recognised_by_their_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x1f\x8b\x08")
    (tmp_path / "b").write_bytes(b"text")
    assert [is_packed(str(tmp_path / name)) for name in ("a", "b", "none")] == [True, False, False]


@pytest.mark.parametrize("name", ["timm/resnet50.a1_in1k", "resnet50"])
def test_an_image_model_is_found_behind_its_owner(name: str) -> None:
    assert model_named(name).id == "resnet50"


@pytest.mark.parametrize("name", ["resnet50\n\x00", "résnet50", "x" * 300])
def test_a_name_of_no_model_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="there is no model"):
        model_named(name)
