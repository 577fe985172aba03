"""The same checks over many nodes: start, collect, compare, keep."""
