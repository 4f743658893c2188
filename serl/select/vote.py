"""Execution vote: the result that most candidates agree on (self-consistency over results, not text).

Candidates vote with their result's key, so differently written queries with one result stand together.
Errors, time-outs and missing answers never vote: failing alike is no evidence of being right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from serl.select.candidate import Candidate


def pick(candidates: Sequence[Candidate]) -> int | None:
    """Index of the earliest candidate with the most frequent result; None when nobody may vote.

    A tie goes to the result whose first member came earliest, so the choice is a function of the list.
    """
    votes = Counter(candidate.result_key for candidate in candidates if candidate.answered)
    if not votes:
        return None
    most = max(votes.values())
    return next(index for index, candidate in enumerate(candidates)
                if candidate.answered and votes[candidate.result_key] == most)
