"""Redact one text, including parts that are encoded in base64 or as URL escapes."""

import base64
import binascii
import posixpath
import re
import urllib.parse
from collections.abc import Iterator

from probes.redaction.addresses import address_spans, route_spans, route_v6_spans
from probes.redaction.host_names import NO_HOSTS, HostNames
from probes.redaction.identifiers import cloud_spans, hardware_spans
from probes.redaction.names import Names
from probes.redaction.placeholders import Book, Span, rewrite, settle
from probes.redaction.secrets import names_secret, secret_placeholder, secret_spans

_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{12,65536}={0,2}(?![A-Za-z0-9+/=])")
_ESCAPED = re.compile(
    r"(?:[\w.~+/:@?&=!$*(),;-]|%[0-9A-Fa-f]{2}){0,2048}%[0-9A-Fa-f]{2}(?:[\w.~+/:@?&=!$*(),;-]|"
    r"%[0-9A-Fa-f]{2}){0,2048}"
)
_ADDRESS = re.compile(r"[\[(]?(?:[0-9A-Fa-f]{0,4}:){2}[0-9A-Fa-f:.]*[^A-Za-z]*|[^A-Za-z]*")
_HOSTS = re.compile(  # also Slurm's lists of hosts
    r"(?<![\w.-])[A-Za-z][\w.-]{0,252}(?:\[[\d,-]{1,400}\][\w.-]{0,80})?"
)
_DEPTH = 3
"""Number of nested encodings that are decoded."""

_FILE_WORDS = {
    "hostname": "hostname",
    "nodename": "hostname",
    "serial": "serial",
    "serial_number": "serial",
    "serialnumber": "serial",
    "board_serial": "serial",
    "product_serial": "serial",
    "chassis_serial": "serial",
    "board_asset_tag": "asset_tag",
    "chassis_asset_tag": "asset_tag",
    "asset_tag": "asset_tag",
    "domainname": "fqdn",
}
"""Name of the field whose value is the whole content of a file, by the name of the file."""


