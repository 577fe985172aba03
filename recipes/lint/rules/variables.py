"""Names and values of variables, compared with the table `probes/data/nccl_variables.toml`."""

import functools
import re
from collections.abc import Iterator

from probes.base.versions import at_least
from probes.catalogue.nccl_variables import Variable, load_variables, misread, numbered_level, read_integer
from recipes.lint.algorithms import WORDS, unknown_words
from recipes.lint.context import Context
from recipes.lint.document import Document, Setting
from recipes.lint.editing import removal, rename, rewrite
from recipes.lint.finding import LintFinding
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import OLD_TORCH_NAMES, closest, commands, is_set, mentions, option

_PLUGIN_PREFIXES = (
    "NCCL_FASTRAK_",
    "NCCL_GPUDIRECTTCPX_",
    "NCCL_GPUVIPER_",
    "NCCL_SHIMNET_",
    "NCCL_TUNER_",
    "NCCL_INSPECTOR_",
    "NCCL_PROFILE",
    "NCCL_GIN_",
    "NCCL_RMA_",
    "NCCL_OFI_",
    "NCCL_PSK",
    "NCCL_SPCX_",
    "NCCL_UCX_",
    "NCCL_PLUGIN_",
    "NCCL_GIB_",
    "NCCL_TELEMETRY_",
    "NCCL_IBEXT_",
    "NCCL_SHARP_",
    "NCCL_TEST",
    "NCCL_IB_RESILIENCY_",
    "NCCL_BIN_PATH",
    "NCCL_GPUVIZ_",
    "NCCL_NET_PLUGIN_",
    "NCCL_USE_SNAP",
    "NCCL_USE_LLCM",
)
"""Beginnings of names that plugins, wrappers or NCCL's own tools read."""
_BUILD_NAMES = re.compile(
    r"NCCL_(?:.*_)?(?:HOME|VERSION|VER|DIR|DIRS|ROOT|PATH|LIB|LIBS|LIBRARY|LIBRARIES|INCLUDE|URL|REPO|BRANCH|"
    r"TAG|TESTS?|ARGS|ENV|ENVS|OPTS|OPTIONS|FLAGS|VARS|IMAGE|COMMIT|PKG|PACKAGE|PREFIX|BIN|EXE|LOG|LOGS|SRC|"
    r"SOURCE|BUILD|INSTALL|SO|SCRIPT|SCRIPTS|TARBALL|CUDA|PARAMS?|SETTINGS|CMD|LAUNCHER|MAJOR|MINOR|SUFFIX|"
    r"NAME|HOSTFILE|BACKEND|JOB)"
)
"""Names that people give to folders, versions and arguments of builds; NCCL does not read them."""
_READ_BY_OTHERS = frozenset({
    "NCCL_TOPO_DUMP_FILE_RANK", "NCCL_GRAPH_DUMP_FILE_RANK", "NCCL_L1_SHARED_MEMORY_CARVEOUT",
    "NCCL_PROXY_DUMP_SIGNAL", "NCCL_NCHANNELS_PER_PEER", "NCCL_GDR_FLUSH_DISABLE",
    "NCCL_NET_OPTIONAL_RECV_COMPLETION", "NCCL_NVB_PRECONNECT", "NCCL_GRAPH_HELPER_DISABLE",
    "NCCL_P2P_EPOCH_ENABLE", "NCCL_MULTI_SEGMENT_REGISTER", "NCCL_MODEL_MATCHING_DISABLE",
    "NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS", "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME",
    "NCCL_PIVOT_ALLTOALL_ENABLE", "NCCL_IB_SOCK_CLIENT_PORT_REUSE", "NCCL_IB_SOCK_SERVER_PORT_REUSE",
    "NCCL_MAX_NVLS_NCHANNELS", "NCCL_BUILD_TYPE",
})  # fmt: skip
"""Names that NCCL before 2.16, the newest NCCL or RCCL reads, and that have no row in the table."""
_RIGHT_NAMES = {
    "NCCL_CHECK_DISABLE": "",
    "TORCH_NCCL_ASYNC_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCH_NCCL_ASYNC_ERROR": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT": "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
    "NCCL_IB_QPS_PER_CONN": "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_SOCKET_NTHREAD": "NCCL_SOCKET_NTHREADS",
    "NCCL_NSOCKS_PER_THREAD": "NCCL_NSOCKS_PERTHREAD",
    "NCCL_IFNAME": "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_INTERFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_INTERFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_DEBUG_LEVEL": "NCCL_DEBUG",
    "NCCL_LOG_LEVEL": "NCCL_DEBUG",
    "NCCL_P2P": "NCCL_P2P_DISABLE",
    "GLOO_IFNAME": "GLOO_SOCKET_IFNAME",
    "GLOO_SOCKET_INTERFACE": "GLOO_SOCKET_IFNAME",
    "NCCL_MNNVL": "NCCL_MNNVL_ENABLE",
    "NCCL_BUFFERSIZE": "NCCL_BUFFSIZE",
    "NCCL_BUFFER_SIZE": "NCCL_BUFFSIZE",
    "NCCL_GDR_LEVEL": "NCCL_NET_GDR_LEVEL",
    "NCCL_IB_GDR_LEVEL": "NCCL_NET_GDR_LEVEL",
    "NCCL_IB_HCAS": "NCCL_IB_HCA",
    "NCCL_NVLS_DISABLE": "NCCL_NVLS_ENABLE",
}
"""Frequent misspellings with their right names, for which the most similar name is wrong or too different.

The right name is blank if there is none.
"""
_TRUE = ("true", "yes", "on", "y", "t", "enable", "enabled")
_FALSE = ("false", "no", "off", "n", "f", "none", "disable", "disabled")
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}
_READERS = {"nccl": "NCCL", "torch": "PyTorch", "cuda": "CUDA"}


