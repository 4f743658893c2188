"""Selectors side by side, at N = 1, 2, 4, ... of the same samples, with what they leave between greedy and oracle.

With r_s(q) ∈ {0, 1} whether selector s is right on question q, and means over questions:

    value      r̄_s
    regret     r̄_oracle − r̄_s                                  what a perfect selector would gain
    closed     (r̄_s − r̄_greedy) / (r̄_oracle − r̄_greedy)         the share of the gap that selection closes
    over_vote  r̄_s − r̄_vote                                     with McNemar's exact p-value

all at the same N, on the questions whose greedy answer and at least one sample were not lost to a failure of ours.
Intervals are percentiles of the bootstrap over questions; all columns share its samples, so differences are paired.
`closed` is null where there is no gap to close, and has no interval where more than 2.5% of the samples have none.

Tokens are sampled ones a question. The oracle needs gold: oracle@N is a bound, no accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from serl.evaluate.candidates import MarkedPool
from serl.evaluate.paired import sign_flip_p
from serl.evaluate.stats import interval, resampled_means
from serl.select import ORACLE, Pick
from serl.select.adaptive import CONFIDENCE, needed

Outcomes = dict[tuple[str, int], list[bool]]
"""By selector and N: whether what it takes is right, a question."""


def sizes(n: int) -> list[int]:
    """The N that are reported: powers of two below n, and n.

    >>> sizes(16), sizes(6), sizes(1)
    ([1, 2, 4, 8, 16], [1, 2, 4, 6], [1])
    """
    return [size for size in (2**power for power in range(n.bit_length())) if size < n] + [n]


def outcomes(pools: Sequence[MarkedPool], picks: Mapping[str, Pick], n: int) -> Outcomes:
    """Whether what each selector, and the oracle, takes of the first N samples of each question is right."""
    right: Outcomes = {}
    for size in reversed(sizes(n)):  # the largest first: what a pick costs, before a smaller one did a part of it
        for name, pick in picks.items():
            right[name, size] = [pool.right(name, pick, size) for pool in pools]
        right[ORACLE, size] = [pool.oracle(size) for pool in pools]
    return right


def selection(pools: Sequence[MarkedPool], right: Outcomes, n: int, confidence: float = CONFIDENCE, seed: int = 0
              ) -> dict[str, Any]:
    """The block `selection` of a summary: by split, by N, by selector."""
    usable = [place for place, pool in enumerate(pools) if not pool.pool.greedy.lost and pool.usable_correct(n)]
    groups = {"seen": [place for place in usable if pools[place].seen],
              "unseen": [place for place in usable if not pools[place].seen], "all": usable}
    return {"ns": sizes(n), "splits": {split: _block(pools, places, right, n, confidence, seed)
                                       for split, places in groups.items()}}


def _block(pools: Sequence[MarkedPool], places: Sequence[int], right: Outcomes, n: int, confidence: float, seed: int
           ) -> dict[str, Any]:
    """One split; {} where no question falls in it."""
    if not places:
        return {}
    chosen = [pools[place] for place in places]
    columns = {("greedy", 0): [pool.greedy_correct for pool in chosen],
               **{key: [values[place] for place in places] for key, values in right.items() if key[0] != "greedy"}}
    values_QM = np.array(list(columns.values()), dtype=float).T
    means_RM = resampled_means(values_QM, seed)
    frame = {key: (values_QM[:, place], means_RM[:, place]) for place, key in enumerate(columns)}
    names = list(dict.fromkeys(name for name, _ in right if name != "greedy"))
    block: dict[str, Any] = {
        "questions": len(chosen),
        "greedy": {"value": _mean(*frame["greedy", 0]), "tokens": _average(pool.pool.greedy.tokens for pool in chosen)},
        "at": {str(size): {name: _row(frame, name, size) for name in names} for size in sizes(n)},
        "tokens": {str(size): _average(sum(each.tokens for each in pool.pool.offered("first", size))
                                       for pool in chosen) for size in sizes(n)},
    }
    if "adaptive" in names:
        block["adaptive"] = {str(size): _saved(chosen, size, confidence) for size in sizes(n)}
    return block


def _row(frame: Mapping[tuple[str, int], tuple[np.ndarray, np.ndarray]], name: str, size: int) -> dict[str, Any]:
    own_Q, own_R = frame[name, size]
    row: dict[str, Any] = {"value": _mean(own_Q, own_R)}
    if name == ORACLE:
        return row
    (best_Q, best_R), (greedy_Q, greedy_R) = frame[ORACLE, size], frame["greedy", 0]
    row["regret"] = _mean(best_Q - own_Q, best_R - own_R)
    row["closed"] = _closed(own_Q - greedy_Q, best_Q - greedy_Q, own_R - greedy_R, best_R - greedy_R)
    if name != "vote" and ("vote", size) in frame:
        vote_Q, vote_R = frame["vote", size]
        row["over_vote"] = _mean(own_Q - vote_Q, own_R - vote_R) | {"p_value": sign_flip_p(list(own_Q - vote_Q))}
    return row


def _closed(gain_Q: np.ndarray, gap_Q: np.ndarray, gain_R: np.ndarray, gap_R: np.ndarray) -> dict[str, Any] | None:
    """The share of the gap that is closed."""
    if gap_Q.sum() <= 0:
        return None
    share = float(gain_Q.sum() / gap_Q.sum())
    has_gap_R = gap_R > 1e-12
    if not has_gap_R.mean() >= 0.975:
        return {"value": share, "low": None, "high": None, "n": len(gap_Q)}
    return interval(share, gain_R[has_gap_R] / gap_R[has_gap_R], len(gap_Q)).to_json()


def _saved(pools: Sequence[MarkedPool], size: int, confidence: float) -> dict[str, float]:
    """What adaptive N takes of the samples and tokens that N = size would take, a question."""
    all_tokens, used_tokens, samples = 0, 0, 0
    for pool in pools:
        offered = pool.pool.offered("adaptive", size)
        taken = needed(offered, confidence)
        samples += taken
        all_tokens += sum(each.tokens for each in offered)
        used_tokens += sum(each.tokens for each in offered[:taken])
    return {"confidence": confidence, "samples": samples / len(pools), "tokens": used_tokens / len(pools),
            "saved": 1 - used_tokens / all_tokens if all_tokens else 0.0}


def _mean(values_Q: np.ndarray, means_R: np.ndarray) -> dict[str, float | int]:
    return interval(values_Q.mean(), means_R, len(values_Q)).to_json()


def _average(values: Any) -> float:
    return float(np.mean(list(values)))
