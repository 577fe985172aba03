"""Run one command on many nodes, through what the site already has: one small adapter for each engine."""
