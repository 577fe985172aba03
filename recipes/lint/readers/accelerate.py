"""The configuration file of `accelerate launch`, in YAML or JSON."""

from __future__ import annotations

from recipes.lint.document import Document
from recipes.lint.readers.tree import config


def read(name: str, text: str) -> Document:
    """Return the configuration as a document. Never raises an error."""
    return config(name, text, "accelerate", is_json=False)
