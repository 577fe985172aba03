"""Readers of launch files: each turns a text into a `Document`.

They never raise an error: a part that they cannot read becomes one of its `problems`.
"""
