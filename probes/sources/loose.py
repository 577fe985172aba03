"""Pasted files, recognised by their content (`probes/catalogue/text_kinds.py`) and not by their names."""

import posixpath
import re
import textwrap
from collections.abc import Sequence

import msgspec

from probes.base.errors import InputError
from probes.base.record import Unknown, from_json
from probes.catalogue.text_kinds import KINDS
from probes.sources.base import STRANGER, Given
from probes.sources.recording import Answers
from probes.sources.sections import unread_sections
from probes.sources.stored import FORMAT, Recording, StoredSource, follow_links, load_recording, unpack

_ESCAPES = re.compile(r"(?:\x1b|\^\[)\[[0-9;]*[A-Za-z]")
"""Terminal colours, as escape characters or in caret notation."""
_QUOTE = re.compile(r"^[ \t]{0,8}(?:>[ \t]?)+", re.MULTILINE)
_TREE_ROOTS = ("/sys", "/proc", "/etc", "/dev", "/run", "/var", "/usr", "/opt")
_LONGEST_PATH = 4096
"""PATH_MAX of Linux."""


def open_loose(files: Sequence[tuple[str, bytes]]) -> StoredSource:
    """Return one source for all `files` (name and content), in any order and mix.

    A file of unknown kind is listed among the unread inputs if another file is of a known kind. Raises
    InputError if no file is of a known kind, for a damaged recording or gzip file, and for two files
    (recordings or trees) that answer the same question differently.
    """
    together = Answers()
    strangers: list[str] = []
    is_any_filled = False
    for name, data in files:
        answers_of_file = Answers()
        text = _text_of(unpack(data, name))
        is_any_filled = is_any_filled or bool(text.strip())
        if not _add_text(text, name, answers_of_file):
            strangers.append(name)
        _merge(together, answers_of_file, name)
    if files and not is_any_filled:
        raise InputError(
            f"{', '.join(strangers)} {'is' if len(strangers) == 1 else 'are'} empty",
            "Run the command that should have written the text again, and read its messages on stderr.",
        )
    if len(strangers) == len(files):
        raise InputError(
            f"{', '.join(strangers)} {'is' if len(strangers) == 1 else 'are'} of no kind that rigtune knows",
            "Give the whole output of one command, unedited, or a recording; `rigtune list kinds` names "
            "the kinds of text that can be read.",
        )
    together.give(STRANGER, tuple(Given(name=name, text="") for name in strangers))
    return StoredSource(together.recording(" + ".join(posixpath.basename(name) for name, _ in files)))


def _add_text(text: str, name: str, answers: Answers) -> bool:
    """Add the facts in `text` to `answers`; return False if no kind recognises the text."""
    if f'"{FORMAT}"' in text[:4096]:
        _recording(text, name, answers)
    elif _is_tree(text):
        _tree(text, answers)
    else:
        for kind in KINDS:
            if kind.recognise(text):
                answers.give(kind.id, (Given(name=name, text=text),))
        is_known = bool(answers.given)
        parts = unread_sections(text) if is_known else ()
        answers.give(STRANGER, tuple(Given(name=name, text=f"{part.line} {part.title}") for part in parts))
        return is_known
    return True


def _text_of(data: bytes) -> str:
    """Return the text of `data` (UTF-8 or UTF-16) without colours, quote marks and Windows line ends."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = data.decode(encoding, "replace")
    if text.lstrip().startswith("{"):
        return text  # JSON escapes control characters, so colour codes in it are content
    return _unquoted(_ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def _unquoted(text: str) -> str:
    """Return `text` without the quote marks and indentation that all lines of a mail or issue share."""
    if not text[:1].isspace() and not text.startswith(">"):
        return text
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and all(line.lstrip().startswith(">") for line in lines):
        text = _QUOTE.sub("", text)
        lines = [line for line in text.split("\n") if line.strip()]
    return textwrap.dedent(text) if all(line[:1] in " \t" for line in lines) else text


def _merge(together: Answers, added: Answers, name: str) -> None:
    """Add the answers of one file; InputError if an earlier file answers a question differently."""
    for directory, names in added.directories.items():
        earlier = together.directories.get(directory, ())
        if not isinstance(names, Unknown) and not isinstance(earlier, Unknown):
            together.directories[directory] = tuple(sorted({*names, *earlier}))
        else:
            together.directories[directory] = names
    for kind, given in added.given.items():
        together.give(kind, given)
    for target, answers in zip(together.exact(), added.exact(), strict=True):
        for question, answer in answers.items():
            if target.setdefault(question, answer) != answer:
                words = " ".join(map(str, question)) if isinstance(question, tuple) else question
                raise InputError(
                    f"{name} and an earlier file answer `{words}` differently",
                    "Give the files of one machine, with one file of each kind.",
                )


def _is_tree(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        entries = from_json(text, dict[str, str])
    except msgspec.DecodeError:
        return False
    return bool(entries) and all(
        path.startswith(_TREE_ROOTS) and len(path) <= _LONGEST_PATH for path in entries
    )


def _tree(text: str, answers: Answers) -> None:
    """Add a JSON tree `{"/sys/...": content}`; the content `-> target` is a symbolic link."""
    raw: dict[str, str | Unknown] = {}
    for path, content in from_json(text, dict[str, str]).items():
        if content.startswith("-> "):
            raw[path] = posixpath.normpath(posixpath.join(posixpath.dirname(path), content[3:].strip()))
        else:
            answers.file(path, content.encode())
    answers.links.update((path, follow_links(path, raw)) for path in raw)
    answers.list_directories()


def _recording(text: str, name: str, answers: Answers) -> None:
    recording: Recording = load_recording(text.encode(), name)
    answers.commands.update((answer.argv, answer) for answer in recording.commands)
    answers.files.update(recording.files)
    answers.directories.update(recording.directories)
    answers.links.update(recording.links)
    answers.calls.update(((answer.call, answer.args), answer) for answer in recording.nvml)
    answers.env.update(recording.env)
    answers.given.update(recording.given)
