"""The environment: one question's episode as a state machine over token ids.

    episode = env.start(env.prompt_ids(example, schema))    prompt tokens
    sql = episode.act(ids, logprobs)                        parse the sampled action; SQL to run, or None
    episode.observe(outcome)                                append the database's answer, or finish
    episode.expire(outcome)                                 its time is over

An episode ends with a solution, when its turns are used up, or when the next action would not fit the
model's length. With `agent.force_final` the policy gets one last chance for a solution in the latter two cases: an
action more, whose observation says so and for which room is kept from the beginning. A malformed action costs a turn
and is answered with what was expected, as does one that the order refuses (`serl.agent.order`). A look into the memory
of a dialogue is answered here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from serl.agent import prompts
from serl.agent.chat import ChatFraming
from serl.agent.dialects import Dialect, Kind, Recall, Tool
from serl.agent.memory import Memory
from serl.agent.observation import bodies, clean, reminder, shortest
from serl.agent.order import breach
from serl.agent.spans import token_mask
from serl.agent.token_bytes import TokenBytes
from serl.agent.trajectory import DEADLINE, Trajectory, Turn, place, place_events
from serl.config import AgentConfig
from serl.data.example import Example
from serl.generate.stopping import StopRule
from serl.sql.outcome import Outcome

MALFORMED = "malformed"  # what an action without SQL is answered with, and why
OUT_OF_ORDER = "out of order"  # what an action is answered with that is refused for its place, and the rule
MISSING = {Kind.SQL: "exec_sql", Kind.RECALL: "memory"}  # what there may be none of in a conversation
_STOPS = {"turns": "max_turns", "room": "length"}  # the end of an episode whose last chance was missed, by what ran out


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
        token_bytes = TokenBytes(tokenizer)
        framing = ChatFraming.derive(tokenizer, token_bytes, prompts.spoken(config), config.prefill,
                                     answered=config.max_turns > 1 or config.force_final)
        return cls(tokenizer, framing, token_bytes, config, max_length)

    @property
    def dialect(self) -> Dialect:
        """The language of actions and observations: what parses, writes, and says where an action is complete."""
        return self.framing.dialect

    def stop_rule(self, eos_ids: set[int]) -> StopRule:
        """Where sampling of an action ends; `eos_ids` are the end tokens that the model's files name."""
        return StopRule(self.token_bytes.of, frozenset(eos_ids | self.framing.end_ids),
                        tuple(tag.decode() for tag in self.dialect.stop_tags), self.dialect.is_complete)

    def count_tokens(self, text: str) -> int:
        return len(self.tokenizer.encode(text, add_special_tokens=False))

    @property
    def reserve(self) -> int:
        """Tokens that are kept for a forced final answer and the observation before it; 0 where there is none."""
        config = self.config
        return (self.framing.around + config.observation_tokens + config.max_new_tokens) if config.force_final else 0

    @property
    def longest_prompt(self) -> int:
        """Tokens that a prompt may have, so that one action fits behind it, and a forced one behind that."""
        return self.max_length - self.config.max_new_tokens - self.reserve

    def prompt_ids(self, example: Example, schema: str, earlier: Sequence[Example] = ()) -> list[int]:
        """Prompt tokens of a question, which the `earlier` turns of its dialogue came before."""
        return self.framing.prompt_ids(prompts.messages(example, schema, self.config, earlier))

    def start(self, prompt_ids: list[int], memory: Callable[[], Memory] | None = None) -> "Episode":
        """`memory` gives that of the dialogue, and is asked for it at the first look into it; None: there is none."""
        return Episode(self, prompt_ids, memory)


