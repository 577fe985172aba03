"""Parse `mlxlink` of the vendor's firmware tools: state and error rates of a link, and the firmware's advice.

One output may contain several cards below lines of equals signs, and end with `-E-` lines about options that
a card does not have.
"""

import re
from typing import NamedTuple

import msgspec

from probes.base.record import NOT_RECORDED, Reason, Unknown, line_ref, quoted
from probes.facts import Nic, counts
from probes.parsers.fabric.rdma_words import LANE_GBPS, physical_state, port_state, whole_number
from probes.parsers.tools.tool_text import json_object

_TITLE = re.compile(r"[ \t]*=+[ \t]*([A-Za-z][\w./:-]{0,63})(?:[ \t]+[\w ]{1,40})?[ \t]*=+[ \t]*")
_COMMAND = re.compile(r"\bmlxlink\b[^\n]{0,80}?[ \t](?:-d|--device)[ \t=]+([\w./:-]{1,64})")
_SECTIONS = frozenset({"Operational Info", "Physical Counters and BER Info"})
_MST = re.compile(r"(mt\d{3,6})_pciconf\d{1,3}", re.IGNORECASE)
_INFINIBAND = re.compile(r"IB-([A-Z]{2,4}\d{0,3})")
_ETHERNET = re.compile(r"(?:BaseT[xX]?)?(\d{1,4})(?:GbE|GBASE.{0,10}|G)(?:_\d{1,2}[Xx])?")
_WIDTH = re.compile(r"(\d{1,2})[xX]")
_RATE = re.compile(r"\d{1,9}(?:\.\d{1,9})?(?:[eE][-+]?\d{1,3})?")
_UNNAMED = "unnamed"
_NO_ISSUE = "no issue was observed"
_COUNTERS = {
    "Symbol Errors": "symbol_error",
    "Link Error Recovery Counter": "link_error_recovery",
    "Link Down Counter": "link_downed",
    "Effective Physical Errors": "effective_physical_errors",
}
_DOWN = ("down", "disable", "polling", "phy down", "physical down")


class _Block(NamedTuple):
    """Fields of one card, with the number of their first line."""

    name: str
    line: int
    values: dict[str, str]


def recognise(text: str) -> bool:
    if not any(section in text for section in _SECTIONS):
        return False
    return _is_json(text) or any(line.strip() in _SECTIONS for line in text.splitlines())


def parse_nics(text: str) -> tuple[Nic, ...]:
    """Return the ports; a port without a name in the text is called `unnamed`."""
    if _is_json(text):
        # The line numbers of the rewritten text differ from the line numbers of the original text.
        return tuple(msgspec.structs.replace(nic, evidence=()) for nic in parse_nics(_as_printed(text)))
    blocks: list[_Block] = []
    name = _UNNAMED
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _TITLE.fullmatch(line) or _COMMAND.search(line)) is not None:
            name = match[1].rpartition("/")[2]
            blocks.append(_Block(name, number, {}))
            continue
        # If there are no titles, a second section of operational values belongs to the next card.
        if line.strip() == "Operational Info" and (not blocks or "State" in blocks[-1].values):
            blocks.append(_Block(name, number, {}))
        field, colon, value = line.partition(" : ")
        if colon and not line.lstrip().startswith("-E-"):
            if not blocks:
                blocks.append(_Block(name, number, {}))
            blocks[-1].values.setdefault(field.strip(), value.strip())
    return tuple(_nic(block) for block in blocks if block.values)


def _is_json(text: str) -> bool:
    return any(f'"{section}"' in text for section in _SECTIONS)


def _as_printed(text: str) -> str:
    """Return the first result of `mlxlink --json` in mlxlink's plain format, preceded by the command line."""
    command = next((line for line in text.splitlines()[:200] if _COMMAND.search(line)), "")
    lines = [command]
    for section in sorted(_SECTIONS | {"Troubleshooting Info", "Tool Information"}):
        decoded = json_object(text, section)
        values = decoded[0].get(section) if decoded else None
        if isinstance(values, dict):
            words = {
                name: value.get("values", "") if isinstance(value, dict) else value
                for name, value in values.items()
            }
            lines += [section, *(f"{name} : {_word(value)}" for name, value in words.items())]
    return "\n".join(lines)


def _word(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return " ".join(text[:200].split())


def _nic(block: _Block) -> Nic:
    values = block.values
    speed = values.get("Speed", "")
    infiniband, ethernet = _INFINIBAND.fullmatch(speed), _ETHERNET.fullmatch(speed)
    layer = "InfiniBand" if infiniband else "Ethernet"
    width = _WIDTH.fullmatch(values.get("Width", ""))
    lanes = int(width[1]) or NOT_RECORDED if width else NOT_RECORDED
    mst = _MST.fullmatch(block.name)
    physical = values.get("Physical state")
    counters = {
        name: value
        for title, name in _COUNTERS.items()
        if title in values and not isinstance(value := whole_number(values[title]), Unknown)
    }
    return Nic(
        name=block.name,
        link_layer=layer if infiniband or ethernet else NOT_RECORDED,
        state=_state(values["State"]) if "State" in values else NOT_RECORDED,
        # Ethernet prints the state of a state machine (`ETH_AN_FSM_ENABLE`), which is not a physical state.
        physical_state=NOT_RECORDED if physical is None else physical_state(physical),
        rate_gbps=float(ethernet[1]) if ethernet else _infiniband_gbps(infiniband, lanes),
        lanes=lanes,
        speed=infiniband[1] if infiniband else NOT_RECORDED,
        device_type=mst[1].upper() if mst else NOT_RECORDED,
        firmware_version=values.get("Firmware Version", NOT_RECORDED),
        counters=counts(counters) if counters else NOT_RECORDED,
        pre_fec_bit_error_rate=_error_rate(values.get("Raw Physical BER", "")),
        bit_error_rate=_error_rate(values.get("Effective Physical BER", "")),
        fec=values.get("FEC", NOT_RECORDED),
        advice=_advice(values.get("Recommendation")),
        evidence=(line_ref(block.line),),
    )


def _state(word: str) -> str | Unknown:
    state = port_state(word)
    return "DOWN" if isinstance(state, Unknown) and word.strip().lower() in _DOWN else state


def _infiniband_gbps(speed: re.Match[str] | None, lanes: int | Unknown) -> float | Unknown:
    lane = LANE_GBPS.get(speed[1]) if speed else None
    return lane * lanes if lane is not None and not isinstance(lanes, Unknown) else NOT_RECORDED


def _error_rate(text: str) -> float | Unknown:
    """Return an error rate; mlxlink prints `15E-255` if no error has occurred."""
    if not text:
        return NOT_RECORDED
    if _RATE.fullmatch(text) is None or (rate := float(text)) > 1:
        return Unknown(Reason.NOT_SUPPORTED, f"error rate {quoted(text)}")
    return 0.0 if rate < 1e-100 else rate


def _advice(words: str | None) -> str | Unknown | None:
    if words is None or words.upper() in ("", "N/A"):
        return NOT_RECORDED
    return None if words.rstrip(". ").lower().startswith(_NO_ISSUE) else words[:200]