@functools.lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    return tuple(row.name for row in load_variables().variables if row.use != "dead")


def _is_judged(name: str) -> bool:
    if name in _RIGHT_NAMES or name in OLD_TORCH_NAMES:
        return True
    return (
        name.startswith(("NCCL_", "TORCH_NCCL_"))
        and not name.startswith(_PLUGIN_PREFIXES)
        and _BUILD_NAMES.fullmatch(name) is None
    )


def _settings(document: Document) -> Iterator[Setting]:
    for item in document.given:
        if (item.value is not None or not item.is_literal) and re.fullmatch(r"\w+", item.name):
            yield item


@per_document()
def names(document: Document, context: Context) -> Findings:
    """Check for unknown, misspelt, renamed and removed names."""
    for item in _settings(document):
        row = load_variables().find(item.name)
        if item.name in OLD_TORCH_NAMES:
            new = OLD_TORCH_NAMES[item.name]
            yield make_finding(
                "variable-old-torch-name",
                document,
                item.place,
                f"{item.name} is the old name of {new}",
                fix=f"Write {new}.",
                edits=rename(document, item, new)
                if context.torch is not None and at_least(context.torch, "2.2") is True
                else (),  # older versions read only the old names
            )
        elif _RIGHT_NAMES.get(item.name):
            yield _misspelt(document, item, _RIGHT_NAMES[item.name])
        elif row is not None and row.use == "dead":
            if row.until is not None and context.nccl_is_at_least(row.until) is not True:
                continue  # an older NCCL reads the variable
            yield make_finding(
                "variable-removed",
                document,
                item.place,
                f"{item.name} has no effect: {row.note}",
                fix="Remove the line.",
                edits=removal(document, item),
            )
        elif row is None and _is_judged(item.name):
            near = closest(item.name, _names(), 0.9)
            if near:
                yield _misspelt(document, item, near)
            elif (
                not item.name.startswith("TORCH_")
                and item.name not in _READ_BY_OTHERS
                and not mentions(document, rf"\$\{{?{item.name}\b|environ\W+{item.name}\b")
            ):
                yield make_finding(
                    "variable-unknown",
                    document,
                    item.place,
                    f"no known version of NCCL or PyTorch reads {item.name}",
                    fix="Correct the name, or remove the variable.",
                )
    yield from _handed(document)


def _handed(document: Document) -> Findings:
    """Check for misspelt names after `-x` of mpirun that no line of the file sets."""
    for command in commands(document, "mpirun"):
        for name in dict.fromkeys(re.findall(r"(?m)^\w+$", option(command, "x") or "")):
            if is_set(document, name) or load_variables().find(name) is not None or not _is_judged(name):
                continue
            if name in OLD_TORCH_NAMES or name in _READ_BY_OTHERS:
                continue
            near = closest(name, _names(), 0.9)
            if near:
                yield make_finding(
                    "variable-misspelt",
                    document,
                    command.place,
                    f"-x {name}: nothing reads it; did you mean {near}?",
                    fix=f"Write -x {near}.",
                )


def _misspelt(document: Document, item: Setting, name: str) -> LintFinding:
    # an _ENABLE name instead of a _DISABLE name would invert the value, so no edit is made
    inverts = item.name.endswith("_DISABLE") != name.endswith("_DISABLE")
    return make_finding(
        "variable-misspelt",
        document,
        item.place,
        f"nothing reads {item.name}; did you mean {name}?",
        fix=f"Write {name}." if not inverts else f"Use {name}, which means the opposite.",
        edits=() if inverts else rename(document, item, name),
    )


