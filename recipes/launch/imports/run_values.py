"""Values that the scheduler gives to a job, as far as the requests in the same files determine them."""

import re
from collections.abc import Sequence

from recipes.launch.imports.training_files import LaunchFile
from recipes.lint.views import directive, gpus_per_node, number

_NAME = re.compile(
    r"\$(?:\{(?P<braced>[A-Za-z_]\w*)(?::?[-=](?P<default>[^{}]*))?\}|(?P<plain>[A-Za-z_]\w*))"
)
"""A variable, with its default only inside braces; other expansions such as `${A%.py}` are not computed."""
_ASSIGNED = re.compile(r"^: +\"?\$\{([A-Za-z_]\w*):?=([^{}\n]*)\}\"?[ \t]*(?:#.*)?$", re.MULTILINE)
"""A value for a variable that the shell lacks, `: "${NAME:=value}"`; an indented line might not run."""
_ARITHMETIC = re.compile(r"\$\(\((.*)\)\)")
_PRODUCT = re.compile(r"\s*\d+(?:\s*[*+/-]\s*\d+)*\s*")
_STEP = re.compile(r"([*+/-]?)\s*(\d+)")


class RunValues:
    """The values of variables such as SLURM_NNODES, and of the variables of a script that depend on them."""

    def __init__(self, files: Sequence[LaunchFile]) -> None:
        self._values: dict[str, str] = {}
        for file in files:
            if file.document is not None and file.owner == "shell":
                self._requests(file)
        self._scripts = {
            item.name: item.written
            for file in files
            if file.owner == "shell"
            for item in file.settings
            if not item.is_conditional and item.written
        }
        for file in files:
            for name, value in _ASSIGNED.findall(file.text if file.owner == "shell" else ""):
                self._scripts.setdefault(name, value)

    def _requests(self, file: LaunchFile) -> None:
        document = file.document
        if document is None:
            return
        nodes = number((directive(document, "nodes") or "").partition("-")[0])
        gpus = gpus_per_node(document)
        per_node = number(directive(document, "ntasks-per-node", "tasks-per-node"))
        tasks = number(directive(document, "ntasks"))
        if tasks is None and nodes is not None and per_node is not None:
            tasks = nodes * per_node
        for names, value in (
            (("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), nodes),
            (("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), gpus),
            (("SLURM_NTASKS", "SLURM_NPROCS"), tasks),
            (("SLURM_NTASKS_PER_NODE",), per_node),
        ):
            if value is not None:
                self._values |= dict.fromkeys(names, str(value))

    def resolved(self, text: str, depth: int = 0) -> str | None:
        """Return the text with variables and arithmetic filled in; None if a part is unknown before the
        run.
        """
        if depth > 8:
            return None
        text = text.strip().strip("\"'")
        sum_of = _ARITHMETIC.fullmatch(text)
        if sum_of is not None:
            inner = self._filled(re.sub(r"(?<![\w${])([A-Za-z_]\w*)", r"$\1", sum_of[1]), depth)
            return _computed(inner) if inner is not None else None
        return self._filled(text, depth)

    def _filled(self, text: str, depth: int) -> str | None:
        if "$(" in text or "`" in text:
            return None
        pieces, at = [], 0
        for match in _NAME.finditer(text):
            name = match["braced"] or match["plain"]
            value = self._values.get(name)
            if value is None and name in self._scripts:
                value = self.resolved(self._scripts[name], depth + 1)
            if value is None and match["default"] is not None:
                value = match["default"].strip("\"'")
            if value is None:
                return None
            pieces += [text[at : match.start()], value]
            at = match.end()
        filled = "".join((*pieces, text[at:]))
        return None if "$" in filled or "{{" in filled else filled


def _computed(text: str) -> str | None:
    """Return the value of whole numbers with `*`, `/`, `+` and `-`; None for anything else.

    Products bind more tightly than sums, as in the shell.
    """
    if not _PRODUCT.fullmatch(text):
        return None
    terms: list[int] = []
    for sign, digits in _STEP.findall(text.replace(" ", "")):
        value = int(digits)
        if sign in ("*", "/"):
            if sign == "/" and value == 0:
                return None
            terms[-1] = terms[-1] * value if sign == "*" else terms[-1] // value
        else:
            terms.append(-value if sign == "-" else value)
    return str(sum(terms))
