"""Where an action ends, and its tokens until it does."""

from collections.abc import Callable
from dataclasses import dataclass

from serl.generate.interface import Generation, StopReason


@dataclass(frozen=True)
class StopRule:
    """When an action ends: at an end token, or as soon as `is_complete(sampled bytes, fresh bytes)` holds."""

    bytes_of: Callable[[int], bytes]  # of a token id
    eos_ids: frozenset[int]
    tags: tuple[str, ...]  # texts at which it may end: where an engine that cannot ask the rule should stop
    is_complete: Callable[[bytes, int], bool]  # the dialect's: whether the last so many bytes complete an action


class ActionTokens:
    """Sampled tokens of one action, which grow until the rule or `limit` ends it: `stop` says which."""

    def __init__(self, rule: StopRule, limit: int) -> None:
        self.rule, self.limit = rule, limit
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.stop: StopReason | None = None
        self._text = b""

    def append(self, token: int, logprob: float) -> None:
        """Add a token; of no effect once it has ended."""
        if self.stop is not None:
            return
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
