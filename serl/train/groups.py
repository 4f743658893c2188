"""Which questions can teach, and more of them in place of those that cannot.

A group whose rewards are all equal has A = 0 for each of its trajectories: it has no signal. DAPO's dynamic sampling
(arXiv 2503.14476, section 3.2) samples on until every group of the batch has one; there rewards are right or wrong, and
its condition is 0 < right < G. Here rewards have several levels, so any difference within the group is a signal.
Deviations: a refill asks exactly as many questions as groups are missing, so that no signal is thrown away, and there
are at most `train.refill` of them: after that the step learns from what there is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from serl.parallel import ALONE, Ranks
from serl.task import Question
from serl.train.samples import Sample


@dataclass(frozen=True)
class Group:
    """A question and its trajectories; `place` is its number among all the groups of its step."""

    question: Question
    samples: list[Sample]
    place: int = 0

    @property
    def signal(self) -> bool:
        """Whether its trajectories' rewards differ."""
        return has_signal([sample.reward and sample.reward.total for sample in self.samples])


def has_signal(rewards_G: Sequence[float | None]) -> bool:
    """Whether one group's rewards differ; None (it could not be scored) says nothing. It is `any(A != 0)`.

    >>> has_signal([0.0, None, 1.0]), has_signal([1.0, 1.0, None]), has_signal([])
    (True, False, False)
    """
    scored = [reward for reward in rewards_G if reward is not None]
    return bool(scored) and max(scored) != min(scored)


def fill(ask: Callable[[int], list[Group]], wanted: int, refill: int, ranks: Ranks = ALONE
         ) -> tuple[list[Group], list[Group], int]:
    """Groups to learn from, groups that were sampled for nothing, and the rounds of refill.

    `ask(count)` gives the groups of so many further questions. It is called until `wanted` groups have a signal, at
    most `refill` times after the first. Without a refill there is nothing to replace: every group stays in the batch.
    With several ranks `ask` gives each its share of the groups, and those of all of them count.
    """
    groups, rounds = ask(wanted), 0
    while rounds < refill and (missing := wanted - int(ranks.sum(sum(group.signal for group in groups)))):
        groups = groups + ask(missing)
        rounds += 1
    dropped = [group for group in groups if refill and not group.signal]
    return [group for group in groups if not refill or group.signal], dropped, rounds
