"""TF_CONFIG of TensorFlow's workers."""

import json
import re
from collections.abc import Iterator
from typing import Any

from recipes.lint.context import Context
from recipes.lint.document import Document, Place
from recipes.lint.rule_table import Findings, make_finding, per_document


def _texts(document: Document) -> Iterator[tuple[Place, str]]:
    if document.kind == "tf-config":
        yield Place(line=1), document.text
    for item in document.given:
        if (
            item.name == "TF_CONFIG"
            and item.is_literal
            and item.value
            and item.value.lstrip().startswith("{")
        ):
            yield item.place, item.value


@per_document()
def configurations(document: Document, context: Context) -> Findings:
    """Check the JSON, the tasks and the addresses of TF_CONFIG."""
    for place, text in _texts(document):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            why = (
                "a comma before a closing bracket"
                if re.search(r",\s*[}\]]", text)
                else str(error).partition(":")[0]
            )
            yield make_finding(
                "tf-config-json",
                document,
                place,
                f"TF_CONFIG is not valid JSON: {why}",
                fix="Correct it; check with python -m json.tool.",
            )
            continue
        cluster, task = _mapping(data, "cluster"), _mapping(data, "task")
        if cluster:
            yield from _tasks(document, place, cluster, task)
            yield from _addresses(document, place, cluster)


def _mapping(data: Any, name: str) -> dict[str, Any]:
    part = data.get(name) if isinstance(data, dict) else None
    return part if isinstance(part, dict) else {}


def _tasks(document: Document, place: Place, cluster: dict[str, Any], task: dict[str, Any]) -> Findings:
    kind, index = task.get("type"), task.get("index")
    members = cluster.get(kind) if isinstance(kind, str) else None
    if isinstance(members, list) and isinstance(index, int) and not 0 <= index < len(members):
        yield make_finding(
            "tf-config-index",
            document,
            place,
            f"task {kind} {index} of {len(members)}: the first task has index 0",
            fix=f"Count from 0 to {len(members) - 1}.",
        )
    elif isinstance(kind, str) and members is None and kind != "evaluator":
        yield make_finding(
            "tf-config-index",
            document,
            place,
            f"the cluster has no {kind}",
            fix="Write a task type that the cluster has.",
        )
    if "evaluator" in cluster:
        yield make_finding(
            "tf-config-evaluator",
            document,
            place,
            "the evaluator must not be listed in the cluster",
            fix="Remove it from cluster; the evaluator is named only in task.",
        )
    if isinstance(cluster.get("chief"), list) and len(cluster["chief"]) > 1:
        message = "a cluster has only one chief"
        yield make_finding("tf-config-index", document, place, message, fix="Keep one.")


def _addresses(document: Document, place: Place, cluster: dict[str, Any]) -> Findings:
    listed = [
        address
        for members in cluster.values()
        if isinstance(members, list)
        for address in members
        if isinstance(address, str)
    ]
    twice = sorted({address for address in listed if listed.count(address) > 1})
    if twice:
        yield make_finding(
            "tf-config-address",
            document,
            place,
            f"two tasks have the address {twice[0]}",
            fix="Give every task its own address and port.",
        )
    bare = [address for address in listed if not re.search(r":\d+$", address) and "$" not in address]
    if bare:
        yield make_finding(
            "tf-config-address", document, place, f"{bare[0]} has no port", fix="Write host:port."
        )
    names = {
        bool(re.fullmatch(r"\d+\.\d+\.\d+\.\d+:\d+", address))
        for address in listed
        if "$" not in address and "{" not in address
    }
    local = [address for address in listed if re.match(r"localhost|127\.", address)]
    if local and len(local) < len(listed):
        yield make_finding(
            "tf-config-address",
            document,
            place,
            f"{local[0]} is every machine's own address",
            fix="Write the address that the other machines reach.",
        )
    elif len(names) > 1:
        yield make_finding(
            "tf-config-mixed",
            document,
            place,
            "IP addresses and host names are mixed",
            fix="Write only addresses or only names, so that every machine resolves them in the same way.",
        )
