"""Reader of checks that judge a node by themselves: Node Health Check with its GPU checks, and gpu-burn.

Source: mej/nhc, nhc; Azure/azurehpc-health-checks, README; wilicc/gpu-burn, gpu_burn-drv.cpp (read 2026-11).
"""

from __future__ import annotations

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.host_events import GpuBurnFaulty, GpuBurnTested, HealthCheckFailed, HealthCheckPassed

SIGNS: tuple[bytes, ...] = (
    b"Health check failed:",
    b"Health check passed:",
    b": FAULTY",
    b": NO RESULTS",
    b"Tested ",
)
_CHECK = pattern(
    r"\bHealth check (?P<state>failed|passed): {1,4}(?P<check>[\w.-]{1,80}): {1,4}(?P<reason>.{1,600})"
)
_CODE = pattern(r"\.? ?FaultCode: ?(\w{1,12})")
_TESTED = pattern(r"^Tested (\d{1,4}) GPUs:\s{0,4}$")
_FAULTY = pattern(r"^\s{0,8}GPU (\d{1,4}): (FAULTY|NO RESULTS)\s{0,4}$")
_LONGEST = 200


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the event of one line."""
    if (check := _CHECK.search(line.text)) is not None:
        if check["state"] == "passed":
            return (event_of(HealthCheckPassed(check=check["check"]), line),)
        code = _CODE.search(check["reason"])
        reason = check["reason"][: code.start()] if code else check["reason"]
        failed = HealthCheckFailed(
            check=check["check"], reason=reason.strip()[:_LONGEST], code=code[1] if code else None
        )
        return (event_of(failed, line),)
    if (faulty := _FAULTY.match(line.text)) is not None:
        return (event_of(GpuBurnFaulty(gpu=int(faulty[1]), state=faulty[2]), line),)
    if (tested := _TESTED.match(line.text)) is not None:
        return (event_of(GpuBurnTested(gpus=int(tested[1])), line),)
    return ()
