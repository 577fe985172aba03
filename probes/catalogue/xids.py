"""Meanings of Xid and SXid numbers: rows of `probes/data/xid.toml`."""

import functools
from typing import Literal

import msgspec

from probes.base.record import EvidenceRef, StrictRecord
from probes.base.rows import read_rows

XidClass = Literal["application", "reset", "hardware", "link", "driver", "informational"]


class Xid(StrictRecord, kw_only=True, rename={"kind": "class"}):
    """The common meaning of some Xid numbers."""

    codes: tuple[int, ...]
    name: str
    kind: XidClass
    severity: Literal["fail", "warn", "none"]
    action: str
    """Recommended first action of an operator."""


class XidChain(StrictRecord, kw_only=True):
    """Xids that follow from another Xid of the same GPU."""

    roots: tuple[int, ...]
    followers: tuple[int, ...]
    within_s: float
    """Maximum number of seconds between two Xids of the chain."""
    source: str
    date: str


class SwitchRows(StrictRecord, kw_only=True):
    """SXid numbers of the NVSwitch driver."""

    source: str
    date: str
    nonfatal: str
    """Numbers and ranges (`11002-11003`), separated by blanks."""
    parts: dict[str, str]
    """The part of the switch, by the thousands digits of the number."""


class XidRows(StrictRecord, kw_only=True):
    """The whole table."""

    source: str
    date: str
    xid: tuple[Xid, ...]
    chain: tuple[XidChain, ...]
    sub_codes: dict[str, dict[str, str]]
    """Additional meaning of some sub-codes, by Xid and sub-code."""
    switch: SwitchRows

    @property
    def ref(self) -> EvidenceRef:
        return EvidenceRef(source="rule", key=self.source, detail=self.date)

    def find(self, code: int | None) -> Xid | None:
        """Return the row of an Xid; None for a number without a documented meaning."""
        return next((row for row in self.xid if code in row.codes), None)

    def sub_code(self, code: int, sub_code: int | None) -> str | None:
        """Return the meaning that a sub-code adds."""
        return self.sub_codes.get(str(code), {}).get(str(sub_code))

    def switch_part(self, code: int) -> str | None:
        """Return the part of an NVSwitch to which an SXid refers."""
        return self.switch.parts.get(str(code // 1000))

    def switch_fatal(self, code: int) -> bool | None:
        """Return whether an SXid stops traffic, for logs that do not state it; None for an unknown SXid."""
        if self.switch_part(code) is None:
            return None
        return not any(first <= code <= last for first, last in _ranges(self.switch.nonfatal))


@functools.lru_cache(maxsize=1)
def load_xids() -> XidRows:
    """Return the rows shipped with rigtune."""
    return msgspec.convert(read_rows("xid"), XidRows)


@functools.lru_cache(maxsize=1)
def causing_xids() -> dict[int, dict[int, float]]:
    """Return the Xids that each Xid may follow from, with the maximum number of seconds between them."""
    windows: dict[int, dict[int, float]] = {}
    for row in load_xids().chain:
        for follower in row.followers:
            causes = windows.setdefault(follower, {})
            causes |= {root: max(row.within_s, causes.get(root, 0.0)) for root in row.roots}
    return windows


@functools.lru_cache(maxsize=1)
def _ranges(text: str) -> tuple[tuple[int, int], ...]:
    pairs = (word.partition("-") for word in text.split())
    return tuple((int(first), int(last or first)) for first, _, last in pairs)
