"""A trajectory: token ids are the only truth, and everything grows with them.

The class is append-only. `append_context` is for what we inject (prompt, framing, observations: loss mask
0), `append_sampled` for what the policy sampled (loss mask 1, its end token included when it was sampled).
Ids, loss mask, action mask and sampler log-probs grow in the same call, so they cannot drift apart, and
masks are never inferred from text, pad ids or eos ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from serl.agent.dialects import DIALECTS, Action, Dialect, Event, Kind
from serl.agent.spans import Span, token_span
from serl.sql.outcome import Outcome, Status

DEADLINE = "deadline"


@dataclass
class Turn:
    """One action and its answer, as [start, end) spans of the trajectory's tokens."""

    state: Span  # everything the policy saw
    action: Span  # everything it sampled
    sql: Span | None  # the SQL body inside the action
    splice_at: int  # where the teacher's hindsight goes: before the close of the last non-assistant message
    parsed: Action
    action_text: str
    outcome: Outcome | None = None  # of the action's SQL
    observation: Span | None = None
    observation_text: str | None = None
    events: tuple[tuple[Event, Span | None], ...] = ()  # of `parsed`, with their tokens; None: it holds no byte
    refused: str = ""  # why it was not carried out though it can be read, worded for the model


def place(span: Span, lengths: Sequence[int], first: int) -> Span | None:
    """The trajectory's tokens that hold these bytes of an action, whose tokens begin at `first`; None: none does."""
    start, end = token_span(lengths, span)
    return (first + start, first + end) if end > start else None


def place_events(parsed: Action, lengths: Sequence[int], first: int) -> tuple[tuple[Event, Span | None], ...]:
    """What an action says, with the tokens that say it; see `place`."""
    return tuple((event, place(event.span, lengths, first)) for event in parsed.events)


@dataclass
class Trajectory:
    """Tokens and turns of one sampled conversation."""

    token_ids: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    action_mask: list[int] = field(default_factory=list)
    sampler_logprobs: list[float | None] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    stop: str = ""  # final | max_turns | length | deadline; empty while running
    dialect: Dialect = DIALECTS["xml"]  # which its actions are written in

    def __len__(self) -> int:
        return len(self.token_ids)

    def append_context(self, ids: list[int]) -> Span:
        """Add injected tokens; returns their span."""
        return self._append(ids, [0] * len(ids), [0] * len(ids), [None] * len(ids))

    def append_sampled(self, ids: list[int], logprobs: list[float], action_mask: list[int]) -> Span:
        """Add sampled tokens with the sampler's log-probs and the action mask; returns their span."""
        if not len(ids) == len(logprobs) == len(action_mask):
            raise ValueError(f"{len(ids)} ids, {len(logprobs)} log-probs, {len(action_mask)} mask entries")
        return self._append(ids, [1] * len(ids), action_mask, logprobs)

    def _append(self, ids: list[int], loss: list[int], action: list[int],
                logprobs: list[float | None]) -> Span:
        start = len(self.token_ids)
        self.token_ids += ids
        self.loss_mask += loss
        self.action_mask += action
        self.sampler_logprobs += logprobs
        return start, len(self.token_ids)

    @property
    def final_sql(self) -> str | None:
        """The solution's SQL, or None if the trajectory has none."""
        last = self.turns[-1] if self.turns else None
        return last.parsed.sql if last is not None and last.parsed.kind is Kind.FINAL and not last.refused else None

    @property
    def final_outcome(self) -> Outcome | None:
        """The database's answer to the solution."""
        return self.turns[-1].outcome if self.final_sql is not None else None

    @property
    def infrastructure_failed(self) -> bool:
        """Whether a failure of ours met any of its turns: then it says nothing of the policy."""
        return self.stop == DEADLINE or any(
            turn.outcome is not None and turn.outcome.status is Status.INFRASTRUCTURE for turn in self.turns)

    @property
    def loss_tokens(self) -> int:
        return sum(self.loss_mask)
