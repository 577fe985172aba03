"""Test that equal salts give equal placeholders in every version. RIGTUNE_UPDATE_GOLDEN=1 updates the file.

Recordings of one cluster that were redacted by different versions of rigtune must stay comparable.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests
from probes.base.record import to_json
from probes.redaction import redact
from probes.redaction.text import TextRedactor
from probes.sources.stored import dump_recording
from tests.unit.probes.redaction.test_redaction import seeded

FILE = Path(tests.__path__[0]) / "golden" / "redacted.txt"
ADDRESSES = (
    *("10.37.201.14", "10.37.201.15/24", "10.37.201.0/24", "172.16.9.1", "172.31.255.254", "192.168.1.1"),
    *("100.64.3.2", "169.254.7.7", "169.254.169.254", "127.0.0.1", "255.255.255.0", "224.0.0.1"),
    *("141.61.14.77", "141.61.14.78/31", "8.8.8.8", "223.1.2.3", "240.1.2.3", "1.2.3.4/32", "9.0.0.0/8"),
    *("77.14.61.141.in-addr.arpa", "10.0.0.7-10.0.0.9", "ip-10-37-201-14", "driver 10.37.201.14"),
    *("2001:638:c:a057::1f2", "2001:0638:000C:A057:0000:0000:0000:01F2", "fe80::ba3f:d2ff:fea1:b2c4"),
    *("::1", "::", "ff02::1", "ff02::1:ffa1:b2c4", "fd00::5", "::ffff:10.37.201.14", "fe80::1"),
    *("fe80:0000:0000:0000:946d:ae03:00a1:b2c3", "1:2:3", "v570.124.6.1"),
)
TEXTS = (
    *(
        "b8:3f:d2:a1:b2:c4",
        "b8-3f-d2-a1-b2-c4",
        "ff:ff:ff:ff:ff:ff",
        "00:00:00:00:00:00",
        "02:42:ac:11:00:02",
    ),
    *("GPU-b7c1d2e3-4f50-6172-8394-a5b6c7d8e9f0", "MIG-b7c1d2e3-4f50-6172-8394-a5b6c7d8e9f0"),
    *("UUID: 5e2f8c1a-77aa-4b0c-9d3e-2f1a0b9c8d7e", "00000000-0000-0000-0000-000000000000"),
    *("0x946dae0300a1b2c3", "946d:ae03:00a1:b2c3", "94:6d:ae:03:00:a1:b2:c3", "Node GUID: 946dae0300a1b2c3"),
    *("Serial Number: 1652321009876", "serial: QTFCLU4123X", "Serial: 0", "Serial Number : N/A"),
    *("Asset Tag: QL-00731-A", "i-0f1e2d3c4b5a69788", "arn:aws:iam::123456789012:user/w"),
    *("w.renfield@quill-lab.edu", "/home/wrenfield/venv", "NodeList=qx[017-019,021]", "SLURM_NODELIST=qx17"),
    *(
        "search quillgrid ml.quill-lab.edu",
        "hostname: qx17",
        "ssh qx17",
        "user=wrenfield",
        "--job-name=quill",
    ),
    *("password=Tr0ub4dor&3x", "https://u:hunter2quill@host/x", "hf_QwErTyUiOpAsDfGhJkLzXcVbNm12345678"),
    *("AKIAQ7ZRT5PLM2XW8YVB", "Authorization: Bearer abcdefghijklmnop", "WANDB_API_KEY=8f14e45fceea167a5a36"),
    *(
        "iface\t0E2509C0\t0109250A\t0003\t0\t0\t0\t00FFFFFF",
        "NCCL version 2.20.5+cuda12.4",
        "step 100 loss 2.5",
    ),
)


def redacted_texts() -> Iterator[str]:
    for trusts in (False, True):
        redactor = TextRedactor(b"salt", trusts_labels=trusts)
        for _ in range(2):  # the second time with all names known
            for text in (*ADDRESSES, *TEXTS):
                redactor.learn(text)
        yield from (f"{text!r} -> {redactor.text(text)!r}" for text in (*ADDRESSES, *TEXTS))
        yield json.dumps({kind: sorted(values) for kind, values in redactor.book.values.items()})


@pytest.mark.parametrize("keep", [frozenset(), frozenset({"ip", "uuid"})])
def test_a_recording_is_redacted_alike(keep: frozenset[str]) -> None:
    first, manifest = redact(seeded(), salt=b"salt", keep=keep)
    again, _ = redact(seeded(), salt=b"salt", keep=keep)
    other, _ = redact(seeded(), salt=b"pepper", keep=keep)
    assert dump_recording(first) == dump_recording(again) != dump_recording(other)
    assert manifest.kept == tuple(kind for kind in ("uuid", "ip") if kind in keep)


def test_no_placeholder_changes_with_a_version() -> None:
    recording, manifest = redact(seeded(), salt=b"salt")
    lines = [*redacted_texts(), to_json(manifest).decode(), to_json(recording).decode()]
    text = "\n".join(lines)
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        FILE.write_text(text, "utf-8")
    assert FILE.read_text("utf-8") == text
