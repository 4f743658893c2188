"""Group-relative advantages (GRPO, arXiv 2402.03300; DESIGN section 4).

    A^n = (R^n − mean R) / (std R + ε_A)          population std over the group's scored trajectories

Dr. GRPO (arXiv 2503.20783) leaves out the division: A^n = R^n − mean R (`standardize=False`). A group whose rewards are
all equal has A = 0 exactly. A trajectory without a reward (an infrastructure failure, never scored as 0) is left out of
mean and std and has A = 0.

Credit by trajectory (`train.credit trajectory`, the published one) gives A^n to every token. Credit by step gives the
tokens of action t an advantage of their own. Let R^n = Σ_k w_k v_k^n, where some terms are means of values that belong
to single actions (`serl.reward.process`), and v_k^{n,t} the mean of the values of term k that belong to action t:

    R^{n,t} = Σ_k w_k · (v_k^{n,t} where term k has values of action t, else v_k^n)
    A^{n,t} = (R^{n,t} − mean R) / (std R + ε_A)                                      mean and std as above

So an action is judged by what it earned itself where a term is about it, and by its trajectory in everything else: the
outcome is everybody's. Credit moves between actions and does not grow: the mean of A^{n,t} over the values of a term is
A^n, if no other term has values of these actions; without such terms A^{n,t} is A^n bit for bit. This is not the
process supervision of arXiv 2402.03300, whose sums of later rewards pay for more actions. Token weights ω (DESIGN
section 4) multiply A^{n,t} as they do A^n, by its own sign.
"""

import math
from collections.abc import Sequence


def group_advantages(rewards_G: Sequence[float | None], eps: float, standardize: bool = True) -> list[float]:
    """Advantages of one question's group; None marks a trajectory that could not be scored.

    >>> group_advantages([1.0, 0.0, None, 1.0, 0.0], eps=0.0)
    [1.0, -1.0, 0.0, 1.0, -1.0]
    """
    return [own[0] for own in step_advantages(rewards_G, [(reward,) for reward in rewards_G], eps, standardize)]


def step_advantages(rewards_G: Sequence[float | None], actions_G: Sequence[Sequence[float | None]], eps: float,
                    standardize: bool = True) -> list[tuple[float, ...]]:
    """A^{n,t} of the actions of one question's group. `actions_G` are the R^{n,t}, not looked at where R^n is None.

    >>> step_advantages([2.0, 0.0], [(3.0, 1.0), (0.0,)], eps=0.0)
    [(2.0, 0.0), (-1.0,)]
    """
    scored = [reward for reward in rewards_G if reward is not None]
    if not scored or max(scored) == min(scored):
        return [(0.0,) * len(actions) for actions in actions_G]
    mean, scale = math.fsum(scored) / len(scored), 1.0
    if standardize:
        scale = math.sqrt(math.fsum((reward - mean) ** 2 for reward in scored) / len(scored)) + eps
    return [tuple(0.0 if reward is None else (value - mean) / scale for value in actions)
            for reward, actions in zip(rewards_G, actions_G, strict=True)]
