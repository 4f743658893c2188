"""What is known of an action after the fact, before any of it is put into words.

    judging a group of trajectories ─▶ Known, one a trajectory ─▶ Facts, one a turn ─▶ `context.make_hindsight`
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from serl.agent.dialects import Kind
from serl.agent.trajectory import Turn
from serl.hindsight.teacher_only import GoldAnswer, PartAnswers, SiblingSql
from serl.sql.outcome import Outcome, Status
from serl.sql.statement import tokens


@dataclass(frozen=True)
class Known:
    """What judging found out about a trajectory."""

    question: str = ""  # id of its question: `controls.py` shuffles between questions
    correct: bool | None = None  # is its solution right? None: it was not judged
    gold: GoldAnswer | None = None
    sibling: SiblingSql | None = None
    # By the SQL of its actions, what their parts did; empty: nobody asked, since only `exec+clauses` tells it.
    parts: Mapping[str, PartAnswers] = field(default_factory=dict)


NOTHING = Known()


@dataclass(frozen=True)
class Facts:
    """What may be told of one action, each level telling its part of it."""

    outcome: Outcome | None  # of its SQL; None: it had none
    sql: str | None = None  # what `redact: action` keeps from being repeated
    final: bool = False  # whether it is the solution, which alone is compared with gold
    correct: bool | None = None
    gold: GoldAnswer | None = None
    sibling: SiblingSql | None = None
    parts: PartAnswers | None = None  # None: nobody asked

    @property
    def tells(self) -> bool:
        """Whether there is anything to tell: SQL ran, and no failure of ours, which says nothing of it, met it."""
        return self.outcome is not None and self.outcome.status is not Status.INFRASTRUCTURE


def know(question: str, finals_G: Sequence[str | None], correct_G: Sequence[bool | None], gold: GoldAnswer | None
         ) -> list[Known]:
    """What is known of each trajectory of one question's group, from its final SQL (None: it has none) and verdict.

    Without `gold` no level can tell anything of it: those that would raise ValueError.
    """
    right_G = [final if correct else None for final, correct in zip(finals_G, correct_G)]
    return [Known(question, correct, gold, _sibling(place, final, right_G))
            for place, (final, correct) in enumerate(zip(finals_G, correct_G))]


def facts_of(turn: Turn, known: Known) -> Facts:
    """The facts of one turn of a trajectory."""
    return Facts(turn.outcome, turn.parsed.sql, turn.parsed.kind is Kind.FINAL, known.correct, known.gold,
                 known.sibling, known.parts.get(turn.parsed.sql))


def _sibling(place: int, own: str | None, right_G: Sequence[str | None]) -> SiblingSql | None:
    """The next successful SQL of the group, going around from `place`, that is not the trajectory's own text.

    `right_G` holds None for a trajectory that failed. A sibling that wrote what the trajectory itself wrote would show
    the teacher the very tokens that it is asked about.
    """
    for step in range(1, len(right_G)):
        candidate = right_G[(place + step) % len(right_G)]
        if candidate is not None and (own is None or _spelling(candidate) != _spelling(own)):
            return SiblingSql(candidate)
    return None


def _spelling(sql: str) -> list[str]:
    """The query without its layout, comments and final semicolon; case counts in texts only."""
    words = [text if (text := token.group()).startswith("'") else text.lower() for token in tokens(sql)]
    return words[:-1] if words and words[-1] == ";" else words
