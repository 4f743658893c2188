"""Features of candidates for the light execution-grounded reward: what execution, grounding and the policy say of each.

They are of a candidate among the n that were sampled with it, so they are computed anew for every N. `n_k` is the
number of candidates with its result, voters are those that have one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from serl.select.candidate import Candidate, Use
from serl.select.soft import likenesses
from serl.sql.outcome import Outcome

FEATURES = {
    # agreement among candidates' results
    "share": "n_k / n",
    "leads": "1 where no result has more candidates",
    "rival": "share of the largest other result",
    "likeness": "mean similarity to the other voters",
    "same_columns": "share of the voters with as many columns",
    "same_rows": "share of the voters with as many rows",
    "voters": "voters / n: how many of the candidates have a result at all",
    # outcome, shape and emptiness
    "empty": "1 where it has no row",
    "blank": "1 where it has rows and nothing in them but NULL and 0",
    "single": "1 where it is one row of one column",
    "rows": "ln(1 + rows)",
    "columns": "ln(1 + columns)",
    # the value index and the linked schema
    "unread": "1 where its SQL could not be resolved: then the seven below are 0",
    "linked": "share of the columns it reads that the question gives evidence for",
    "missed": "share of the columns with evidence that it does not read",
    "literals": "ln(1 + texts that it compares columns with)",
    "unstored": "share of these texts that the value index does not have in their column",
    "unsaid": "share of the values of V_q that it does not compare their column with",
    "new_numbers": "numbers that it writes and the question does not say, at most 3",
    "lost_numbers": "numbers that the question says and it does not write, at most 3",
    # the way there
    "turns": "turns",
    "revisions": "how often an SQL was followed by another one",
    "failures": "actions before the solution that were malformed or whose SQL failed",
    # the policy
    "logprob": "mean log-prob of the tokens of the final SQL",
    "behind": "how far that is below the best voter's",
}


def describe(candidates: Sequence[Candidate]) -> list[tuple[float, ...] | None]:
    """Features of each candidate, in the order of FEATURES; None for those without a result, which cannot be right."""
    voters = [candidate for candidate in candidates if candidate.answered]
    likeness = likenesses(voters)
    votes = Counter(voter.result_key for voter in voters)
    best = max((voter.sql_logprob for voter in voters if voter.sql_logprob is not None), default=0.0)
    rows = iter([(*_agreement(voters, number, likeness[number], votes, len(candidates)), *_shape(voter.result),
                  *_use(voter.use), float(voter.turns), float(voter.revisions or 0), float(voter.failures or 0),
                  voter.sql_logprob or 0.0, best - (voter.sql_logprob or 0.0))
                 for number, voter in enumerate(voters)])
    return [next(rows) if candidate.answered else None for candidate in candidates]


def _agreement(voters: Sequence[Candidate], number: int, likeness: Sequence[float], votes: Counter[str], n: int
               ) -> tuple[float, ...]:
    own = voters[number]
    others = len(voters) - 1
    rival = max((count for key, count in votes.items() if key != own.result_key), default=0)
    return (
        votes[own.result_key] / n,
        float(votes[own.result_key] >= rival),
        rival / n,
        (math.fsum(likeness) - 1.0) / others if others else 0.0,
        sum(len(voter.result.columns) == len(own.result.columns) for voter in voters) / len(voters),
        sum(voter.result.row_count == own.result.row_count for voter in voters) / len(voters),
        len(voters) / n,
    )


def _shape(result: Outcome) -> tuple[float, ...]:
    return (
        float(result.row_count == 0),
        float(result.row_count > 0 and not any(cell for row in result.rows for cell in row)),
        float(result.row_count == 1 and len(result.columns) == 1),
        math.log1p(result.row_count),
        math.log1p(len(result.columns)),
    )


def _use(use: Use | None) -> tuple[float, ...]:
    if use is None:
        return (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    evident = use.linked + use.missed
    return (
        0.0,
        use.linked / use.columns if use.columns else 0.0,
        use.missed / evident if evident else 0.0,
        math.log1p(use.literals),
        1 - use.stored / use.literals if use.literals else 0.0,
        1 - use.said / use.values if use.values else 0.0,
        float(min(use.unsaid_numbers, 3)),
        float(min(use.missed_numbers, 3)),
    )
