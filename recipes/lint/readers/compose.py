"""Compose files: the variables and commands of each service.

Source: the compose specification, docs.docker.com.
"""

from __future__ import annotations

from recipes.lint.document import Document, Reach
from recipes.lint.readers.pods import Pods
from recipes.lint.readers.tree import children, get, parse


def read(name: str, text: str) -> Document:
    """Return the compose file as a document. Never raises an error."""
    tree = parse(text)
    pods = Pods(tree)
    entries = []
    for root in tree.roots[:1]:
        entries += list(tree.entries(root))
        services = get(root, "services")
        several = [service for _, service in children(services)] if services is not None else []
        reaches: Reach = "node" if len(several) > 1 else "all"
        for service in several:
            pods.variables(get(service, "environment"), reaches)
            pods.start((get(service, "entrypoint"), get(service, "command")), reaches)
    return pods.document(name, "compose", entries)
