"""Replace passwords, tokens and keys, detected by their shape or by the name of the setting."""

import re
from collections.abc import Iterator

from probes.base.rows import read_rows
from probes.redaction.placeholders import Book, Span

_B = r"(?<![A-Za-z0-9])"
_TOKENS = re.compile(
    rf"{_B}(?:{'|'.join(row['form'] for row in read_rows('token_formats')['tokens'])})", re.IGNORECASE
)
"""Forms of tokens that their issuers document."""
_BEARER = re.compile(
    r"\b(?:Bearer|Basic)[ \t]+(?=[A-Za-z+/._~-]{0,4096}[0-9=])([A-Za-z0-9+/=._~-]{8,4096})|"
    r"\bAuthorization[\\\"']{0,3}[ \t]{0,4}[:=][ \t]{0,4}[\\\"']{0,3}(?:Bearer|Basic|"
    r"Token)[ \t]+([A-Za-z0-9+/=._~-]{1,4096})",
    re.IGNORECASE,
)
_URL_USER = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,20}://([^\s/@:\"'<>]{0,256}):([^\s/@\"'<>]{1,256})@", re.IGNORECASE
)
_WEBHOOK = re.compile(r"hooks\.slack\.com/services/([A-Za-z0-9/_-]{8,})", re.IGNORECASE)
_CRYPT = re.compile(r"\$(?:1|2[abxy]|5|6|7|y|gy)\$[A-Za-z0-9./$=,]{8,}")
_NETRC = re.compile(r"\blogin[ \t]+(\S{1,256})\s+password[ \t]+(\S{1,256})")
_SPOKEN = re.compile(
    r"\b(?:password|passwd|passphrase)[ \t]+(?:is[ \t]+)?[\"']?([^\s\"',;:()]{4,128})", re.IGNORECASE
)
_SENTENCE_WORDS = (
    "accept", "aging", "agent", "and", "attempt", "auth", "base", "can", "chang", "check", "could",
    "database", "does", "enter", "expire", "fail", "field", "file", "for", "from", "given", "has", "hash",
    "hint", "inco", "invalid", "length", "less", "login", "lookup", "manag", "mis", "must", "need",
    "only", "polic", "prompt", "protect", "quality", "reject", "require", "reset", "rotat", "rounds",
    "set", "should", "stor", "that", "the", "this", "used", "using", "verif", "was", "were", "will",
    "with", "wrong", "your",
)  # fmt: skip
"""First letters of words that may follow "password" in a sentence and are not a password themselves."""
_SSH_KEY = re.compile(r"(?<![A-Za-z0-9+/])(AAAA[0-9A-Za-z+/]{24,}={0,2})")
_FINGERPRINT = re.compile(r"\bSHA256:([A-Za-z0-9+/]{43})")
_PRODUCT_KEY = re.compile(r"(?<![A-Za-z0-9-])[A-Z0-9]{5}(?:-[A-Z0-9]{5}){3,5}(?![A-Za-z0-9-])")
_ASSIGNMENT = re.compile(
    r"(?<![A-Za-z0-9_.-])(-{0,2}[A-Za-z_][A-Za-z0-9_.-]{1,80})"
    r"(?:[\\\"'\]]{0,4}[ \t]{0,8}[:=]{1,2}>?[ \t]{0,8}|>)"
    r"(?=\\{0,3}\"([^\"\\\n]{1,1024})|'([^'\n]{1,1024})'|([^\s\"'`,;<>]{1,1024}))"
)
_OPTION = re.compile(r"(?<![A-Za-z0-9-])(--?[A-Za-z][A-Za-z0-9_-]{1,60})[ \t]+(?!-)([^\s\"']{4,4096})")
_NAME_AND_VALUE = re.compile(
    r"\bname[\\\"']{0,4}[ \t]{0,4}:[ \t]{0,4}[\\\"']{0,4}([A-Za-z_][A-Za-z0-9_.-]{1,80})"
    r"[\\\"']{0,4}[\s,-]{0,80}"
    r"[\\\"']{0,4}value[\\\"']{0,4}[ \t]{0,4}:[ \t]{0,4}[\\\"']{0,4}([^\s\\\"',}]{1,1024})"
)
"""A variable in the specification of a Kubernetes pod, also in quotes inside another document."""
_PREFIXES = (
    r"hf_|gh[pousr]_|github_pat_|glpat-|AKIA|ASIA|sk-(?:proj|ant|svcacct)-|xox[abeprs]-|nvapi-|AIza|npm_|"
    r"dckr_pat_|dop_v1_|r8_|[sr]k_(?:live|test)_|whsec_|hvs\.|gsk_|xai-|tskey-|pplx-|glsa_|"
    r"wandb_v1_|eyJ"
)
_CUT = re.compile(
    rf"{_B}((?:{_PREFIXES})(?!(?:hub|home|token|transfer|datasets|cache|endpoint|"
    rf"xet)\b)[\w.-]{{1,15}})(?=\s*$|…|\.\.\.)",
    re.MULTILINE,
)
"""The start of a token at the end of a line that was cut off."""
_QUERY = re.compile(
    r"[?&](?:amp;)?(?:X-(?:Amz|Goog|Oss|Cos)-(?:Signature|Credential|Security-Token)|AWSAccessKeyId|"
    r"GoogleAccessId|OSSAccessKeyId|"
    r"Signature|Credential|Policy|Key-Pair-Id|sig|sign|(?:access_|id_|refresh_|auth_?)?token|(?:api_?|"
    r"subscription-)?key|code|auth|"
    r"passw(?:or)?d|secret|jwt)=([^&#\s\"'<>]{1,4096})",
    re.IGNORECASE,
)
"""Parameters of signed addresses that grant access: AWS, Google, Azure (`sig`), Alibaba, CloudFront."""
_COMMUNITY = re.compile(r"\b(?:snmp )?community(?: string)?[ \t]*[:=][ \t]*(\S{3,128})", re.IGNORECASE)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = frozenset({
    "token", "password", "passwd", "passphrase", "passcode", "secret", "secrets", "apikey", "credential",
    "credentials", "authtoken", "authkey", "psk", "cookie",
})  # fmt: skip
"""Words in the names of settings whose value is a secret."""
_KEY_OF = frozenset({
    "api", "access", "private", "secret", "account", "encryption", "signing", "license", "licence",
    "auth", "ssh", "wandb", "client", "shared", "master", "product", "activation", "host", "storage",
    "session", "munge", "luks", "disk", "volume", "unlock",
})  # fmt: skip
"""Words that, before a final `key` or `keys`, make the setting a secret."""
_DESCRIBING_WORDS = frozenset({
    "path", "file", "dir", "directory", "url", "type", "name", "length", "len", "count", "size", "index",
    "parallelism",
})  # fmt: skip
"""Last words of names of settings that describe a secret but are not secrets themselves."""
_LICENCE_WORDS = {"license", "licence", "licensekey", "licencekey"}
_LICENCE_NUMBERS = frozenset({
    "key", "id", "no", "number", "code", "license", "licence", "licensekey",
})  # fmt: skip
"""Last words of names of settings whose value is the number of a licence."""
_NO_VALUES = frozenset({
    "", "none", "null", "nil", "true", "false", "yes", "no", "unset", "required", "n/a", "enabled",
    "disabled", "prompt",
})  # fmt: skip
"""Values that are not secrets, whatever the name of the setting."""
_PEM_BEGIN, _PEM_END = "-----BEGIN ", "-----END "


