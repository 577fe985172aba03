"""The rules of lint: rows of `recipes/data/lint_rules.toml`, and the functions that detect the mistakes."""

import functools
import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec

from probes.base.record import StrictRecord
from probes.base.rows import load_rows, read_rows
from recipes.lint.context import Context
from recipes.lint.document import Document, DocumentKind, Place
from recipes.lint.editing import with_safe_edits
from recipes.lint.finding import Edit, LintFinding, Severity
from recipes.lint.parts import embedded, parted

Documents = tuple[Document, ...]
Findings = Iterator[LintFinding]
Check = Callable[[Documents, Context], Findings]
"""Function that judges files that belong together."""


def per_document(*kinds: DocumentKind) -> Callable[[Callable[[Document, Context], Findings]], Check]:
    """Return a decorator for a rule that judges each file alone; without `kinds`, files of every kind."""

    def decorate(check: Callable[[Document, Context], Findings]) -> Check:
        @functools.wraps(check)
        def judge(documents: Documents, context: Context) -> Findings:
            for document in documents:
                if not kinds or document.kind in kinds:
                    yield from check(document, context)

        return judge

    return decorate


class LintRule(StrictRecord, kw_only=True):
    """A row of the table."""

    id: str
    severity: Severity
    title: str
    """The mistake in a few words."""
    reason: str
    """The consequence of the mistake."""
    source: str
    """The document or source code on which the rule is based."""
    since: str = ""
    """First version that the rule applies to, such as `NCCL 2.24`."""
    until: str = ""
    """First version that the rule no longer applies to."""
    module: str
    """Module below `recipes.lint.rules`."""
    function: str
    also: tuple[str, ...] = ()
    """Other functions that detect the same mistake, as `module.function`; each is also the function of
    another row.
    """
    edit: Literal["safe", "unsafe"] = "unsafe"
    """`safe` if the correction cannot change a job that works: the text had no effect, or was refused."""
    judges: Literal["container", "file"] = "container"
    """Input of the function: each container alone, or a file with all its containers."""

    @property
    def functions(self) -> tuple[str, ...]:
        """All functions that detect the mistake, as `module.function`."""
        return (f"{self.module}.{self.function}", *self.also)


@functools.lru_cache(maxsize=1)
def rule_rows() -> tuple[dict[str, Any], ...]:
    """Return the rows of the table without checking them."""
    return tuple(read_rows("lint_rules", "recipes")["rules"])


@functools.lru_cache(maxsize=1)
def load_rules() -> dict[str, LintRule]:
    """Return all rules by id, in the order of the file. Rows that are not valid are left out."""
    rules: dict[str, LintRule] = {}
    for row in rule_rows():
        try:
            rule = msgspec.convert(row, LintRule)
        except msgspec.ValidationError:
            continue  # `lint` reports this row; the other rules still apply
        rules[rule.id] = rule
    return rules


class Example(StrictRecord, kw_only=True):
    """A text that shows the mistake of a rule, and the same text without the mistake."""

    id: str
    """Id of the rule."""
    name: str
    """Name of the file."""
    bad: str
    good: str
    when: str = ""
    """Version or machine that the rule needs to detect the mistake; empty if it needs neither."""


@functools.lru_cache(maxsize=1)
def load_examples() -> dict[str, Example]:
    """Return the examples of all rules, by id."""
    return {row.id: row for row in load_rows("recipes", "examples", Example, file="lint_examples")}


def example_of(rule_id: str) -> Example:
    return load_examples()[rule_id]


_ISSUE = re.compile(r"\b([\w.-]+/[\w.-]+)#(\d+)")
_REPOSITORY = re.compile(r"(?:^|; )([A-Za-z][\w.-]*/[A-Za-z][\w.-]*)(?=,|;|$| )")


def help_link(rule: LintRule) -> str | None:
    """Return the address of the source of a rule; None if the source is not on the web."""
    for link in rule_links():
        if link["begins"] in rule.source:
            return str(link["url"])
    issue, repository = _ISSUE.search(rule.source), _REPOSITORY.search(rule.source)
    if issue is not None:
        return f"https://github.com/{issue[1]}/issues/{issue[2]}"
    return None if repository is None else f"https://github.com/{repository[1]}"