@per_document()
def versions(document: Document, context: Context) -> Findings:
    """Check for names that only a newer NCCL reads."""
    version = context.nccl
    if version is None:
        return
    for item in _settings(document):
        row = load_variables().find(item.name)
        if (
            row is not None
            and row.reader == "nccl"
            and row.since is not None
            and at_least(version, row.since) is False
        ):
            yield make_finding(
                "variable-too-new",
                document,
                item.place,
                f"NCCL {version} does not read {item.name}; {row.since} is the first version that reads it",
                fix=f"Update NCCL to {row.since} or newer, or remove the line.",
            )


@per_document()
def values(document: Document, context: Context) -> Findings:
    """Check for values that NCCL, PyTorch or CUDA reads as another value."""
    for item in _settings(document):
        row = load_variables().find(item.name)
        if (
            row is None
            or row.use == "dead"
            or not item.is_literal
            or not item.value
            or item.value != item.value.strip("\t \"'")
        ):
            continue
        text = item.value
        if text.startswith(("<", "{{", "$", "[")) or "..." in text:
            continue
        wrong = misread(row, text)
        if wrong is not None:
            yield from _wrong(document, item, row, text, wrong)


def _wrong(document: Document, item: Setting, row: Variable, text: str, wrong: str) -> Findings:
    message = f"{_READERS[row.reader]} reads {item.name}={text} as {wrong}"
    match row.kind:
        case "switch" | "number":
            yield from _wrong_number(document, item, row, text, message)
        case "flag":
            yield make_finding("value-flag", document, item.place, message, fix="Write 0 or 1.")
        case "level" if text == "0" and item.name == "NCCL_NET_GDR_LEVEL":
            return  # the rule gdr-off reports it
        case "level" if (numbered := numbered_level(text)) is not None:
            yield make_finding(
                "value-level-digits",
                document,
                item.place,
                f"{item.name}={text} is {wrong}",
                fix=f"Write {numbered}.",
                edits=rewrite(document, item, numbered),
            )
        case "level":
            known = text.upper() in ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "P2C", "PHB", "SYS")
            yield make_finding(
                "value-level",
                document,
                item.place,
                message,
                fix="Write the level in capitals." if known else "",
                edits=rewrite(document, item, text.upper()) if known else (),
            )
        case _:
            yield make_finding(
                "value-word", document, item.place, message, fix=f"Write one of {', '.join(row.words)}."
            )


def _wrong_number(document: Document, item: Setting, row: Variable, text: str, message: str) -> Findings:
    integer = read_integer(text)
    unit = re.fullmatch(r"(\d{1,9})\s*([KMG])i?B?", text, re.IGNORECASE)
    if unit is not None:
        meant = int(unit[1]) * _UNITS[unit[2].upper()]
        yield make_finding(
            "value-unit",
            document,
            item.place,
            message,
            fix=f"Write {meant}.",
            edits=rewrite(document, item, str(meant)),
        )
    elif integer.rest.strip():
        if text.lower() in _FALSE and row.kind == "switch":
            return  # the program reads this value as 0, as intended
        yield make_finding(
            "value-not-a-number",
            document,
            item.place,
            message,
            fix="Write 0 or 1." if row.kind == "switch" else "Write digits.",
            edits=(
                rewrite(document, item, "1")
                if text.lower() in _TRUE and row.kind == "switch" and row.use == "system"
                else ()
            ),
        )
    elif re.match(r"[+-]?0\d", text):
        yield make_finding(
            "value-octal", document, item.place, message, fix="Write the number without a leading 0."
        )
    else:
        yield make_finding(
            "value-out-of-range",
            document,
            item.place,
            message,
            fix="Remove it, or write a value in the range.",
        )


@per_document()
def lists(document: Document, context: Context) -> Findings:
    """Check for algorithms and protocols that do not exist."""
    for item in _settings(document):
        if item.name not in ("NCCL_ALGO", "NCCL_PROTO") or not item.is_literal or not item.value:
            continue
        known = WORDS[item.name]
        wrong = unknown_words(item.name, item.value)
        if wrong:
            yield make_finding(
                "value-algorithm",
                document,
                item.place,
                f"{item.name}={item.value}: NCCL has no algorithm or protocol {wrong[0]!r}",
                fix=f"Choose from {', '.join(known)}; better, remove the line.",
            )
