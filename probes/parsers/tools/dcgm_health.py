"""Parse `dcgmi health --check`: results of DCGM's background watches, as tables or JSON of DCGM 1 to 4.

Up to DCGM 1.7 the table has a row per GPU with `PCIe system: Warning - text`; since then it is a tree with a
row per watch and the watch's text below. Source: NVIDIA DCGM user guide, active health checks, of versions
1.7 and 4; dcgmi/Health.cpp (read 2026-11).
"""

import re

from probes.base.record import line_ref
from probes.facts import Diagnosis
from probes.parsers.tools.dcgm_words import HOST, Result

TOOL = "dcgmi health"

_TITLE = re.compile(r"Health Monitor Report")
_OVERALL = re.compile(r'Overall Health[": |{]{1,40}(?:value" ?: ?")?(Healthy|Warning|Failure)\b')
_ROW = re.compile(r"\|(.{1,60}?)\|(.{0,200}?)\|?\s*")
_GPU = re.compile(r"GPU ID: (\d{1,4})|-> (\d{1,4})")
_GROUP = re.compile(r"(?:-> )?(GPUs?|NvSwitch(?:es)?|CPUs?|ConnectX|NvLinks?)")
_WATCH = re.compile(r"-> ([A-Za-z][A-Za-z ]{1,40})")
_OLD = re.compile(r"([A-Za-z][A-Za-z ]{1,40}?): (Healthy|Warning|Failure)\b(?: - )?(.*)")
_RESULTS: dict[str, Result] = {"healthy": "PASS", "warning": "WARN", "failure": "FAIL"}
_ALL = "health"
_MOST = 4096


class _Watch:
    """One watch of one device, with its text."""

    def __init__(self, subject: str, name: str, word: str, line: int, text: str = "") -> None:
        self.subject, self.name, self.word, self.line, self.text = subject, name, word, line, text


def recognise(text: str) -> bool:
    return _TITLE.search(text) is not None and _OVERALL.search(text) is not None


def parse_diagnoses(text: str) -> tuple[Diagnosis, ...]:
    """Return one diagnosis per GPU and watch.

    If no diagnosis has the overall result, that result becomes a diagnosis of the host.
    """
    watches = _watches(text)
    overall = _OVERALL.search(text)
    if overall is not None and not any(watch.word == overall[1] for watch in watches):
        watches.append(_Watch(HOST, _ALL, overall[1], text.count("\n", 0, overall.start()) + 1))
    return tuple(
        Diagnosis(
            tool=TOOL,
            test=watch.name,
            subject=watch.subject,
            result=_RESULTS[watch.word.lower()],
            message=" ".join(watch.text.split())[:600],
            evidence=(line_ref(watch.line),),
        )
        for watch in watches[:_MOST]
    )


def _watches(text: str) -> list[_Watch]:
    watches: list[_Watch] = []
    subject, group, gpu_watch = HOST, "GPU", None
    for number, line in enumerate(text.split("\n"), 1):
        row = _ROW.fullmatch(line.strip()) if len(line) < 400 else None
        if row is None or "Overall Health" in line:
            continue
        left, right = row[1].strip(), row[2].strip()
        if (match := _GROUP.fullmatch(left)) is not None:
            group, gpu_watch = match[1], None
        elif (match := _GPU.fullmatch(left)) is not None:
            subject = f"GPU{match[1] or match[2]}" if group.startswith("GPU") else HOST
            gpu_watch = _Watch(subject, _ALL, right, number) if right.lower() in _RESULTS else None
            watches += [gpu_watch] if gpu_watch else []
        elif (match := _WATCH.fullmatch(left)) is not None and right.lower() in _RESULTS:
            watches = [watch for watch in watches if watch is not gpu_watch]
            watches.append(_Watch(subject, match[1], right, number))
        elif not left and (match := _OLD.fullmatch(right)) is not None:
            watches = [watch for watch in watches if watch is not gpu_watch]
            watches.append(_Watch(subject, match[1], match[2], number, match[3]))
        elif not left and watches:
            watches[-1].text += f" {right}"
    return watches
