"""Text in logs that reports no event: echoes of shells, source code, help texts, and data.

Data are prompts, samples and answers of models; words in them report no failure. Only text with a label that
marks it as data is removed: `prompt: 'Why ...'`, `| target: Killed |`, `{"step": 10, "text": "Killed"}`.
Quoted text without a label may be the message of an exception, and the values of keys such as `message`,
`error` and `stderr` may contain events, so they stay.
"""

from probes.base.patterns import pattern
from probes.logs.event import LogLine

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
"""A row of a program's help text: an option, its values and its purpose."""
_COUNT_OF_NONE = pattern(
    r"^(?:[A-Za-z][\w -]{0,40}[ _-])?(?i:out[ -]of[ -]memory|ooms?|nccl|cuda|xids?|segmentation faults?|"
    r"illegal memory access)"
    r"(?:[ _-](?i:errors?|events?|kills?|failures?|timeouts?|exceptions?|retries|count)){0,2}"
    r"\s?[:=]\s?(?i:0|none|no)\s{0,8}(?:[,;|].{0,400})?$"
)
"""A row of a summary that counts 0 failures of a kind."""
_PLAIN = r"prompts?|completions?|predictions?|preds?|predicted|targets?|samples?|questions?|answers?|text"
_VAGUE = r"responses?|outputs?|inputs?|labels?|references?|content|sequences?|translations?"
_KEYS = (
    rf"(?:{_PLAIN}|responses?|inputs?|content|references?|labels?|gold|resps|filtered_resps|query|"
    rf"instruction|hypothesis|caption|"
    r"document|passage|chosen|rejected|(?:generated|input|output|model|raw|sample|target|gold|ground|"
    r"prompt|full)_"
    r"(?:text|prompt|question|answer|output|response|target|truth))"
)
_ADJECTIVES = (
    r"(?:models?|samples?|generated|predicted|expected|raw|user|gold|reference|final|example|decoded|"
    r"ground[ -]truth)[ _-]"
)
_STRING = r"(?:\"(?:[^\"\\]|\\.){0,8192}(?:\"|$)|'(?:[^'\\]|\\.){0,8192}(?:'|$))"
_QUOTED_VALUE = pattern(
    rf"(?P<key>(?:[\"'](?i:{_KEYS})[\"']\s{{0,4}}:|\b(?:prompt|text|completion|prediction|"
    rf"target)=)\s{{0,4}}\[{{0,3}}\s{{0,4}})"
    rf"{_STRING}(?:\s{{0,4}},\s{{0,4}}{_STRING}){{0,400}}"
)
"""Value of a key in JSON or in the `repr` of a dictionary or object: one string, or a list of strings."""
_LABEL = pattern(
    r"(?:^\s{0,8}|[^\w\s\"'(./@~:-]\s{0,8}|[\d:-]\s{1,8}|\b(?:DEBUG|INFO|WARNING)\s{1,8})"
    rf"(?:(?i:(?:{_ADJECTIVES})?(?:{_PLAIN})|{_ADJECTIVES}(?:{_VAGUE}))|[QA]):(?=\s{{1,8}}\S|[\"'])"
)
"""Label of data at the start of a message or of one of its fields.

The same word is not a label within paths, C++ names and addresses, and after other words (`lost connection to
target:`).
"""

_WORDS = (
    "prompt",
    "completion",
    "pred",
    "target",
    "sample",
    "question",
    "answer",
    "text",
    "q:",
    "a:",
    "response",
    "output",
    "input",
    "label",
    "reference",
    "content",
    "sequence",
    "translation",
    "gold",
    "resps",
    "query",
    "instruction",
    "hypothesis",
    "caption",
    "document",
    "passage",
    "chosen",
    "rejected",
    "truth",
)
"""Every line with data contains at least one of these words.

This test is ten times faster than the patterns.
"""


def is_echo(text: str) -> bool:
    """Return whether a line is a shell's echo of a command, source code, or a row of a help text or summary.

    `text` must be without the prefixes that log collectors add.
    """
    return bool(_ECHO.match(text) or _OPTION.match(text) or _COUNT_OF_NONE.match(text))


def without_data(line: LogLine) -> LogLine:
    """Return the line without its data; the caller has removed its envelopes (see `envelopes.py`)."""
    lowered = line.text.lower()
    if not any(word in lowered for word in _WORDS):
        return line
    text = _QUOTED_VALUE.sub(r'\g<key>"…"', line.text)
    label = _LABEL.search(text)
    if label is not None:
        text = text[: label.end()] + " …"
    return line if text == line.text else line._replace(text=text, raw=text)
