"""Show a machine: the overview, with the verdict about training, and the list of findings."""

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from assistant.pages.blocks import Section
from assistant.pages.fleet_nodes_page import no_reported_gpu, reported_section
from assistant.pages.machine import header
from assistant.pages.machine.facts_page import panels
from assistant.pages.machine.gpu_table import gpus_section
from assistant.pages.verdict import findings_page
from assistant.text.plain_writer import clean_lines
from assistant.tui.actions import SCREENS, screen_bindings
from assistant.tui.frame import Frame, PanelBox, ScrollBox
from assistant.tui.panel_writer import line
from assistant.tui.session import State
from probes.facts import MachineFacts
from probes.judging.findings import Finding

_TWO_COLUMNS = 100
"""Smallest number of columns with which a page has two panes."""
_TALL = 36
"""Smallest height of the screen with which every GPU has its own line."""
_FRAME_WIDTH = 5
"""Number of cells that a panel's border, padding and scroll bar occupy."""
_MOST_FINDINGS = 10
_FEW_FINDINGS = 3


class OverviewScreen(Frame):
    """The verdict, then the machine; rows appear when collectors have read their subjects."""

    SCREEN_ID = "overview"
    BINDINGS = screen_bindings(SCREEN_ID)
    AUTO_FOCUS = "#machine-panels"

    def compose_body(self) -> ComposeResult:
        yield PanelBox(id="verdict")
        yield Static(id="problem")
        with VerticalScroll(id="machine-panels"), Horizontal(id="columns"):
            with Vertical(id="left"):
                yield PanelBox(id="accelerators")
                yield PanelBox(id="processor")
                yield PanelBox(id="finding-counts")
                yield PanelBox(id="observed")
                yield PanelBox(id="way")
            with Vertical(id="right"):
                yield PanelBox(id="fabric")
                yield PanelBox(id="software")
                yield PanelBox(id="host")

    def show(self, state: State) -> None:
        self.show_problem(state.problem_of("probe") or state.problem_of("check"))
        self.show_panels({"verdict": self._verdict(state)})
        facts = state.facts
        self.query_one("#columns").display = facts is not None
        if facts is None:
            return
        complete, is_tall = state.facts_complete, self.size.height >= _TALL
        width = self.size.width // (2 if self.size.width >= _TWO_COLUMNS else 1) - _FRAME_WIDTH
        machine = panels(facts, complete=complete)
        # Without a GPU, the processor is shown in the place of the GPUs.
        host = machine.get("host", Section())
        has_gpus = findings_page.has_gpus(facts)
        shown = {
            "accelerators": gpus_section(
                facts,
                state.findings,
                complete=complete,
                fold=not is_tall or not state.has_machine,
                width=width,
                reported=() if state.report is None else no_reported_gpu(state.report),
            ),
            "processor": Section() if has_gpus else host._replace(title="Processor and host"),
            "finding-counts": findings_page.summary(
                state.findings,
                _MOST_FINDINGS if is_tall else _FEW_FINDINGS,
                is_report=state.verdict is not None and not state.has_machine,
            ),
            "observed": machine.get("observed", Section()),
            "way": self._way(state, facts),
            "fabric": machine.get("fabric", Section()),
            "software": machine.get("software", Section()),
            "host": host if has_gpus else Section(),
        }
        self.show_panels(shown)

    def _way(self, state: State, facts: MachineFacts) -> Section:
        """Return the steps to a launch script.

        For a node of a fleet, return the parts of its report that no other panel shows.
        """
        if state.report is not None:
            return reported_section(state.report, names_command=findings_page.has_gpus(facts))
        return findings_page.way(
            facts, state.findings, state.measured, state.plan, state.written, is_live=state.is_live
        )

    def _verdict(self, state: State) -> Section:
        step = self._step(state)
        row = next(row for row in SCREENS if row.id == step.screen)
        running = state.running_stage("probe") or state.running_stage("check")
        progress = (
            header.progress(running.title, running.message, running.done, running.total) if running else ""
        )
        return findings_page.verdict_section(
            state.verdict, state.facts, step=step, key=row.key, title=row.title, progress=progress
        )

    def _step(self, state: State) -> findings_page.NextStep:
        if not state.has_machine:
            return findings_page.NextStep("findings", "see what the node reports")
        return findings_page.next_step(
            state.verdict.verdict if state.verdict is not None else None,
            is_live=state.is_live,
            has_torch=findings_page.has_torch(state.facts),
            has_measurements=bool(state.measured.measurements),
            has_plan=state.plan is not None,
        )

    def action_next_step(self) -> None:
        self.desk.action_go(self._step(self.desk.state).screen)