def secret_spans(text: str, book: Book) -> Iterator[Span]:
    """Yield everything in `text` that looks like a secret or is labelled as a secret."""
    yield from _pem_spans(text, book)
    for pattern, groups in (
        (_TOKENS, (0,)),
        (_BEARER, (1, 2)),
        (_WEBHOOK, (1,)),
        (_CRYPT, (0,)),
        (_SSH_KEY, (1,)),
        (_FINGERPRINT, (1,)),
        (_PRODUCT_KEY, (0,)),
        (_NETRC, (1, 2)),
        (_COMMUNITY, (1,)),
        (_URL_USER, (1, 2)),
        (_QUERY, (1,)),
        (_CUT, (1,)),
    ):
        for match in pattern.finditer(text):
            for group in groups:
                if match[group]:
                    yield Span(*match.span(group), "secret", secret_placeholder(match[group], book))
    for match in _SPOKEN.finditer(text):
        if not match[1].lower().startswith(_SENTENCE_WORDS):
            yield Span(*match.span(1), "secret", secret_placeholder(match[1], book))
    for match in _ASSIGNMENT.finditer(text):
        group = match.lastindex or 4
        if names_secret(match[1], match[group]):
            yield Span(*match.span(group), "secret", secret_placeholder(match[group], book))
    for pattern in (_OPTION, _NAME_AND_VALUE):
        yield from _named_values(pattern, text, book)


def _named_values(pattern: re.Pattern[str], text: str, book: Book) -> Iterator[Span]:
    for match in pattern.finditer(text):
        if names_secret(match[1], match[2]):
            yield Span(*match.span(2), "secret", secret_placeholder(match[2], book))


def secret_placeholder(value: str, book: Book) -> str:
    """Return a placeholder such as `redacted-3fa9c1d2`."""
    return book.word("secret", value, "redacted")


def names_secret(name: str, value: str) -> bool:
    """Return whether the name of a setting with this value shows that the value is a secret."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if (
        not words
        or words[-1] in _DESCRIBING_WORDS
        or value.lower() in _NO_VALUES
        or value.startswith("redacted-")
    ):
        return False
    if _LICENCE_WORDS & set(words) and words[-1] in _LICENCE_NUMBERS:
        return len(value) >= 8 and any(character.isdigit() for character in value)
    if _SECRET_WORDS & set(words):
        return not (words[-1].startswith("token") and re.fullmatch(r"[\d.]{1,9}", value))
    if words[-1] != "key" and words[-1:] != ["keys"]:
        return False
    if len(words) > 1 and words[-2] in _KEY_OF:
        return True
    mixed = any(character.isdigit() for character in value) and any(
        character.isalpha() for character in value
    )
    return (
        len(value) >= 20
        and mixed
        and not value.startswith(("/", "./"))
        and re.fullmatch(r"[A-Za-z0-9+/=_.-]+", value) is not None
    )


def _pem_spans(text: str, book: Book) -> Iterator[Span]:
    """Yield the bodies of PEM keys and certificates.

    If the last line of a key is missing, the body extends to the end of the text.
    """
    start = text.find(_PEM_BEGIN)
    while start >= 0:
        begin = text.find("-----", start + len(_PEM_BEGIN))
        begin = begin + 5 if begin >= 0 else len(text)
        end = text.find(_PEM_END, begin)
        end = end if end >= 0 else len(text)
        if end > begin:
            lines = "\n" if "\n" in text[begin:end] else ""
            yield Span(
                begin, end, "secret", lines + secret_placeholder(text[begin:end].strip(), book) + lines
            )
        start = text.find(_PEM_BEGIN, end)
