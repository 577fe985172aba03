"""Draws every screen of the terminal UI for three machines at two sizes, to be looked at by eye.

    python -m tests.pictures FOLDER          SVG files, and PNG files where chromium is installed
    python -m tests.pictures --readme FILE   the one picture of the README

Chromium runs in a network namespace of its own, without any interface.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from assistant.tui.actions import SCREENS
from assistant.tui.app import RigtuneApp
from probes.findings import Finding, Status
from probes.measurements import MeasurementSet
from probes.verdict import judge
from recipes.plan import Plan
from tests.support.tui_machines import clean_verdict, cpu_box, measured_on_cpu, unknown_machine
from tests.support.tui_plans import gpu_plan
from tests.support.tui_services import ScriptedServices

SIZES = ((80, 24), (140, 40))
CELL_WIDTH, CELL_HEIGHT = 12.2, 24.4


def machines(folder: Path) -> dict[str, ScriptedServices]:
    unknown = judge(
        [Finding(check_id="gpu-count", subject="host", status=Status.UNKNOWN, summary="the GPUs could not be read")],
        (),
        hostname="?",
        source="recording",
    )
    slow: Plan = gpu_plan(device_name="CPU", speed_known=False, rejected=0)
    nothing = ScriptedServices(
        folder, facts=unknown_machine(), verdict=unknown, measured=MeasurementSet(), made_plan=slow, title="recording empty.json"
    )
    nothing.is_live = False
    return {
        "h100": ScriptedServices(folder),
        "cpu": ScriptedServices(folder, facts=cpu_box(), verdict=clean_verdict(), measured=measured_on_cpu()),
        "unknown": nothing,
    }


EXTRAS = {"keys": ("3", ("question_mark",)), "export": ("6", ("e",)), "workload": ("5", ("w",)), "palette": ("6", ("ctrl+p",))}
"""Dialogs: the screen, then the keys that open them."""


async def draw(services: ScriptedServices, screen_key: str, size: tuple[int, int], keys: tuple[str, ...] = ()) -> str:
    """The SVG of one screen, without fonts from elsewhere."""
    app = RigtuneApp(services)
    async with app.run_test(size=size) as pilot:
        for key in (screen_key, *keys):
            for _ in range(20):
                await pilot.pause(0.02)
            await pilot.press(key)
        for _ in range(20):
            await pilot.pause(0.02)
        return re.sub(r"@font-face\s*\{[^}]*\}", "", app.export_screenshot(title="rigtune"))


def to_png(svg: Path) -> None:
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg.read_text()).groups()  # type: ignore[union-attr]
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        return
    with tempfile.TemporaryDirectory() as profile:
        command = [
            "unshare", "-n", chromium, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND",
            "--hide-scrollbars", f"--user-data-dir={profile}", f"--window-size={round(float(width))},{round(float(height))}",
            f"--screenshot={svg.with_suffix('.png')}", svg.resolve().as_uri(),
        ]  # fmt: skip
        subprocess.run(command, check=False, capture_output=True, timeout=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--readme", type=Path)
    parser.add_argument("--only", default="", help="a part of the file names")
    options = parser.parse_args()
    if options.readme is not None:
        with tempfile.TemporaryDirectory() as folder:
            options.readme.write_text(asyncio.run(draw(ScriptedServices(Path(folder)), "1", (120, 40))))
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        for name, services in machines(options.folder).items():
            for row in SCREENS:
                for size in SIZES:
                    path = options.folder / f"{name}-{row.key}-{row.id}-{size[0]}x{size[1]}.svg"
                    if options.only in path.name:
                        keys = ("s",) if row.id == "benchmarks" and name != "unknown" else ()
                        path.write_text(asyncio.run(draw(services, row.key, size, keys)))
                        to_png(path)
        for name, (screen_key, keys) in EXTRAS.items():
            for size in SIZES:
                path = options.folder / f"dialog-{name}-{size[0]}x{size[1]}.svg"
                if options.only in path.name:
                    path.write_text(asyncio.run(draw(ScriptedServices(options.folder), screen_key, size, keys)))
                    to_png(path)


if __name__ == "__main__":
    main()
