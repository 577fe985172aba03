"""Compare the output of `check --format` byte for byte. RIGTUNE_UPDATE_GOLDEN=1 writes the files anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assistant.formats.check_formats import FORMATS, Format, formatted
from tests.support.verdicts import VERDICTS

FOLDER = Path(__file__).parent / "check"
NAMES = ("good", "bad", "unknown")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("output_format", FORMATS)
def test_format(output_format: Format, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assistant.formats.build.commit", lambda: "0123456789ab")
    file = FOLDER / f"{name}.{output_format}"
    text = formatted(VERDICTS[name], output_format)
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_text(text, "utf-8")
    assert file.read_text("utf-8") == text
