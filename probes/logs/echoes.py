"""Text that reports no event.

This is the output of `set -x` and `grep -n`, source code, help texts, and failure counts of zero.
"""

from __future__ import annotations

from probes.base.patterns import pattern

_ECHO = pattern(
    r"^\++ (?:[A-Za-z_./~\[(\"']|\d?>)|"
    r"^\s{0,40}(?:\d{1,6}[:-]\s{0,40})?(?:(?:(?:if|elif|while|assert|raise)\b|print\(|\w{0,20}log(?:ger|"
    r"ging)?\.\w{1,12}\()"
    r".{0,400}?[\"']|return [\w.]{1,60}\()"
)
_OPTION = pattern(
    r"^\s{1,12}(?:-\w{1,2}(?: \S{1,40})?, ?)?--[A-Za-z][\w-]{1,60}"
    r"(?:(?:[ =](?:[A-Z][A-Z_\d]{0,40}|\{[^}]{1,200}\}|<[^>]{1,80}>|\[[^\]]{1,80}\])){1,3}\s{1,40}|"
    r"\s{2,40})[A-Za-z(]"
)
"""A row of a program's help text: an option, its values, what it does."""
_COUNT_OF_NONE = pattern(
    r"^(?:[A-Za-z][\w -]{0,40}[ _-])?(?i:out[ -]of[ -]memory|ooms?|nccl|cuda|xids?|segmentation faults?|"
    r"illegal memory access)"
    r"(?:[ _-](?i:errors?|events?|kills?|failures?|timeouts?|exceptions?|retries|count)){0,2}"
    r"\s?[:=]\s?(?i:0|none|no)\s{0,8}(?:[,;|].{0,400})?$"
)
"""A row of a summary that says that a kind of failure occurred 0 times."""


def is_echo(text: str) -> bool:
    """Return whether a line is a shell's echo of a command, source code, or a row of a help text or summary.

    `text` must be without the prefixes that log collectors add.
    """
    return any(shape.match(text) is not None for shape in (_ECHO, _OPTION, _COUNT_OF_NONE))