class FindingList(OptionList, inherit_bindings=False):
    """An option list that leaves `enter` to the screen, so that the footer can show it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "cursor_down", "Down", show=False),
        Binding("up", "cursor_up", "Up", show=False),
        Binding("pagedown", "page_down", "Page down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("home", "first", "First", show=False),
        Binding("end", "last", "Last", show=False),
    ]


class FindingsScreen(Frame):
    """A list of findings, with the details and the evidence of the chosen finding beside it."""

    SCREEN_ID = "findings"
    BINDINGS = screen_bindings(SCREEN_ID)
    AUTO_FOCUS = "#finding-list"

    def __init__(self) -> None:
        super().__init__()
        self._show_all = False
        self._query = ""
        self._rows: tuple[findings_page.FindingRow, ...] = ()
        self._chosen = ""

    def compose_body(self) -> ComposeResult:
        yield Static(id="problem")
        with Horizontal(id="columns"):
            with Vertical(id="left"):
                yield FindingList(id="finding-list", markup=False)
                yield Static(id="empty")
                yield Input(
                    id="query", placeholder="words to look for; enter keeps, esc clears", compact=True
                )
            detail = ScrollBox(id="finding-detail")
            detail.border_title = "Detail"
            yield detail

    def show(self, state: State) -> None:
        self.show_problem(state.problem_of("check"))
        rows = findings_page.rows(state.findings, show_all=self._show_all, query=self._query)
        listing = self.query_one("#finding-list", FindingList)
        self.query_one("#left").border_title = Text(
            findings_page.title(state.findings, len(rows), show_all=self._show_all, query=self._query)
        )
        if rows != self._rows:
            self._rows = rows
            self._fill(listing)
        listing.display = self.query_one("#finding-detail").display = bool(rows)
        nothing = findings_page.nothing(
            state.findings,
            query=self._query,
            is_checking=state.running_stage("check") is not None,
            is_report=not state.has_machine,
        )
        self.show_words("empty", Section() if rows else nothing)
        self._show_detail()

    def _fill(self, listing: FindingList) -> None:
        """Fill the list with new rows; the chosen finding stays chosen at its new position."""
        keys = [row.key for row in self._rows]
        with self.prevent(OptionList.OptionHighlighted):
            listing.set_options([Option(line(row.line), id=row.key) for row in self._rows])
            listing.highlighted = (keys.index(self._chosen) if self._chosen in keys else 0) if keys else None

    def _current(self) -> tuple[Finding, ...]:
        position = self.query_one("#finding-list", FindingList).highlighted
        return self._rows[position].same if position is not None and position < len(self._rows) else ()

    def _show_detail(self) -> None:
        current = self._current()
        self.query_one("#finding-detail", ScrollBox).show(
            findings_page.detail(current) if current else Section()
        )

    @on(OptionList.OptionHighlighted)
    def _choose(self, event: OptionList.OptionHighlighted) -> None:
        self._chosen = event.option.id or ""
        self.query_one("#finding-detail", ScrollBox).scroll_home(animate=False)
        self._show_detail()

    @on(Input.Changed, "#query")
    def _search(self, event: Input.Changed) -> None:
        self._query = event.value
        self.refresh_state()

    @on(Input.Submitted, "#query")
    def _keep(self) -> None:
        self.query_one("#query").display = bool(self._query)
        self.query_one("#finding-list").focus()

    def action_filter(self) -> None:
        field = self.query_one("#query", Input)
        field.display = True
        field.focus()

    def action_show_all(self) -> None:
        self._show_all = not self._show_all
        self.refresh_state()

    def action_detail(self) -> None:
        self.query_one("#finding-detail").focus()

    def action_copy(self) -> None:
        current = self._current()
        words = clean_lines(findings_page.remedy(current)) if current else ""
        if not words:
            self.desk.say("This finding has no remedy to copy.", is_problem=True)
            return
        self.app.copy_to_clipboard(words)
        self.desk.say(f"Copied: {words.splitlines()[0]}")

    def leave(self) -> bool:
        field = self.query_one("#query", Input)
        if field.display:
            field.value = ""
            field.display = False
        elif not self.query_one("#finding-detail").has_focus:
            return False
        self.query_one("#finding-list").focus()
        return True
