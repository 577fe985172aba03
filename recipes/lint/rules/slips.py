"""Typing mistakes in a file: syntax, blanks, typographic characters, and waivers of unknown rules."""

import re

from recipes.lint.context import Context
from recipes.lint.document import Document, Place
from recipes.lint.finding import Edit, LintFinding
from recipes.lint.rule_table import Findings, load_rules, make_finding, per_document
from recipes.lint.views import closest, code_lines, suggestion

_OURS = (
    r"(?:NCCL|TORCH|GLOO|CUDA|OMP|MASTER|FI|UCX|PYTORCH|NVSHMEM|SHARP|HOROVOD|ACCELERATE|OMPI|MV2|I_MPI|PMIX)"
    r"_\w+"
)
_CONTINUED = re.compile(r"\\([ \t]+)$")
_OPTION = re.compile(r"\s*--?[A-Za-z]")
_EXPORT = re.compile(r"\s*export\s+([A-Za-z_]\w*)(\s+=\s*|=\s+)([\w.:/-]+)\s*(?:#.*|;.*)?$")
_COMMA = re.compile(rf"\s*(?:export\s+([A-Za-z_]\w*)|({_OURS}))=([^\s\"'#;&|$()`]*,)\s+([\w.:/-]+)")


@per_document("shell", "sbatch")
def blanks(document: Document, context: Context) -> Findings:
    """Check for blanks after a backslash, around `=`, and in a list."""
    for number, line in enumerate(document.lines, 1):
        if line.lstrip().startswith("#"):
            continue
        after = document.lines[number] if number < len(document.lines) else ""
        yield from _continued(document, number, line, after)
        yield from _assigned(document, number, line)
    for command in document.commands:
        first = command.arguments[0] if command.arguments else None
        if re.fullmatch(_OURS, command.program) and first is not None and first.text.startswith("="):
            yield _blank(document, command.place, command.program)


def _continued(document: Document, number: int, line: str, after: str) -> Findings:
    match = _CONTINUED.search(line)
    if match is None or not _OPTION.match(after):
        return
    blank = Place(line=number, column=match.start(1) + 1, end_line=number, end_column=match.end(1) + 1)
    yield make_finding(
        "shell-continuation-blank",
        document,
        blank,
        "a blank after the backslash: the command ends here, and the next line is a separate command",
        fix="Remove the blank.",
        edits=(Edit(place=blank, text=""),),
    )


_HOSTS = re.compile(r"\b(?:scontrol\s+show\s+hostnames?|PBS_NODEFILE|LSB_HOSTS|hostfile)\b")
_ONE_ELEMENT = re.compile(r"""([A-Za-z_]\w*)=\([ \t]*"(\$\{?([A-Za-z_]\w*)\}?|[$`].*[)`])"[ \t]*\)""")


@per_document("shell", "sbatch")
def arrays(document: Document, context: Context) -> Findings:
    """Check for an array of hosts that has only one element because of quotes."""
    lists = {item.name for item in document.settings if _HOSTS.search(item.written)}
    for number, line in code_lines(document):
        match = _ONE_ELEMENT.search(line)
        if match is None or not (match[3] in lists or (match[3] is None and _HOSTS.search(match[2]))):
            continue
        if re.search(rf"\$\{{{match[1]}\[\d|\$\{{#{match[1]}\[", document.text):
            yield make_finding(
                "shell-array-one",
                document,
                Place(line=number, column=match.start() + 1, end_line=number, end_column=match.end() + 1),
                f"because of the quotes, all hosts together are one element, so ${{{match[1]}[0]}} is the "
                "whole list",
                fix=f"Write mapfile -t {match[1]} < <(scontrol show hostnames ...), or remove the quotes.",
            )


