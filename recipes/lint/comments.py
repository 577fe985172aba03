"""Comments near a line of a launch file, and whether they give a reason for the line."""

import re
from collections.abc import Iterator

from recipes.lint.document import Document, Setting

_REASONS = re.compile(
    r"(?i)\b(?:because|since|no|not|without|lacks?|only|hangs?|hung|dead\s?lock|stuck|crash\w*|bug\w*|broken|"
    r"corrupt\w*|fault\w*|fail\w*|errors?|issues?|work\s?around|fix\w*|avoid\w*|prevents?|needed|required?s?|"
    r"must|otherwise|unless|don'?t|doesn'?t|can'?t|cannot|unsupported|iommu|acs|virtual\w*|vms?|pcie|"
    r"consumer|geforce|rtx|[34]0[6-9]0|50[6-9]0|l40s?|l4|a10|a6000)\b|https?://"
)
"""Words in comments that give a reason; comments without such a word only describe the line."""
_ORDERS = re.compile(r"(?i)\b(?:keep|leave|never|always|needs?|important|careful|warning|caution|hack|dnr)\b")
"""Words in comments that request that a line is kept."""
_CASES = re.compile(r"(?i)\b(?:if|when|in case)\b")
"""Words that templates use: the comment explains when a line is useful, not why this file has the line."""
_HEADING_WORDS = 3
"""Largest number of words of a comment that is a heading and gives no reason."""
_SUBJECTS = {
    "NCCL_P2P_DISABLE": re.compile(r"(?i)p2p|peer|nvlink"),
    "NCCL_IB_DISABLE": re.compile(r"(?i)\bib\b|infiniband|rdma|roce|ethernet"),
    "NCCL_SHM_DISABLE": re.compile(r"(?i)\bshm\b|shared"),
}
_MOST_LINES = 50
_COMMENT = re.compile(r"\s*(?:#(?!!|SBATCH|PBS|BSUB)|//)")
_SETS = re.compile(r"\s*(?:export\s+)?\w+=")
_SETS_ANYWHERE = re.compile(r"\s*(?:(?:export|ENV|setenv|declare\s+-x)\s+)?\w+[= ]|\s*(?:- )?[\w.\"'/-]+\s*:")
_BESIDE = re.compile(r"\s(?:#|//)(.*)$")


def gives_reason(document: Document, item: Setting) -> bool:
    """Return whether a comment explains why the variable is set.

    The comment is on the line itself, directly above the line, or above the block of settings with the line.
    A comment above the block must name the subject.
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


def is_explained(document: Document, line: int) -> bool:
    """Return whether a comment may give a reason for a line, so that no program should change the line.

    The comment is beside the line, or above the line or its block of settings. A sentence counts in any
    language; a heading such as `# NCCL settings` does not.
    """
    return any(
        _REASONS.search(text)
        or _ORDERS.search(text)
        or not text.isascii()
        or len(re.findall(r"\w+", text)) > _HEADING_WORDS
        for text in _comments_near(document.lines, line - 1)
    )


def _comments_near(lines: tuple[str, ...], at: int) -> Iterator[str]:
    if not 0 <= at < len(lines):
        return
    first = max(0, at - _MOST_LINES)
    while True:
        beside = _BESIDE.search(lines[at])
        if beside is not None:
            yield beside[1]
        above = _comments_above(lines, at)
        yield from above
        at -= len(above) + 1
        # a blank line ends the block, unless there is a comment directly above that blank line
        if at > first and not lines[at].strip() and _COMMENT.match(lines[at - 1]):
            yield from _comments_above(lines, at)
            return
        if at < first or not _SETS_ANYWHERE.match(lines[at]):
            return


def _comments_above(lines: tuple[str, ...], at: int) -> list[str]:
    """Return the comment lines directly above a line, nearest first."""
    comments: list[str] = []
    while at > 0 and len(comments) < _MOST_LINES and _COMMENT.match(lines[at - 1]):
        at -= 1
        comments.append(lines[at])
    return comments
