"""What `rigtune capture` says about the recording it wrote."""

from __future__ import annotations

from probes.redaction import Manifest


def manifest_lines(manifest: Manifest | None, path: str) -> list[str]:
    """What was replaced and kept, for the person who is about to share the file."""
    if manifest is None:
        return [
            f"wrote {path} as it was read: it holds host names, serial numbers, addresses and maybe secrets; keep it to yourself"
        ]
    lines = [f"wrote {path}, redacted:"]
    width = max((len(row.title) for row in manifest.rows), default=0)
    for row in manifest.rows:
        values = f"{row.values} {'value' if row.values == 1 else 'different values'}"
        lines.append(
            f"  {row.title:<{width}}  {values} in {row.places} {'place' if row.places == 1 else 'places'}"
        )
    if not manifest.rows:
        lines.append("  nothing was found to replace")
    if manifest.kept:
        lines.append(f"  kept as you asked: {', '.join(manifest.kept)}")
    lines.append("  kept: models, versions, PCI addresses, counters, times, settings that are no secrets")
    lines.append("Rules cannot know every name. Look through the file before you share it.")
    return lines
