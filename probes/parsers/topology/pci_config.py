"""Parse the binary configuration space of a PCI device (`config` in sysfs).

Unprivileged users can only read the first 64 bytes, which contain no capability. Source of offsets and bits:
PCI Express Base Specification 6.0, 7.5.3 (PCI Express capability) and 7.7.11 (Access Control Services).
"""

from probes.base.record import NOT_RECORDED, Reason, Record, Unknown

_STATUS, _HAS_LIST, _POINTER = 0x06, 0x10, 0x34
_EXPRESS, _ACS = 0x10, 0x000D
_STANDARD_BYTES, _EXTENDED_BYTES = 256, 4096
_CONTROLS = (
    "source_validation",
    "translation_blocking",
    "request_redirect",
    "completion_redirect",
    "upstream_forwarding",
    "egress_control",
    "direct_translated",
)
"""Names of bits 0 to 6 of the ACS control register."""
_MOST_CAPABILITIES = 64
_PAYLOADS = 6
"""Number of valid sizes: 128 << n with n from 0 to 5; 6 and 7 are reserved."""


class PciConfig(Record, kw_only=True):
    """Values that are relevant for training."""

    max_payload_bytes: int | Unknown = NOT_RECORDED
    max_payload_supported_bytes: int | Unknown = NOT_RECORDED
    max_read_request_bytes: int | Unknown = NOT_RECORDED
    acs: tuple[str, ...] | Unknown | None = NOT_RECORDED
    """Access controls that are on; None if the device has no such capability."""


def parse_config(data: bytes) -> PciConfig:
    """Return the content of `data`; Unknown (permission) for the part that the kernel hid from the reader."""
    if len(data) < _STANDARD_BYTES:
        hidden = Unknown(Reason.PERMISSION, "only root reads the capabilities of a PCI device")
        return PciConfig(
            max_payload_bytes=hidden,
            max_payload_supported_bytes=hidden,
            max_read_request_bytes=hidden,
            acs=hidden,
        )
    express = _capability(data)
    return PciConfig(
        max_payload_bytes=_size(data, express, 8, 5),
        max_payload_supported_bytes=_size(data, express, 4, 0),
        max_read_request_bytes=_size(data, express, 8, 12),
        acs=_acs(data),
    )


def _capability(data: bytes) -> int | None:
    """Return the offset of the PCI Express capability; None if there is none."""
    if not data[_STATUS] & _HAS_LIST:
        return None
    offset = data[_POINTER] & 0xFC  # The two lowest bits of a pointer are reserved.
    for _ in range(_MOST_CAPABILITIES):
        if offset < 0x40 or offset + 20 > _STANDARD_BYTES:
            return None
        if data[offset] == _EXPRESS:
            return offset
        offset = data[offset + 1] & 0xFC
    return None


def _acs(data: bytes) -> tuple[str, ...] | Unknown | None:
    """Return the access controls that are on; None if the device has no such capability."""
    if len(data) < _EXTENDED_BYTES:
        return Unknown(Reason.NOT_SUPPORTED, "the extended configuration space cannot be read here")
    offset = 0x100
    for _ in range(_MOST_CAPABILITIES):
        header = int.from_bytes(data[offset : offset + 4], "little")
        if header in (0, 0xFFFFFFFF):
            return None
        if header & 0xFFFF == _ACS:
            control = _word(data, offset + 6)
            return tuple(name for bit, name in enumerate(_CONTROLS) if control >> bit & 1)
        offset = header >> 20 & 0xFFC
        if offset < 0x100 or offset + 8 > _EXTENDED_BYTES:
            return None
    return None


def _word(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 2], "little")


def _size(data: bytes, express: int | None, offset: int, shift: int) -> int | Unknown:
    """Return the size at an offset in the PCI Express capability, whose own offset is `express`."""
    if express is None:
        return Unknown(Reason.NOT_SUPPORTED, "no PCI Express capability")
    value = _word(data, express + offset) >> shift & 7
    return 128 << value if value < _PAYLOADS else Unknown(Reason.UNPARSABLE, f"reserved size {value}")
