"""The two sides of the application: what screens may ask of it, and what it asks of the rest of rigtune.

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
    """Use-cases as generators of events; they run outside the UI's thread."""

    @property
    def title(self) -> str:
        """Title of what is looked at: `live`, a recording, a catalogue machine."""

    @property
    def is_live(self) -> bool:
        """True when this machine itself is looked at, so that it can be measured."""

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
        """Result: MachineFacts."""

    def check(self, facts: MachineFacts, measured: MeasurementSet) -> Iterator[Event]:
        """Result: Verdict."""

    def measure(self, facts: MachineFacts, stop: Callable[[], bool], suite: Suite) -> Iterator[Event]:
        """Result: MeasurementSet. Ends early once `stop` says so."""

    def judge(self, facts: MachineFacts, measured: MeasurementSet) -> Iterator[Event]:
        """Result: Judgement, beside earlier runs. A run that came to its end is kept for later ones."""

    def pin(self, facts: MachineFacts, measured: MeasurementSet) -> str:
        """Keep `measured` as the run that later ones are compared to, and return where."""

    def plan(
        self, facts: MachineFacts, measurements: tuple[Measurement, ...], request: PlanRequest
    ) -> Iterator[Event]:
        """Result: Plan."""

    def prepare(self, plan: Plan, facts: MachineFacts) -> Iterator[Event]:
        """Result: Prepared."""

    def export(self, recipe: Recipe, launcher: str, directory: str, *, overwrite: bool) -> Iterator[Event]:
        """Result: the written paths."""

    def explain(self, path: str) -> Iterator[Event]:
        """Result: Explanation of the log, or of the folder of logs."""

    def save_report(self, text: str) -> str:
        """Keep `text`, the traceback of a bug, and return where."""


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
        """Keep what was measured as the run that later ones are compared to."""

    def plan(self, request: PlanRequest) -> None:
        """Make a plan, then its recipe."""

    def export(self, launcher: str, directory: str, *, overwrite: bool) -> None:
        """Write the files of a launcher."""

    def say(self, message: str, *, is_problem: bool = False) -> None:
        """Show a short message for some seconds."""

    def report_bug(self, error: Exception) -> None:
        """Keep the traceback and tell the user where; the application goes on."""


def desk_of(app: App[object]) -> Desk:
    """The running application, which implements `Desk`."""
    return cast("Desk", app)