class TextRedactor:
    """Redactor of texts that remembers names for later texts."""

    def __init__(
        self,
        salt: bytes,
        keep: frozenset[str] = frozenset(),
        *,
        trusts_labels: bool = False,
        hosts: HostNames = NO_HOSTS,
    ) -> None:
        """Key the placeholders with `salt`; `hosts` has the placeholders of hosts that are known already.

        With `trusts_labels`, a common word with a digit is also replaced everywhere if one text labels it as
        a host, such as `node0`. Recordings do not use it, because their paths contain `node0`, which is no
        host.
        """
        self.book = Book(salt)
        self._names = Names(self.book, trusts_labels=trusts_labels, hosts=hosts)
        self._keep = keep

    @property
    def names_known(self) -> int:
        """Return the number of known names, which grows when later texts label new names."""
        return self._names.count

    def learn(self, text: str, key: str = "") -> None:
        """Learn the names in a text, which may occur in other texts without a label."""
        self._rewritten(text, key, counted=False)

    def learn_hosts(self, text: str) -> None:
        """Learn the hosts in a text of only host names; of common words, those with a digit (`gpu07`)."""
        if not _ADDRESS.fullmatch(text):
            for match in _HOSTS.finditer(text):
                self._names.learn_hosts(match[0])

    def text(self, text: str, key: str = "") -> str:
        """Return `text` with placeholders.

        `key` describes the text: a path, the name of a variable, an NVML call or a kind of paste.
        """
        return self._rewritten(text, key, counted=True)

    def host(self, text: str) -> str:
        """Redact a text of hosts (also Slurm's `gpu[07-09]`) or addresses, each with an optional port."""
        if _ADDRESS.fullmatch(text):
            return self.text(text)
        return _HOSTS.sub(lambda match: self._names.hostlist(match[0]), text)

    def part(self, whole: str, part: str) -> str:
        """Redact a `part` of `whole`, including names and keys of which the part contains only a piece.

        A part that does not occur in the whole is redacted as an independent text.
        """
        start = whole.find(part)
        if start < 0:
            return self.text(part)
        end = start + len(part)
        inside = [
            span
            for span in self._chosen(whole, "", 0, counted=False)
            if span.end > start and span.start < end
        ]
        return rewrite(
            part,
            (
                span._replace(start=max(span.start - start, 0), end=min(span.end, end) - start)
                for span in inside
            ),
        )

    def _rewritten(self, text: str, key: str, *, counted: bool) -> str:
        if not text or text.isspace() or (len(text) < 4 and text.strip().isdecimal()):
            return text
        title = _title(key, text)
        if title and names_secret(title, text.strip()):
            return self._secret(text.strip(), counted=counted)
        if title:
            return self._rewritten_plain(f"{title}={text}", "", 0, counted=counted).partition("=")[2]
        return self._rewritten_plain(text, key, 0, counted=counted)

    def _secret(self, value: str, *, counted: bool) -> str:
        """Return the placeholder of a text that consists of a secret."""
        self._names.learn_value("secret", value)
        replacement = secret_placeholder(value, self.book)
        if counted:
            self.book.count("secret", replacement)
        return replacement

    def _rewritten_plain(self, text: str, key: str, depth: int, *, counted: bool) -> str:
        return rewrite(text, self._chosen(text, key, depth, counted=counted))

    def _chosen(self, text: str, key: str, depth: int, *, counted: bool) -> list[Span]:
        """Return the settled spans of a text, and learn its secrets and serial numbers."""
        candidates = list(self._spans(text, key))
        for span in candidates:
            if span.kind in ("secret", "serial"):
                self._names.learn_value(span.kind, text[span.start : span.end])
        if depth < _DEPTH:
            candidates += self._nested(text, depth, counted=counted)
        chosen = settle(span for span in candidates if span.kind not in self._keep)
        if counted:
            for span in chosen:
                self.book.count(span.kind, span.replacement)
        return chosen

    def _spans(self, text: str, key: str) -> Iterator[Span]:
        yield from secret_spans(text, self.book)
        match posixpath.basename(key):
            case "route":
                yield from route_spans(text, self.book)
            case "ipv6_route" | "if_inet6":
                yield from route_v6_spans(text, self.book)
            case "hosts":
                yield from self._names.host_table(text)
            case "guid-list":
                yield from self._names.guid_table(text)
        yield from self._names.spans(text)
        yield from hardware_spans(text, self.book)
        yield from address_spans(text, self.book)
        yield from cloud_spans(text, self.book)

    def _nested(self, text: str, depth: int, *, counted: bool) -> Iterator[Span]:
        """Yield encoded parts whose decoded text contains something to replace."""
        for match in _BASE64.finditer(text):
            inner = _from_base64(match[0])
            if inner is None:
                continue
            changed = self._rewritten_plain(inner, "", depth + 1, counted=counted)
            if changed != inner:
                yield Span(*match.span(), "encoded", base64.b64encode(changed.encode()).decode())
        for match in _ESCAPED.finditer(text) if "%" in text else ():
            inner = urllib.parse.unquote(match[0], errors="replace")
            changed = self._rewritten_plain(inner, "", depth + 1, counted=counted)
            if changed != inner:
                yield Span(*match.span(), "encoded", urllib.parse.quote(changed, safe="/:@?&=+"))


def _title(key: str, text: str) -> str:
    """Return the label of a text that is a single value; empty if the text contains labels itself."""
    if not key:
        return ""
    if key.startswith("/"):
        return _FILE_WORDS.get(posixpath.basename(key), "") if len(text) < 1024 else ""
    if key.startswith("nvml"):
        return "serial" if "serial" in key.lower() else ""
    return key if re.fullmatch(r"[A-Za-z_]\w*", key) else ""


def _from_base64(text: str) -> str | None:
    """Return the text that base64 encodes; None if the input does not decode to a readable text."""
    body = text.rstrip("=").replace("-", "+").replace("_", "/")
    if len(body) % 4 == 1 or not (set(body) - set("0123456789abcdefABCDEF/")):
        return None
    try:
        inner = base64.b64decode(body + "=" * (-len(body) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    return inner if all(character.isprintable() or character in "\n\r\t" for character in inner) else None
