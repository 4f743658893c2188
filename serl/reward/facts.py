"""What a reward term may know of a finished trajectory."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from serl.agent.calls import Call, calls_of
from serl.agent.dialects import Form
from serl.agent.spans import Span, token_span
from serl.agent.trajectory import Trajectory
from serl.config.reward import RewardConfig
from serl.data.example import Example
from serl.sql.compare import is_ordered, strict
from serl.sql.outcome import Outcome

Piece = Callable[[int], bytes]
"""The bytes of a token id (`serl.agent.token_bytes.TokenBytes.of`)."""


def judge(outcome: Outcome | None, gold: Outcome, gold_sql: str) -> bool:
    """Does a result equal gold's (strict: multiset of rows; order where gold orders)?"""
    return outcome is not None and strict(outcome, gold, is_ordered(gold_sql)).match


@dataclass(frozen=True)
class Lengths:
    """Of all thinking, of the answer and of the SQL in it, tags not counted."""

    thinking: int
    answer: int
    sql: int


@dataclass(frozen=True)
class Facts:
    """A trajectory, its question, and how its solution compares with gold, which has a result."""

    trajectory: Trajectory
    example: Example  # the question, gold SQL, and the path of the database
    gold: Outcome
    outcome: Outcome | None  # of the solution; None if there is none
    correct: bool
    options: RewardConfig
    piece: Piece

    @property
    def well_formed(self) -> bool:
        """Whether there is a solution, and every action keeps its dialect's form to the letter."""
        return self.outcome is not None and not any(form.fault for form in self.forms)

    @property
    def ran(self) -> bool:
        """Whether the solution has a result."""
        return self.outcome is not None and self.outcome.ran

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """Of each action, how it keeps the form of its dialect."""
        return tuple(self.trajectory.dialect.form(b"".join(pieces)) for pieces in self._pieces)

    @cached_property
    def calls(self) -> list[Call]:
        """The tool calls that were carried out, with the policy's verdicts on them."""
        return calls_of(self.trajectory.turns)

    def matches(self, outcome: Outcome | None) -> bool:
        """Whether the result of some query of the trajectory equals gold's."""
        return judge(outcome, self.gold, self.example.gold_sql)

    def lengths(self, unit: str) -> Lengths:
        """Lengths in `token` or `char`, of a trajectory that is well-formed."""
        def of(turn: int, span: Span | None) -> int:
            if span is None:
                return 0
            if unit == "char":
                return len(b"".join(self._pieces[turn])[slice(*span)].decode(errors="replace"))
            start, end = token_span([len(piece) for piece in self._pieces[turn]], span)
            return end - start

        last = len(self.forms) - 1
        return Lengths(sum(of(turn, form.thinking) for turn, form in enumerate(self.forms)),
                       of(last, self.forms[last].answer), of(last, self.forms[last].sql))

    @cached_property
    def _pieces(self) -> tuple[list[bytes], ...]:
        """The bytes of each action, token by token."""
        ids = self.trajectory.token_ids
        return tuple([self.piece(index) for index in ids[slice(*turn.action)]] for turn in self.trajectory.turns)
