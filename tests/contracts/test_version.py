"""Test that the installed program prints its version and commit."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from assistant.formats import build

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("module", ["rigtune", "assistant"])
def test_the_version_names_the_commit(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"rigtune \d+\.\d+\S* \(commit ([0-9a-f]{12}|unknown)\)\n", done.stdout)


def test_a_checkout_names_the_commit_that_git_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cover a loose reference, a packed reference, a worktree and a detached HEAD."""

    def git(*words: str, folder: Path = tmp_path) -> str:
        argv = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words)
        return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    def named(folder: Path) -> str:
        monkeypatch.setattr(build, "_CHECKOUT", folder)
        return build._commit_of(folder / ".git")

    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "first")
    first = git("rev-parse", "HEAD")
    assert named(tmp_path) == first
    git("worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    assert named(tmp_path / "tree") == first
    git("pack-refs", "--all")
    assert named(tmp_path) == first
    git("checkout", "-q", "--detach")
    assert named(tmp_path) == first
