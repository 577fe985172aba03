"""Test `rigtune export --check` and the options of `export --provision` through the command line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from assistant.cli import command_line
from assistant.formats import build

COMMIT = "0123456789ab"


@pytest.fixture(autouse=True)
def _commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "commit", lambda: COMMIT)


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    """Return a folder with hooks of two kinds, one kind in a subfolder, and two files that are no hooks."""
    folder = tmp_path / "etc"
    for kind, where in (("slurm-health", folder), ("node-problem-detector", folder / "npd")):
        assert command_line(["export", "--provision", kind, "--expect-gpus", "8", "--out", str(where)]) == 0
    (folder / "passwd").write_text("user:x:1000:1000:user:/home/user:/bin/bash\n")
    (folder / "image.bin").write_bytes(b"\xff\x00" * 3000)
    return folder


def checked(capsys: pytest.CaptureFixture[str], *files: Path) -> tuple[int, dict[str, str]]:
    """Return the exit code, and the state of each file by its name."""
    capsys.readouterr()
    code = command_line(["export", "--check", *map(str, files)])
    lines = capsys.readouterr().out.splitlines()
    return code, {Path(line[9:].split()[0]).name: line[:9].strip() for line in lines}


def edit(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def test_hooks_of_this_version_are_the_same(hooks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, states = checked(capsys, hooks)
    assert (code, set(states.values())) == (0, {"same"})
    assert set(states) == {"rigtune-health", "rigtune-npd", "rigtune-npd.json"}


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        (COMMIT, "ba9876543210", ("differs", 1)),
        (f"rigtune {build.version()} (", "rigtune 0.0.9 (", ("differs", 1)),
        (
            f"# Written by rigtune {build.version()} (commit {COMMIT}).",
            "# Written by rigtune.",
            ("differs", 1),
        ),
        (COMMIT, "unknown", ("unknown", 3)),
        (f"{build.version()} (commit {COMMIT})", "0.0.9 (commit unknown)", ("differs", 1)),
    ],
)
def test_a_hook_of_another_version_is_reported(
    hooks: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, answer: tuple[str, int]
) -> None:
    state, code = answer
    edit(hooks / "rigtune-health", old, new)
    assert checked(capsys, hooks) == (
        code,
        {"rigtune-health": state, "rigtune-npd": "same", "rigtune-npd.json": "same"},
    )


def test_hooks_are_not_compared_without_a_known_commit(
    hooks: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "commit", lambda: "unknown")
    code, states = checked(capsys, hooks)
    assert (code, set(states.values())) == (3, {"unknown"})


def test_a_named_file_that_is_no_hook_is_reported(hooks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, states = checked(capsys, hooks / "passwd", hooks / "image.bin", hooks / "rigtune-health")
    assert (code, states) == (
        1,
        {"passwd": "no hook", "image.bin": "no hook", "rigtune-health": "same"},
    )


def test_files_that_cannot_be_read_never_count_as_the_same(
    hooks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    wrong = {
        (): "--check needs a file or a folder",
        (tmp_path / "empty",): "contains no hook of rigtune",
        (hooks, tmp_path / "absent"): "cannot read",
        (tmp_path / "pipe",): "named pipe",
    }
    for files, words in wrong.items():
        assert command_line(["export", "--check", *map(str, files)]) == 2
        assert words in capsys.readouterr().err
    (hooks / "loop").symlink_to(hooks / "loop")
    os.mkfifo(hooks / "pipe")
    assert checked(capsys, hooks)[0] == 0


def test_a_header_far_below_or_hostile_proves_nothing(
    hooks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = f"Written by rigtune {build.version()} (commit {COMMIT})"
    (hooks / "far").write_text("\n" * 5000 + header)
    (hooks / "long").write_text("Written by rigtune " + "1" * 4000 + f" (commit {COMMIT})")
    (hooks / "escape").write_text(f"Written by rigtune \x1b[31m (commit {COMMIT})")
    names = ("far", "long", "escape")
    code, states = checked(capsys, *(hooks / name for name in names))
    assert (code, states) == (1, dict.fromkeys(names, "no hook"))


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--check", "--provision", "systemd", "x"), "takes only files and folders"),
        (("--check", "--gpus", "8", "x"), "takes only files and folders"),
        (("--provision", "systemd", "--expect-gpus", "8", "--program", "/opt/x/rigtune"), "--rigtune /opt/x"),
        (("a.toml", "b.toml"), "2 recipes are too many"),
        (("--nodes", "2", "a.toml"), "--nodes needs --provision"),
    ],
)
def test_contradictory_options_are_refused(
    words: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["export", *words]) == 2
    assert error in capsys.readouterr().err


def test_the_path_of_rigtune_reaches_the_hook(tmp_path: Path) -> None:
    given = ("--rigtune", "/opt/rigtune.pyz", "--expect-gpus", "8", "--out", str(tmp_path))
    assert command_line(["export", "--provision", "slurm-prolog", *given]) == 0
    assert "rigtune=/opt/rigtune.pyz\n" in (tmp_path / "rigtune-prolog").read_text()
    shutil.rmtree(tmp_path)