@functools.lru_cache(maxsize=1)
def rule_links() -> tuple[dict[str, str], ...]:
    """Return the addresses of documents that sources name."""
    return tuple(read_rows("lint_examples", "recipes")["links"])


def make_finding(
    rule_id: str,
    document: Document,
    place: Place,
    message: str,
    *,
    fix: str = "",
    edits: tuple[Edit, ...] = (),
    severity: Severity | None = None,
) -> LintFinding:
    """Return a finding of a rule; without `severity`, the finding has the severity of the rule's row."""
    return LintFinding(
        rule_id=rule_id,
        severity=severity or load_rules()[rule_id].severity,
        document=document.name,
        place=place,
        message=message,
        fix=fix,
        edits=edits,
    )


def _run(name: str, documents: tuple[Document, ...], context: Context) -> Iterator[LintFinding]:
    """Load and run one function. Raises every error of the module and of the function."""
    module, _, function = name.rpartition(".")
    check: Check = getattr(importlib.import_module(f"recipes.lint.rules.{module}"), function)
    return check(documents, context)


def _is_harmless(rule_id: str) -> bool:
    return load_rules()[rule_id].edit == "safe"


def _findings_in(
    documents: tuple[Document, ...], functions: Iterable[str], context: Context, broken: list[str] | None
) -> Iterator[LintFinding]:
    judges_files = {rule.functions[0] for rule in load_rules().values() if rule.judges == "file"}
    parts = tuple(part for document in documents for part in parted(document))
    for name in functions:
        try:
            yield from _run(name, documents if name in judges_files else parts, context)
        except Exception as error:
            if broken is None:
                raise
            broken.append(
                f"the rule {name} has a bug and did not judge everything: {type(error).__name__}: {error}"
            )


def lint(
    documents: tuple[Document, ...],
    context: Context,
    broken: list[str] | None = None,
    *,
    only: Iterable[str] | None = None,
) -> tuple[LintFinding, ...]:
    """Return all findings in files that belong together, in the order of the files and their lines.

    Each file within a file (a here-document, a value of a manifest) is judged alone. Findings that a comment
    waives are included; `Document.waived` names them. If `only` is given, only the functions of these rule
    ids run, and no other rule module is loaded. A rule that crashes, cannot be loaded or has an invalid row
    is described in `broken`, and the other rules still run; without `broken` the error is raised.
    """
    table = load_rules()
    if only is None and len(table) < len(rule_rows()):
        names = [str(row.get("id", "without an id")) for row in rule_rows() if row.get("id") not in table]
        if broken is None:
            raise ValueError(f"lint_rules.toml has invalid rows: {', '.join(names)}")
        broken += [f"the row of the rule {name} is not valid and was not used" for name in names]
    chosen = table.values() if only is None else [table[rule_id] for rule_id in only]
    functions = dict.fromkeys(name for rule in chosen for name in rule.functions)  # rows share functions
    groups = (documents, *((inner,) for document in documents for inner in embedded(document)))
    by_name = {document.name: document for document in documents}
    findings = (
        with_safe_edits(finding, by_name[finding.document], is_harmless=_is_harmless(finding.rule_id))
        for group in groups
        for finding in _findings_in(group, functions, context, broken)
    )
    return in_order(findings, documents)


def in_order(findings: Iterable[LintFinding], documents: tuple[Document, ...]) -> tuple[LintFinding, ...]:
    """Return each finding once, in the order of the files and their lines."""
    order = {document.name: index for index, document in enumerate(documents)}
    once = {
        (finding.rule_id, finding.document, finding.place.line, finding.message): finding
        for finding in findings
    }
    return tuple(
        sorted(
            once.values(),
            key=lambda item: (order.get(item.document, 0), item.place.line, item.place.column, item.rule_id),
        )
    )
