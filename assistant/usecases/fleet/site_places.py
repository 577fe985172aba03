"""Ask the site and the user's own file for the places of nodes."""

from pathlib import Path

from assistant.engines.clustershell_runs import nodes_of
from assistant.engines.engine_table import EngineRow
from assistant.storage import read_bytes
from probes.fleet.places import Places, parse_places, parse_slurm_topology


def site_places(engine: EngineRow, file: Path | None) -> Places:
    """Return the places that the engine knows, and those of the file, which has precedence.

    The file may also be Slurm's topology.conf. Raises InputError and UsageError for a wrong file.
    """
    places = engine.load().places() if engine.knows_places else {}
    if file is not None:
        text = read_bytes(file).decode("utf-8-sig", "replace")
        is_slurm = "SwitchName=" in text or "BlockName=" in text
        stated = parse_slurm_topology(text, nodes_of) if is_slurm else parse_places(text, str(file), nodes_of)
        for node, values in stated.items():
            places[node] = {**places.get(node, {}), **values}
    return places
