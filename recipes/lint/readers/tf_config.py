"""TF_CONFIG: the cluster of TensorFlow and the task of one process, JSON."""

from __future__ import annotations

from recipes.lint.document import Document
from recipes.lint.readers.tree import config


def read(name: str, text: str) -> Document:
    """Return the configuration as a document. Never raises an error."""
    return config(name, text, "tf-config", is_json=True)
