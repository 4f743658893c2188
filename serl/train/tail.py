"""What is asked of a scorer: the end of a token sequence, given its beginning."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch


@dataclass(frozen=True)
class Tail:
    """The tokens `ids[first:]`, to be scored; other sequences begin with the same `ids[:shared]`, shared < first.

    `scored` [len(ids) − first] (bool) leaves tokens of the tail out, whose logits are then never computed.
    """

    ids: Sequence[int]
    first: int
    shared: int
    scored: Sequence[bool] | None = None

    @cached_property
    def prompt(self) -> tuple[int, ...]:
        return tuple(self.ids[: self.shared])

    @property
    def own(self) -> Sequence[int]:
        """What follows the prompt."""
        return self.ids[self.shared:]

    @property
    def mask(self) -> Sequence[bool]:
        """Whether each token of the tail is scored, [len(ids) − first]."""
        return [True] * (len(self.ids) - self.first) if self.scored is None else self.scored

    @cached_property
    def targets(self) -> list[int]:
        """Places in `ids` of the tokens that are scored."""
        return [place for place, yes in enumerate(self.mask, self.first) if yes]

    @cached_property
    def wanted(self) -> np.ndarray:
        """Which of the tail's own tokens have the states that predict the scored ones: those before them."""
        return np.array(self.targets, dtype=np.int64) - 1 - self.shared


# What a rank encodes when others need it for a pass and it has nothing to score; its log-prob is for nobody.
IDLE = Tail([0, 0, 0], first=2, shared=1)


def spread(tails: Sequence[Tail], values_N: torch.Tensor) -> list[torch.Tensor]:
    """The values of all scored tokens, as [len(ids) − first] of each tail: NaN where nobody asks."""
    sizes = [len(tail.ids) - tail.first for tail in tails]
    if len(values_N) < sum(sizes):
        scored = torch.tensor([yes for tail in tails for yes in tail.mask], device=values_N.device)
        values_N = torch.full_like(scored, torch.nan, dtype=values_N.dtype).masked_scatter(scored, values_N)
    return list(values_N.split(sizes))
