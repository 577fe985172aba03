"""Report how `rigtune capture` changed the recording that it wrote."""

from assistant.pages.blocks import Cell, Column, Page, Table, section
from probes.base.units import plural
from probes.redaction import Manifest


def capture_page(manifest: Manifest | None, path: str) -> Page:
    """Return the kinds of values that were replaced and kept, for the person who shares the file."""
    if manifest is None:
        warning = "it contains host names, serial numbers, addresses and maybe secrets; do not share it"
        return (section("", [f"wrote {path} without redaction: {warning}"]),)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            row.title,
            f"{row.values} {'value' if row.values == 1 else 'different values'}"
            f" in {plural(row.places, 'place')}",
        )
        for row in manifest.rows
    )
    kept = [f"kept as you asked: {', '.join(manifest.kept)}"] * bool(manifest.kept)
    kept += ["kept: models, versions, PCI addresses, counters, times, settings that are not secret"]
    table = Table((Column(fixed=True), Column()), rows) if rows else "nothing was found to replace"
    return (
        section(f"wrote {path}, redacted:", [table, *kept], indent=2),
        section("", ["The rules cannot recognise every name. Read the file before you share it."]),
    )
