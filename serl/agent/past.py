"""What a turn of a dialogue rests on: the turns before it, by the prior (`serl.agent.memory`).

    gold        every turn can be asked by itself
    predicted   the policy's own answers of the same rollout: a dialogue's turns run in order, many dialogues at once
    mixed       in order as well, and a coin decides whose answer is remembered
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from serl.agent.memory import Answer, DialogueMemory, Prior, remember
from serl.agent.trajectory import Trajectory
from serl.data.example import Example
from serl.sql.outcome import Outcome, Status
from serl.sql.tree.schema import schema_of

# Of a turn that was not answered, or not asked at all since its gold cannot be judged.
NO_ANSWER = Answer("", Outcome(Status.NO_STATEMENT, error="it was not answered"))


@dataclass(frozen=True)
class Past:
    """The turns before one, the first one first, with the results of their gold queries by question id."""

    db_path: Path
    earlier: tuple[Example, ...] = ()
    gold: Mapping[str, Outcome] = field(default_factory=dict)
    prior: Prior = Prior.GOLD
    seed: int = 0  # of the prior's coin
    answered_by: Mapping[str, int] = field(default_factory=dict)  # question id → the job of the rollout that answers it

    @property
    def in_order(self) -> bool:
        """Whether the policy's own answers may be remembered."""
        return self.prior is not Prior.GOLD

    @property
    def waits_for(self) -> int | None:
        """The job that must be over before this one: that of the last turn before, which waits for those before it."""
        return max(self.answered_by.values(), default=None)

    def memory(self, trajectories: Mapping[int, Trajectory]) -> DialogueMemory:
        """The memory as it is when the turn begins; `trajectories`, by job, are at least those that it waited for."""
        predicted = {example.question_id: NO_ANSWER for example in self.earlier}
        for key, job in self.answered_by.items():
            predicted[key] = _answer(trajectories[job])
        return DialogueMemory(schema_of(self.db_path), remember(self.earlier, self.prior, self.seed, self.gold,
                                                                predicted))


def _answer(trajectory: Trajectory) -> Answer:
    sql, outcome = trajectory.final_sql, trajectory.final_outcome
    return NO_ANSWER if sql is None or outcome is None else Answer(sql, outcome)
