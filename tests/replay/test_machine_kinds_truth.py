"""Test that test files of other projects are not read as machines, except a table of nvidia-smi."""

from __future__ import annotations

import pytest

from assistant.usecases.check import check_machine
from probes.base.errors import InputError
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.judging.findings import Evidence, Status
from probes.sources.loose import open_loose
from tests.support.recordings import MACHINES, index, is_output, needs_recordings

pytestmark = needs_recordings

PATHS = sorted(path for path in index() if path.startswith("machines/"))


@pytest.mark.parametrize("path", [path for path in PATHS if not is_output(path)])
def test_a_description_is_refused_by_name(path: str) -> None:
    with pytest.raises(InputError, match="is of no kind that rigtune knows"):
        open_loose([(path, (MACHINES / path).read_bytes())])


@pytest.mark.parametrize("path", [path for path in PATHS if is_output(path)])
def test_an_output_is_read_and_does_not_fail(path: str) -> None:
    source = open_loose([(path, (MACHINES / path).read_bytes())])
    facts = assemble("", gather(source, CollectOptions(ask_interpreters=False)))
    assert isinstance(facts.gpus, tuple)
    *_, finished = check_machine(Evidence(facts=facts, catalogue=load_catalogue()))
    findings = finished.result.findings  # type: ignore[attr-defined]
    assert [(row.check_id, row.summary) for row in findings if row.status is Status.FAIL] == []
