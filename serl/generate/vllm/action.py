"""One action from an engine that cannot ask the dialect's rule: what it is asked for, and where its answer ends.

An engine stops at the text of a closing tag. Whether that ends the action is for the dialect to say: a tag quoted in
thinking does not, and then the engine is asked to go on from there. Tokens beyond the end are cut.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.generate.interface import Generation, StopReason


@dataclass(frozen=True)
class StopRule:
    """When an action ends: at an end token, or as soon as `is_complete(sampled bytes, fresh bytes)` holds."""

    bytes_of: Callable[[int], bytes]  # of a token id
    eos_ids: frozenset[int]
    tags: tuple[str, ...]  # texts at which it may end: where an engine should stop and ask
    is_complete: Callable[[bytes, int], bool]


class Action:
    """Sampled tokens of one action, grown by what an engine answers until the rule or `limit` ends it."""

    def __init__(self, rule: StopRule, limit: int) -> None:
        self.rule, self.limit = rule, limit
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.stop: StopReason | None = None
        self._text = b""

    def extend(self, ids: Sequence[int], logprobs: Sequence[float]) -> None:
        """Add tokens up to the one that ends the action."""
        for token, logprob in zip(ids, logprobs):
            if self.stop is not None:
                break
            self.ids.append(token)
            self.logprobs.append(logprob)
            piece = self.rule.bytes_of(token)
            self._text += piece
            if token in self.rule.eos_ids:
                self.stop = StopReason.EOS
            elif piece and self.rule.is_complete(self._text, len(piece)):
                self.stop = StopReason.TAG
            elif len(self.ids) == self.limit:
                self.stop = StopReason.LENGTH

    def generation(self) -> Generation:
        return Generation(self.ids, self.logprobs, self.stop)


def sampling(action: Action, temperature: float, seed: int | None) -> dict[str, Any]:
    """vLLM's sampling parameters for the rest of an action; without a seed, the most probable tokens.

    Everything that a server's or a model's defaults could change is said: the policy is softmax(logits / temperature).
    """
    rule = action.rule
    return {
        "temperature": 0.0 if seed is None else temperature, "seed": seed,
        "top_p": 1.0, "top_k": 0, "min_p": 0.0,
        "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
        "max_tokens": action.limit - len(action.ids), "min_tokens": 0,
        "stop": list(rule.tags), "stop_token_ids": sorted(rule.eos_ids), "ignore_eos": True,
        "skip_special_tokens": False, "spaces_between_special_tokens": False,  # tags may be special tokens
        "logprobs": 0,  # of the sampled token alone
    }


def seed_of(seed: int, stream: tuple[int, ...] | None, sampled: int) -> int | None:
    """The seed (63 bits) of a request that goes on with stream `stream` after `sampled` tokens; None: greedy.

    >>> seed_of(1, (0, 2), 0) == seed_of(1, (0, 2), 0) != seed_of(1, (0, 2), 5)
    True
    """
    if stream is None:
        return None
    return int(np.random.SeedSequence([seed, *stream, sampled]).generate_state(1, np.uint64)[0] >> 1)
