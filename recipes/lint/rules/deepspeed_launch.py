"""The command line of deepspeed's launcher. Source: deepspeedai/DeepSpeed, launcher/runner.py."""

from __future__ import annotations

from recipes.lint.context import Context
from recipes.lint.document import Command, Document
from recipes.lint.reach import setting_for
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import commands, has_unknown_words

_FILTERS = ("include", "exclude")
_COUNTS = ("num-nodes", "num-gpus")


@per_document()
def command_lines(document: Document, context: Context) -> Findings:
    """Check options that exclude or need each other, and GPUs that are chosen in vain."""
    for command in commands(document, "deepspeed"):
        yield from _visible(document, command)
        filters = [name for name in _FILTERS if name in command.options]
        counts = [name for name in _COUNTS if name in command.options]
        if filters and counts:
            yield make_finding(
                "deepspeed-options",
                document,
                command.place,
                f"--{filters[0]} and --{counts[0].replace('-', '_')} exclude each other, so DeepSpeed "
                "ends with an error",
                fix=f"Keep --{filters[0]}.",
            )
        alone = {"no-ssh"} <= set(command.options) and "node-rank" not in command.options
        if alone and not has_unknown_words(command):
            yield make_finding(
                "deepspeed-options",
                document,
                command.place,
                "--no_ssh needs --node_rank, and DeepSpeed ends without it",
                fix="Give --node_rank, another on every node, and --master_addr.",
            )


def _visible(document: Document, command: Command) -> Findings:
    """Check CUDA_VISIBLE_DEVICES together with options that choose GPUs, on one machine."""
    item = setting_for(document, command, "CUDA_VISIBLE_DEVICES")
    if item is None or "hostfile" in command.options or item.is_conditional:
        return
    chooser = next((name for name in (*_FILTERS, "num-gpus") if name in command.options), None)
    devices = [part.strip() for part in (item.value or "").split(",") if part.strip()]
    if chooser is None or not devices or devices == [str(number) for number in range(len(devices))]:
        return  # DeepSpeed takes the first GPUs in any case
    option = chooser.replace("-", "_")
    yield make_finding(
        "deepspeed-visible-devices",
        document,
        item.place,
        f"deepspeed ignores CUDA_VISIBLE_DEVICES={item.value} because of --{option}, and counts GPUs from 0",
        fix=f"Write --include localhost:{','.join(devices)} alone.",
    )
