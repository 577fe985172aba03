"""Dockerfiles: ENV and ARG, and the commands of RUN, CMD and ENTRYPOINT.

Source: the Dockerfile reference, docs.docker.com.
"""

import re

import msgspec

from probes.base.record import from_json
from recipes.lint.document import Command, Document, Setting
from recipes.lint.readers.launching import Start
from recipes.lint.readers.options import ASSIGNMENT, Argued
from recipes.lint.readers.scope import Scope
from recipes.lint.readers.script import ScriptReader
from recipes.lint.readers.span import Span, fixed
from recipes.lint.readers.words import Word, words_of

_INSTRUCTION = re.compile(r"[ \t]*([A-Za-z]+)[ \t]+")
_FLAG = re.compile(r"--[a-z][a-z-]*(=\S+)?\s+")
_HERE = re.compile(r"<<-?\s*[\"']?([A-Za-z_]\w*)[\"']?")
_OWN_WORDS = frozenset(
    "ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN "  # noqa: SIM905
    "SHELL STOPSIGNAL USER VOLUME WORKDIR".split()
)


def read(name: str, text: str) -> Document:
    """Return the Dockerfile as a document. Never raises an error.

    Variables of ENV reach every process of the container; variables that RUN sets exist only during this RUN.
    """
    reader = _Reader(Span.whole(text))
    reader.run()
    return Document(
        name=name,
        kind="dockerfile",
        text=text,
        settings=tuple(reader.settings),
        commands=tuple(reader.commands),
        problems=tuple(reader.problems[:20]),
    )


class _Reader:
    def __init__(self, span: Span) -> None:
        self.span = span
        self.settings: list[Setting] = []
        self.commands: list[Command] = []
        self.problems: list[str] = []
        self.scope = Scope()

    def run(self) -> None:
        at, text = 0, self.span.text
        while at < len(text):
            end = self._end(at)
            line = text[at:end]
            match = _INSTRUCTION.match(text, at, end)
            if match and not line.lstrip().startswith("#"):
                self._instruction(match[1].upper(), self.span.part(match.end(), end))
            at = max(end, at + 1)

    def _end(self, at: int) -> int:
        """Return the offset of the end of the instruction.

        An instruction includes continued lines, comments between these lines, and here-documents.
        """
        text, start = self.span.text, at
        goes_on = True
        while goes_on and at < len(text):
            end = text.find("\n", at) + 1 or len(text)
            line = text[at:end].strip()
            goes_on = line.endswith("\\") if not line.startswith("#") else at > start
            at = end
        here_document = _HERE.search(text, start, at)
        if here_document and text[start:at].lstrip()[:3].upper() in ("RUN", "COP", "ADD"):
            close = re.compile(rf"^\t*{re.escape(here_document[1])}\s*$", re.MULTILINE).search(text, at)
            return close.end() if close else len(text)
        return at

    def _instruction(self, word: str, rest: Span) -> None:
        if word == "ONBUILD":
            match = _INSTRUCTION.match(rest.text)
            if match:
                self._instruction(match[1].upper(), rest.part(match.end(), len(rest.text)))
        elif word in ("ENV", "ARG"):
            self._variables(rest, is_exported=word == "ENV")
        elif word in ("RUN", "CMD", "ENTRYPOINT"):
            self._start(word, rest)
        elif word not in _OWN_WORDS:
            line = rest.place().line
            self.problems.append(f"line {line}: {word[:20]} is not an instruction")

    def _variables(self, rest: Span, *, is_exported: bool) -> None:
        words = words_of(_without_comments(rest))
        if words and "=" not in words[0].text:  # ENV NAME VALUE
            if len(words) > 1 and is_exported:
                begin = rest.text.index(words[1].written.text, len(words[0].written.text))
                stop = len(rest.text.rstrip())
                place, value = rest.place(begin, stop), rest.text[begin:stop]
                self.settings.append(
                    Setting(
                        name=words[0].text,
                        value=value,
                        written=value,
                        place=words[0].place,
                        value_place=place,
                    )
                )
            return
        for word in words:
            match = ASSIGNMENT.fullmatch(word.text)
            if match is None:
                continue
            begin = word.written.text.index("=") + 1
            text, is_literal = self.scope.resolve(word)
            self.settings.append(
                Setting(
                    name=match[1],
                    value=text.partition("=")[2] if is_literal else None,
                    written=word.written.text[begin:],
                    is_literal=is_literal,
                    place=word.place,
                    value_place=word.written.place(begin),
                    is_exported=is_exported,
                )
            )
            self.scope.assign(match[1], word.after(match.start(2)), conditional=not is_exported, append=False)

    def _start(self, word: str, rest: Span) -> None:
        flags = 0
        while match := _FLAG.match(rest.text, flags):
            flags = match.end()
        rest = rest.part(flags, len(rest.text))
        reader = ScriptReader(Start(inside=(word,)), scope=self.scope.copy())
        words = exec_form(rest)
        here_document = _HERE.match(rest.text)
        if words is not None:
            reader.launches.start(words, Start(inside=(word,)))
        elif here_document:
            begin = rest.text.find("\n") + 1
            reader.read(rest.part(begin, max(begin, rest.text.rfind(here_document[1]))))
        else:
            reader.read(_without_comments(rest))
        inner = (*reader.settings, *reader.launches.settings)
        self.settings += [msgspec.structs.replace(command, reaches="command") for command in inner]
        self.commands += [
            msgspec.structs.replace(command, inside=command.inside[1:])
            for command in reader.launches.commands
        ]


def _without_comments(span: Span) -> Span:
    """Return the instruction without comment lines between its continued lines."""
    pieces: list[str] = []
    offsets: list[int] = []
    at = 0
    for number, line in enumerate(span.text.splitlines(keepends=True)):
        if number == 0 or not line.lstrip().startswith("#"):
            pieces.append(line)
            offsets += span.offsets[at : at + len(line)]
        at += len(line)
    return Span("".join(pieces), offsets, span.lines)


def exec_form(span: Span) -> list[Argued] | None:
    """Return the words of `["torchrun", "train.py"]`; None for any other text."""
    text = span.text.strip()
    if not text.startswith("["):
        return None
    try:
        values = from_json(text, list[str])
    except msgspec.DecodeError:
        return None
    arguments = []
    at = 0
    for value in values:
        begin = span.text.find('"', at)
        written = msgspec.json.encode(value).decode()
        begin = span.text.find(written, at) if span.text.find(written, at) >= 0 else begin
        end = begin + len(written)
        inner = span.part(begin + 1, end - 1)
        content = inner if inner.text == value else fixed(value, inner)
        arguments.append(
            Argued(value, span.place(begin, end), word=Word(span.part(begin, end), content, (), 1))
        )
        at = max(at, end)
    return arguments
