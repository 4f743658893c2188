"""The teacher-only text of a turn: hindsight as tokens, and the only way that it gets into a model.

    Facts ─ levels.told ─▶ answer, note ─ frame ─▶ Hindsight ─ teacher_input ─▶ ids that the teacher scores

`Hindsight` is a type of its own. The prompt builder and the rollout take text and token ids of the student's
conversation, and it cannot become either (`teacher_only.py`); the result of `teacher_input` goes to the teacher.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from serl.agent.trajectory import Trajectory, Turn
from serl.hindsight.facts import Facts
from serl.hindsight.levels import ContextOptions, told
from serl.hindsight.ranked import Ranked
from serl.hindsight.teacher_only import TeacherOnly

Encode = Callable[[str], list[int]]
_OPENERS = re.compile(r"[<\[`]")  # what a tag, an instruction or a code fence begins with


@dataclass(frozen=True, repr=False)
class Hindsight(TeacherOnly):
    """Tokens of the teacher-only text for one turn, frame included."""

    ids: tuple[int, ...]


def make_hindsight(facts: Facts, options: ContextOptions, encode: Encode) -> Hindsight | None:
    """Hindsight of an action, or None: there is nothing to tell, or not even one token of it fits the budget."""
    parts = told(facts, options)
    if parts is None:
        return None
    answer, note = parts
    return frame(answer, encode, options.budget, note, options.wording.tag)


def empty_hindsight(options: ContextOptions, encode: Encode) -> Hindsight | None:
    """The frame alone, the control of every analysis; None if the budget does not hold it."""
    return frame("", encode, options.budget, tag=options.wording.tag)


def frame(answer: str, encode: Encode, budget: int, note: str | Ranked = "", tag: str = "hindsight"
          ) -> Hindsight | None:
    """Frame around a body of two parts; over `budget` tokens a part loses its middle, never the frame its tags.

    Where a part holds what a tag begins with, " … " takes the place of its middle: else the two ends could make one.

        \\n<hindsight>\\n  answer  \\n  note  \\n</hindsight>

    Each part may take half of the room, and what the other leaves of its half: a long answer cannot push out a verdict.
    A ranked note loses lines before it is cut.
    """
    opening, closing = encode(f"\n<{tag}>\n"), encode(f"\n</{tag}>")
    room = budget - len(opening) - len(closing)
    if room < (1 if answer or note else 0):
        return None
    first = encode(answer) if answer else []
    most = max(room // 2, room - len(first))

    def behind(text: str) -> list[int]:
        return encode(f"\n{text}" if answer else text) if text else []

    last = note.within(lambda text: len(behind(text)) <= most) if isinstance(note, Ranked) else note
    second = behind(last)
    for_note = min(len(second), most)
    joints = [encode(" … ") if _OPENERS.search(text) else [] for text in (answer, last)]
    return Hindsight((*opening, *_cut(first, room - for_note, joints[0]), *_cut(second, for_note, joints[1]), *closing))


def teacher_input(trajectory: Trajectory, turn: Turn, hindsight: Hindsight) -> tuple[list[int], int]:
    """The student's exact ids with hindsight spliced in, and the length of the state before the action.

        state[:k] + hindsight + state[k:] + action,   k = turn.splice_at

    One branch a turn, so that no turn sees another's hindsight.
    """
    state = trajectory.token_ids[slice(*turn.state)]
    spliced = [*state[: turn.splice_at], *hindsight.ids, *state[turn.splice_at:]]
    return spliced + trajectory.token_ids[slice(*turn.action)], len(spliced)


def _cut(ids: list[int], room: int, joint: list[int]) -> list[int]:
    """At most `room` tokens: head, joint and tail, the head the longer by one if need be; the head alone if it must."""
    if len(ids) <= room:
        return ids
    ends = room - len(joint)
    if joint and ends < 2:
        return ids[:room]
    head = (ends + 1) // 2
    return ids[:head] + joint + ids[len(ids) - (ends - head):]
