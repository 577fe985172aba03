"""Characters that word processors and other systems put into scripts."""

from __future__ import annotations

import re

from recipes.lint.context import Context
from recipes.lint.document import Document, Place
from recipes.lint.rule_table import Findings, make_finding, per_document

_DASH = re.compile("(?:^#SBATCH\\s+|\\s)([\u2010-\u2015\u2212]-?[A-Za-z][\\w-]*)")
_QUOTE = re.compile("=[\u201c\u201d\u201e\u2018\u2019]")
_BLANK = re.compile("[\u00a0\u2007\u202f\u200b\ufeff]")
_STARTS = re.compile(
    r"\s*(?:#SBATCH|export|srun|mpirun|torchrun|accelerate|deepspeed|python\d?|ray|docker)\b|"
    r"\s+[-\u2010-\u2015\u2212]"
)


@per_document("shell", "sbatch")
def characters(document: Document, context: Context) -> Findings:
    """Check for typographic dashes, quotes and blanks, and for the line ends of Windows."""
    if "\r\n" in document.text:
        yield make_finding(
            "line-ends",
            document,
            Place(line=document.text[: document.text.index("\r\n")].count("\n") + 1),
            "lines end as on Windows: sbatch refuses the script, and a shell adds the \\r to the last word",
            fix="Convert the file: sed -i 's/\\r$//' FILE.",
        )
    for index, line in enumerate(document.lines, 1):
        if line.isascii() or not _STARTS.match(line):
            continue
        code = line if line.startswith("#SBATCH") else line.partition(" #")[0]
        yield from _judged(document, index, code.partition(" # ")[0])


def _judged(document: Document, index: int, code: str) -> Findings:
    dash, quote, blank = _DASH.search(code), _QUOTE.search(code), _BLANK.search(code)
    if dash is not None:
        message = f"{dash[1]} begins with a typographic dash, so it is no option"
    elif quote is not None:
        message = "a typographic quote is part of the value"
    elif blank is not None:
        message = "a special blank does not separate words in a shell"
    else:
        return
    yield make_finding(
        "typography", document, Place(line=index), message, fix="Type the line again with plain characters."
    )
