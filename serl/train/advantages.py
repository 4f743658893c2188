"""Group-relative advantages over trajectories (GRPO, arXiv 2402.03300; DESIGN section 4).

    A^n = (R^n − mean R) / (std R + ε_A)          population std over the group's scored trajectories

Dr. GRPO (arXiv 2503.20783) leaves out the division: A^n = R^n − mean R (`standardize=False`). A group whose rewards are
all equal has A = 0 exactly. A trajectory without a reward (an infrastructure failure, never scored as 0) is left out of
mean and std and has A = 0.
"""

import math
from collections.abc import Sequence


def group_advantages(rewards_G: Sequence[float | None], eps: float, standardize: bool = True) -> list[float]:
    """Advantages of one question's group; None marks a trajectory that could not be scored.

    >>> group_advantages([1.0, 0.0, None, 1.0, 0.0], eps=0.0)
    [1.0, -1.0, 0.0, 1.0, -1.0]
    """
    scored = [reward for reward in rewards_G if reward is not None]
    if not scored or max(scored) == min(scored):
        return [0.0] * len(rewards_G)
    mean = math.fsum(scored) / len(scored)
    if not standardize:
        return [0.0 if reward is None else reward - mean for reward in rewards_G]
    std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in scored) / len(scored))
    return [0.0 if reward is None else (reward - mean) / (std + eps) for reward in rewards_G]
