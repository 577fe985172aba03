"""Judge the results of DCGM's diagnostic and of its health watches.

A failed test is a fault of the node until it passes, except for tests of settings that slow nothing down. A
report without a recognised test is unknown, never a pass. Source: NVIDIA DCGM user guide, diagnostics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from probes.base.record import EvidenceRef, Reason, Unknown
from probes.facts import Diagnosis
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, fold_names
from probes.parsers.tools.dcgm_words import SETTING_ERRORS, SETTING_TESTS

JUDGE = Judge(
    check_id="dcgm-diagnosis",
    why="DCGM's tests load the GPU as training does: what fails there fails or slows a job later.",
)

_NUMBER = re.compile(r"\bGPU ?\d{1,4}\b")
"""Words that differ only in the GPU that they name are one problem."""


def check(evidence: Evidence) -> Iterator[Finding]:
    diagnoses = evidence.facts.diagnoses
    if isinstance(diagnoses, Unknown):
        yield JUDGE.undetermined(HOST, diagnoses, what="the diagnosis")
        return
    groups: dict[tuple[str, str, str], list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        message = _NUMBER.sub("GPU", diagnosis.message)
        groups.setdefault((diagnosis.result, diagnosis.test, message), []).append(diagnosis)
    for (result, test, general), same in groups.items():
        message = same[0].message if len(same) == 1 else general
        if result in ("FAIL", "WARN"):
            yield _problem(result, test, message, same)
        elif result == "UNKNOWN":
            unknown = Unknown(Reason.UNPARSABLE, message or f"{test} has no known result")
            yield JUDGE.undetermined(_names(same), unknown, what="the diagnosis", evidence=_refs(same))
    passed = [diagnosis for diagnosis in diagnoses if diagnosis.result == "PASS"]
    failed = {
        (diagnosis.test, diagnosis.subject) for diagnosis in diagnoses if diagnosis.result in ("FAIL", "WARN")
    }
    fine = [diagnosis for diagnosis in passed if (diagnosis.test, diagnosis.subject) not in failed]
    if fine:
        tests = list(dict.fromkeys(diagnosis.test for diagnosis in fine))
        yield JUDGE.passed(
            _names(fine), "DCGM's tests passed", observed=", ".join(tests), evidence=_refs(fine)
        )
    elif not diagnoses:
        yield JUDGE.skipped(HOST, "no diagnosis was given")
    elif not any(diagnosis.result in ("FAIL", "WARN", "UNKNOWN") for diagnosis in diagnoses):
        yield JUDGE.skipped(HOST, "DCGM skipped all its tests", evidence=_refs(diagnoses))


def _problem(result: str, test: str, message: str, same: list[Diagnosis]) -> Finding:
    is_setting = test.lower() in SETTING_TESTS or any(
        diagnosis.error_code in SETTING_ERRORS for diagnosis in same
    )
    what = "health watch" if same[0].tool.endswith("health") else "test"
    number = next(
        (f" (error {diagnosis.error_code})" for diagnosis in same if diagnosis.error_code is not None), ""
    )
    return JUDGE.problem(
        _names(same),
        f"DCGM's {what} {test} {'failed' if result == 'FAIL' else 'warns'}",
        fails=result == "FAIL" and not is_setting,
        expected="Pass",
        observed=(message or result.capitalize()) + number,
        remedy=Remedy(
            text="Drain the node, follow its message, and run the test again; a GPU that fails twice "
            "needs service.",
            command="dcgmi diag -r 3",
        ),
        evidence=_refs(same),
    )


def _names(diagnoses: list[Diagnosis]) -> str:
    names = list(dict.fromkeys(diagnosis.subject for diagnosis in diagnoses))
    gpus = [name for name in names if name != HOST]
    return fold_names(gpus) if gpus else HOST


def _refs(diagnoses: list[Diagnosis] | tuple[Diagnosis, ...]) -> tuple[EvidenceRef, ...]:
    return tuple(dict.fromkeys(ref for diagnosis in diagnoses for ref in diagnosis.evidence))
