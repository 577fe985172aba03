"""NCCL's own configuration files, which take every character literally."""

from __future__ import annotations

import re

from recipes.lint.context import Context
from recipes.lint.document import Document, Place, lines_of
from recipes.lint.finding import Edit
from recipes.lint.rule_table import Documents, Findings, make_finding, per_document
from recipes.lint.views import settings_of


@per_document("nccl-conf")
def lines(document: Document, context: Context) -> Findings:
    """Check blanks, quotes, comments and shell syntax in nccl.conf."""
    for index, line in enumerate(lines_of(document.text), 1):
        match = re.match(r"(\s*)(export\s+)?([A-Za-z_]\w*)(\s*)=(\s*)(.*)$", line)
        if match is None or line.startswith("#"):
            continue
        value = re.sub(r"\s+#.*$", "", match[6]).strip()
        quoted = re.fullmatch(r"([\"'])(.*)\1", value)
        clean = f"{match[3]}={quoted[2] if quoted else value}"
        edits = (
            Edit(place=Place(line=index, column=1, end_line=index, end_column=len(line) + 1), text=clean),
        )
        place = Place(line=index)
        if match[2]:
            message = f"NCCL reads a variable called {line.partition('=')[0].strip()!r}"
            yield make_finding("conf-export", document, place, message, fix=f"Write {clean}.", edits=edits)
        elif match[1] or match[4] or match[5]:
            message = "blanks before or around = become part of the name or the value"
            yield make_finding("conf-blanks", document, place, message, fix=f"Write {clean}.", edits=edits)
        elif re.search(r"\s#", match[6]):
            yield make_finding(
                "conf-comment",
                document,
                place,
                "a comment after a value becomes part of the value",
                fix=f"Write {clean}.",
                edits=edits,
            )
        elif quoted:
            yield make_finding(
                "conf-quotes",
                document,
                place,
                "quotes become part of the value",
                fix=f"Write {clean}.",
                edits=edits,
            )
        elif "$" in value:
            yield make_finding(
                "conf-variable",
                document,
                place,
                f"NCCL expands no variables: {value}",
                fix="Write the value itself.",
            )


@per_document()
def paths(document: Document, context: Context) -> Findings:
    """Check that the path of the configuration file needs no expansion."""
    for item in settings_of(document):
        if (
            item.name == "NCCL_CONF_FILE"
            and re.match(r"[\"']?~", item.written)
            and (item.written[0] in "\"'" or document.kind != "shell")
        ):
            yield make_finding(
                "conf-tilde",
                document,
                item.place,
                "NCCL does not expand ~ in NCCL_CONF_FILE",
                fix="Write the whole path.",
            )


def precedence(documents: Documents, context: Context) -> Findings:
    """Check that the file and the script beside it agree."""
    for conf in [document for document in documents if document.kind == "nccl-conf"]:
        for item in conf.settings:
            for other in documents:
                if other.kind == "nccl-conf":
                    continue
                for setting in settings_of(other):
                    if (
                        setting.name == item.name
                        and setting.is_literal
                        and setting.value is not None
                        and setting.value != item.value
                    ):
                        yield make_finding(
                            "conf-overruled",
                            conf,
                            item.place,
                            f"{other.name} sets {item.name}={setting.value}, which overrules {item.value} in "
                            "this file",
                            fix="Set the variable in one place.",
                        )
