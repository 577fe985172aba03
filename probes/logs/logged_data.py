"""Data in logs: prompts, samples, answers of models. Their words report no failure.

Only text with a label of data is removed: `prompt: 'Why ...'`, `| target: Killed |`, `{"step": 10, "text":
"Killed"}`. Quoted text alone may be the message of an exception, and keys such as `message`, `error` and
`stderr` contain events.
"""

from __future__ import annotations

from probes.base.patterns import pattern
from probes.logs.event import LogLine

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
"""Value of a key in JSON or in the `repr` of a dictionary or object: one string, or the first of a list."""
_LABEL = pattern(
    r"(?:^\s{0,8}|[^\w\s\"'(./@~:-]\s{0,8}|[\d:-]\s{1,8}|\b(?:DEBUG|INFO|WARNING)\s{1,8})"
    rf"(?:(?i:(?:{_ADJECTIVES})?(?:{_PLAIN})|{_ADJECTIVES}(?:{_VAGUE}))|[QA]):(?=\s{{1,8}}\S|[\"'])"
)
"""Label of data at the start of a message or of one of its fields.

Within paths, names of C++ and addresses, and after other words (`lost connection to target:`), the same
word is no label.
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
"""Signs of which every line with data has one. Most lines have none, and this test is ten times faster."""


def without_data(line: LogLine) -> LogLine:
    """Return a line without the data in it; the line comes without envelopes."""
    lowered = line.text.lower()
    if not any(word in lowered for word in _WORDS):
        return line
    text = _QUOTED_VALUE.sub(r'\g<key>"…"', line.text)
    label = _LABEL.search(text)
    if label is not None:
        text = text[: label.end()] + " …"
    return line if text == line.text else line._replace(text=text, raw=text)
