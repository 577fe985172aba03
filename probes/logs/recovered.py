"""Removal of failures that a run survived: caught exceptions, and failures before a restart by torchrun.

Programs catch exceptions, print them and go on, for example when they search for a batch size that fits.
NCCL also reports failed calls at level INFO that do not matter, such as the look-up of the PCI path of a
virtual network interface.
"""

from collections.abc import Iterable, Mapping

from probes.base.grouping import largest
from probes.logs.cause_rows import load_causes
from probes.logs.event import Event, carries
from probes.logs.events.framework_events import K8sNotRunning
from probes.logs.events.nccl_events import NcclConnected, NcclInitComplete
from probes.logs.events.nccl_failure_events import NcclError
from probes.logs.events.process_events import ProgramProgress, SlurmKilled
from probes.logs.readers.nccl_errors import is_network_layer

_SURVIVED = (
    "torch.exception", "torch.oom", "process.what", "horovod.stall", "horovod.stalled", "k8s.not-running",
    "process.no-space",
    "torch.address-in-use", "process.address-in-use", "torch.connect-failed", "torch.name-unresolved",
)  # fmt: skip
"""Kinds of failures that programs may catch, or that may resolve themselves."""
_STARTS_AGAIN = ("preemption", "requeue")
"""Reasons for which a scheduler ends a job and starts it again, perhaps with the same log."""
_FROM_OUTSIDE = ("slurm.killed", "torch.agent-signal", "process.interrupted", "slurm.task-killed")
"""Kinds of events at the end of a run that do not show whether the run worked before."""
_ENDED_BY_AGENT = (
    "torch.worker-failed",
    "torch.child-failed",
    "torch.agent-stopping",
    "process.signal",
    "process.terminated",
)
"""Other kinds of events that occur before torchrun restarts the workers."""
_Process = tuple[str, str | None, int | None]
_MANY_LINES = 100
"""Number of lines. Tracebacks and the launcher's report after a fatal exception have fewer lines."""


def without_recovered(events: Iterable[Event], last_lines: Mapping[str, int]) -> list[Event]:
    """Return the events without failures that their program survived.

    These failures are removed:

    - exceptions and similar failures (`_SURVIVED`), if the process counts further steps or succeeds, or if
      many lines without a failure follow;
    - failures before a successful restart;
    - the end of a job that its scheduler started again;
    - complaints that no node has room for a pod, if the pod was started later;
    - failed calls that NCCL reports at level INFO, if the process completed its initialisation or succeeded,
      or if NCCL only tried a plugin for the network.
    """
    kept = _without_restarted(_without_placed(_without_overcome(list(events))))
    progress = [event for event in kept if carries(event, ProgramProgress)]
    went_on = {(event.source, event.what.after) for event in progress}
    surely = {(event.source, event.what.after) for event in progress if event.what.who in ("process", "many")}
    reported = {(event.source, event.what.after) for event in progress if event.what.who == "reported"}
    finished = _last(kept, {"program.finished"})
    failed = _last(
        kept, {*load_causes().failures, "torch.agent-restart"} - {*_SURVIVED, *_FROM_OUTSIDE}, kernel=True
    )
    kept = [
        event for event in kept if event.kind not in _SURVIVED or (event.source, event.number) not in surely
    ]
    ends = _last(kept, set(_SURVIVED))
    survived = {
        source
        for source, end in ends.items()
        if source not in failed and last_lines.get(source, end) - end >= _MANY_LINES
    }

    def is_survived(event: Event) -> bool:
        source, number = event.source, event.number
        if carries(event, SlurmKilled):
            starts_again = event.what.reason in _STARTS_AGAIN
            return starts_again and (source, number) in reported and failed.get(source, 0) < number
        if event.kind not in _SURVIVED:
            return False
        ended_well = finished.get(source, 0) > number or (source, number) in went_on
        return source in survived or (ended_well and failed.get(source, 0) < number)

    return [event for event in kept if not is_survived(event)]


def _last(events: list[Event], kinds: set[str], *, kernel: bool = False) -> dict[str, int]:
    """Return for each source the number of the last line with an event of the given kinds."""
    return largest(
        (event.source, event.number)
        for event in events
        if event.kind in kinds or (kernel and event.kind.startswith("kernel."))
    )


def _without_placed(events: list[Event]) -> list[Event]:
    """Return the events without complaints that no node has room for a pod, if the pod was started later."""
    started = _last(events, {"k8s.started"})
    return [
        event
        for event in events
        if not carries(event, K8sNotRunning)
        or "nodes are available" not in (event.what.reason or "")
        or started.get(event.source, 0) < event.number
    ]


def _without_restarted(events: list[Event]) -> list[Event]:
    """Return the events without failures before a successful restart by torchrun."""
    restarts = _last(events, {"torch.agent-restart"})
    finished = _last(events, {"program.finished"})
    kinds = {*load_causes().failures, *_SURVIVED, *_ENDED_BY_AGENT, "torch.agent-restart"}
    failed = _last(events, kinds - {"torch.agent-restart"})
    good = {
        source: restart
        for source, restart in restarts.items()
        if finished.get(source, 0) > restart and failed.get(source, 0) < restart
    }
    return [event for event in events if event.number > good.get(event.source, 0) or event.kind not in kinds]


def _without_overcome(events: list[Event]) -> list[Event]:
    """Return the events without failed calls of NCCL that did no harm.

    NCCL reports such a call at level INFO, and one of three cases applies:

    - the process completed its initialisation later;
    - the process completed its initialisation without any warning, and the program finished;
    - the network layer of NCCL tried a plugin, and there is no warning and no failure in another layer.
    """
    initialised: dict[_Process, int] = {}
    failed: set[_Process] = set()
    warned = {(event.source, event.host, event.pid) for event in events if "NCCL WARN" in event.text}
    finished = _last(events, {"program.finished"})
    for event in events:
        process = (event.source, event.host, event.pid)
        if carries(event, NcclInitComplete, NcclConnected) and event.pid is not None:
            initialised[process] = max(event.number, initialised.get(process, 0))
        if "NCCL WARN" in event.text or (carries(event, NcclError) and not is_network_layer(event)):
            failed.add(process)

    def is_overcome(event: Event) -> bool:
        if not carries(event, NcclError) or "NCCL INFO" not in event.text:
            return False
        process = (event.source, event.host, event.pid)
        if process in initialised and process not in warned and finished.get(event.source, 0) > event.number:
            return True
        return initialised.get(process, 0) > event.number or (
            is_network_layer(event) and process not in failed
        )

    return [event for event in events if not is_overcome(event)]
