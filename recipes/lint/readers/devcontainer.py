"""devcontainer.json: variables and options of the container that an editor starts.

Source: containers.dev, specification.
"""

from __future__ import annotations

import yaml

from recipes.lint.document import Document
from recipes.lint.readers.launching import Launches, Start, plain_inline
from recipes.lint.readers.options import Argued
from recipes.lint.readers.pods import Pods
from recipes.lint.readers.tree import get, parse


def read(name: str, text: str) -> Document:
    """Return the file as a document. Never raises an error.

    `runArgs` are the options of `docker run`.
    """
    tree = parse(text, is_json=True)
    pods = Pods(tree)
    root = tree.roots[0] if tree.roots else None
    for key in ("containerEnv", "remoteEnv"):
        pods.variables(get(root, key), "all")
    options = get(root, "runArgs")
    if isinstance(options, yaml.SequenceNode):
        place = tree.place(options)
        words = [Argued("docker", place), Argued("run", place)]
        words += [tree.argued(item) for item in options.value if isinstance(item, yaml.ScalarNode)]
        launches = Launches(lambda span, inner: pods.script(span, "all", inner), plain_inline)
        launches.start(words, Start())
        pods.commands += launches.commands
        pods.settings += launches.settings
    entries = tuple(tree.entries(root, is_json=True)) if root is not None else ()
    return pods.document(name, "devcontainer", entries)
