"""The entry of the installed program.

In a wheel this file is `rigtune/__init__.py` and the packages stand beside it in `_app/`; in an editable install they
stand in the checkout. Either way their folder goes first on `sys.path`: `recipes`, `probes` and `assistant` are common
names, and another distribution (torchtune ships a top-level `recipes`) must neither shadow ours nor be overwritten.
"""

import importlib.util
import sys
from pathlib import Path
from typing import NoReturn


def _packages_folder() -> Path:
    bundled = Path(__file__).resolve().parent / "_app"
    if bundled.is_dir():
        return bundled
    spec = importlib.util.find_spec("assistant")
    if spec is None or spec.origin is None:
        raise ImportError("rigtune is installed without its packages; install it again")
    return Path(spec.origin).resolve().parents[1]


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    sys.path.insert(0, str(_packages_folder()))
    from assistant.cli import main as end_with_command_line

    end_with_command_line()
