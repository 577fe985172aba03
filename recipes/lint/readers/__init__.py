"""Readers of launch files: each turns a text into a `Document`.

Readers never raise an error: a part that a reader cannot read becomes one of the `problems` of the document.
"""
