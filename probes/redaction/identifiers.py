"""Replace identifiers: UUIDs, GUIDs, MAC addresses, serial numbers, and ids of clouds."""

import re
from collections.abc import Iterator

from probes.redaction.placeholders import Book, Span

_EDGE, _END = r"(?<![0-9A-Za-z])", r"(?![0-9A-Za-z])"
_UUID = re.compile(rf"{_EDGE}[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_END}", re.IGNORECASE)
_SHORT_UUID = re.compile(
    r"\b(?:PART)?UUID=\"?([0-9a-f]{4}-[0-9a-f]{4}|[0-9a-f]{8}-[0-9a-f]{2}|[0-9a-f]{16})\b", re.IGNORECASE
)
_PAIRS = re.compile(
    rf"{_EDGE}[0-9a-f]{{2}}([:-])(?:[0-9a-f]{{2}}\1){{4,18}}[0-9a-f]{{2}}{_END}", re.IGNORECASE
)
_CISCO = re.compile(
    rf"{_EDGE}(?=[0-9.]{{0,13}}[a-f])[0-9a-f]{{4}}\.[0-9a-f]{{4}}\.[0-9a-f]{{4}}{_END}", re.IGNORECASE
)
_NAMED_MAC = re.compile(r"\b(?:enx|wlx|mac-?)([0-9a-f]{12})\b", re.IGNORECASE)
_GUID_QUADS = re.compile(
    rf"{_EDGE}(?<!:)(?:[0-9a-f]{{4}}:){{3}}[0-9a-f]{{4}}(?!:)(?!\.){_END}", re.IGNORECASE
)
_HEX_64 = re.compile(rf"(?:{_EDGE}|(?<=\b0x))[0-9a-f]{{16}}{_END}", re.IGNORECASE)
_HASH_ATTRIBUTE = re.compile(
    r"\b(?:node_?|port_?|sys_?image_?|system_?image_?)?(?:guid|"
    r"host_hash)[\"']?[ \t]*[=:][ \t]*[\"']?(?:0x)?([0-9a-f]{9,20})\b",
    re.IGNORECASE,
)
_LONG_HEX = re.compile(r"(?<![0-9A-Za-z])(?:0x)?([0-9a-f]{32,})(?![0-9A-Za-z])", re.IGNORECASE)
_SERIAL = re.compile(
    r"(?:\[SN\][ \t]*)?(?<![A-Za-z0-9])(?:(?:board|chassis|product|system|disk|cable|device|module|gpu|ctrl|"
    r"eeprom)?[_ -]?"
    r"serial(?:[_ -]?(?:number|num|no|nr))?|service[_ ]tag|asset[_ -]?tag|S/N|SN)\b[\"'\]]*[ \t]*[:=|"
    r">][ \t]*[\"']?"
    r"([A-Z0-9][A-Z0-9._/+:-]{3,63})",
    re.IGNORECASE,
)
_INFO_ATTRIBUTE = re.compile(
    r"name=\"[^\"\n]{0,40}(?:Serial|AssetTag)[^\"\n]{0,20}\"\s+value=\"([^\"\n]{4,80})\""
)
_NO_SERIAL = re.compile(
    r"(?:not|none|n/a|unknown|to|default|system|chassis|0+|[x.]+|empty|no|asset|serial|number|undefined|"
    r"unspecified|null|true|"
    r"false|0x0+|8250)\b",
    re.IGNORECASE,
)


_EXTENDED = 0x100
_SERIAL_CAPABILITY = 0x0003
"""Device Serial Number (PCI Express Base Specification 6.0, section 7.9.3)."""


def hardware_spans(text: str, book: Book) -> Iterator[Span]:
    """Yield the UUIDs, GUIDs, MAC addresses, serial numbers and long hexadecimal keys in a text."""
    yield from _uuid_spans(text, book)
    yield from _mac_spans(text, book)
    yield from _guid_spans(text, book)
    for match in _LONG_HEX.finditer(text):
        if len(set(match[1].lower())) >= 6:
            yield Span(*match.span(1), *_long_hex(match[1], book))
    for pattern in (_SERIAL, _INFO_ATTRIBUTE):
        for match in pattern.finditer(text):
            if is_serial(match[1]):
                yield Span(*match.span(1), "serial", serial_placeholder(match[1], book))


