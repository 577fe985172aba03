"""Small verdicts for the output formats, among them one with hostile names."""

from __future__ import annotations

import datetime

import msgspec

from probes.base.record import EvidenceRef, Unknown
from probes.judging.check_table import CHECKS
from probes.judging.findings import Finding, Remedy, Status
from probes.judging.policies.policy import Waiver
from probes.judging.verdict import Verdict, judge

STARTED = datetime.datetime(2026, 11, 21, 8, 30, tzinfo=datetime.timezone.utc)
EVIL = "GPU|0\"'<&>]]>\x1b[31m\x00\n\r`x`\u2028\ud800\udcff *b* [l](http://e.org) @team \\ #1 100% | a=1"
"""Name with quotes, markup of every format, escape sequences, line ends, and a byte that is not UTF-8."""


def finding(check_id: str, subject: str, word: str, summary: str, **changes: object) -> Finding:
    made = Finding(
        check_id=check_id, subject=subject, status=Status(word), summary=summary, why="It matters."
    )
    return msgspec.structs.replace(made, **changes)


def verdict_of(*findings: Finding, hostname: str | Unknown = "node17") -> Verdict:
    verdict = judge(findings, CHECKS, hostname=hostname, source="live")
    return msgspec.structs.replace(
        verdict, tier="quick", deep_only=("sensors",), started=STARTED, duration_s=0.25
    )


REMEDY = Remedy(text="Reset the GPU.", command="nvidia-smi --gpu-reset -i 3", needs_root=True)
WAIVER = Waiver(
    check="nic-state", subject="mlx5_7", reason="cable ordered", expires=datetime.date(2027, 1, 31)
)
REF = EvidenceRef(source="command", key="nvidia-smi -q -x")

LINK = finding(
    "nvlink-active",
    "GPU3",
    "FAIL",
    "an NVLink is down",
    observed="17 of 18 up",
    expected="18",
    remedy=REMEDY,
    evidence=(REF,),
)
ROWS_WAIT = finding(
    "row-remap", "GPU1", "UNKNOWN", "the state of row remapping could not be read", observed="timeout: 10 s"
)
FILES = finding(
    "nofile",
    "host",
    "WARN",
    "the limit is low",
    observed="1024",
    expected="65536",
    remedy=Remedy(text="Raise it."),
)
CABLE = finding(
    "nic-state",
    "mlx5_7",
    "FAIL",
    "the port is down",
    observed="DOWN",
    expected="ACTIVE",
    waived=WAIVER,
    remedy=REMEDY,
)
MODEL = finding("gpu-model", "GPU0-7", "PASS", "all alike")
MIG = finding("mig-mode", "host", "SKIP", "this machine has no NVIDIA GPU")

VERDICTS = {
    "good": verdict_of(MODEL, MIG),
    "bad": verdict_of(LINK, ROWS_WAIT, FILES, CABLE, MODEL, MIG),
    "warned": verdict_of(FILES, MODEL),
    "unknown": verdict_of(ROWS_WAIT, MODEL),
    "empty": verdict_of(),
    "waived": verdict_of(CABLE, MODEL),
    "hostile": verdict_of(
        finding(
            "gpu-lost",
            EVIL,
            "FAIL",
            EVIL,
            observed=EVIL,
            expected=EVIL,
            remedy=Remedy(text=EVIL, command=EVIL),
        ),
        finding("gpu-lost", EVIL, "PASS", EVIL),
        finding("vbios", EVIL, "WARN", EVIL, observed=EVIL, expected=EVIL, remedy=Remedy(text=EVIL)),
        finding("gpu-driver", EVIL, "UNKNOWN", EVIL, observed=EVIL),
        finding("mig-mode", EVIL, "SKIP", EVIL),
        finding("nic-state", EVIL, "FAIL", EVIL, waived=msgspec.structs.replace(WAIVER, reason=EVIL)),
        hostname=EVIL,
    ),
}
