"""What came of a question: the trajectories that were sampled, the one that was chosen, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from grounding.text import well_formed
from serl.agent.dialects import Think
from serl.agent.token_bytes import TokenBytes
from serl.agent.trajectory import DEADLINE, Trajectory, Turn
from serl.ask.question import Ready
from serl.errors import InputError
from serl.select import ORACLE, SELECTORS, Pick
from serl.select.candidate import Candidate
from serl.select.sampled import candidate
from serl.sql.outcome import Outcome

USABLE = ("first", "vote", "soft", "logprob")  # what they look at, every sample has
VOTE_ROWS = 3  # rows of each result that was voted for


def selector(name: str) -> Pick:
    """The selector of this name; InputError for one that is not of USABLE."""
    if name not in USABLE:
        why = "needs gold, which there is not for questions of one's own" if name == ORACLE else "is of no use here"
        raise InputError(f"--select {name} {why}; choose one of {', '.join(USABLE)}")
    return SELECTORS[name]


@dataclass(frozen=True)
class Sample:
    """One sampled answer. Of its results only some rows are kept; what selectors see was made from all of them."""

    trajectory: Trajectory
    candidate: Candidate

    @classmethod
    def of(cls, trajectory: Trajectory, rows: int) -> "Sample":
        """The sample of a trajectory that has ended; `rows` of each result are kept."""
        seen = candidate(trajectory)
        for turn in trajectory.turns:
            keep_rows(turn, rows)
        return cls(trajectory, seen)


def keep_rows(turn: Turn, rows: int) -> None:
    """Forget all but the first rows of a turn's result; how many there were stays known."""
    if turn.outcome is not None and len(turn.outcome.rows) > rows:
        turn.outcome = replace(turn.outcome, rows=turn.outcome.rows[:rows])


@dataclass(frozen=True)
class Vote:
    """Samples with the same result; `key` None: they have none. `members` are their places among the samples."""

    key: str | None
    members: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """The samples of one question. `chosen` is the place of the one that answers it, None if none does."""

    ready: Ready
    samples: tuple[Sample, ...]
    chosen: int | None
    selector: str
    seconds: float  # from the prompt to the last sample

    @classmethod
    def of(cls, ready: Ready, samples: Sequence[Sample], name: str, seconds: float) -> "Answer":
        """Choose among the samples by the selector `name`."""
        chosen = selector(name)([sample.candidate for sample in samples])
        return cls(ready, tuple(samples), chosen, name, seconds)

    @property
    def votes(self) -> list[Vote]:
        """Results by the number of samples that have them, the earliest of equal ones first, and those without one."""
        members: dict[str | None, list[int]] = {}
        for place, sample in enumerate(self.samples):
            members.setdefault(sample.candidate.result_key, []).append(place)
        found = [Vote(key, tuple(places)) for key, places in members.items()]
        return sorted(found, key=lambda vote: (vote.key is None, -len(vote.members), vote.members[0]))

    @property
    def trajectory(self) -> Trajectory | None:
        """The chosen one."""
        return None if self.chosen is None else self.samples[self.chosen].trajectory

    @property
    def sql(self) -> str | None:
        return None if self.trajectory is None else self.trajectory.final_sql

    @property
    def outcome(self) -> Outcome | None:
        """What the database said to the final SQL."""
        return None if self.trajectory is None else self.trajectory.final_outcome

    @property
    def answered(self) -> bool:
        """Whether there is SQL, and it ran."""
        return self.outcome is not None and self.outcome.ran

    @property
    def why_not(self) -> str:
        """Why there is no answer, in a line."""
        if self.is_late:
            return "the time was over before there was an answer"
        if self.outcome is not None:
            return f"the final SQL ended with {self.outcome.status}: {self.outcome.error}"
        return "the agent gave no final SQL" + (" that ran" if len(self.samples) > 1 else "")

    @property
    def is_late(self) -> bool:
        """Whether there is no answer because its time was over."""
        return not self.answered and any(sample.trajectory.stop == DEADLINE for sample in self.samples)

    @property
    def sampled_tokens(self) -> int:
        return sum(sample.trajectory.loss_tokens for sample in self.samples)

    def to_json(self, token_bytes: TokenBytes) -> dict[str, Any]:
        """The document of `serl ask --json`."""
        asked, trajectory = self.ready.asked, self.trajectory
        return {
            "question": well_formed(asked.question),
            "evidence": well_formed(asked.evidence),
            "database": asked.database.name,
            "sql": self.sql,
            "result": None if self.outcome is None else self.outcome.to_json(),
            "why_not": None if self.answered else self.why_not,
            "turns": [] if trajectory is None else [
                turn_json(turn, trajectory, token_bytes) for turn in trajectory.turns],
            "selection": {"by": self.selector, "samples": len(self.samples), "chosen": self.chosen,
                          "votes": [self._vote_json(vote) for vote in self.votes]},
            "tokens": {"prompt": len(self.ready.prompt_ids), "sampled": self.sampled_tokens},
            "seconds": {"grounding": round(self.ready.seconds, 3), "answer": round(self.seconds, 3)},
        }

    def _vote_json(self, vote: Vote) -> dict[str, Any]:
        first = self.samples[vote.members[0]].trajectory
        result = None if vote.key is None else first.final_outcome.to_json(VOTE_ROWS)
        return {"votes": len(vote.members), "samples": list(vote.members), "sql": first.final_sql, "result": result}


def turn_json(turn: Turn, trajectory: Trajectory, token_bytes: TokenBytes) -> dict[str, Any]:
    """One turn as plain data."""
    return {"thinking": thinking(turn, trajectory, token_bytes), "kind": str(turn.parsed.kind), "sql": turn.parsed.sql,
            "reason": turn.parsed.reason or None, "result": None if turn.outcome is None else turn.outcome.to_json()}


def thinking(turn: Turn, trajectory: Trajectory, token_bytes: TokenBytes) -> str:
    """What the policy thought before it acted."""
    sampled = token_bytes.join(trajectory.token_ids[slice(*turn.action)])
    spans = [event.span for event in turn.parsed.events if isinstance(event, Think)]
    return "\n".join(sampled[slice(*span)].decode("utf-8", "replace").strip() for span in spans)