def _uuid_spans(text: str, book: Book) -> Iterator[Span]:
    for match in _UUID.finditer(text):
        yield from _changed(match, "uuid", _respell(match[0], uuid_placeholder(_hex(match[0]), book)))
    for match in _SHORT_UUID.finditer(text):
        yield Span(*match.span(1), "uuid", _same_shape("uuid", match[1], book))


def _mac_spans(text: str, book: Book) -> Iterator[Span]:
    for match in _PAIRS.finditer(text):
        if match[1] == "-" and re.fullmatch(r"[\d-]+", match[0]):
            continue  # a date and a time
        yield from _changed(match, *_pairs(match[0], match[1], book))
    for match in _CISCO.finditer(text):
        yield Span(*match.span(), "mac", _respell(match[0], mac_placeholder(_hex(match[0]), book)))
    for match in _NAMED_MAC.finditer(text):
        yield Span(*match.span(1), "mac", mac_placeholder(match[1].lower(), book))


def _guid_spans(text: str, book: Book) -> Iterator[Span]:
    for match in _GUID_QUADS.finditer(text):
        yield from _changed(match, "guid", _respell(match[0], guid_placeholder(_hex(match[0]), book)))
    for match in _HASH_ATTRIBUTE.finditer(text):
        if int(match[1], 16):
            yield Span(*match.span(1), "guid", guid_placeholder(match[1].lower(), book))
    for match in _HEX_64.finditer(text):
        if _may_be_guid(match[0], text, match.start(), book):
            yield Span(*match.span(), "guid", _respell(match[0], guid_placeholder(match[0].lower(), book)))


def is_serial(value: str) -> bool:
    """Return whether a value labelled as a serial number is one, and not a word such as `none`."""
    return (
        len(value) >= 4
        and not _NO_SERIAL.match(value)
        and (any(c.isdigit() for c in value) or value.isupper())
    )


def serial_placeholder(value: str, book: Book) -> str:
    """Return digits of the same length for a decimal serial number, and a word for other serial numbers."""
    return _same_shape("serial", value, book)


def guid_placeholder(digits: str, book: Book) -> str:
    """Return 16 hex digits for the lower-case hex digits of a GUID; zero (no GUID) is kept."""
    if not int(digits, 16):
        return digits
    return book.placeholder("guid", digits.zfill(16), lambda value: "0200" + book.digits("guid", value, 12))


def mac_placeholder(digits: str, book: Book) -> str:
    """Return 12 hex digits of a locally administered address for the lower-case digits of a MAC address.

    Broadcast and zero addresses, and multicast addresses of IPv4 and IPv6, are kept.
    """
    if set(digits) in ({"0"}, {"f"}) or digits.startswith(("01005e", "3333")):
        return digits
    return book.placeholder("mac", digits, lambda value: "02" + book.digits("mac", value, 10))


def uuid_placeholder(digits: str, book: Book) -> str:
    """Return 32 hex digits for the lower-case digits of a UUID; all zeros and all ones are kept."""
    if len(set(digits)) == 1:
        return digits
    return book.placeholder("uuid", digits, lambda value: "0" * 20 + book.digits("uuid", value, 12))


def without_serial(config: bytes, book: Book) -> bytes:
    """Return the configuration space of a PCI device with a placeholder for its serial number."""
    offset, visited = _EXTENDED, set[int]()
    while _EXTENDED <= offset <= len(config) - 12 and offset not in visited:
        visited.add(offset)
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header & 0xFFFF == _SERIAL_CAPABILITY:
            serial = int.from_bytes(config[offset + 4 : offset + 12], "little")
            placeholder = int(guid_placeholder(f"{serial:016x}", book), 16)
            return config[: offset + 4] + placeholder.to_bytes(8, "little") + config[offset + 12 :]
        offset = header >> 20
    return config


def _changed(match: re.Match[str], kind: str, replacement: str) -> Iterator[Span]:
    if replacement != match[0]:
        yield Span(*match.span(), kind, replacement)


