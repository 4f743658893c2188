"""Best-of-N selection: one selector a file, each a pure function `pick(candidates) -> index | None`.

`first` and `vote` see only what an agent has at inference. `oracle` reads gold correctness and is an
upper bound for analysis, never a selector that a user could run.
"""

from collections.abc import Callable, Mapping, Sequence

from serl.select import first, oracle, vote
from serl.select.candidate import Candidate

SELECTORS: Mapping[str, Callable[[Sequence[Candidate]], int | None]] = {
    "first": first.pick,
    "vote": vote.pick,
    "oracle": oracle.pick,
}
