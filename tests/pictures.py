"""Draw the screens of the terminal UI for several machines, and its dialogs for one, at two sizes.

    python -m tests.pictures FOLDER          SVG files, and PNG files if chromium or rsvg-convert exists
    python -m tests.pictures --readme FILE   the one picture of the README: the plan for a catalogue machine

The machines `faults` and `crowd` are scripted, and the others use the real use cases; `here` measures if it
finds torch. Chromium runs in its own network namespace without any interface.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import msgspec
from textual.pilot import Pilot

from assistant.tui.actions import SCREENS
from assistant.tui.app import RigtuneApp
from assistant.tui.services import Services
from assistant.usecases.events import Event
from assistant.usecases.explain import explain_logs
from probes.base.record import to_json
from probes.sources.choose import open_source
from probes.sources.stored import Recording
from recipes.planning.plan import Decision
from tests.support.tui_machines import faulty_server, many_findings
from tests.support.tui_plans import gpu_plan
from tests.support.tui_services import ScriptedServices

SIZES = ((80, 24), (140, 40))
LONGEST_WAIT_S = 180.0
TICK_S = 0.05
LOG = "".join(
    f"{rank}: trn-a{rank // 8}:40{rank}:41{rank} [{rank % 8}] net_ib.cc:1295 NCCL WARN NET/IB : Got "
    "completion from peer "
    f"10.1.0.{rank // 8}<4{rank:04}> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_0\n"
    for rank in range(16)
)
LONG = "a reason that goes on and on, as those do which cite where they were read, "


def empty_recording(folder: Path) -> Services:
    path = folder / "empty.json"
    path.write_bytes(to_json(Recording(title="a machine of which nothing was recorded")))
    return Services(open_source((path,)), directory=folder / "launch")


def crowd(folder: Path) -> Services:
    """Return services of a machine with sixteen GPUs, three hundred findings, long names and long reasons."""
    plan = gpu_plan(rejected=300)
    decision = Decision(
        name="micro_batch",
        value="1",
        basis="modelled",
        because=LONG * 8,
        alternatives=tuple(f"{n} sequences" for n in range(9)),
    )
    facts = msgspec.structs.replace(faulty_server(16), hostname="a-very-long-host-name." * 6 + "example.org")
    plan = msgspec.structs.replace(plan, decisions=(decision, *plan.decisions), warnings=(LONG * 3,) * 3)
    return ScriptedServices(folder, facts=facts, verdict=many_findings(300), made_plan=plan)


class WithLogs(ScriptedServices):
    """Scripted services that can also explain one log: `job` in the folder."""

    def explain(self, path: str) -> Iterator[Event]:
        folder = Path(self.directory).parent
        (folder / "job").write_text(LOG)
        return explain_logs((str(folder / path),))


MACHINES: dict[str, Callable[[Path], Services]] = {
    "faults": ScriptedServices,
    "crowd": crowd,
    "dgx-h100": lambda folder: Services(open_source((), "dgx-h100"), directory=folder / "launch"),
    "here": lambda folder: Services(open_source(), directory=folder / "launch"),
    "no-torch": lambda folder: Services(open_source(), directory=folder / "launch"),
    "empty": empty_recording,
}

DIALOGS = {
    "keys": ("3", ("question_mark",)),
    "export": ("6", ("e",)),
    "workload": ("5", ("w",)),
    "palette": ("6", ("ctrl+p",)),
    "filter": ("3", ("slash",)),
    "rejected": ("5", ("x",)),
    "written": ("6", ("e", "enter")),
    "log": ("1", ("l",)),
    "log-missing": ("1", ("l", *"missing", "enter")),
    "log-explained": ("1", ("l", *"job", "enter")),
    "log-explained-end": ("1", ("l", *"job", "enter", "end")),
}
"""The keys for each picture of a dialog: first the key of its screen, then the keys that open the dialog."""


@contextlib.contextmanager
def surroundings(name: str, folder: Path) -> Iterator[None]:
    """Hide all interpreters but the system's while the machine `no-torch` is drawn."""
    if name != "no-torch":
        yield
        return
    bare = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    before = Path.cwd()
    os.chdir(folder)
    try:
        with mock.patch.dict(os.environ, {**bare, "PATH": "/usr/bin:/bin"}, clear=True):
            yield
    finally:
        os.chdir(before)


