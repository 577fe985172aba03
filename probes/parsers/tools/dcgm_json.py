"""Parse the JSON of `dcgmi diag -j`.

Version 3 has `gpu_ids` and texts, version 4 has entities, and warnings with numbers. Source: NVIDIA/DCGM,
DcgmiOutput and testing/python3/tests of both versions (read 2026-11).
"""

import re
from collections.abc import Iterator

import msgspec

from probes.base.record import line_ref, quoted
from probes.facts import Diagnosis
from probes.parsers.tools.dcgm_words import HOST, SETTING_ERRORS, TOOL, result_of, subjects_of
from probes.parsers.tools.tool_text import line_at

ROOTS = ("DCGM GPU Diagnostic", "DCGM Diagnostic")
_MOST = 4096
_PAIR = re.compile(
    r'"(name|entity_group|gpu_ids?|entity_id|test_summary|status|warnings?)"\s{0,8}:\s{0,40}'
    r'("(?:[^"\\\n]|\\.){0,1000}"|-?\d{1,6}\b|\[\s{0,80}"(?:[^"\\\n]|\\.){0,1000}"|\[|\{)'
)


def parse_json(body: object, text: str, start: int) -> tuple[Diagnosis, ...]:
    """Return the results of all tests and the errors of the run; empty if the document has another form."""
    diagnoses: list[Diagnosis] = []
    if isinstance(body, dict):
        for error in (body.get("runtime_error"), body.get("Error"), body.get("error")):
            if isinstance(error, str) and error:
                diagnoses.append(_diagnosis("diag", HOST, "FAIL", error, None, line_at(text, start)))
        for category in _dicts(body.get("test_categories")):
            for test in _dicts(category.get("tests")):
                diagnoses += _results(test, text, start)
    return tuple(diagnoses[:_MOST])


def metadata(document: dict[str, object], root: str) -> tuple[str, list[str]]:
    """Return the driver's version and the GPUs' PCI device ids; empty if the document lacks them.

    Version 4 has them next to the report, version 3 inside the report.
    """
    fields: dict[str, object] = {}
    for part in (document.get("metadata"), document.get(root)):
        fields |= {str(key).lower(): value for key, value in part.items()} if isinstance(part, dict) else {}
    driver = fields.get("driver version detected")
    ids = fields.get("gpu device ids detected", fields.get("gpu device ids"))
    listed = ids.split(",") if isinstance(ids, str) else ids
    words = (listed if isinstance(listed, list) else []) or [
        entity.get("device_id", "")
        for group in _dicts(document.get("entity_groups"))
        if group.get("entity_group") == "GPU"
        for entity in _dicts(group.get("entities"))
    ]
    return (driver if isinstance(driver, str) else ""), [str(word).strip() for word in words]


def parse_damaged(text: str) -> tuple[Diagnosis, ...]:
    """Return the results of a report that was cut or quoted.

    The report is read by the order of its keys: test, device, status, warnings.
    """
    diagnoses: list[Diagnosis] = []
    test, group = "", "GPU"
    subjects: tuple[str, ...] = (HOST,)
    for match in _PAIR.finditer(text):
        key, value = match[1], match[2].lstrip("[ \t\n").strip('"') or "["
        if key == "name":
            test, subjects, group = value[:80], (HOST,), "GPU"
        elif key == "entity_group":
            group = value.upper()
        elif key in ("gpu_id", "gpu_ids", "entity_id"):
            subjects = subjects_of(value) if group == "GPU" else (HOST,)
        elif key == "test_summary":
            test = ""
        elif key == "status" and test:
            line = line_at(text, match.start())
            diagnoses += [_diagnosis(test, subject, value, "", None, line) for subject in subjects]
        elif (
            key.startswith("warning") and value not in ("[", "{") and diagnoses and diagnoses[-1].test == test
        ):
            diagnoses[-1] = msgspec.structs.replace(diagnoses[-1], message=value[:600])
    return tuple(diagnoses[:_MOST])


def _results(test: dict[str, object], text: str, start: int) -> Iterator[Diagnosis]:
    name = str(test.get("name", "unnamed"))[:80]
    place = text.find(f'"{name}"', start)
    line = line_at(text, place if place >= 0 else start)
    # Without results of devices, the summary is used. The summary names no device, so its subject is the
    # host.
    for result in [*_dicts(test.get("results"))] or _dicts([test.get("test_summary")]):
        message, code = _message(result)
        for subject in _subjects(result):
            yield _diagnosis(name, subject, str(result.get("status", "")), message, code, line)


def _subjects(result: dict[str, object]) -> tuple[str, ...]:
    group, number = result.get("entity_group"), result.get("entity_id")
    if isinstance(group, str) and isinstance(number, int) and not isinstance(number, bool):
        return (f"GPU{number}",) if group.upper() == "GPU" and 0 <= number < 4096 else (HOST,)
    ids = result.get("gpu_ids", result.get("gpu_id"))
    return subjects_of(str(ids)) if isinstance(ids, str | int) and str(ids) else (HOST,)


def _message(result: dict[str, object]) -> tuple[str, int | None]:
    """Return the warnings as one text, and the number of the first warning that is not about settings.

    If all numbered warnings are about settings, the number is that of the last one.
    """
    warnings = result.get("warnings", result.get("warning", ()))
    texts: list[str] = []
    code: int | None = None
    for warning in warnings if isinstance(warnings, list) else [warnings]:
        if isinstance(warning, str):
            texts.append(warning)
        elif isinstance(warning, dict):
            texts.append(str(warning.get("warning", warning.get("message", ""))))
            number = warning.get("error_id")
            is_number = isinstance(number, int) and not isinstance(number, bool)
            code = number if is_number and (code is None or code in SETTING_ERRORS) else code
    return "; ".join(text for text in texts if text)[:600], code


def _diagnosis(  # noqa: PLR0917 - one argument per field of the diagnosis
    test: str, subject: str, status: str, message: str, code: int | None, line: int
) -> Diagnosis:
    result = "FAIL" if status == "FAIL" else result_of(status)
    return Diagnosis(
        tool=TOOL,
        test=test,
        subject=subject,
        result=result,
        message=message or ("" if result != "UNKNOWN" else f"status {quoted(status)}"),
        error_code=code,
        evidence=(line_ref(line),),
    )


def _dicts(value: object) -> Iterator[dict[str, object]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield item
