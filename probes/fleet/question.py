"""The question of a run: the options that state what each node reads, measures and must be."""

import msgspec

from probes.base.record import Record

_SHOWN_DIGITS = 12


class Question(Record, kw_only=True):
    """Options of a run that affect the answers of the nodes; a run folder holds answers to one question."""

    tier: str = "quick"
    suite: str = ""
    """Suite of benchmarks; empty if nothing is measured."""
    policy: str = ""
    """Path of the policy on the nodes; empty without a policy."""
    policy_sha256: str = ""
    """Hash of the policy's content; empty without a policy, and if the head cannot read the file."""
    expect: str = ""
    """Id of the machine of the catalogue that every node must be; empty if none is expected."""
    is_capture: bool = False
    """True if the nodes send recordings instead of verdicts."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of `rigtune fleet node` that ask this question."""
        options = {"--suite": self.suite, "--policy": self.policy, "--expect": self.expect}
        stated = (word for name, value in options.items() if value for word in (name, value))
        return (*(("--record",) if self.is_capture else ()), "--tier", self.tier, *stated)

    @property
    def words(self) -> str:
        """Options as text for people, without the folder of the policy."""
        digits = self.policy_sha256[:_SHOWN_DIGITS]
        name = self.policy.rpartition("/")[2]
        parts = (
            "recordings" if self.is_capture else "",
            f"--tier {self.tier}",
            f"--suite {self.suite}" if self.suite else "no --suite",
            f"--policy {name}{f' (sha256 {digits})' if digits else ''}" if name else "no --policy",
            f"--expect {self.expect}" if self.expect else "",
        )
        return ", ".join(filter(None, parts))

    def redacted(self) -> "Question":
        """Return the question without the name of the policy, which may name the site."""
        return msgspec.structs.replace(self, policy="FILE" if self.policy else "")

    @property
    def identity(self) -> tuple[str, ...]:
        """Values that are equal for equal questions; the policy counts by its content, not by its path."""
        policy = self.policy_sha256 or self.policy
        return (self.tier, self.suite, policy, self.expect, str(self.is_capture))
