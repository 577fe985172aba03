"""Parts of a file that rules judge separately: containers, and files within files.

Files within files are here-documents of a script (`cat > ds_config.json <<EOF`), and whole files that a
manifest contains as values (a ConfigMap, a resource of Argo).
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from recipes.lint.document import Document, Place, lines_of
from recipes.lint.reading import read_document, recognise

_CONTAINER = {
    "kubernetes": re.compile(r".*?\b(?:initContainers|containers|ephemeralContainers)\[\d+\](?=\.)"),
    "compose": re.compile(r"services\.[^.\[]+(?=[.\[])"),
}


def parted(document: Document) -> tuple[Document, ...]:
    """Return one document per container; the document itself if the file has at most one container.

    Parts outside of containers (a ConfigMap, the values of a chart) are a separate document.
    """
    lines = _lines_of_containers(document)
    if len(lines) < 2:
        return (document,)
    parts = [
        msgspec.structs.replace(
            document,
            settings=tuple(item for item in document.settings if _is_in(item.place, [each])),
            commands=tuple(item for item in document.commands if _is_in(item.place, [each])),
            entries=tuple(item for item in document.entries if _is_in(item.place, [each])),
        )
        for each in lines
    ]
    # the part outside of containers keeps all entries of the file
    outside = msgspec.structs.replace(
        document,
        settings=tuple(item for item in document.settings if not _is_in(item.place, lines)),
        commands=tuple(item for item in document.commands if not _is_in(item.place, lines)),
    )
    return tuple(part for part in (outside, *parts) if part.settings or part.commands) or (document,)


def _lines_of_containers(document: Document) -> list[range]:
    """Return the lines of each container."""
    expression = _CONTAINER.get(document.kind)
    lines: dict[str, range] = {}
    for entry in document.entries if expression is not None else ():
        match = expression.match(entry.path) if expression is not None else None
        if match is not None:
            known = lines.get(match[0], range(entry.place.line, entry.place.line))
            last = max(known.stop, (entry.place.end_line or entry.place.line) + 1)
            lines[match[0]] = range(min(known.start, entry.place.line), last)
    return list(lines.values())


def _is_in(place: Place, lines: Iterable[range]) -> bool:
    return any(place.line in each for each in lines)


_OPENING = re.compile(r"(?<!<)<<[ \t]*(\\|(?P<quote>['\"]))?(?P<word>[A-Za-z_]\w*)(?(quote)(?P=quote))")
_STRUCTURED = ("kubernetes", "accelerate", "deepspeed", "compose")
_WHOLE_MANIFEST = re.compile(r"^apiVersion:(?s:.*)^kind:|^kind:(?s:.*)^apiVersion:", re.MULTILINE)


def embedded(document: Document) -> tuple[Document, ...]:
    """Return the structured files within a file, each as a separate document.

    Each has the name of the outer file, and its lines are numbered as in the outer file.
    """
    if document.kind in ("shell", "sbatch") and "<<" in document.text:
        return tuple(_here_documents(document))
    if document.kind == "kubernetes":
        return tuple(_values(document))
    return ()


def _values(document: Document) -> Iterator[Document]:
    """Yield the files that a manifest contains as blocks after `|`.

    The lines keep their indentation, which YAML and JSON allow for a whole file.
    """
    lines = document.text.split("\n")
    for item in document.entries:
        place, body = item.place, str(item.value)
        if "\n" in body and lines[place.line - 1][place.column - 1 : place.column] == "|":
            inner = _inner_document(
                document, body, "\n" * place.line + "\n".join(lines[place.line : place.end_line]) + "\n"
            )
            if inner is not None:
                yield inner


def _inner_document(document: Document, body: str, placed: str) -> Document | None:
    """Return `body` as a document if the text is a whole file of a structured kind, else None.

    `placed` is the same text on the lines that it has in the outer file.
    """
    kind = recognise("", body)
    if kind not in _STRUCTURED or (kind == "kubernetes" and not _WHOLE_MANIFEST.search(body)):
        return None
    inner = read_document(document.name, placed, kind)
    # a syntax error is not reported here: the shell or the controller may fill in the missing part
    return None if inner is None else msgspec.structs.replace(inner, waived=document.waived, faults=())


def _here_documents(document: Document) -> Iterator[Document]:
    lines = lines_of(document.text)
    at = 0
    while at < len(lines):
        match = None if lines[at].lstrip().startswith("#") else _OPENING.search(lines[at])
        at += 1
        if match is None:
            continue
        try:
            end = lines.index(match["word"], at)
        except ValueError:
            continue
        body = "\n".join(lines[at:end]) + "\n"
        if not match[1]:
            body = body.replace("\\$", " $")  # the shell removes the backslash; the blank keeps the columns
        inner = _inner_document(document, body, "\n" * at + body)
        at = end + 1
        if inner is not None:
            yield inner
