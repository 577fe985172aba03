"""Parse `dcgmi diag`: its table, its JSON (`-j`, of DCGM 3 and 4), fragments, and lists of failed tests.

A table wraps messages at a fixed width in the middle of words, and prints a result per group of GPUs below
the test's name. A report without any test yields one diagnosis UNKNOWN, because a missing result does not
mean that a test passed. Source: NVIDIA/DCGM, dcgmi/Diag.cpp and common_lib, JSON keys of versions 3 and 4
(read 2026-11).
"""

import re

from probes.base.record import NOT_RECORDED, line_ref
from probes.base.versions import numbers_of
from probes.facts import Diagnosis, Gpu, Unread
from probes.parsers.tools.dcgm_json import ROOTS, metadata, parse_damaged, parse_json
from probes.parsers.tools.dcgm_words import HOST, TESTS, TOOL, result_of, subjects_of
from probes.parsers.tools.tool_text import json_object

_ROW = re.compile(r"\|(.{1,60}?)\|(.{0,200}?)\|?\s*")
_SECTION = re.compile(
    r"[|+]-{2,8}\s{1,4}(?:Metadata|Deployment|Integration|Hardware|Stress|Custom)\s{1,4}-{2,24}\+.{0,80}"
)
_TITLE = re.compile(r"\|\s{0,4}Diagnostic\s{1,40}\|\s{0,4}Result\s{1,60}\|?")
_CELL = re.compile(
    r"(Pass|Fail|Warn|Skip|Skipped|Error|Not Run)"
    r"(?:\s{0,4}-\s{0,4}(All|(?:GPUs?|CPUs?|Entit(?:y|ies))?:?\s{0,4}[\d, -]{1,200}))?"
)
_ENTITY = re.compile(r"(GPU|[A-Z][A-Za-z]{1,11}) ?(\d{1,4}): (Pass|Fail|Warn|Skip)")
"""A line for one device, as DCGM 4 prints it."""
_NAMES = "|".join(sorted((re.escape(name) for name in TESTS), key=len, reverse=True))
_RETYPED = re.compile(
    rf"\s{{0,12}}[|*-]?\s{{0,4}}({_NAMES})\s*[:|]?\s+"
    r"(PASS(?:ED)?|FAIL(?:ED)?|WARN(?:ING)?|SKIP(?:PED)?)\b\s*[|:-]?\s*(.{0,300})",
    re.IGNORECASE,
)
_MESSAGE = re.compile(r"(?:(?:Warning|Error|Info)(?:: ?\w{1,16})?)?", re.IGNORECASE)
"""Left cells of lines that continue the test in the line above. In DCGM 4, such a cell may name a device."""
_WRAPPED = 45
"""Width at which DCGM 2 and 3 cut a message, in the middle of words.

A shorter piece ends with a whole word, or with the blank after the word.
"""
_VERDICT = re.compile(r"\b(?:PASS|FAIL|WARN|SKIP)", re.IGNORECASE)
_METADATA = re.compile(
    r"\|\s{0,4}(Driver Version Detected|GPU Device IDs Detected)\s{0,20}\|\s{0,4}(\S.{0,400}?)\s{0,60}\|?\s*"
)
_DEVICE_ID = re.compile(r"[0-9a-fA-F]{4}")
_QUOTED_ROOTS = tuple(f'"{root}"' for root in ROOTS)
_MOST = 4096
_MOST_GPUS = 256


class _Test:
    """One test of a table, with the messages below it."""

    def __init__(self, name: str, line: int) -> None:
        self.name, self.line = name, line
        self.results: list[tuple[str, tuple[str, ...], int]] = []
        self.message = ""

    def diagnoses(self) -> list[Diagnosis]:
        message = " ".join(self.message.split())[:600]
        return [
            Diagnosis(
                tool=TOOL,
                test=self.name,
                subject=subject,
                result=result_of(word),
                message=message if result_of(word) not in ("PASS", "SKIP") else "",
                evidence=(line_ref(line),),
            )
            for word, subjects, line in self._device_results()
            for subject in subjects
        ]

    def _device_results(self) -> list[tuple[str, tuple[str, ...], int]]:
        """Return the results without the summary of DCGM 4, if results of devices follow.

        A summary other than Pass or Skip is kept if no device has the same result.
        """
        if len(self.results) < 2 or self.results[0][1] != (HOST,):
            return self.results
        first, *others = self.results
        is_repeated = first[0] in ("Pass", "Skip") or any(word == first[0] for word, _, _ in others)
        return others if is_repeated else self.results


def recognise(text: str) -> bool:
    if any(sign in text for sign in (*_QUOTED_ROOTS, "Successfully ran diagnostic for group")):
        return True
    named = 0
    for line in text.split("\n"):
        row = _ROW.fullmatch(line) if line.startswith("|") else None
        if _TITLE.fullmatch(line) or (row is not None and _is_test(row[1]) and _CELL.match(row[2].strip())):
            return True
        named += _VERDICT.search(line) is not None and _RETYPED.fullmatch(line) is not None
    return named >= 2


