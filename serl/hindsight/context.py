"""What the teacher may see and the student may not: the database's answer to an action, before it.

`Hindsight` is a type of its own. The prompt builder and the rollout take text and token ids of the
student's conversation and know nothing of it; the only way into a model is `teacher_input`, whose result
goes to the teacher. Level `exec`: status, row and column counts, first rows, engine message.
"""

from collections.abc import Callable
from dataclasses import dataclass

from serl.agent.observation import render_outcome
from serl.agent.trajectory import Trajectory, Turn
from serl.sql.outcome import Outcome

FRAME_OPEN, FRAME_CLOSE = "\n<hindsight>\n", "\n</hindsight>"


@dataclass(frozen=True)
class Hindsight:
    """Tokens of the teacher-only text for one turn, frame included."""

    ids: tuple[int, ...]


def make_hindsight(outcome: Outcome | None, encode: Callable[[str], list[int]], budget: int, rows: int,
                   chars: int) -> Hindsight | None:
    """`exec` hindsight of an action's outcome, or None: it has none, or not even one token fits `budget`."""
    if outcome is None:
        return None
    return frame(render_outcome(outcome, rows, chars), encode, budget)


def frame(body: str, encode: Callable[[str], list[int]], budget: int) -> Hindsight | None:
    """Frame around `body`; over `budget` tokens the body loses its middle, never the frame its tags.

    An empty body gives the empty frame, the control of every analysis.
    """
    opening, closing = encode(FRAME_OPEN), encode(FRAME_CLOSE)
    room = budget - len(opening) - len(closing)
    if room < (1 if body else 0):
        return None
    inside = encode(body) if body else []
    if len(inside) > room:
        head = (room + 1) // 2
        inside = inside[:head] + inside[len(inside) - (room - head):]
    return Hindsight((*opening, *inside, *closing))


def teacher_input(trajectory: Trajectory, turn: Turn, hindsight: Hindsight) -> tuple[list[int], int]:
    """The student's exact ids with hindsight spliced in, and the length of the state before the action.

        state[:k] + hindsight + state[k:] + action,   k = turn.splice_at

    One branch a turn, so that no turn sees another's hindsight.
    """
    state = trajectory.token_ids[slice(*turn.state)]
    spliced = [*state[: turn.splice_at], *hindsight.ids, *state[turn.splice_at:]]
    return spliced + trajectory.token_ids[slice(*turn.action)], len(spliced)
