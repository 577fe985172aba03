"""Read every text of one kind: the output of a command, and the texts that a person gave."""

from __future__ import annotations

from probes.base.evidence import command_ref
from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown
from probes.sources.base import Source


class Output(Record, kw_only=True):
    """A text and its origin."""

    text: str
    evidence: EvidenceRef
    """Origin: `command`, or `paste` with the file's name."""

    def line(self, number: int) -> EvidenceRef:
        """Return the reference to a line of the text, counted from 1."""
        return EvidenceRef(source=self.evidence.source, key=self.evidence.key, detail=f"line {number}")


def outputs(
    source: Source, kind: str, *argvs: tuple[str, ...], timeout_s: float = 10.0, even_failed: bool = False
) -> tuple[Output, ...] | Unknown:
    """Return the texts of `kind` and the output of each command of `argvs`; Unknown without any.

    `kind` is a row of `probes/catalogue/text_kinds.py`. With `even_failed`, the output of a failed command
    counts too.
    """
    texts = [
        Output(text=given.text, evidence=EvidenceRef(source="paste", key=given.name))
        for given in source.given(kind)
    ]
    failure: Unknown = NOT_RECORDED
    for argv in argvs:
        result = source.run(argv, timeout_s=timeout_s)
        text = result.text()
        if isinstance(text, Unknown) and even_failed and result.stdout.strip():
            text = result.stdout.decode("utf-8", "replace")
        if not isinstance(text, Unknown):
            texts.append(Output(text=text, evidence=command_ref(argv)))
        elif failure == NOT_RECORDED:
            failure = text
    return tuple(texts) or failure
