"""Define the two interfaces of the application: to its screens, and to the rest of rigtune.

Screens never start work themselves, and tests give the application scripted services.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, cast

from textual.app import App

from assistant.tui.session import State
from assistant.usecases.events import Event
from assistant.usecases.plan import PlanRequest
from probes.bench.bench_requests import Suite
from probes.catalogue.hardware import Catalogue
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement, MeasurementSet
from recipes.launch.recipe import Recipe
from recipes.planning.plan import Plan


class Services(Protocol):
    """The use cases as generators of events; they run outside the UI's thread."""

    @property
    def title(self) -> str:
        """Title of the source: `live`, a recording, a catalogue machine."""

    @property
    def is_live(self) -> bool:
        """True for this machine itself, which can be measured."""

    @property
    def directory(self) -> str:
        """Folder that the export dialog proposes."""

    @property
    def catalogue(self) -> Catalogue:
        """Published figures to compare with."""

    @property
    def models(self) -> tuple[str, ...]:
        """Ids of the model presets."""

    def probe(self) -> Iterator[Event]:
        """Read the machine; the result is a MachineFacts."""

    def check(self, facts: MachineFacts, measured: MeasurementSet) -> Iterator[Event]:
        """Run the checks; the result is a Verdict."""

    def measure(self, facts: MachineFacts, stop: Callable[[], bool], suite: Suite) -> Iterator[Event]:
        """Measure until the end or until `stop` returns True; the result is a MeasurementSet."""

    def judge(self, facts: MachineFacts, measured: MeasurementSet) -> Iterator[Event]:
        """Compare with earlier runs and keep a complete run for later ones; the result is a Judgement."""

    def pin(self, facts: MachineFacts, measured: MeasurementSet) -> str:
        """Keep `measured` as the run that later runs are compared with, and return its file."""

    def plan(
        self, facts: MachineFacts, measurements: tuple[Measurement, ...], request: PlanRequest
    ) -> Iterator[Event]:
        """Plan; the result is a Plan."""

    def prepare(self, plan: Plan, facts: MachineFacts) -> Iterator[Event]:
        """Make the recipe of a plan and its files; the result is a Prepared."""

    def export(self, recipe: Recipe, launcher: str, directory: str, *, overwrite: bool) -> Iterator[Event]:
        """Write the launch files; the result is the tuple of their paths."""

    def explain(self, path: str) -> Iterator[Event]:
        """Explain a log or a folder of logs; the result is an Explanation."""

    def save_report(self, text: str) -> str:
        """Save `text`, the traceback of a bug, and return its file."""


class Desk(Protocol):
    """The application as screens see it."""

    state: State
    services: Services

    def go(self, screen: str) -> None:
        """Switch to a screen by its id."""

    def measure(self) -> None:
        """Run the chosen suite of benchmarks."""

    def choose_suite(self) -> None:
        """Choose the other suite for the next run."""

    def pin(self) -> None:
        """Keep the measurements as the run that later runs are compared with."""

    def plan(self, request: PlanRequest) -> None:
        """Make a plan, then its recipe."""

    def export(self, launcher: str, directory: str, *, overwrite: bool) -> None:
        """Write the files of a launcher."""

    def say(self, message: str, *, is_problem: bool = False) -> None:
        """Show a short message for some seconds."""

    def report_bug(self, error: Exception) -> None:
        """Save the traceback and show its file to the user; the application goes on."""


def desk_of(app: App[object]) -> Desk:
    """Return the running application, which implements `Desk`."""
    return cast("Desk", app)
