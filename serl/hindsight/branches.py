"""The branches of a batch: every turn that the teacher re-reads, with the hindsight that it gets there."""

from collections.abc import Iterable
from dataclasses import dataclass

from serl.agent.trajectory import Trajectory, Turn
from serl.hindsight.context import Encode, Hindsight, make_hindsight
from serl.hindsight.facts import Known, facts_of
from serl.hindsight.levels import ContextOptions


@dataclass(frozen=True)
class Branch:
    """One turn with its hindsight. `index` is its trajectory's place in the batch, `number` its own in there."""

    index: int
    number: int
    turn: Turn
    hindsight: Hindsight


def branches(batch: Iterable[tuple[int, Trajectory, Known]], options: ContextOptions, encode: Encode, max_length: int
             ) -> tuple[list[Branch], int]:
    """Branches of all turns of `batch` that have something to tell, and how many of those got none for want of room.

    The room is `options.budget` and the model's `max_length` in tokens. `batch` holds places and trajectories.
    """
    made, skipped = [], 0
    for index, trajectory, known in batch:
        for number, turn in enumerate(trajectory.turns):
            facts = facts_of(turn, known)
            if not facts.tells:
                continue
            hindsight = make_hindsight(facts, options, encode)
            if hindsight is None or turn.action[1] + len(hindsight.ids) > max_length:
                skipped += 1
            else:
                made.append(Branch(index, number, turn, hindsight))
    return made, skipped
