"""Walk the elements of an XML text one after the other, without a tree, entities or recursion.

Elements before a damaged part are kept.
"""

from collections.abc import Callable
from typing import NamedTuple
from xml.parsers import expat

_MOST_CUTS = 64
"""Maximum number of end tags without a start tag in part of a document; no topology has as many levels."""
_MISMATCH = expat.errors.XML_ERROR_TAG_MISMATCH
_DEEPEST = 200
"""Maximum depth of elements; no topology is nested as deeply."""


class Element(NamedTuple):
    """The start of an element (`attributes` is set), or its end (None) with its text."""

    line: int
    tag: str
    attributes: dict[str, str] | None
    text: str = ""


class _RootClosedError(Exception):
    """Raised at the end of the root element."""


class _TooDeepError(Exception):
    """Raised at an element nested too deep."""


def walk(text: str, roots: tuple[str, ...], take: Callable[[Element], None]) -> tuple[int, str] | None:
    """Pass the elements to `take`; return the line and the reason if the text ends early, otherwise None.

    `roots` are tags. The walk begins with the first element that has the first tag. If the text is only part
    of a document and has no such element, the walk begins with the first element that has any of the tags.
    All text before this element is skipped, so that no document type and no entity is ever defined.
    """
    starts = [text.find(f"<{root}") for root in roots]
    present = [start for start in starts if start >= 0]
    if not present:
        return 1, f"no element {roots[0]}"
    if starts[0] >= 0:
        return _walk(text, starts[0], take, is_part=False)
    start = min(present)
    # The end tag of an element whose start was cut off stops the parser, so parsing restarts after the tag.
    end: tuple[int, str] | None = None
    for _ in range(_MOST_CUTS):
        end = _walk(text, start, take, is_part=True)
        if end is None or _MISMATCH not in end[1]:
            return end
        following = _line_start(text, end[0] + 1)
        start = min((place for root in roots if (place := text.find(f"<{root}", following)) >= 0), default=-1)
        if start < 0:
            return None
    return end


def _line_start(text: str, line: int) -> int:
    """Return the position at which line number `line` begins; after the last line, the end of the text."""
    lines = text.split("\n", line - 1)
    return len(text) - len(lines[-1]) if len(lines) == line else len(text)


def _walk(text: str, start: int, take: Callable[[Element], None], *, is_part: bool) -> tuple[int, str] | None:
    before = text.count("\n", 0, start)
    parser = expat.ParserCreate()
    _Handlers(parser, before, take, is_part=is_part)
    try:
        if is_part:
            parser.Parse("<part>")
        parser.Parse(text[start:], True)  # noqa: FBT003 - the parser takes the flag by position only
    except _RootClosedError:
        return None
    except _TooDeepError:
        return parser.CurrentLineNumber + before, "elements nested too deep"
    except expat.ExpatError as error:
        return error.lineno + before, f"damaged or cut XML ({expat.ErrorString(error.code)})"
    except ValueError:  # The text contains a NUL or a lone surrogate, which XML forbids.
        return before + 1, "no XML text"
    return None


class _Handlers:
    def __init__(
        self, parser: expat.XMLParserType, before: int, take: Callable[[Element], None], *, is_part: bool
    ) -> None:
        self._parser, self._before, self._take = parser, before, take
        self._depth = -1 if is_part else 0
        self._is_part = is_part
        self._text: list[str] = []
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _TooDeepError
        self._text.clear()
        if self._depth > 0:
            self._take(Element(self._parser.CurrentLineNumber + self._before, tag, attributes))

    def _end(self, tag: str) -> None:
        self._take(Element(self._parser.CurrentLineNumber + self._before, tag, None, "".join(self._text)))
        self._text.clear()
        self._depth -= 1
        if self._depth == 0 and not self._is_part:
            raise _RootClosedError
