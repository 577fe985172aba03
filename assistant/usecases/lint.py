"""Judge launch files by the lint rules, and remove findings that comments waive."""

import fnmatch
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from assistant.storage import read_bytes
from assistant.usecases.lint_settings import LintSettings
from probes.base.errors import InputError, UsageError
from probes.base.record import Record
from probes.sources.base import read_bounded
from recipes.lint.context import Context
from recipes.lint.document import Document, DocumentKind
from recipes.lint.finding import LintReport, idle_waivers, without_waived
from recipes.lint.reading import READERS, fault_of_unknown, named_files, read_document, recognise
from recipes.lint.understanding import understood

_LONGEST_BYTES = 8 * 1024 * 1024
_STDIN = Path("-")
_MOST_FOLLOWED = 20
_MOST_FILES = 20_000
"""Largest number of files in a folder; a folder with more files is probably not a project."""
_NOT_OWN = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})
"""Folders whose files were not written for the project."""
_ENDINGS = frozenset({
    "sh", "bash", "zsh", "ksh", "csh", "sbatch", "slurm", "pbs", "lsf", "qsub", "job", "cmd", "yaml", "yml",
    "json", "jsonc", "conf", "env", "j2", "jinja", "jinja2", "tmpl", "tpl", "template", "gotmpl",
})  # fmt: skip
"""Endings of files in a folder that are read to recognise their kind."""


class Linted(Record, kw_only=True):
    """The report, and the documents that were judged."""

    report: LintReport
    documents: tuple[Document, ...]


def lint_files(
    paths: Sequence[Path],
    context: Context,
    *,
    kind: DocumentKind | None = None,
    environment: bool = False,
    settings: LintSettings | None = None,
    skip_unknown: bool = False,
) -> Linted:
    """Judge the files; if `environment` is set, also the variables of this process.

    Files that belong together are judged together.

    The path `-` is standard input. Files of unknown kind that are in `paths` get a note, unless
    `skip_unknown` is set; those that were found in a folder are skipped. Files that a script sources, and
    host lists that a script names, are read too if they are in the same folder or in the working directory.
    Raises InputError for a file of `paths` that cannot be read as text, and, unless `skip_unknown` is set, if
    no file is of a known kind.
    """
    documents: list[Document] = []
    notes: list[str] = []
    settings = settings or LintSettings()
    given, in_folders = _files(paths, settings.exclude)
    for path in given:
        text = text_of_file(path)
        document = read_document(str(path), text, kind)
        if document is None:
            notes += [] if skip_unknown else [_unknown(path, text)]
        else:
            documents.append(document)
            notes += [f"{path}, {problem}" for problem in document.problems]
    for path in in_folders:
        try:
            document = read_document(str(path), text_of_file(path))
        except UsageError:
            continue  # a binary file, or a file that this user may not read
        documents += [document] if document is not None else []
    documents += _followed(documents, {path.resolve() for path in (*given, *in_folders)})
    if environment:
        one_line = str.maketrans("\r\n", "  ")
        text = "".join(f"{name}={value.translate(one_line)}\n" for name, value in sorted(os.environ.items()))
        document = read_document("environment", text, "environment")
        documents += [document] if document is not None else []
    if not documents and not skip_unknown:
        raise InputError(
            notes[0] if notes else f"{paths[0]} contains no launch file of a known kind",
            _FILL if notes and all(note.endswith(_EMPTY) for note in notes) else _STATE_KIND,
        )
    report = judge_documents(tuple(documents), context, notes, settings)
    return Linted(report=report, documents=tuple(documents))


def _files(paths: Sequence[Path], exclude: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """Return the given files, and the files of the given folders."""
    given: list[Path] = []
    in_folders: list[Path] = []
    for path in dict.fromkeys(paths):
        if path == _STDIN or not _is_folder(path):
            given.append(path)
        else:
            in_folders += _below(path, exclude)
    return given, [path for path in dict.fromkeys(in_folders) if path not in given]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # the reader reports the reason
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # The names in a script may be anything, even too long for a file name.
        return False


def _below(folder: Path, exclude: Sequence[str]) -> Iterator[Path]:
    """Yield the possible launch files below a folder in a fixed order.

    Links, excluded files, hidden folders and the folders of `_NOT_OWN` are left out.
    """
    count = 0
    for above, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _NOT_OWN)
        for name in sorted(names):
            path = Path(above, name)
            if path.is_symlink() or any(fnmatch.fnmatch(str(path), pattern) for pattern in exclude):
                continue
            count += 1
            if count > _MOST_FILES:
                raise InputError(
                    f"{folder} contains more than {_MOST_FILES} files", "name its folders one by one"
                )
            if _may_be_launch_file(name):
                yield path


