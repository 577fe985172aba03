"""Readers of launch files: text in, a `Document` out. They never raise: what they cannot read is one of its
`problems`.
"""
