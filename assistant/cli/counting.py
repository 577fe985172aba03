"""Count the user's own modules, which commands accept as models."""

from assistant.cli.diagnostics import StatusLine, follow
from assistant.cli.options import collect_options, source_of
from recipes.job.workload import VisionModel


def counted_modules(targets: tuple[str, ...], python: str | None) -> dict[str, VisionModel]:
    """Return the user's own modules by name, counted in the training interpreter of this machine.

    The modules are counted on this machine even if they are predicted or planned for another machine.
    """
    from assistant.usecases.own_module import count_modules  # few commands name a module

    status = StatusLine()
    status.show(f"Counting {', '.join(targets)}")
    try:
        counted: dict[str, VisionModel] = follow(
            count_modules(targets, source_of((), None), collect_options(python)), quiet=True
        )
    finally:
        status.clear()
    return counted
