"""What a selector chooses from: one sampled answer to a question, as its agent has it at inference.

No field can hold gold: not its SQL, not its result, not a verdict. An answer with gold's verdict is of another type
(`serl.select.oracle.Marked`), which only evaluation makes. Facts that nobody asked for when the answer was sampled
are None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from serl.errors import InputError
from serl.sql.outcome import Outcome

ANSWERED = frozenset({"ok", "empty"})
"""Outcome statuses of a statement that ran to its end; an empty result is an answer too."""


@dataclass(frozen=True, slots=True)
class Use:
    """What of the grounded question a candidate's SQL uses, counted (`serl.select.uses`)."""

    columns: int  # columns that it reads
    linked: int  # those of them that the question gives evidence for
    missed: int  # columns with evidence that it does not read
    literals: int  # texts that it compares columns with
    stored: int  # those of them that the value index has in that very column
    values: int  # values of the question's V_q
    said: int  # those of them that it compares their column with
    numbers: int  # numbers that it writes
    unsaid_numbers: int  # those of them that neither the question nor its evidence says
    missed_numbers: int  # numbers said that it does not write


@dataclass(frozen=True, slots=True)
class Candidate:
    """One sampled answer."""

    sql: str | None
    status: str  # a sandbox outcome's status, or "none" when the agent gave no final SQL
    result_key: str | None = None  # equal keys mean equal results; None when nothing was answered
    turns: int = 1
    tokens: int = 0  # sampled ones
    mean_logprob: float | None = None  # of the sampled tokens
    text: str = ""  # what was said, turn by turn
    greedy: bool = False  # it was not drawn, but decoded
    revisions: int | None = None  # how often an SQL was followed by another one
    failures: int | None = None  # actions before the solution that were malformed, or whose SQL failed
    sql_logprob: float | None = None  # mean log-prob of the tokens of the final SQL
    result: Outcome | None = None  # its first rows: see `serl.select.sampled`
    use: Use | None = None  # None also where its SQL cannot be read
    verified: float | None = None  # P("Yes"), None also where the question did not fit: see `serl.select.verify`

    @property
    def answered(self) -> bool:
        """Whether it has a result to agree on. Failing alike is no evidence of being right."""
        return self.status in ANSWERED and self.result_key is not None

    @property
    def lost(self) -> bool:
        """Whether a failure of ours met it, so that it says nothing of the policy."""
        return self.status == "infrastructure"

    def to_json(self) -> dict[str, Any]:
        """Plain data without the result, which is kept once for all candidates that have it."""
        return {name: getattr(self, name) for name in _STORED} | {"use": self.use and asdict(self.use)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], results: Mapping[str, Outcome] = {}, greedy: bool = False) -> Candidate:
        """The candidate that `to_json` wrote; whatever else stands beside it is not looked at.

        Candidates that were stored by earlier versions lack facts. InputError where even SQL or status is missing.
        """
        known = {name: data[name] for name in _STORED if name in data}
        if missing := [name for name in ("sql", "status", "result_key") if name not in known]:
            raise InputError(f"a candidate has no {missing[0]}")
        use = known.pop("use", None)
        return cls(**known, greedy=greedy, result=results.get(known["result_key"]), use=use and Use(**use))


_STORED = tuple(name for name in Candidate.__dataclass_fields__ if name not in ("greedy", "result"))
