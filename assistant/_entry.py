"""Start the installed program.

In a wheel this file is `rigtune/__init__.py` and the packages are beside it in `_app/`; in an editable
install the packages are in the checkout. In both cases their folder goes first on `sys.path`: `recipes`,
`probes` and `assistant` are common names, and a package of another distribution (torchtune has a top-level
`recipes`) must neither hide rigtune's package nor be overwritten.
"""

import os
import sys

_OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Number of new objects after which Python searches for unreachable cycles; the default is much lower.

All objects that are loaded at the start stay alive, and searching them repeatedly takes a fifteenth of the
time of a quick check.
"""


_BUG = 70
"""Exit code of a fault of rigtune itself, as in `probes/base/errors.py`."""
_INTERRUPTED = 130
"""Exit code after Ctrl-C, as in `probes/base/errors.py`."""


def _packages_folder() -> str:
    import importlib.util
    from pathlib import Path

    bundled = Path(__file__).resolve().parent / "_app"
    if bundled.is_dir():
        return str(bundled)
    spec = importlib.util.find_spec("assistant")
    if spec is None or spec.origin is None:
        raise ImportError("rigtune is installed without its packages; install it again")
    return str(Path(spec.origin).resolve().parents[1])


def main() -> None:
    """Run the command line and end the process with its exit code.

    Python ends with code 1 if it cannot load a module, but here code 1 is a verdict: "not fit to train".
    After Ctrl-C only one line is printed, even if the modules are still being loaded.
    """
    try:
        import gc

        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
        # PYTHONPATH is meant for a training job or a cluster: modules in its folders (an older click, a
        # random.py) must not replace the modules of this program.
        named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        foreign = {os.path.abspath(folder) for folder in named if folder}  # noqa: PTH100 - keeps links
        sys.path[:] = [_packages_folder(), *(folder for folder in sys.path if folder not in foreign)]
        from assistant.cli import main as end_with_command_line

        end_with_command_line()
    except KeyboardInterrupt:
        sys.stderr.write("rigtune: interrupted\n")
        sys.stderr.flush()
        os._exit(_INTERRUPTED)  # an orderly end runs code that a second Ctrl-C would interrupt
    except Exception as error:  # noqa: BLE001 - no error must look like a verdict
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(_report_no_verdict(type(error).__name__))


def _report_no_verdict(error: str) -> int:
    """Return the exit code for "rigtune itself failed"; for Nagios, also print one line.

    This function is a short copy of a part of `probes/judging/verdict.py`, because that module may be the one
    that cannot be loaded.
    """
    sys.stderr.write(f"rigtune: {error} in rigtune itself: a bug or a broken installation\n")
    given = " ".join(sys.argv).replace("=", " ")
    if "--exit-profile npd" in given:
        return 2
    names_profile = "--exit-profile " in given  # without one, the format implies the profile
    if ("--exit-profile nagios" if names_profile else "--format nagios") not in given:
        return _BUG
    sys.stdout.write(f"RIGTUNE UNKNOWN - {error}: rigtune cannot run; see its standard error\n")
    return 3
