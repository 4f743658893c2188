"""What a metric gets to see of one question, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from serl.data.example import Example
from serl.sql.compare.verdict import Verdict
from serl.sql.outcome import Outcome
from serl.sql.sandbox import Sandbox


@dataclass(frozen=True)
class Score:
    """A metric's answer to one question, with a short reason. `score` is None where the question says nothing."""

    score: float | None
    reason: str

    @classmethod
    def of(cls, verdict: Verdict) -> Score:
        """1 or 0, as a comparator has it."""
        return cls(float(verdict.match), verdict.reason)


@dataclass(frozen=True)
class Judged:
    """A question with gold's result and a prediction that is not blank, with its result.

    Whoever calls a metric sees to it that gold ran and that no outcome is a failure of ours; the prediction may have
    failed in any way of its own.
    """

    example: Example
    gold: Outcome
    predicted_sql: str
    predicted: Outcome
    sandbox: Sandbox
    """For runs that must happen anew, such as timings; all others go through `run`."""
    known: Mapping[str, Outcome] = field(default_factory=dict, repr=False)
    """Outcomes on this question's database by text, of all texts that were run up front."""

    def run(self, sql: str) -> Outcome:
        """The outcome of any statement on the question's database; what was run up front is not run again."""
        return self.known[sql] if sql in self.known else self.sandbox.run(self.example.db_path, sql)
