"""Settings that overrule decisions of NCCL, debugging switches, and versions with known faults."""

import re
from collections.abc import Iterator

from probes.catalogue.nccl_variables import Use, Variable, is_default, load_variables, misread
from recipes.lint.algorithms import unknown_words
from recipes.lint.context import Context
from recipes.lint.document import Document, Place, Setting
from recipes.lint.editing import removal, rewrite
from recipes.lint.reach import is_aside, is_switched, text_in
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import commands, is_on_cloud, last, mentions, nodes_of, number, option

_OWN_RULE = (
    "NCCL_IB_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_SHM_DISABLE",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_DMABUF_ENABLE",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_NVLS_ENABLE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_MNNVL_ENABLE",
    "NCCL_P2P_NET_CHUNKSIZE",
    "CUDA_MODULE_LOADING",
    "TORCH_CPP_LOG_LEVEL",
)
"""Variables that have their own rule, or that recipes of vendors set for good reasons."""
_GCP = (
    r"NCCL_FASTRAK_|NCCL_GPUDIRECTTCPX_|NCCL_TUNER_CONFIG_PATH|/usr/local/(?:gib|tcpx|nccl)|/var/lib/tcpx|"
    r"nccl-env-profile"
)
_BENCHMARKS = (
    "all_reduce_perf",
    "all_gather_perf",
    "reduce_scatter_perf",
    "alltoall_perf",
    "sendrecv_perf",
    "broadcast_perf",
    "reduce_perf",
)


_MANY_NODES = 16
_MINOR = ("NCCL_P2P_LEVEL", "NCCL_IGNORE_DISABLED_P2P")
"""Variables of the debugging class that people also set for good reasons."""


def _measures(document: Document) -> bool:
    """Return whether the file runs nccl-tests: such a benchmark sets choices by hand to compare them."""
    return any(name in document.text for name in _BENCHMARKS)


def _variables_of_use(use: Use, document: Document) -> Iterator[tuple[Setting, Variable, str]]:
    """Yield the variables of one class with their values.

    Only literal values that the variable's reader accepts are yielded. Files that run nccl-tests or use
    Google's network plugins yield nothing.
    """
    if _measures(document) or mentions(document, _GCP):
        return
    for item in document.given:
        row = load_variables().find(item.name)
        if row is None or row.use != use or not item.is_literal or not item.value or is_aside(document, item):
            continue
        if misread(row, item.value) is None:
            yield item, row, item.value


@per_document()
def forced(document: Document, context: Context) -> Findings:
    """Check for algorithms, protocols, channels and buffers that are set by hand."""
    for item, row, text in _variables_of_use("forcing", document):
        if item.name == "NCCL_ALGO" and text.startswith("^"):
            continue
        if item.name == "NCCL_BUFFSIZE" and is_on_cloud(document):
            continue  # the cloud publishes this value for its fabric
        if item.name == "NCCL_PROTO" and text.upper() == "LL128":
            yield make_finding(
                "protocol-ll128",
                document,
                item.place,
                "NCCL_PROTO=LL128 corrupts data on links that may split a write of 128 bytes",
                fix="Remove it; NCCL uses LL128 on links that are safe.",
                edits=removal(document, item),
            )
            continue
        if item.name in ("NCCL_ALGO", "NCCL_PROTO") and unknown_words(item.name, text):
            continue  # the rule value-algorithm reports it
        if mentions(document, r"(?i)determinis"):
            continue  # deterministic results need a fixed order of additions
        if mentions(document, r"(?i)rocm|\bHIP_|\bMI[23]\d\dX?\b|rccl"):
            continue  # AMD publishes other values for RCCL
        yield make_finding(
            "choice-forced",
            document,
            item.place,
            f"{item.name}={item.value} overrides a decision of NCCL: "
            f"{row.costs or 'the value is right for some message sizes at most'}",
            fix="Remove the setting, unless you measured that it is faster on this machine.",
        )


