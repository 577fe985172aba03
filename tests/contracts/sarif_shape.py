"""Requirements of the SARIF 2.1.0 schema for the objects that rigtune writes, as a JSON schema.

Source: oasis-tcs/sarif-spec, Schemata/sarif-schema-2.1.0.json (errata 01). `!` marks a required property; no
object has other properties than these.
"""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 1}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}


def _of(kind: str) -> dict[str, str]:
    return {"$ref": f"#/definitions/{kind}"}


def _many(kind: str, *, unique: bool = True, least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": _of(kind), "uniqueItems": unique, "minItems": least}


_OBJECTS: dict[str, dict[str, Any]] = {
    "log": {
        "$schema": {"type": "string", "format": "uri"},
        "version!": {"const": "2.1.0"},
        "runs!": _many("run", unique=False),
    },
    "run": {
        "tool!": _of("tool"),
        "invocations": _many("invocation", unique=False),
        "artifacts": _many("artifact"),
        "results": _many("result", unique=False),
        "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        "taxonomies": _many("component"),
    },
    "tool": {"driver!": _of("component"), "extensions": _many("component")},
    "component": {
        "name!": _TEXT,
        "version": _TEXT,
        "informationUri": {"type": "string", "format": "uri"},
        "rules": _many("rule"),
        "taxa": _many("rule"),
    },
    "rule": {
        "id!": _TEXT,
        "name": _TEXT,
        "shortDescription": _of("words"),
        "fullDescription": _of("words"),
        "help": _of("words"),
        "helpUri": {"type": "string", "format": "uri"},
        "defaultConfiguration": _of("configuration"),
    },
    "configuration": {"enabled": {"type": "boolean"}, "level": _LEVEL},
    "words": {"text!": _TEXT, "markdown": _TEXT},
    "message": {"text!": _TEXT, "markdown": _TEXT},
    "invocation": {
        "executionSuccessful!": {"type": "boolean"},
        "toolExecutionNotifications": _many("notification", unique=False),
    },
    "notification": {"message!": _of("message"), "level": _LEVEL, "locations": _many("location")},
    "artifact": {"location": _of("file")},
    "file": {
        "uri": {"type": "string", "format": "uri-reference"},
        "index": {"type": "integer", "minimum": -1},
    },
    "result": {
        "ruleId": _TEXT,
        "ruleIndex": {"type": "integer", "minimum": -1},
        "kind": {"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
        "level": _LEVEL,
        "message!": _of("message"),
        "locations": _many("location", unique=False),
        "fixes": _many("fix"),
    },
    "location": {"physicalLocation": _of("place"), "message": _of("message")},
    "place": {"artifactLocation!": _of("file"), "region": _of("region")},
    "region": {"startLine!": _COUNT, "startColumn": _COUNT, "endLine": _COUNT, "endColumn": _COUNT},
    "fix": {"description": _of("message"), "artifactChanges!": _many("change", least=1)},
    "change": {
        "artifactLocation!": _of("file"),
        "replacements!": _many("replacement", unique=False, least=1),
    },
    "replacement": {"deletedRegion!": _of("region"), "insertedContent": _of("content")},
    "content": {"text": _TEXT},
}


def schema() -> dict[str, Any]:
    """Return the JSON schema for `jsonschema.validate`."""
    definitions = {
        name: {
            "type": "object",
            "additionalProperties": False,
            "properties": {key.rstrip("!"): value for key, value in shape.items()},
            "required": [key.rstrip("!") for key in shape if key.endswith("!")],
        }
        for name, shape in _OBJECTS.items()
    }
    return {"$ref": "#/definitions/log", "definitions": definitions}
