"""The environment: one question's episode as a state machine over token ids.

    episode = env.start(example, schema)          prompt tokens
    sql = episode.act(ids, logprobs)              parse the sampled action; SQL to run, or None
    episode.observe(outcome)                      append the database's answer, or finish

An episode ends with a solution, when its turns are used up, or when the next action would not fit the
model's length. A malformed action costs a turn and is answered with what was expected.
"""

from dataclasses import dataclass

from serl.agent import prompts
from serl.agent.chat import ChatFraming
from serl.agent.grammar import Kind, parse, token_span
from serl.agent.observation import clean, render_observation, wrap
from serl.agent.token_bytes import TokenBytes
from serl.agent.trajectory import Trajectory, Turn
from serl.config import AgentConfig
from serl.data.example import Example
from serl.sql.outcome import Outcome


@dataclass(frozen=True)
class Environment:
    """What all episodes of a run share."""

    tokenizer: object
    framing: ChatFraming
    token_bytes: TokenBytes
    config: AgentConfig
    max_length: int

    @classmethod
    def build(cls, tokenizer, config: AgentConfig, max_length: int) -> "Environment":
        return cls(tokenizer, ChatFraming.derive(tokenizer), TokenBytes(tokenizer), config, max_length)

    def count_tokens(self, text: str) -> int:
        return len(self.tokenizer.encode(text, add_special_tokens=False))

    @property
    def longest_prompt(self) -> int:
        """Tokens that a prompt may have, so that one action fits behind it."""
        return self.max_length - self.config.max_new_tokens

    def prompt_ids(self, example: Example, schema: str) -> list[int]:
        """Prompt tokens of a question."""
        return self.framing.prompt_ids(
            prompts.messages(example, schema, self.config.prompt, self.config.max_turns))

    def start(self, prompt_ids: list[int]) -> "Episode":
        return Episode(self, prompt_ids)


class Episode:
    """One running conversation; `trajectory` holds its tokens."""

    def __init__(self, env: Environment, prompt_ids: list[int]) -> None:
        self.env = env
        self.trajectory = Trajectory()
        self.trajectory.append_context(prompt_ids)

    @property
    def done(self) -> bool:
        return self.trajectory.stop != ""

    @property
    def turns_left(self) -> int:
        return self.env.config.max_turns - len(self.trajectory.turns)

    def act(self, ids: list[int], logprobs: list[float]) -> str | None:
        """Append a sampled action; returns its SQL if the database should run it."""
        state = (0, len(self.trajectory))
        pieces = [self.env.token_bytes.of(index) for index in ids]
        sampled = b"".join(pieces)
        parsed = parse(sampled)
        span = token_span([len(piece) for piece in pieces], parsed.sql_span) if parsed.sql_span else (0, 0)
        mask = [int(span[0] <= index < span[1]) for index in range(len(ids))]
        action = self.trajectory.append_sampled(ids, logprobs, mask)
        sql = (action[0] + span[0], action[0] + span[1]) if span[1] > span[0] else None
        splice_at = self.env.framing.splice_at(state[1], first_turn=not self.trajectory.turns)
        self.trajectory.turns.append(
            Turn(state, action, sql, splice_at, parsed, sampled.decode("utf-8", errors="replace")))
        return parsed.sql

    def observe(self, outcome: Outcome | None) -> None:
        """Append the answer to the last action (None: it had no SQL), or finish the episode."""
        turn = self.trajectory.turns[-1]
        turn.outcome = outcome
        if turn.parsed.kind is Kind.FINAL:
            self.trajectory.stop = "final"
        elif self.turns_left == 0:
            self.trajectory.stop = "max_turns"
        else:
            self._append_observation(turn, outcome)

    def _append_observation(self, turn: Turn, outcome: Outcome | None) -> None:
        config = self.env.config
        if outcome is None:
            text = wrap(f"malformed: {clean(turn.parsed.reason, 200)}", self.turns_left)
        else:
            text = render_observation(outcome, self.turns_left, config.observation_rows,
                                      config.observation_chars, config.observation_tokens,
                                      self.env.count_tokens)
        sampled = self.trajectory.token_ids[slice(*turn.action)]
        ids = self.env.framing.observation_ids(text, sampled)
        if len(self.trajectory) + len(ids) + config.max_new_tokens > self.env.max_length:
            self.trajectory.stop = "length"
            return
        turn.observation = self.trajectory.append_context(ids)
        turn.observation_text = text
