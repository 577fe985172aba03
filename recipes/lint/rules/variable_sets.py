"""Variables that contradict each other, are overwritten or reach no process, and mistakes in nccl.conf."""

import re

from probes.catalogue.nccl_variables import load_variables
from recipes.lint.context import Context
from recipes.lint.document import Document, Place, Setting, lines_of
from recipes.lint.finding import Edit
from recipes.lint.reach import Given, getters, text_in
from recipes.lint.rule_table import Documents, Findings, make_finding, per_document
from recipes.lint.views import OLD_TORCH_NAMES, is_set, number

_CONFLICTS = (
    ("NCCL_CUMEM_ENABLE", ("0",), "NCCL_NVLS_ENABLE", ("1",), "NVLS needs cuMem memory, which is turned off"),
    (
        "NCCL_CUMEM_ENABLE",
        ("0",),
        "NCCL_MNNVL_ENABLE",
        ("1",),
        "multi-node NVLink needs cuMem memory, which is turned off",
    ),
    (
        "NCCL_MULTI_RANK_GPU_ENABLE",
        ("1",),
        "NCCL_NVLS_ENABLE",
        ("1",),
        "several ranks on one GPU and NVLS exclude each other, so the job ends",
    ),
    ("NCCL_P2P_DISABLE", ("1",), "NCCL_P2P_LEVEL", None, "peer-to-peer is off, so its level has no effect"),
    ("NCCL_P2P_DISABLE", ("1",), "NCCL_NVLS_ENABLE", ("1",), "NVLS needs peer-to-peer, which is off"),
    ("NCCL_IB_DISABLE", ("1",), "NCCL_NET", ("IB",), "InfiniBand is requested and also turned off"),
    ("NCCL_IB_DISABLE", ("1",), "NCCL_IB_HCA", None, "InfiniBand is off, so no RDMA port is used"),
    ("NCCL_NET", ("Socket", "socket"), "NCCL_IB_HCA", None, "the transport is TCP, so no RDMA port is used"),
    ("RDMAV_FORK_SAFE", None, "FI_EFA_FORK_SAFE", None, "both request fork support, and together they fail"),
    (
        "NCCL_SHM_DISABLE",
        ("1",),
        "NCCL_P2P_DISABLE",
        ("1",),
        "GPUs of one machine can only exchange data over the network",
    ),
)
"""Pairs of variables that contradict each other: name, values (None for any), name, values, reason."""


@per_document()
def conflicts(document: Document, context: Context) -> Findings:
    """Check for pairs that contradict each other."""
    for given in document.environments:
        for name, first, other, second, why in _CONFLICTS:
            value, other_value = text_in(given, name), text_in(given, other)
            if (
                value is None
                or other_value is None
                or (first and value not in first)
                or (second and other_value not in second)
            ):
                continue
            yield make_finding(
                "variable-conflict",
                document,
                given[other].place,
                f"{name}={value} and {other}={other_value}: {why}",
                fix=f"Remove {name} or {other}.",
            )
        yield from _bounds(document, given)
        yield from _sockets(document, given)


def _bounds(document: Document, given: Given) -> Findings:
    for low, high in (("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"), ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")):
        least, most = number(text_in(given, low)), number(text_in(given, high))
        if least is not None and most is not None and least > most:
            yield make_finding(
                "variable-conflict",
                document,
                given[low].place,
                f"{low}={least} is more than {high}={most}",
                fix="Set only one of the two.",
            )


def _sockets(document: Document, given: Given) -> Findings:
    threads, sockets = (
        number(text_in(given, name)) for name in ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")
    )
    if threads is not None and sockets is not None and threads * sockets > 64:
        yield make_finding(
            "sockets-too-many",
            document,
            given["NCCL_NSOCKS_PERTHREAD"].place,
            f"{threads} threads with {sockets} sockets each are {threads * sockets}; NCCL allows at most 64",
            fix="Lower one of the numbers, so that the product is at most 64.",
        )


@per_document()
def repeated(document: Document, context: Context) -> Findings:
    """Check for variables that are set again, outside of branches, before the first value is used."""
    before: dict[str, Setting] = {}
    for item in document.settings:
        if not item.name.startswith(_JUDGED) or not _is_flat(document, item):
            continue
        # the same name twice is fine if a command between them uses the first value
        old = before.get(item.name)
        if old is not None and _is_lost(document, old, item):
            yield make_finding(
                "variable-twice",
                document,
                item.place,
                f"{item.name} was set to {old.value} on line {old.place.line}; {item.value} replaces it",
                fix="Keep one of the two lines.",
            )
        before[item.name] = item


_JUDGED = ("NCCL_", "TORCH_NCCL_", "GLOO_", "CUDA_DEVICE")


def _is_flat(document: Document, item: Setting) -> bool:
    """Return whether the variable is set for all later lines, without a condition."""
    if document.kind in ("dotenv", "nccl-conf"):
        return True
    line = document.lines[item.place.line - 1] if 0 < item.place.line <= len(document.lines) else ""
    is_script = document.kind in ("shell", "sbatch") and item.reaches != "command"
    return is_script and line.startswith(("export ", f"{item.name}="))


def _is_lost(document: Document, old: Setting, new: Setting) -> bool:
    """Return whether a new value replaces a value that nothing has used."""
    if (
        old.value is None
        or new.value is None
        or old.value == new.value
        or not (old.is_literal and new.is_literal)
    ):
        return False
    between = document.lines[old.place.line : new.place.line - 1]
    return not any(old.name in line for line in between) and next(getters(document, old), None) is None


@per_document("shell", "sbatch")
def unexported(document: Document, context: Context) -> Findings:
    """Check for variables that are not exported, so that no process gets them."""
    for item in document.settings:
        row = load_variables().find(item.name)
        is_read = item.name in OLD_TORCH_NAMES or (row is not None and row.use != "dead")
        if item.is_exported or not is_read or is_set(document, item.name):
            continue
        if not re.search(rf"\$\{{?{item.name}\b|set -a|allexport|\bdeclare -x|\bsource\b", document.text):
            yield make_finding(
                "variable-not-exported",
                document,
                item.place,
                f"{item.name} is not exported, so no process gets it",
                fix=f"Write export {item.name}=...",
            )


@per_document("nccl-conf")
def conf_lines(document: Document, context: Context) -> Findings:
    """Check for blanks, quotes, comments and shell syntax in nccl.conf, which NCCL takes literally."""
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
            yield make_finding(
                "conf-export",
                document,
                place,
                f"NCCL takes {line.partition('=')[0].strip()!r} as the whole name of a variable",
                fix=f"Write {clean}.",
                edits=edits,
            )
        elif match[1] or match[4] or match[5]:
            yield make_finding(
                "conf-blanks",
                document,
                place,
                "blanks before or around = become part of the name or the value",
                fix=f"Write {clean}.",
                edits=edits,
            )
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
def conf_paths(document: Document, context: Context) -> Findings:
    """Check for `~` in NCCL_CONF_FILE, which NCCL does not expand."""
    for item in document.given:
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


def conf_precedence(documents: Documents, context: Context) -> Findings:
    """Check that nccl.conf and the other files do not set different values."""
    for conf in [document for document in documents if document.kind == "nccl-conf"]:
        for item in conf.settings:
            for other in documents:
                if other.kind == "nccl-conf":
                    continue
                for setting in other.given:
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