async def settle(app: RigtuneApp, pilot: Pilot[int]) -> None:
    """Wait until nothing runs and everything is drawn."""
    for _ in range(round(LONGEST_WAIT_S / TICK_S)):
        await pilot.pause(TICK_S)
        if not app.state.running:
            break
    for _ in range(4):
        await pilot.pause(TICK_S)
    app.clear_notifications()
    await pilot.pause(TICK_S)


def picture(app: RigtuneApp) -> str:
    """Return the SVG of the screen without links to fonts."""
    return re.sub(r"@font-face\s*\{[^}]*\}", "", app.export_screenshot(title="rigtune"))


async def draw_machine(name: str, folder: Path, *, ascii_only: bool = False) -> Iterator[tuple[str, str]]:
    """Return file names and pictures of every screen, each at both sizes."""
    drawn = []
    app = RigtuneApp(MACHINES[name](folder), ascii_only=ascii_only)
    async with app.run_test(size=SIZES[0]) as pilot:
        await settle(app, pilot)
        for row in SCREENS:
            await pilot.press(row.key)
            await settle(app, pilot)
            if row.id == "benchmarks":
                drawn += [
                    (f"{name}-{row.key}-before-{width}x{height}", await at(app, pilot, width, height))
                    for width, height in SIZES
                ]
                await pilot.press("s")
                await settle(app, pilot)
            drawn += [
                (f"{name}-{row.key}-{row.id}-{width}x{height}", await at(app, pilot, width, height))
                for width, height in SIZES
            ]
        await pilot.press("1")
        await settle(app, pilot)
        drawn += [
            (f"{name}-9-end-{width}x{height}", await at(app, pilot, width, height)) for width, height in SIZES
        ]
    return iter(drawn)


async def at(app: RigtuneApp, pilot: Pilot[int], width: int, height: int) -> str:
    await pilot.resize_terminal(width, height)
    await settle(app, pilot)
    return picture(app)


async def draw_keys(services: Services, keys: tuple[str, ...], size: tuple[int, int]) -> str:
    """Return the picture of the screen after `keys`."""
    app = RigtuneApp(services)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        for key in keys:
            await pilot.press(key)
            await settle(app, pilot)
        return picture(app)


def to_png(svg: Path) -> None:
    width, height = re.search(
        r'viewBox="0 0 '
        r'([\d.]+) ([\d.]+)"',
        svg.read_text(),
    ).groups()  # type: ignore[union-attr]
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        renderer = shutil.which("rsvg-convert")
        if renderer is not None:
            subprocess.run([renderer, svg, "-o", svg.with_suffix(".png")], check=False, timeout=120)
        return
    with tempfile.TemporaryDirectory() as profile:
        command = [
            "unshare", "-n", chromium, "--headless", "--no-sandbox", "--disable-gpu",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--hide-scrollbars", f"--user-data-dir={profile}",
            f"--window-size={round(float(width))},{round(float(height))}",
            f"--screenshot={svg.with_suffix('.png')}", svg.resolve().as_uri(),
        ]  # fmt: skip
        subprocess.run(command, check=False, capture_output=True, timeout=120)


def save(folder: Path, name: str, svg: str) -> None:
    path = folder / f"{name}.svg"
    path.write_text(svg)
    to_png(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--readme", type=Path, help="write the picture of the README there")
    parser.add_argument("--only", nargs="*", default=[*MACHINES, "dialogs"], help="some of: %(default)s")
    parser.add_argument("--ascii", action="store_true", help="as on a serial console")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if options.readme is not None:
            services = MACHINES["dgx-h100"](Path(scratch))
            options.readme.write_text(asyncio.run(draw_keys(services, ("5",), (120, 42))))
        if options.folder is None:
            return
        options.folder.mkdir(parents=True, exist_ok=True)
        for name in (name for name in MACHINES if name in options.only):
            with surroundings(name, Path(scratch)):
                for title, svg in asyncio.run(draw_machine(name, Path(scratch), ascii_only=options.ascii)):
                    save(options.folder.absolute(), title, svg)
        for name, (screen_key, keys) in DIALOGS.items() if "dialogs" in options.only else ():
            for width, height in SIZES:
                svg = asyncio.run(draw_keys(WithLogs(Path(scratch)), (screen_key, *keys), (width, height)))
                save(options.folder, f"dialog-{name}-{width}x{height}", svg)


if __name__ == "__main__":
    main()