def parse_diagnoses(text: str) -> tuple[Diagnosis, ...]:
    """Return one diagnosis per test and subject: a GPU if the tool names one, otherwise the host."""
    for root in ROOTS:
        decoded = json_object(text, root)
        if decoded is not None:
            return parse_json(decoded[0][root], text, decoded[1]) or (
                _unknown("the report contains no test"),
            )
        if f'"{root}"' in text:
            return parse_damaged(text) or (_unknown("the JSON report is incomplete"),)
    tests = _table(text) or _retyped(text)
    diagnoses = tuple(diagnosis for test in tests for diagnosis in test.diagnoses())[:_MOST]
    return diagnoses or (_unknown("no result of a test was found"),)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs that the report names, with their device ids and driver.

    These are the GPUs of the metadata, and GPUs with results.
    """
    driver = ""
    ids: list[str] = []
    for root in ROOTS:
        decoded = json_object(text, root)
        if decoded is not None:
            driver, ids = metadata(decoded[0], root)
    if not driver and not ids:
        rows = (_METADATA.fullmatch(line) for line in text.split("\n") if line.startswith("|"))
        fields = {row[1]: row[2] for row in rows if row is not None}
        driver = fields.get("Driver Version Detected", "")
        ids = [word.strip() for word in fields.get("GPU Device IDs Detected", "").split(",")]
    ids = [word.lower() for word in ids[:_MOST_GPUS] if _DEVICE_ID.fullmatch(word)]
    named = {
        int(diagnosis.subject[3:])
        for diagnosis in parse_diagnoses(text)
        if diagnosis.subject.startswith("GPU")
    }
    return tuple(
        Gpu(
            index=index,
            pci_device_id=f"10de:{ids[index]}" if index < len(ids) else NOT_RECORDED,
            driver_version=driver if numbers_of(driver) else NOT_RECORDED,
        )
        for index in sorted({*named, *range(len(ids))})
    )


def parse_unread(text: str) -> tuple[Unread, ...]:
    """Return rows of tests with an unknown result word, and a JSON report whose end is missing."""
    root = next((root for root in ROOTS if f'"{root}"' in text), None)
    cut = Unread(source="", line=0, text=root or "", why="the JSON report is incomplete")
    rows = (
        Unread(source="", line=number, text=line.strip()[:80], why="no result of a test")
        for number, line in enumerate(text.split("\n"), 1)
        if line.startswith("|")
        and (row := _ROW.fullmatch(line)) is not None
        and _is_test(row[1])
        and _TITLE.fullmatch(line) is None
        and row[2].strip()
        and _CELL.match(row[2].strip()) is None
    )
    return (*((cut,) if root is not None and json_object(text, root) is None else ()), *rows)


def _is_test(cell: str) -> bool:
    return cell.strip().lower() in TESTS


def _table(text: str) -> list[_Test]:
    tests: list[_Test] = []
    for number, line in enumerate(text.split("\n"), 1):
        row = _ROW.fullmatch(line) if line.startswith("|") and not _SECTION.fullmatch(line) else None
        left, right = (row[1].strip(), row[2]) if row is not None else ("", "")
        cell, entity = _CELL.fullmatch(right.strip()), _ENTITY.fullmatch(right.strip())
        if cell is not None and (_is_test(left) or _MESSAGE.fullmatch(left) is None):
            tests.append(_Test(left, number))
            tests[-1].results.append((cell[1], subjects_of(cell[2]), number))
        elif tests and cell is not None and not left:
            tests[-1].results.append((cell[1], subjects_of(cell[2]), number))
        elif tests and entity is not None and not left:
            subject = f"GPU{entity[2]}" if entity[1] == "GPU" else HOST
            tests[-1].results.append((entity[3], (subject,), number))
        elif row is None:
            continue
        elif tests and _MESSAGE.fullmatch(left) is not None and not left.lower().startswith("info"):
            # A piece of the full width may end within a word, so no blank follows it.
            piece = right.removeprefix(" ").rstrip()
            tests[-1].message += (" " if left else "") + piece + (" " if len(piece) < _WRAPPED else "")
    return tests


def _retyped(text: str) -> list[_Test]:
    """Return the tests of a handwritten list."""
    tests: list[_Test] = []
    for number, line in enumerate(text.split("\n"), 1):
        match = _RETYPED.fullmatch(line)
        if match is not None:
            tests.append(_Test(match[1], number))
            tests[-1].results.append((match[2], (HOST,), number))
            tests[-1].message = match[3]
        elif tests and line.startswith("  ") and line.strip():
            tests[-1].message += "; " + line.strip()[:300]
    return tests


def _unknown(why: str) -> Diagnosis:
    return Diagnosis(tool=TOOL, test="diag", subject=HOST, result="UNKNOWN", message=why)
