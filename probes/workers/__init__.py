"""Code that runs in the user's training interpreter, with only torch and the standard library.

PYTHONPATH contains this folder in that interpreter, so the folder has only one package with a unique name.
The application never imports this package.
"""