@per_document()
def leftovers(document: Document, context: Context) -> Findings:
    """Check for debugging variables that cost performance."""
    for item, row, text in _variables_of_use("debugging", document):
        if not row.costs or item.name in _OWN_RULE or is_default(row, text):
            continue
        if item.name == "NCCL_NET_GDR_READ" and text != "0":
            continue
        if item.name == "NCCL_P2P_LEVEL" and text.upper() in ("SYS", "5"):
            continue  # SYS allows peer access for every pair
        rule = {"cuda": "cuda-debugging-left", "torch": "torch-debugging-left"}.get(
            row.reader, "nccl-debugging-left"
        )
        yield make_finding(
            rule,
            document,
            item.place,
            f"{item.name}={item.value} is for debugging: {row.costs}",
            fix="Remove the setting from production runs.",
            edits=removal(document, item) if row.reader != "nccl" else (),  # an NCCL switch may hide a fault
            severity="note" if is_switched(document, item) or item.name in _MINOR else None,
        )


def _has_log_per_rank(document: Document) -> bool:
    """Return whether a launcher writes the output of each rank into a separate file."""
    of_steps = (option(step, "output", "o") or "" for step in commands(document, "srun"))
    return any(re.search(r"%\d*t", name) for name in of_steps) or any(
        {"log-dir", "redirects", "output-filename"} & command.options.keys()
        for command in commands(document, "torchrun", "mpirun", "accelerate")
    )


@per_document()
def logs(document: Document, context: Context) -> Findings:
    """Check the amount and the destination of NCCL's log."""
    for given in document.environments:
        level, parts = text_in(given, "NCCL_DEBUG"), text_in(given, "NCCL_DEBUG_SUBSYS")
        item, subsystem = given.get("NCCL_DEBUG"), given.get("NCCL_DEBUG_SUBSYS")
        if item is None or level is None:
            continue
        noisy = [
            part for part in (parts or "").upper().split(",") if part in ("COLL", "CALL", "ALL", "PROXY")
        ]
        if level.upper() in ("INFO", "TRACE") and noisy and not (parts or "").startswith("^"):
            if not _measures(document):
                yield make_finding(
                    "log-every-call",
                    document,
                    subsystem.place if subsystem is not None and noisy else item.place,
                    f"NCCL writes a line for every call ({level} with {parts}), which fills the disk",
                    fix="Use NCCL_DEBUG=WARN, or INFO without COLL, CALL, PROXY and ALL.",
                    edits=rewrite(document, item, "WARN") if level.upper() == "TRACE" else (),
                )
        elif (
            level.upper() in ("INFO", "TRACE")
            and (nodes_of(document) or 1) >= _MANY_NODES
            and text_in(given, "NCCL_DEBUG_FILE") is None
            and not _has_log_per_rank(document)
        ):
            yield make_finding(
                "log-info-at-scale",
                document,
                item.place,
                f"NCCL_DEBUG={level} on {nodes_of(document)} nodes writes thousands of lines into one log",
                fix="Use NCCL_DEBUG=WARN, and INFO for trials.",
                edits=rewrite(document, item, "WARN"),
            )
        elif subsystem is not None and level.upper() in ("WARN", "VERSION"):
            yield make_finding(
                "subsystem-without-info",
                document,
                subsystem.place,
                f"NCCL_DEBUG_SUBSYS filters INFO lines, but NCCL_DEBUG={level} writes no INFO lines",
                fix="Remove the line, or set NCCL_DEBUG=INFO for a trial.",
                edits=removal(document, subsystem),
            )
        file, file_item = text_in(given, "NCCL_DEBUG_FILE"), given.get("NCCL_DEBUG_FILE")
        if (
            file
            and file_item is not None
            and not re.search(r"%[hp]|\$", file)
            and not file.startswith("/dev/std")
        ):
            other = re.search(r"%[^%]", file)
            yield make_finding(
                "log-one-file",
                document,
                file_item.place,
                f"NCCL_DEBUG_FILE={file}: all processes overwrite each other's lines"
                + (f", because NCCL replaces only %h and %p, not {other[0]}" if other else ""),
                fix="Add %h and %p to the name, for host and process.",
            )


