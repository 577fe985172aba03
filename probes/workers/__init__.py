"""Code that runs in the user's training interpreter: torch and the standard library alone.

This folder is put on PYTHONPATH there, so it holds only the one package with a unique name. The application
never imports it.
"""