class Episode:
    """One running conversation; `trajectory` holds its tokens."""

    def __init__(self, env: Environment, prompt_ids: list[int], memory: Callable[[], Memory] | None = None) -> None:
        self.env = env
        self._open_memory = memory if Tool.MEMORY in env.config.tools else None
        self._memory: Memory | None = None  # once it was looked into
        self._rule = ""  # what the answer to the last action should say of the order
        self.trajectory = Trajectory(dialect=env.dialect)
        self.trajectory.append_context(prompt_ids)
        self._ran_out = ""  # turns | room, once the next action is the last chance

    @property
    def done(self) -> bool:
        return self.trajectory.stop != ""

    @property
    def turns_left(self) -> int:
        """Turns that remain, without the forced final one."""
        return max(0, self.env.config.max_turns - len(self.trajectory.turns))

    def act(self, ids: list[int], logprobs: list[float]) -> str | None:
        """Append a sampled action; returns its SQL if the database should run it."""
        state = (0, len(self.trajectory))
        pieces = [self.env.token_bytes.of(index) for index in ids]
        sampled, lengths = b"".join(pieces), [len(piece) for piece in pieces]
        parsed = self.env.dialect.parse(sampled)
        action = self.trajectory.append_sampled(ids, logprobs, token_mask(lengths, parsed.acting))
        sql = place(parsed.sql_span, lengths, action[0]) if parsed.sql_span else None
        splice_at = self.env.framing.splice_at(state[1], first_turn=not self.trajectory.turns)
        self.trajectory.turns.append(Turn(state, action, sql, splice_at, parsed,
                                          sampled.decode("utf-8", errors="replace"),
                                          events=place_events(parsed, lengths, action[0])))
        self.trajectory.turns[-1].refused = self._refusal(parsed.kind)
        return None if self.trajectory.turns[-1].refused else parsed.sql

    def observe(self, outcome: Outcome | None) -> None:
        """Append the answer to the last action (None: it had no SQL), or finish the episode."""
        turn = self.trajectory.turns[-1]
        turn.outcome = outcome
        if turn.parsed.kind is Kind.FINAL and not turn.refused:
            self.trajectory.stop = "final"
        elif self._ran_out:
            self.trajectory.stop = _STOPS[self._ran_out]
        elif self.turns_left == 0 and not self.env.config.force_final:
            self.trajectory.stop = "max_turns"
        else:
            self._append_observation(turn, outcome)

    def expire(self, outcome: Outcome | None) -> None:
        """End the episode at its deadline; `outcome` is that of a query that was still under way, if any was."""
        if outcome is not None:
            self.trajectory.turns[-1].outcome = outcome
        self.trajectory.stop = DEADLINE

    def _refusal(self, kind: Kind) -> str:
        """Why the action that was just appended is not carried out; "" if it is."""
        config, has_memory, self._rule = self.env.config, self._open_memory is not None, ""
        offered = {Kind.SQL: Tool.EXECUTE in config.tools, Kind.RECALL: has_memory}
        if not offered.get(kind, True):
            return f"{MALFORMED}: there is no {MISSING[kind]} in this conversation"
        if config.order != "off":
            self._rule = breach(self.trajectory.turns, has_memory)
        if config.order != "strict" or not self._rule or (kind is Kind.FINAL and self.turns_left == 0):
            return ""
        return f"{OUT_OF_ORDER}: {self._rule}"

    def _told(self, turn: Turn, outcome: Outcome | None) -> list[str]:
        """What answers the last action, ever shorter, as long as there is room for more than a word."""
        config = self.env.config
        if outcome is not None:
            told = bodies(outcome, config.observation_rows, config.observation_cells, config.observation_chars)
        elif turn.parsed.kind is Kind.RECALL and not turn.refused:
            self._memory = self._memory or self._open_memory()
            said = turn.parsed.events[-1]
            assert isinstance(said, Recall)
            told = self._memory.bodies(said.text)
        else:
            return [turn.refused or f"{MALFORMED}: {clean(turn.parsed.reason, 200)}"]
        return [f"{body}\n{OUT_OF_ORDER}: {self._rule}" for body in told] if self._rule else told

    def _append_observation(self, turn: Turn, outcome: Outcome | None) -> None:
        env, config = self.env, self.env.config
        room = env.max_length - len(self.trajectory) - config.max_new_tokens
        told = self._told(turn, outcome)
        if self.turns_left:
            text_ids = self._choose(told, lambda ids: len(ids) <= config.observation_tokens)
            if self._append(turn, text_ids, room - env.reserve):
                return
            if not config.force_final:
                self.trajectory.stop = "length"
                return
        self._ran_out = "turns" if self.turns_left == 0 else "room"
        told = [*told, told[-1].partition("\n")[0].partition(":")[0] if outcome is None else shortest(outcome)]
        cap = min(config.observation_tokens, room - env.framing.around)
        if not self._append(turn, self._choose(told, lambda ids: len(ids) <= cap), room):
            self.trajectory.stop = "length"

    def _choose(self, told: Sequence[str], fits: Callable[[list[int]], bool]) -> list[int]:
        """Tokens of the first of these bodies that fits with its frame and reminder, or of the last one."""
        env = self.env
        left = reminder(self.turns_left, self._ran_out, env.dialect.solution, env.config.force_final)
        ids: list[int] = []
        for body in told:
            ids = env.framing.encode(env.dialect.observation(f"{body}\n{left}", env.framing.observation_role))
            if fits(ids):
                break
        return ids

    def _append(self, turn: Turn, text_ids: list[int], room: int) -> bool:
        """Append an observation of at most `room` tokens, its chat framing included; False: it has more."""
        sampled = self.trajectory.token_ids[slice(*turn.action)]
        ids = self.env.framing.observation_ids(text_ids, sampled)
        if len(ids) > room:
            return False
        turn.observation = self.trajectory.append_context(ids)
        turn.observation_text = self.env.token_bytes.join(text_ids).decode("utf-8", errors="replace")
        return True
