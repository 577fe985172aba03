"""Determine the version and the commit of the running rigtune."""

import functools
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[2]
_SHOWN = 12
"""Number of characters of a commit id that are enough to distinguish the commits of one repository."""


def build_labels() -> dict[str, str]:
    """Return `version` and `commit`; the commit is `unknown` if neither a checkout nor a build states it."""
    return {"version": version(), "commit": commit()}


def build_line() -> str:
    """Return the line that `rigtune --version` prints."""
    return "rigtune {version} (commit {commit})".format(**build_labels())


@functools.cache
def version() -> str:
    """Return the version that is installed; `unknown` for a source tree that is not installed."""
    import importlib.metadata  # noqa: PLC0415 - loading takes longer than writing most answers

    try:
        return importlib.metadata.version("rigtune")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@functools.cache
def commit() -> str:
    """Return the commit from which a wheel was built, or the commit of a checkout; else `unknown`."""
    try:
        return (Path(__file__).parents[1] / "COMMIT").read_text("ascii").strip()[:_SHOWN] or "unknown"
    except OSError:
        pass
    try:
        return _commit_of(_CHECKOUT / ".git")[:_SHOWN]
    except (OSError, ValueError):
        return "unknown"


def _commit_of(git: Path) -> str:
    """Return the commit of a git folder; in a worktree, `git` is a file that names this folder."""
    if git.is_file():
        git = _CHECKOUT / git.read_text("utf-8").removeprefix("gitdir:").strip()
    head = (git / "HEAD").read_text("utf-8").strip()
    if not head.startswith("ref:"):
        return head
    name = head.removeprefix("ref:").strip()
    common = git / "commondir"
    shared = (git / common.read_text("utf-8").strip()) if common.is_file() else git
    if (shared / name).is_file():
        return (shared / name).read_text("utf-8").strip()
    packed = (shared / "packed-refs").read_text("utf-8").splitlines()
    return next(line.partition(" ")[0] for line in packed if line.endswith(f" {name}"))
