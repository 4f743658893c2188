"""The tool calls of a conversation that were carried out, each with the policy's verdict on its answer.

    PROPOSE         a query that follows no failed check       E-VERIFY   the `exec` verdict on its answer
    SELF-CORRECT    a query that follows one                   (EXECUTE is the database's part)
                    a look into the memory                     M-VERIFY   the `memory` verdict on its answer

A verdict belongs to the nearest call before it, and stands before the next call of any kind: a later one is nobody's.
One of the other kind is nobody's either. Verdicts on one call that contradict each other are none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from serl.agent.dialects import Check, Kind, Recall, Sql, Verify
from serl.agent.trajectory import Turn
from serl.sql.outcome import Outcome

_CHECKS = {Kind.SQL: Check.EXECUTION, Kind.RECALL: Check.MEMORY}


@dataclass(frozen=True)
class Call:
    """A call, by the number of its turn."""

    turn: int
    check: Check  # what a verdict on it is about
    text: str  # the SQL that it was given
    outcome: Outcome | None  # the database's answer; None: it did not go there
    verdict: bool | None  # None: there is none
    judged: int  # the turn that gave the verdict; without one, the turn that should have


def calls_of(turns: Sequence[Turn]) -> list[Call]:
    """The calls of a conversation in their order."""
    places = [number for number, turn in enumerate(turns) if turn.parsed.kind in _CHECKS and not turn.refused]
    return [_call(turns, place, following)
            for place, following in zip(places, [*places[1:], len(turns) - 1])]


def _call(turns: Sequence[Turn], place: int, last: int) -> Call:
    """The call of turn `place`, judged in the turns behind it, up to `last`."""
    turn = turns[place]
    check, said = _CHECKS[turn.parsed.kind], turn.parsed.events[-1]
    assert isinstance(said, (Sql, Recall))
    verdicts = [(number, event.verdict) for number in range(place + 1, last + 1)
                for event in turns[number].parsed.events if isinstance(event, Verify) and event.check is check]
    agreed = len({verdict for _, verdict in verdicts}) == 1
    judged = verdicts[0][0] if verdicts else min(place + 1, len(turns) - 1)
    return Call(place, check, said.text, turn.outcome, verdicts[0][1] if agreed else None, judged)