_FAULTY: tuple[tuple[str, str, str, str], ...] = (
    ("2.19.4", "2.19.5", "", "on AWS, NCCL 2.19.4 is slower than the versions before and after it"),
    ("2.26", "2.27", "TORCH_NCCL_USE_COMM_NONBLOCKING", "NCCL 2.26 hangs with non-blocking communicators"),
    ("2.27", "2.29", "NCCL_NVLS_ENABLE", "NCCL 2.27 and 2.28 can hang if some ranks get no NVLS memory"),
    ("2.29.2", "2.29.3", "", "NCCL 2.29.2 can hang; 2.29.3 corrects the fault"),
)


@per_document()
def faults(document: Document, context: Context) -> Findings:
    """Check for NCCL versions with a fault that these settings trigger."""
    for since, until, name, why in _FAULTY:
        if context.nccl_is_at_least(since) is not True or context.nccl_is_at_least(until) is not False:
            continue
        item = last(document, name) if name else None
        starts = next(commands(document, "torchrun", "accelerate", "deepspeed", "mpirun", "srun"), None)
        if name and item is not None and item.value in ("1", "true"):
            yield make_finding(
                "nccl-version-faulty",
                document,
                item.place,
                why,
                fix="Remove the setting, or update NCCL.",
            )
        elif not name and starts is not None:
            yield make_finding("nccl-version-faulty", document, starts.place, why, fix="Update NCCL.")


@per_document()
def plugins(document: Document, context: Context) -> Findings:
    """Check for settings of a missing plugin, settings that overrule a tuner, and two names of one
    setting.
    """
    for given in document.environments:
        tuner, config = given.get("NCCL_TUNER_PLUGIN"), given.get("NCCL_TUNER_CONFIG_FILE")
        if config is not None and tuner is None:
            yield make_finding(
                "plugin-missing",
                document,
                config.place,
                "only a tuner plugin reads NCCL_TUNER_CONFIG_FILE, but NCCL_TUNER_PLUGIN names no plugin",
                fix="Name the plugin, or remove the line.",
            )
        choice = next(
            (item for name in ("NCCL_ALGO", "NCCL_PROTO") if (item := given.get(name)) is not None), None
        )
        if (
            tuner is not None
            and tuner.value not in (None, "none", "")
            and choice is not None
            and not mentions(document, _GCP)
        ):
            yield make_finding(
                "tuner-overruled",
                document,
                choice.place,
                f"{choice.name} overrules the tuner {tuner.value}",
                fix="Remove one of the two settings.",
            )
        item = given.get("NCCL_MIN_NCHANNELS")
        if item is not None and number(text_in(given, item.name)) is not None and "NCCL_MIN_CTAS" in given:
            yield make_finding(
                "channels-twice",
                document,
                item.place,
                "NCCL_MIN_NCHANNELS and NCCL_MIN_CTAS are the same setting; the first is the old name",
                fix="Keep NCCL_MIN_CTAS.",
                edits=removal(document, item),
            )


@per_document()
def preloads(document: Document, context: Context) -> Findings:
    """Check for an NCCL other than the one with which torch was built."""
    for item in document.given:
        if item.name == "LD_PRELOAD" and re.search(r"libnccl\.so", item.value or item.written):
            yield make_finding(
                "nccl-preloaded",
                document,
                item.place,
                "LD_PRELOAD loads another NCCL into every process; nodes without this file load a "
                "different version",
                fix="Install one NCCL in the image, and let torch load its own.",
            )
    if document.kind == "dockerfile":
        yield from _installed(document)


def _installed(document: Document) -> Findings:
    # a later installation replaces the NCCL that came with torch
    torch_at = list(re.finditer(r"pip3? install[^\n]*\btorch\b", document.text))
    for at in re.finditer(
        r"(?:pip3? install|uv pip install)[^\n]*\b(nvidia-nccl-cu\d+)(?:[=<>~!]|\b)", document.text
    ):
        if torch_at and at.start() > torch_at[0].start():
            yield make_finding(
                "nccl-replaced",
                document,
                Place(line=document.text.count("\n", 0, at.start()) + 1),
                f"{at[1]} replaces the NCCL that torch was built and tested with",
                fix="Let torch choose its NCCL, or pin the same version in every image.",
            )
