"""Terms about single actions: each value belongs to an action, and the term is their mean.

    v_k = 1/|V_k| Σ_{(t, v) ∈ V_k} v          0 for a trajectory that V_k finds nothing in

`train.credit step` gives each action its own values in place of the mean (`serl.train.advantages`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from serl.reward.facts import Facts


class Earned(NamedTuple):
    """A value, and the number of the turn whose action it is about."""

    turn: int
    value: float


@dataclass(frozen=True)
class Process:
    """Such a term, made of the function that finds its values; it decorates one."""

    values: Callable[[Facts], Sequence[Earned]]

    def __call__(self, facts: Facts) -> float:
        return mean([each.value for each in self.values(facts)])


def mean(values: Sequence[float]) -> float:
    """The mean, 0 of nothing."""
    return math.fsum(values) / len(values) if values else 0.0
