"""The entry of the installed program.

In a wheel this file is `rigtune/__init__.py` and the packages stand in `rigtune/_app/`; in an editable install it is
found through the checkout. Either way their folder goes first on `sys.path`: `recipes`, `probes` and `assistant` are
common names, and another distribution (torchtune ships a top-level `recipes`) must neither shadow ours nor be
overwritten by it.
"""

import sys
from pathlib import Path


def _put_packages_first() -> None:
    here = Path(__file__).resolve().parent
    bundled = here / "_app"
    sys.path.insert(0, str(bundled if bundled.is_dir() else here.parent))


def main() -> int:
    """Run the command line; returns the exit code."""
    _put_packages_first()
    from assistant.cli import main as command_line

    return command_line()