def _pairs(text: str, separator: str, book: Book) -> tuple[str, str]:
    """Return the kind and the placeholder of pairs of hex digits.

    6 pairs are a MAC address, 8 a GUID, and 20 the link address of IP over InfiniBand; other lengths are
    fingerprints.
    """
    digits = _hex(text)
    if len(digits) == 12:
        return "mac", _respell(text, mac_placeholder(digits, book))
    if len(digits) == 16:
        return "guid", _respell(text, guid_placeholder(digits, book))
    if len(digits) == 40 and separator == ":":
        # Flags and queue pair, subnet prefix, GUID (RFC 4391, section 9.1.1).
        return "guid", _respell(text, digits[:24] + guid_placeholder(digits[24:], book))
    return "secret", _respell(text, book.digits("secret", digits, len(digits)))


def _may_be_guid(digits: str, text: str, start: int, book: Book) -> bool:
    """Return whether 64 bits may be a GUID; GUIDs begin with the number of a vendor.

    Other numbers differ: memory addresses begin with 0000 or ffff, and counters are decimal.
    """
    lower = digits.lower()
    if lower in book.values["guid"]:
        return True
    if lower.startswith(("0000", "ffff")) or len(set(lower)) < 4:
        return False
    if digits.isdecimal():
        line = text[text.rfind("\n", 0, start) + 1 : start].lower()
        return text[max(start - 2, 0) : start].lower() == "0x" or "guid" in line
    return True


def _long_hex(digits: str, book: Book) -> tuple[str, str]:
    lower = digits.lower()
    if len(lower) == 32 and (lower in book.values["uuid"]):
        return "uuid", _respell(digits, uuid_placeholder(lower, book))
    book.values["secret"].add(lower)
    return "secret", _respell(digits, book.digits("secret", lower, len(lower)))


def _same_shape(kind: str, value: str, book: Book) -> str:
    def make(text: str) -> str:
        if value.isdecimal():
            return book.digits(kind, text, len(value), "0123456789")
        if kind == "uuid":
            return _respell(value, book.digits(kind, text, len(_hex(value))))
        return "SN" + book.digits(kind, text, 10).upper()

    return book.placeholder(kind, value.lower(), make)


def _hex(text: str) -> str:
    return re.sub(r"[^0-9a-f]", "", text.lower())


def _respell(like: str, digits: str) -> str:
    """Return `digits` with the separators and the case of `like`."""
    source = iter(digits.upper() if like != like.lower() else digits)
    return "".join(next(source) if character.isalnum() else character for character in like)


_AWS = re.compile(
    r"(?<![A-Za-z0-9-])(i|vpc|subnet|eni|ami|vol|snap|sg|rtb|igw|lt|cr|fs|eipalloc)-([0-9a-f]{17}|"
    r"[0-9a-f]{8})(?![0-9A-Za-z])"
)
_ARN = re.compile(r"\barn:aws[\w-]*:[\w-]*:[\w-]*:(\d{12}):")
_OCID = re.compile(r"\bocid1\.[a-z0-9]+\.[a-z0-9-]*\.[a-z0-9-]*\.([a-z0-9]{20,})")
_NAMED = re.compile(
    r"(?i)\b(?:instance[_-]?id|vm[_-]?id|account[_-]?id|owner[_-]?id|subscription[_-]?id|project[_-]?id|"
    r"numeric[_-]?project[_-]?id)"
    r"[\"'\]]{0,2}[ \t]*[:=][ \t]*[\"']?([A-Za-z0-9][A-Za-z0-9_.-]{5,80})"
)
_PROJECT = re.compile(r"\bprojects/([a-z0-9][a-z0-9-]{3,62})/")


def cloud_spans(text: str, book: Book) -> Iterator[Span]:
    for match in _AWS.finditer(text):
        yield Span(
            *match.span(2),
            "cloud",
            book.placeholder("cloud", match[2], lambda value: book.digits("cloud", value, 17)),
        )
    for match in _ARN.finditer(text):
        yield Span(
            *match.span(1),
            "cloud",
            book.placeholder("cloud", match[1], lambda value: book.digits("cloud", value, 12, "0123456789")),
        )
    for pattern in (_OCID, _NAMED, _PROJECT):
        for match in pattern.finditer(text):
            yield Span(*match.span(1), "cloud", book.word("cloud", match[1].lower(), "id"))