def _assigned(document: Document, number: int, line: str) -> Findings:
    match = _EXPORT.match(line)
    if match is not None and not (match[2].startswith("=") and _is_name(document, match[3])):
        yield _blank(document, _place(number, line), match[1])
        return
    cut = _COMMA.match(line)
    if cut is not None and "=" not in cut[4]:
        yield make_finding(
            "shell-value-cut",
            document,
            _place(number, line),
            f"the blank ends the value: {cut[1] or cut[2]} is only {cut[3]}",
            fix=f"Write {cut[1] or cut[2]}={cut[3]}{cut[4]}.",
        )


def _is_name(document: Document, text: str) -> bool:
    """Return whether a word may be a second variable: `export A= B`."""
    return text.isidentifier() and ("_" in text or any(item.name == text for item in document.settings))


def _blank(document: Document, place: Place, name: str) -> LintFinding:
    message = f"with a blank next to =, the shell does not assign the value to {name}"
    return make_finding(
        "shell-assignment-blank", document, place, message, fix=f"Write {name}=... without blanks."
    )


def _place(number: int, line: str) -> Place:
    start = len(line) - len(line.lstrip())
    return Place(line=number, column=start + 1, end_line=number, end_column=len(line.rstrip()) + 1)


@per_document()
def syntax(document: Document, context: Context) -> Findings:
    """Report each syntax error at the place where it begins."""
    for fault in document.faults:
        yield make_finding(
            "syntax",
            document,
            fault.place,
            fault.reason,
            fix="Fix this line first; the lines after it were not read.",
        )


_DASH = re.compile("(?:^#SBATCH\\s+|\\s)([\u2010-\u2015\u2212]-?[A-Za-z][\\w-]*)")
_QUOTE = re.compile("=[\u201c\u201d\u201e\u2018\u2019]")
_BLANK = re.compile("[\u00a0\u2007\u202f\u200b\ufeff]")
_STARTS = re.compile(
    r"\s*(?:#SBATCH|export|srun|mpirun|torchrun|accelerate|deepspeed|python\d?|ray|docker)\b|"
    r"\s+[-\u2010-\u2015\u2212]"
)


@per_document("shell", "sbatch")
def characters(document: Document, context: Context) -> Findings:
    """Check for typographic dashes, quotes and blanks, and for Windows line endings."""
    if "\r\n" in document.text:
        yield make_finding(
            "line-ends",
            document,
            Place(line=document.text[: document.text.index("\r\n")].count("\n") + 1),
            "the file has Windows line endings: "
            "sbatch refuses the script, and a shell adds the \\r to the last word",
            fix="Convert the file: sed -i 's/\\r$//' FILE.",
        )
    for index, line in enumerate(document.lines, 1):
        if line.isascii() or not _STARTS.match(line):
            continue
        code = line if line.startswith("#SBATCH") else line.partition(" #")[0]
        yield from _typed(document, index, code.partition(" # ")[0])


def _typed(document: Document, index: int, code: str) -> Findings:
    dash, quote, blank = _DASH.search(code), _QUOTE.search(code), _BLANK.search(code)
    if dash is not None:
        message = f"{dash[1]} begins with a typographic dash, so it is not read as an option"
    elif quote is not None:
        message = "a typographic quote is part of the value"
    elif blank is not None:
        message = "this is not a plain blank (perhaps a no-break space), so it does not separate words"
    else:
        return
    yield make_finding(
        "typography", document, Place(line=index), message, fix="Type the line again with plain characters."
    )


@per_document()
def waivers(document: Document, context: Context) -> Findings:
    """Check for waivers of unknown rules, which have no effect."""
    named = {name for names in document.waived.values() for name in names} - {"all"}
    for name in sorted(named - set(load_rules())):
        near = closest(name, load_rules(), 0.6)
        yield make_finding(
            "waiver-unknown",
            document,
            Place(line=_waiver_line(document, name)),
            f"no rule is called {name}" + suggestion(near),
            fix=f"Write {near}." if near else "Remove the comment.",
        )


def _waiver_line(document: Document, name: str) -> int:
    pattern = re.compile(rf"rigtune:\s*ignore\S*\b{re.escape(name)}\b")
    return next((number for number, line in enumerate(document.lines, 1) if pattern.search(line)), 1)
