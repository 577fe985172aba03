"""Every text of one kind that a source has: what the command says here, and what a person gave."""

from __future__ import annotations

from probes.base.evidence import command_ref
from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown
from probes.sources.base import Source


class Output(Record, kw_only=True):
    """One text and where it comes from."""

    text: str
    evidence: EvidenceRef
    """`command`, or `paste` with the file's name."""

    def line(self, number: int) -> EvidenceRef:
        """Reference to one line of it, counted from 1."""
        return EvidenceRef(source=self.evidence.source, key=self.evidence.key, detail=f"line {number}")


def outputs(
    source: Source, kind: str, *argvs: tuple[str, ...], timeout_s: float = 10.0, even_failed: bool = False
) -> tuple[Output, ...] | Unknown:
    """The texts of `kind` (a row of `probes/catalogue/text_kinds.py`) and the output of each command of `argvs`;
    Unknown without any.

    With `even_failed`, what a command wrote before it failed counts too.
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
