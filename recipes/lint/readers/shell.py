"""Shell scripts, and batch scripts with the requests of a scheduler in their comments."""

import re
from typing import Literal, cast

from recipes.lint.document import Directive, Document, Setting
from recipes.lint.readers.grammars import GRAMMARS, Grammar
from recipes.lint.readers.options import ASSIGNMENT
from recipes.lint.readers.script import ScriptReader
from recipes.lint.readers.span import Span
from recipes.lint.readers.words import Word, words_of

DIRECTIVE = re.compile(r"^#(SBATCH|PBS|BSUB)\b", re.MULTILINE)
_LINE = re.compile(r"^#(SBATCH|PBS|BSUB)[ \t]+(.*)$", re.MULTILINE)
Scheduler = Literal["SBATCH", "PBS", "BSUB"]
_LETTERS: dict[str, Grammar] = {
    "SBATCH": GRAMMARS["sbatch"],
    "PBS": Grammar(),
    "BSUB": Grammar(switches=frozenset("xBNHIrK")),
}
_SETTLED = re.compile(r"^[ \t]*[^#\s]", re.MULTILINE)


def read(name: str, text: str) -> Document:
    """Return the script as a document. Never raises an error.

    A script with directives, or with a name that ends in .sbatch or .slurm, is of the kind `sbatch`.
    """
    is_batch = DIRECTIVE.search(text) is not None or name.endswith((".sbatch", ".slurm"))
    span = Span.whole(text)
    reader = ScriptReader(reaches_all=is_batch)
    directives = directives_in(span)
    settings_of_job = _exported(directives)
    for setting in settings_of_job:
        reader.exported.put(setting.name, setting)
    reader.read(span)
    settings = (*settings_of_job, *reader.settings, *reader.launches.settings)
    return Document(
        name=name,
        kind="sbatch" if is_batch else "shell",
        text=text,
        settings=tuple(
            sorted(dict.fromkeys(settings), key=lambda setting: (setting.place.line, setting.place.column))
        ),
        commands=tuple(reader.launches.commands),
        directives=directives,
    )


def directives_in(span: Span) -> tuple[Directive, ...]:
    """Return each option of `#SBATCH`, `#PBS` and `#BSUB` lines, including lines in here-documents.

    Source: manual page of sbatch: Slurm reads no options after the first line that is neither blank nor a
    comment.
    """
    directives: list[Directive] = []
    first = _SETTLED.search(span.text)
    stop = first.start() if first else len(span.text)
    for match in _LINE.finditer(span.text):
        before = span.text.rfind("\n#!", 0, match.start())
        if match.start() > stop and before > stop:  # a here-document may contain a whole script
            inner = _SETTLED.search(span.text, before + 1)
            stop = inner.start() if inner and inner.start() > before else len(span.text)
        is_read = match.start() <= stop
        words = words_of(span.part(match.start(2), match.end(2)))
        scheduler = cast("Scheduler", match[1])
        directives += _options(words, scheduler, is_read=is_read)
    return tuple(directives)


def _options(words: list[Word], scheduler: Scheduler, *, is_read: bool) -> list[Directive]:
    grammar = _LETTERS[scheduler]
    directives = []
    at = 0
    while at < len(words):
        word, text = words[at], words[at].text
        at += 1
        if not text.startswith("-") or text == "-":
            continue
        is_long = text.startswith("--")
        name, sign, value = text[2:].partition("=") if is_long else (text[1:2], text[2:], text[2:])
        name = name if is_long else grammar.short.get(name, name)
        end = word
        if (
            not sign
            and name not in grammar.switches
            and at < len(words)
            and not words[at].text.startswith("-")
        ):
            end, value = words[at], words[at].text
            at += 1
        start, stop = word.place, end.place
        place = type(start)(
            line=start.line, column=start.column, end_line=stop.end_line, end_column=stop.end_column
        )
        directives.append(
            Directive(
                name=name,
                value=value.removeprefix("=") if not is_long else value,
                place=place,
                scheduler=scheduler,
                is_read=is_read,
            )
        )
    return directives


def _exported(directives: tuple[Directive, ...]) -> list[Setting]:
    """Return the variables of `#SBATCH --export=ALL,A=1`."""
    return [
        Setting(name=match[1], value=match[2], written=match[2], place=directive.place, reaches="all")
        for directive in directives
        if directive.name == "export"
        for part in directive.value.split(",")
        if (match := ASSIGNMENT.fullmatch(part))
    ]
