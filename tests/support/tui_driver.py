"""Open the terminal UI over scripted services, and wait for its state."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from assistant.tui.app import RigtuneApp
from tests.support.tui_services import ScriptedServices
from tests.support.tui_text import words


async def until(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    """Let the application work until `condition` is true; fail after ten seconds."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "the application did not get there"
        await pilot.pause()


@asynccontextmanager
async def opened(
    services: ScriptedServices, size: tuple[int, int] = (100, 40)
) -> AsyncIterator[tuple[RigtuneApp, Pilot[int]]]:
    """Yield the application with the first probe and checks done, unless they are held back."""
    app = RigtuneApp(services)
    try:
        async with app.run_test(size=size) as pilot:
            if not services.holds & {"probe"} and not services.raising:
                await until(pilot, lambda: app.state.verdict is not None and not app.state.running)
            yield app, pilot
    finally:
        services.release.set()


def shows(app: RigtuneApp, dialog: type[Screen[object]]) -> bool:
    """Return whether `dialog` is on top with its content."""
    return isinstance(app.screen, dialog) and bool(app.screen.query(".dialog > *"))


def mode(app: RigtuneApp) -> str:
    return app.current_mode


def panel(app: RigtuneApp, name: str) -> str:
    """Return the text of a panel of the page."""
    return words(app.screen.query_one(name, Static).content, width=120)
