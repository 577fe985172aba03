"""Reasons that the comments of a file give for its settings."""

from __future__ import annotations

import re

from recipes.lint.document import Document, Setting

_REASONS = re.compile(
    r"(?i)\b(?:because|since|no|not|without|lacks?|only|hangs?|hung|dead\s?lock|stuck|crash\w*|bug\w*|broken|"
    r"corrupt\w*|fault\w*|fail\w*|errors?|issues?|work\s?around|fix\w*|avoid\w*|prevents?|needed|required?s?|"
    r"must|otherwise|unless|don'?t|doesn'?t|can'?t|cannot|unsupported|iommu|acs|virtual\w*|vms?|pcie|"
    r"consumer|geforce|rtx|[34]0[6-9]0|50[6-9]0|l40s?|l4|a10|a6000)\b|https?://"
)
"""Words of a comment that gives a reason, as opposed to a comment that describes the line."""

_CASES = re.compile(r"(?i)\b(?:if|when|in case)\b")
"""Words of a template, which explain when a line is useful, not why this file has the line."""
_SUBJECTS = {
    "NCCL_P2P_DISABLE": re.compile(r"(?i)p2p|peer|nvlink"),
    "NCCL_IB_DISABLE": re.compile(r"(?i)\bib\b|infiniband|rdma|roce|ethernet"),
    "NCCL_SHM_DISABLE": re.compile(r"(?i)\bshm\b|shared"),
}
_MOST_LINES = 50
_COMMENT = re.compile(r"\s*#(?!!|SBATCH|PBS|BSUB)")
_SETS = re.compile(r"\s*(?:export\s+)?\w+=")


def gives_reason(document: Document, item: Setting) -> bool:
    """Return whether a comment explains why the variable is set.

    The comment is on the line itself, right above it, or above the block of settings that contains it; above
    the block it must name the subject.
    """
    lines, at = document.lines, item.place.line - 1
    if not 0 <= at < len(lines):
        return False
    close_comments = [lines[at].partition(" #")[2], *_comments_above(lines, at)]
    first = max(0, at - _MOST_LINES)
    while at > first and _SETS.match(lines[at - 1]):
        at -= 1
    subject = _SUBJECTS.get(item.name)
    block_comments = [
        text for text in _comments_above(lines, at) if subject is not None and subject.search(text)
    ]
    return any(
        _REASONS.search(text) and not _CASES.search(text) for text in (*close_comments, *block_comments)
    )


def _comments_above(lines: tuple[str, ...], at: int) -> list[str]:
    """Return the comment lines directly above a line, nearest first."""
    comments: list[str] = []
    while at > 0 and len(comments) < _MOST_LINES and _COMMENT.match(lines[at - 1]):
        at -= 1
        comments.append(lines[at])
    return comments
