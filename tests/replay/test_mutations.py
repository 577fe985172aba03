"""Test that damaged files raise no error, and that rigtune invents no device.

The number of mutations is RIGTUNE_MUTATIONS.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from probes.base.errors import InputError
from probes.collect.collecting import CollectOptions, assemble
from probes.collect.collector_table import PROBES
from probes.facts import MachineFacts
from probes.sources.base import Source
from probes.sources.loose import open_loose
from tests.support.mutations import mutated
from tests.support.provenance import invented
from tests.support.recordings import MACHINES, is_output, needs_recordings

QUICK = 600
SEED = 20261121

pytestmark = needs_recordings


def corpus() -> list[Path]:
    return sorted(path for path in MACHINES.glob("*/*") if path.is_file() and path.stat().st_size < 200_000)


def collected(source: Source) -> MachineFacts:
    """Return the facts as `gather` does, but on this thread and without catching errors of collectors."""
    options = CollectOptions()
    return assemble(
        source.title, [(row, getattr(row.load(), row.function)(source, options)) for row in PROBES]
    )


def test_facts_of_undamaged_files_name_only_devices_in_their_text() -> None:
    for path in (path for path in corpus() if is_output(str(path.relative_to(MACHINES)))):
        facts = collected(open_loose([(path.name, path.read_bytes())]))
        assert invented(facts, path.read_text("utf-8", "replace")) == [], path


@pytest.mark.slow
def test_damaged_files_raise_nothing_and_make_up_no_device() -> None:
    count = int(os.environ.get("RIGTUNE_MUTATIONS", QUICK))
    rng = random.Random(SEED)  # noqa: S311 - it only has to repeat
    files = [(path, path.read_bytes()) for path in corpus()]
    refused = 0
    for number in range(count):
        path, data = rng.choice(files)
        pasted = [(path.name, mutated(rng, data))]
        if rng.random() < 0.2:
            other, more = rng.choice(files)
            pasted.append((other.name, mutated(rng, more)))
        case = f"mutation {number} of seed {SEED}: {', '.join(name for name, _ in pasted)}"
        try:
            facts = collected(open_loose(pasted))
        except InputError:
            refused += 1
            continue
        except Exception as error:
            raise AssertionError(case) from error
        assert invented(facts, "".join(content.decode("utf-8", "replace") for _, content in pasted)) == [], (
            case
        )
    assert refused < count / 2
