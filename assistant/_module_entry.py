"""Run the installed program: `python -m rigtune`. In a wheel this file is `rigtune/__main__.py`."""

from rigtune import main  # type: ignore[import-not-found]

main()
