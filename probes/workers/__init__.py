"""Code that runs in the user's training interpreter, with torch and the standard library alone.

PYTHONPATH contains this folder there, so it holds only one package with a unique name. The application never
imports it.
"""
