"""List all actions that a person can take in the terminal UI.

Key bindings, the footer, the `?` panel and the command palette are generated from this table. A global key
has no second meaning, and a key has the same meaning on every screen; `tests/contracts/test_actions.py`
checks both rules.
"""

from textual.binding import Binding, BindingType

from probes.base.record import Record


class ScreenRow(Record, frozen=True, kw_only=True):
    """A screen with its stable digit; 2 and 7 are reserved for Topology and Live."""

    id: str
    key: str
    title: str
    purpose: str


class Action(Record, frozen=True, kw_only=True):
    """An action of the user; its handler is `action_<id>` on the App, or on each of `screens`."""

    id: str
    title: str
    """Words in the footer and the palette."""
    help: str
    key: str = ""
    """Textual's name of the key; empty if only the palette has the action."""
    shown_key: str = ""
    """The key as people read it, if this differs from `key`."""
    screens: tuple[str, ...] = ()
    """Ids of the screens on which the action applies; empty for all screens."""
    footer: bool = True
    needs_machine: bool = False
    """True if the action makes no sense for a node of which only the report is known."""


SCREENS: tuple[ScreenRow, ...] = (
    ScreenRow(
        id="overview", key="1", title="Overview", purpose="What this machine is, and whether it can train."
    ),
    ScreenRow(
        id="findings",
        key="3",
        title="Findings",
        purpose="What is wrong, why it matters, and what to do about it.",
    ),
    ScreenRow(id="benchmarks", key="4", title="Benchmarks", purpose="What this machine really delivers."),
    ScreenRow(
        id="plan", key="5", title="Plan", purpose="How to train a model here, each decision with its basis."
    ),
    ScreenRow(id="recipe", key="6", title="Recipe", purpose="The launch script, and where to write it."),
)

NODES = ScreenRow(
    id="nodes", key="0", title="Nodes", purpose="The nodes of a fleet's run: which are fit or not, and why."
)
"""The first screen of `rigtune tui --fleet`; its other screens show the node that was opened."""

ACTIONS: tuple[Action, ...] = (
    Action(
        id="next_step",
        title="Next step",
        help="Go to the screen that the verdict recommends",
        key="enter",
        screens=("overview",),
    ),
    Action(
        id="detail",
        title="Detail",
        help="Move into the detail of the chosen finding",
        key="enter",
        screens=("findings",),
    ),
    Action(
        id="open_node",
        title="Open",
        help="Open the screens of the chosen node",
        key="enter",
        screens=("nodes",),
    ),
    Action(
        id="filter",
        title="Filter",
        help="Show only lines that contain some words",
        key="slash",
        shown_key="/",
        screens=("findings", "nodes"),
    ),
    Action(
        id="start",
        title="Start",
        help="Run the chosen suite of benchmarks; it occupies the devices that the screen names",
        key="s",
        screens=("benchmarks",),
        needs_machine=True,
    ),
    Action(
        id="suite",
        title="Suite",
        help="Choose between the quick and the full suite for the next run",
        key="f",
        screens=("benchmarks",),
        footer=False,
        needs_machine=True,
    ),
    Action(
        id="plot",
        title="Plot",
        help="Show curves and matrices instead of the table, or the table again",
        key="t",
        screens=("benchmarks",),
        needs_machine=True,
    ),
    Action(
        id="pin",
        title="Pin",
        help="Store this run, so that later runs are compared with it",
        key="p",
        screens=("benchmarks",),
        needs_machine=True,
    ),
    Action(
        id="show_all",
        title="All",
        help="Show everything (passed and skipped checks, every measured case), or only what matters",
        key="a",
        screens=("findings", "benchmarks"),
    ),
    Action(
        id="workload",
        title="Workload",
        help="Choose model, program, tuning, batch, nodes, GPUs and pins, then plan again",
        key="w",
        screens=("plan",),
        needs_machine=True,
    ),
    Action(
        id="rejected",
        title="Rejected",
        help="Show the alternatives and the rejected candidates, with the reasons",
        key="x",
        screens=("plan",),
        needs_machine=True,
    ),
    Action(
        id="launcher",
        title="Launcher",
        help="Show the files of the next launcher",
        key="tab",
        screens=("recipe",),
        needs_machine=True,
    ),
    Action(
        id="export",
        title="Export",
        help="Write the files of the shown launcher; asks for the folder",
        key="e",
        screens=("recipe",),
        needs_machine=True,
    ),
    Action(
        id="copy",
        title="Copy",
        help="Copy the remedy, the script or the shown nodes to the clipboard (OSC 52, also over SSH)",
        key="y",
        screens=("findings", "recipe", "nodes"),
    ),
    Action(
        id="stop",
        title="Stop",
        help="Stop the benchmark that is running",
        key="full_stop",
        shown_key=".",
        footer=False,
    ),
    Action(
        id="probe_again", title="Reload", help="Read the machine, or the folder of the fleet, again", key="r"
    ),
    Action(
        id="explain",
        title="Logs",
        help="Explain a log of a run: what happened, with the lines that show it, and what to do",
        key="l",
        footer=False,
    ),
    Action(id="keys", title="Keys", help="Show every key of this screen", key="question_mark", shown_key="?"),
    Action(
        id="command_palette",
        title="Palette",
        help="Find any action by its name",
        key="ctrl+p",
        shown_key="^p",
    ),
    Action(
        id="back",
        title="Back",
        help="Leave a panel, or return to the overview",
        key="escape",
        shown_key="esc",
        footer=False,
    ),
    Action(id="change_theme", title="Theme", help="Choose other colours"),
    Action(id="quit", title="Quit", help="Leave rigtune; asks while a benchmark runs", key="q"),
)


MACHINE_ACTIONS = frozenset(row.id for row in ACTIONS if row.needs_machine)


def actions_of(screen: str, *, has_machine: bool = True) -> tuple[Action, ...]:
    """Return the actions of `screen`: its own actions first, then the actions of all screens.

    Without `has_machine`, actions that need a machine are left out.
    """
    rows = tuple(row for row in ACTIONS if has_machine or not row.needs_machine)
    return tuple(row for row in rows if screen in row.screens) + tuple(row for row in rows if not row.screens)


def shown_key(action: Action) -> str:
    return action.shown_key or action.key


def screen_bindings(screen: str) -> list[BindingType]:
    """Return the bindings of the actions of `screen` that do not apply to all screens."""
    return [_binding(row, f"screen.{row.id}") for row in ACTIONS if screen in row.screens]


def global_bindings() -> list[BindingType]:
    """Return the bindings that apply everywhere: the screens' digits, then the global actions."""
    everywhere = (row for row in ACTIONS if row.key and not row.screens)
    return [*map(digit_binding, SCREENS), *(_binding(row, f"app.{row.id}") for row in everywhere)]


def digit_binding(row: ScreenRow) -> BindingType:
    """Return the binding of the digit that opens a screen."""
    return Binding(row.key, f"app.go('{row.id}')", row.title, show=False, id=row.id, tooltip=row.purpose)


def _binding(action: Action, call: str) -> Binding:
    return Binding(
        action.key,
        call,
        action.title,
        show=action.footer,
        key_display=shown_key(action),
        tooltip=action.help,
        id=action.id,
    )
