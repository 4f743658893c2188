"""A dialogue about one database: questions in their order, each of which may rest on those before it."""

from __future__ import annotations

from dataclasses import dataclass

from serl.data.example import Example


@dataclass(frozen=True)
class Intent:
    """What a dialogue is after in the end, as one question that stands alone, and its gold query."""

    question: str
    gold_sql: str


@dataclass(frozen=True)
class Interaction:
    """A dialogue. Its turns are numbered from 1 without a gap: `turns[n - 1].turn == n`."""

    id: str
    turns: tuple[Example, ...]
    final: Intent | None = None
    """None where the data set does not say."""

    @property
    def db_id(self) -> str:
        return self.turns[0].db_id

    def before(self, turn: int) -> tuple[Example, ...]:
        """The turns that come before a turn: all that it can rest on, the first before it first."""
        return self.turns[: turn - 1]
