"""The exit code in the convention of whoever started the check. It never depends on the output format.

| profile | 0 | 1 | 2 | 3 |
| --- | --- | --- | --- | --- |
| gate | fit | findings at or above `fail_on` | wrong usage or input | a required check is UNKNOWN |
| nagios | OK | WARNING | CRITICAL | UNKNOWN, also when rigtune itself failed |
| npd | OK | problem | unknown, also when rigtune itself failed | |
| slurm, nhc | fit | not fit, or a required check is UNKNOWN | wrong usage or input | |

A fault of rigtune itself ends with 70, except under nagios and npd.

Sources: Nagios plugin guidelines, plugin return codes; kubernetes/node-problem-detector, custom plugin
monitor; Slurm, prolog and epilog guide; LBNL Node Health Check, custom checks (2026-11).
"""

from __future__ import annotations

from typing import Literal, get_args

from probes.base.errors import ExitCode
from probes.judging.findings import Status
from probes.judging.verdict import FailOn, Verdict, exit_code

Profile = Literal["gate", "nagios", "npd", "slurm", "nhc"]
PROFILES: tuple[Profile, ...] = get_args(Profile)

_NAGIOS = {Status.PASS: 0, Status.WARN: 1, Status.FAIL: 2, Status.UNKNOWN: 3, Status.SKIP: 3}
_NPD = {ExitCode.OK: 0, ExitCode.FINDINGS: 1, ExitCode.UNKNOWN: 2}


def exit_status(verdict: Verdict, profile: Profile = "gate", fail_on: FailOn = "fail") -> int:
    """Return the exit code of a verdict.

    Nagios has a code of its own for warnings, so `fail_on` does not affect it.
    """
    code = exit_code(verdict, fail_on)
    match profile:
        case "gate":
            return int(code)
        case "nagios":
            return _NAGIOS[verdict.verdict]
        case "npd":
            return _NPD[code]
        case _:
            return 0 if code is ExitCode.OK else 1


def failure_status(code: int, profile: Profile = "gate") -> int:
    """Return the exit code if rigtune gave no verdict; `code` is rigtune's own."""
    return {"nagios": 3, "npd": 2}.get(profile, code)
