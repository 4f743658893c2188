"""Types of what the student must never read: gold, another trajectory's SQL, and the hindsight made from them.

They guard against leaks by being no text. What the student reads is built from text and lists of token ids, and these
types cannot become either by accident: str(), an f-string, len() and a loop over one raise TypeError, and its repr
shows no content. Only `levels.py` opens them for a text, and only for what a level is allowed to tell; token credit
reads what was found of parts, and makes numbers of it.
"""

from dataclasses import dataclass

from serl.hindsight.parts.part import Finding
from serl.sql.outcome import Outcome


class TeacherOnly:
    """Base of the guarded types."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, for the teacher only>"

    def __str__(self) -> str:
        raise TypeError(f"{type(self).__name__} is for the teacher only: it cannot become text of a prompt")

    def __format__(self, spec: str) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class GoldAnswer(TeacherOnly):
    """A question's gold query and its result."""

    sql: str
    outcome: Outcome


@dataclass(frozen=True, repr=False)
class PartAnswers(TeacherOnly):
    """What the database said of the parts of one action: the student has only its answer to the whole."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True, repr=False)
class SiblingSql(TeacherOnly):
    """The final SQL of another, successful trajectory of the same group."""

    sql: str
