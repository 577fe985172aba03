"""Test that a file of places may be a table or the topology file of Slurm, and precedes the engine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from assistant.usecases.fleet.site_places import site_places


def engine(*, knows_places: bool) -> SimpleNamespace:
    def places() -> dict[str, dict[str, str]]:
        return {"n1": {"rack": "old", "pdu": "p1"}}

    return SimpleNamespace(knows_places=knows_places, load=lambda: SimpleNamespace(places=places))


@pytest.mark.parametrize("text", ["SwitchName=s1 Nodes=n1,n2\n", "BlockName=s1 Nodes=n1,n2\n"])
def test_the_topology_of_slurm_is_recognised(tmp_path, text):
    file = tmp_path / "topology.conf"
    file.write_text(text)
    places = site_places(engine(knows_places=False), file)
    assert set(places) == {"n1", "n2"}
    assert all("s1" in values.values() for values in places.values())


def test_the_file_precedes_what_the_engine_knows(tmp_path):
    assert site_places(engine(knows_places=False), None) == {}
    assert site_places(engine(knows_places=True), None) == {"n1": {"rack": "old", "pdu": "p1"}}
    file = tmp_path / "topology.conf"
    file.write_text("SwitchName=s1 Nodes=n1\n")
    assert site_places(engine(knows_places=True), file)["n1"].items() >= {("rack", "old"), ("pdu", "p1")}
