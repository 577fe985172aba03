"""Decide and write: memory and time models, plans, recipes and launchers."""
