"""Best-of-N selection: one selector a file, each a pure function `pick(candidates) -> index | None`.

    first, greedy           no selection
    vote, soft, adaptive    agreement among results
    logprob, verifier       what the policy says of its own answers
    reward                  learnt from execution, grounding and the policy (`serl select fit`)

All see only what an agent has at inference: `Candidate` has no place for gold. `oracle` takes another type, which
only evaluation makes; it is an upper bound for analysis, never a selector that a user could run.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from serl.select import adaptive, first, greedy, logprob, soft, verifier, vote
from serl.select.candidate import Candidate
from serl.select.reward import LearntReward

Pick = Callable[[Sequence[Candidate]], int | None]
SELECTORS: Mapping[str, Pick] = {"first": first.pick, "greedy": greedy.pick, "vote": vote.pick, "soft": soft.pick,
                                 "logprob": logprob.pick, "verifier": verifier.pick, "adaptive": adaptive.pick}
REWARD, ORACLE = "reward", "oracle"
NAMES = (*SELECTORS, REWARD)
# What each looks at that not every candidate has.
NEEDS = {"soft": "result", "logprob": "sql_logprob", "verifier": "verified", REWARD: "use"}


def selectors(names: Sequence[str], reward: LearntReward | None = None, confidence: float = adaptive.CONFIDENCE
              ) -> dict[str, Pick]:
    """The selectors of these names, the oracle left out; the learnt one needs `reward`."""
    known = {**SELECTORS, "adaptive": partial(adaptive.pick, confidence=confidence)}
    if reward is not None:
        known[REWARD] = reward.pick
    return {name: known[name] for name in names if name != ORACLE}
