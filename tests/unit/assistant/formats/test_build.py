"""Test which commit is stated for a checkout, a worktree and a tree without git."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.formats import build

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "_CHECKOUT", tmp_path)
    build.commit.cache_clear()
    yield tmp_path
    build.commit.cache_clear()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_checkout_states_the_commit_of_its_branch(checkout):
    write(checkout / ".git" / "HEAD", "ref: refs/heads/main\n")
    write(checkout / ".git" / "refs" / "heads" / "main", f"{COMMIT}\n")
    assert build.commit() == "0123456789ab"
    assert build.build_line().endswith(" (commit 0123456789ab)")


def test_a_detached_head_is_the_commit_itself(checkout):
    write(checkout / ".git" / "HEAD", f"{COMMIT}\n")
    assert build.commit() == "0123456789ab"


def test_a_packed_branch_is_found_in_the_list(checkout):
    write(checkout / ".git" / "HEAD", "ref: refs/heads/main\n")
    other = f"{'f' * 40} refs/heads/main2\n"
    write(checkout / ".git" / "packed-refs", f"# pack-refs\n{other}{COMMIT} refs/heads/main\n")
    assert build.commit() == "0123456789ab"


def test_a_worktree_uses_the_branches_of_its_repository(checkout):
    write(checkout / ".git", "gitdir: ../repository/worktrees/one\n")
    common = checkout.parent / "repository"
    write(common / "worktrees" / "one" / "HEAD", "ref: refs/heads/one\n")
    write(common / "worktrees" / "one" / "commondir", "../..\n")
    write(common / "refs" / "heads" / "one", f"{COMMIT}\n")
    assert build.commit() == "0123456789ab"


def test_without_git_the_commit_is_unknown(checkout):
    assert build.commit() == "unknown"
    write(checkout / ".git" / "HEAD", "ref: refs/heads/gone\n")
    build.commit.cache_clear()
    assert build.commit() == "unknown"
