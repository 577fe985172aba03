"""Compare nodes with their peers, with their own past, and groups of nodes with each other."""
