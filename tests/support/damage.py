"""Damaged texts: a hypothesis strategy."""

from __future__ import annotations

from hypothesis import strategies as st

_FOREIGN = st.sampled_from(
    ("\x00", "\ud800", "\n", "<", ">", '"', "-1", "9" * 30, "nan", "²", "\t", "&x;", "[", ":")
)


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """Return `text` with lines removed, copied or swapped and with foreign characters, or the start of it."""
    lines = text.splitlines(keepends=True)
    for _ in range(draw(st.integers(0, 3))):
        first, second = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
        match draw(st.integers(0, 2)):
            case 0:
                lines[first], lines[second] = lines[second], lines[first]
            case 1:
                lines.insert(first, lines[second])
            case _ if len(lines) > 1:
                del lines[first]
    result = "".join(lines)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(result)))
        result = result[:place] + draw(_FOREIGN) + result[place + draw(st.integers(0, 2)) :]
    return result[: draw(st.integers(0, len(result)))] if draw(st.booleans()) else result
