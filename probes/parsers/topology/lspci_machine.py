"""Rewrite `lspci -mm` and `lspci -vmm`, which are made for scripts, as `lspci` and `lspci -v`.

Source: pciutils, lspci(8), section "Machine readable output".
"""

from __future__ import annotations

from probes.base.patterns import pattern

_ADDRESS = r"((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_ONE_LINE = pattern(
    rf'{_ADDRESS} "([^"\n]{{2,80}})" "([^"\n]{{2,120}})" "([^"\n]{{0,200}})"(?: -r([0-9a-f]{{2}}))?.*'
)
_SLOT = pattern(rf"(?:Slot|Device):[ \t]*{_ADDRESS}[ \t]*")
_FIELD = pattern(
    r"(Class|Vendor|Device|Rev|NUMANode|Driver|PhySlot|SVendor|SDevice|ProgIf|Module|IOMMUGroup):"
    r"[ \t]*(.{0,200})"
)
_BARE = pattern(r"([0-9a-f]{4}) ([0-9a-f]{4})")
_BOTH = pattern(r"(.{1,120})\[([0-9a-f]{4})\] (.{0,200})\[([0-9a-f]{4})\]")
_PLAIN = {"NUMANode": "NUMA node", "Driver": "Kernel driver in use", "PhySlot": "Physical Slot"}


def is_machine_form(text: str) -> bool:
    if '" "' in text and any(_ONE_LINE.fullmatch(line) for line in text.splitlines()[:1000]):
        return True
    return (
        "Slot:" in text
        and "Class:" in text
        and any(_SLOT.fullmatch(line) for line in text.splitlines()[:1000])
    )


def as_plain(text: str) -> str:
    """Return the same devices as `lspci` prints them, line for line."""
    lines = text.splitlines()
    plain: list[str] = []
    for number, line in enumerate(lines):
        if (row := _ONE_LINE.fullmatch(line)) is not None:
            plain.append(_header(row[1], row[2], f"{row[3]} {row[4]}", row[5] or ""))
        elif (slot := _SLOT.fullmatch(line)) is not None:
            fields = _fields(lines, number + 1)
            device_words = f"{fields.get('Vendor', '')} {fields.get('Device', '')}"
            plain.append(
                _header(
                    slot[1], fields.get("Class", "Unclassified device"), device_words, fields.get("Rev", "")
                )
            )
        elif (field := _FIELD.fullmatch(line)) is not None:
            plain.append(f"\t{_PLAIN[field[1]]}: {field[2]}" if field[1] in _PLAIN else "\t-")
        else:
            plain.append(line)
    return "\n".join(plain)


def _fields(lines: list[str], start: int) -> dict[str, str]:
    """Return the fields of one device, which end at an empty line."""
    fields: dict[str, str] = {}
    for line in lines[start : start + 20]:
        field = _FIELD.fullmatch(line)
        if field is None:
            break
        fields.setdefault(field[1], field[2].strip())
    return fields


def _header(address: str, words: str, device_words: str, revision: str) -> str:
    """Return a device's line as `lspci` prints it.

    Numbers without names (-n) are joined by a colon; the numbers behind vendor and device (-nn) are put
    together at the end.
    """
    if (bare := _BARE.fullmatch(device_words)) is not None:
        device_words = f"{bare[1]}:{bare[2]}"
    elif (named := _BOTH.fullmatch(device_words)) is not None:
        device_words = f"{named[1]}{named[3]}[{named[2]}:{named[4]}]"
    return f"{address} {words}: {device_words}" + (f" (rev {revision})" if revision else "")
