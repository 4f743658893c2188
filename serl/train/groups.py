"""Which questions can teach: a group whose rewards are all equal has A = 0 for each of its trajectories.

DAPO's dynamic sampling (arXiv 2503.14476, section 3.2) samples on until every group of the batch has a signal; there
rewards are right or wrong, and its condition is 0 < right < G. Here rewards have several levels, so any difference
within the group is a signal.
"""

from collections.abc import Sequence


def has_signal(rewards_G: Sequence[float | None]) -> bool:
    """Whether one group's rewards differ; None (it could not be scored) says nothing. It is `any(A != 0)`.

    >>> has_signal([0.0, None, 1.0]), has_signal([1.0, 1.0, None]), has_signal([])
    (True, False, False)
    """
    scored = [reward for reward in rewards_G if reward is not None]
    return bool(scored) and max(scored) != min(scored)


def groups_with_signal(groups: Sequence[Sequence[float | None]]) -> list[int]:
    """Places of the groups that have a signal."""
    return [place for place, rewards_G in enumerate(groups) if has_signal(rewards_G)]