def _may_be_launch_file(name: str) -> bool:
    """Return whether a file in a folder is read; source files in Python and other languages are skipped."""
    ending = name.rpartition(".")[2].lower() if "." in name.strip(".") else ""
    is_known = ending in _ENDINGS or recognise(name, "") is not None
    return is_known and ending != "py"


_EMPTY = " is empty and was not judged"
_FILL = "name the launch file that your job uses"
_STATE_KIND = f"state its kind: --kind {'|'.join(READERS)}"


def _unknown(path: Path, text: str) -> str:
    name = "standard input" if str(path) == "-" else str(path)
    if not text.strip():
        return f"{name}{_EMPTY}"
    fault = fault_of_unknown(str(path), text)
    why = f": line {fault.place.line}, {fault.reason}" if fault is not None else ""
    return f"{name} is not a launch file of a known kind and was not judged{why}"


def _followed(documents: Sequence[Document], given: set[Path]) -> list[Document]:
    """Return the files that the scripts read, one level deep.

    Files that do not exist or have no known kind are skipped.
    """
    followed: list[Document] = []
    visited = set(given)
    for document in documents:
        for name in named_files(document):
            for path in (Path(document.name).parent / name, Path(name)):
                if path.resolve() in visited or not _is_file(path) or len(followed) >= _MOST_FOLLOWED:
                    continue
                visited.add(path.resolve())
                try:
                    other = read_document(str(path), text_of_file(path))
                except InputError:
                    continue
                followed += [other] if other is not None else []
                break
    return followed


def judge_documents(
    documents: tuple[Document, ...],
    context: Context,
    notes: Sequence[str] = (),
    settings: LintSettings | None = None,
) -> LintReport:
    """Return the report of the rules, without findings that comments waive or that `settings` leave out.

    Rules compare only files that belong together.
    """
    from recipes.lint.choosing import chosen  # noqa: PLC0415 - the rules are read for files that were read
    from recipes.lint.grouping import groups  # noqa: PLC0415
    from recipes.lint.rule_table import in_order, lint  # noqa: PLC0415

    broken: list[str] = []
    parts = [lint(group, context, broken) for group in groups(documents, str(Path.cwd()))]
    findings = in_order((finding for part in parts for finding in part), documents)
    kept, waived = without_waived(findings, documents)
    settings = settings or LintSettings()
    selected = chosen(kept, settings.select, settings.ignore, settings.per_file_ignores)
    return LintReport(
        findings=selected,
        left_out=len(kept) - len(selected),
        understood=tuple(map(understood, documents)),
        waived=waived,
        notes=(*notes, *dict.fromkeys(broken), *idle_waivers(findings, documents)),
        documents=tuple(document.name for document in documents),
    )


def redacted(linted: Linted) -> Linted:
    """Return the findings with names, addresses and paths replaced by the rules of `rigtune capture`.

    The lines of the files are removed too.
    """
    import secrets  # noqa: PLC0415 - rarely needed

    from probes.redaction.text import TextRedactor  # noqa: PLC0415

    names = TextRedactor(secrets.token_bytes(), trusts_labels=True)
    for document in linted.documents:
        names.learn(document.text)
    report = linted.report
    findings = tuple(
        msgspec.structs.replace(
            finding,
            document=names.text(finding.document),
            message=names.text(finding.message),
            fix=names.text(finding.fix),
            edits=(),
            unsafe_edits=(),
        )
        for finding in report.findings
    )
    notes, documents = tuple(map(names.text, report.notes)), tuple(map(names.text, report.documents))
    parts = tuple(
        msgspec.structs.replace(part, document=name)
        for part, name in zip(report.understood, documents, strict=True)
    )
    return Linted(
        report=msgspec.structs.replace(
            report, findings=findings, notes=notes, documents=documents, understood=parts
        ),
        documents=(),
    )


def text_of_file(path: Path) -> str:
    """Read a file as text; bytes that are not UTF-8 are kept for the patch. Raises InputError."""
    if str(path) == "-":
        data = read_bounded(sys.stdin.buffer, "standard input", _LONGEST_BYTES, advice="give a launch file")
    else:
        data = read_bytes(path, limit_bytes=_LONGEST_BYTES)
    if b"\0" in data[:4096]:
        raise InputError(f"{path} is not text", "launch files are text: scripts, YAML, JSON")
    return data.decode("utf-8", "surrogateescape")
