"""Credit sources: tokens → signed evidence Δ, in nats or in what is used like them.

    source(group, n) → Δ_T of trajectory n        NaN: no evidence, so the token's weight stays 1

Δ > 0 says that the token is better than the policy thought, Δ < 0 that it is worse, as the log-ratio of a teacher
does. `weights.token_weights` bounds sign(A)·Δ, masks and schedules it in the same way for every source:

    teacher_gap        logp_T − logp_S                                                      (the paper)
    oracle_diff        −1 where a failed SQL differs from gold, +1 elsewhere in it          (an upper bound)
    sibling_contrast   the same against the group's nearest successful SQL                  (no gold, no teacher)
    surprisal          logp_S − mean logp_S over the trajectory's action tokens
    entropy            mean H − H over the trajectory's action tokens
    none               nothing

The differences have no scale of their own: ±1 nat is beyond the default bounds (+0.18, −0.22), so that a marked
token gets all the weight that its bounds allow. Where something is missing, the token that stands in its place is
to blame; at the end of the SQL that is the closing tag. A trajectory whose result is right has nothing to explain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from serl.hindsight.credit.candidate import Candidate, marks
from serl.hindsight.credit.difference import Difference, Schema, Unparsed, compare

Source = Callable[[Sequence[Candidate], int], torch.Tensor]

STRENGTH = 1.0
"""|Δ| of tokens that a difference marks, nats."""


@dataclass(frozen=True)
class TrainingGold:
    """Gold SQL that a credit source may see. Making one is the opt-in: only training and analysis do."""

    sql: str


def teacher_gap(group: Sequence[Candidate], n: int) -> torch.Tensor:
    """logp_T − logp_S."""
    own = group[n]
    if own.teacher_T is None or own.student_T is None:
        return no_evidence(own)
    return own.teacher_T.float() - own.student_T.float()


def surprisal(group: Sequence[Candidate], n: int) -> torch.Tensor:
    """How much likelier than the trajectory's mean the student found each token."""
    own = group[n]
    return no_evidence(own) if own.student_T is None else _centred(own.student_T, own.mask_T)


def entropy(group: Sequence[Candidate], n: int) -> torch.Tensor:
    """How much surer than in the trajectory's mean the student was."""
    own = group[n]
    return no_evidence(own) if own.entropy_T is None else _centred(-own.entropy_T, own.mask_T)


def none(group: Sequence[Candidate], n: int) -> torch.Tensor:
    """No evidence at all: every weight is 1."""
    return no_evidence(group[n])


def oracle_diff(gold: TrainingGold, schema: Schema | None = None) -> Source:
    """The source that knows gold SQL, for one question's group."""
    compared = _Comparisons(schema)

    def source(group: Sequence[Candidate], n: int) -> torch.Tensor:
        own = group[n]
        return no_evidence(own) if own.correct else _against(own, compared(own.sql, gold.sql))

    return source


def sibling_contrast(schema: Schema | None = None, praise: bool = False) -> Source:
    """The source that holds a failed trajectory against the successful one that differs least from it.

    `praise`: a successful trajectory is held against the nearest failed one, and what makes the difference gets
    +1 where the rest gets nothing.
    """
    compared = _Comparisons(schema)

    def source(group: Sequence[Candidate], n: int) -> torch.Tensor:
        own = group[n]
        if own.correct and not praise:
            return no_evidence(own)
        siblings = dict.fromkeys(each.sql for each in group if each.correct != own.correct and each.sql is not None)
        found = [compared(own.sql, sql) for sql in siblings]
        found = [each for each in found if isinstance(each, Difference) and not each.equal]
        nearest = min(found, key=lambda each: each.cost, default=None)
        return _against(own, nearest, praise=own.correct)

    return source


def no_evidence(candidate: Candidate) -> torch.Tensor:
    return torch.full((candidate.size,), float("nan"))


class _Comparisons:
    """Compares a pair of texts once: samples of a group are often the same."""

    def __init__(self, schema: Schema | None) -> None:
        self._schema = schema
        self._done: dict[tuple[str, str], Difference | Unparsed] = {}

    def __call__(self, predicted: str | None, reference: str) -> Difference | Unparsed | None:
        if predicted is None:
            return None
        pair = predicted, reference
        if pair not in self._done:
            self._done[pair] = compare(predicted, reference, self._schema)
        return self._done[pair]


def _against(candidate: Candidate, difference: Difference | Unparsed | None, praise: bool = False) -> torch.Tensor:
    """Evidence from a difference; none if there is no difference to tell tokens apart by."""
    evidence_T = no_evidence(candidate)
    if not isinstance(difference, Difference) or difference.equal:
        return evidence_T
    marked = marks(candidate, difference)
    if praise:
        evidence_T[candidate.scope.start:candidate.scope.stop] = 0.0
        evidence_T[sorted(marked.wrong)] = STRENGTH
        return evidence_T
    evidence_T[candidate.scope.start:candidate.scope.stop] = STRENGTH
    evidence_T[sorted(marked.wrong | marked.missing)] = -STRENGTH
    return evidence_T


def _centred(values_T: torch.Tensor, mask_T: torch.Tensor) -> torch.Tensor:
    values_T = values_T.float()
    counted = values_T[mask_T & torch.isfinite(values_T)]
    return values_T - counted.mean() if len(counted) else torch.full_like(values_T, float("nan"))
