"""Credit sources (`hindsight.source`): tokens → signed evidence Δ_T in nats, NaN where a source says nothing.

Δ > 0 says that a token is better than the policy thought, Δ < 0 that it is worse, as the log-ratio of a teacher does.
`weights.token_weights` maps sign(A)·Δ into the same bounds, under the same mask and schedule, for every source:

    teacher_gap        logp_T − logp_S  (`serl.hindsight.gaps`)                                  the paper's
    oracle_diff        −1 on what makes a failed SQL differ from gold, +1 on the rest of it      an upper bound
    sibling_contrast   the same against the group's nearest successful SQL                       no gold, no teacher
    surprisal          s·(r − mean r),  r = −logp_S                                              no gold, no teacher
    entropy            s·(r − mean r),  r = H(π_S(· | y_<i))                                     no gold, no teacher
    parts              −1 on the parts of a failed SQL that fail, keep nothing or name a text that is not there,
                       +1 on the rest of it (`serl.hindsight.parts.signs`)                       no gold, no teacher
    parts_surprisal    s·(r − mean r),  r = −logp_S + 1 on those parts of a failed SQL           no gold, no teacher
    none               nothing: every weight is 1

`s` is +1 where the trajectory's result is right and −1 where it is wrong; means run over the mask's tokens of the
trajectory. So, with A > 0 for right and A < 0 for wrong results, the tokens that the policy was least sure of get
most of either credit: they are where it could have gone another way (arXiv 2506.01939 keeps only those of high
entropy). A wrong result with A > 0, as it has beside worse ones, has its suspects praised less.

Scale. Log-ratios, −logp and H are nats already. A difference, or a sign of a part, has no size: `STRENGTH` = 1 nat
lies beyond the default bounds (+0.18 and −0.22 under `clip`), so that each token gets all that the bounds allow, up or
down. Most tokens of a failed SQL are right, so its |Â| shrinks on the whole; `normalize: mean1` keeps it.

What is missing is blamed on the token sampled in its place, at the end of the SQL on the closing tag: the decision to
stop. That tag is no part of the action mask, so `action_and_closer` adds this one token for the two differences.
A trajectory whose result is right, or whose difference is empty, has no difference to learn from.

Signs of parts come from the database alone. They tell nothing of a part that fits the data and not the question, so a
failed SQL without any sign gets no evidence by `parts`, and that of `surprisal` by `parts_surprisal`; so does a right
result, whatever its parts do. Only the solution is looked at: a query that the policy asked on its way and that
found nothing may have been worth asking.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from serl.hindsight.credit.candidate import Candidate, marks, tokens_in
from serl.hindsight.credit.difference import Difference, Schema, Unparsed, compare
from serl.hindsight.parts.part import Finding
from serl.hindsight.parts.signs import telling_spans

STRENGTH = 1.0
"""|Δ| of tokens that a difference or a sign tells apart, nats."""


@dataclass(frozen=True)
class TrainingGold:
    """Gold SQL that a credit source may see. Making one is the opt-in: only training and analysis do."""

    sql: str


class Comparer:
    """Compares a pair of texts over one database, each pair once: samples of a group are often the same."""

    def __init__(self, schema: Schema | None) -> None:
        self._schema = schema
        self._done: dict[tuple[str, str], Difference | Unparsed] = {}

    def __call__(self, predicted: str | None, reference: str) -> Difference | Unparsed | None:
        """None: there is no predicted SQL."""
        if predicted is None:
            return None
        pair = predicted, reference
        if pair not in self._done:
            self._done[pair] = compare(predicted, reference, self._schema)
        return self._done[pair]


def surprisal(student_T: torch.Tensor, mask_T: torch.Tensor, correct: bool) -> torch.Tensor:
    """Evidence from the student's own log-probs."""
    return _responsible(-student_T, mask_T, correct)


def entropy(entropy_T: torch.Tensor, mask_T: torch.Tensor, correct: bool) -> torch.Tensor:
    """Evidence from the entropy of the distribution that each token was drawn from."""
    return _responsible(entropy_T, mask_T, correct)


def oracle_diff(own: Candidate, gold: TrainingGold, compared: Comparer) -> torch.Tensor:
    """Evidence against a failed SQL, by gold."""
    return no_evidence(own) if own.correct else _against(own, compared(own.sql, gold.sql))


def sibling_contrast(own: Candidate, group: Sequence[Candidate], compared: Comparer) -> torch.Tensor:
    """Evidence against a failed SQL, by the successful one of its group that differs least from it."""
    if own.correct:
        return no_evidence(own)
    siblings = dict.fromkeys(each.sql for each in group if each.correct and each.sql is not None)
    found = [compared(own.sql, sql) for sql in siblings]
    found = [each for each in found if isinstance(each, Difference) and not each.equal]
    return _against(own, min(found, key=lambda each: each.cost, default=None))


def parts(own: Candidate, findings: Iterable[Finding]) -> torch.Tensor:
    """Evidence against a failed SQL, by what executing its parts found. None if no part has a telling sign."""
    evidence_T = no_evidence(own)
    signed = frozenset() if own.correct else tokens_in(own, telling_spans(findings))
    if signed:
        evidence_T[slice(*own.tokens)] = STRENGTH
        evidence_T[sorted(signed)] = -STRENGTH
    return evidence_T


def parts_surprisal(student_T: torch.Tensor, parts_T: torch.Tensor, mask_T: torch.Tensor, correct: bool
                    ) -> torch.Tensor:
    """Evidence from the student's own log-probs and that of `parts`, whose blame counts like `STRENGTH` nats more."""
    return _responsible(-student_T + STRENGTH * (parts_T < 0), mask_T, correct)


def no_evidence(candidate: Candidate) -> torch.Tensor:
    return torch.full((candidate.size,), float("nan"))


def action_and_closer(mask_T: torch.Tensor, candidate: Candidate) -> torch.Tensor:
    """The mask with the token that ends the final SQL, if the mask holds any of that SQL."""
    extended_T = mask_T.clone()
    if candidate.closer is not None and bool(mask_T[slice(*candidate.tokens)].any()):
        extended_T[candidate.closer] = True
    return extended_T


def _against(candidate: Candidate, difference: Difference | Unparsed | None) -> torch.Tensor:
    """Evidence from a difference; none if there is no difference to tell tokens apart by."""
    evidence_T = no_evidence(candidate)
    if isinstance(difference, Difference) and not difference.equal:
        evidence_T[candidate.scope.start:candidate.scope.stop] = STRENGTH
        evidence_T[sorted(marks(candidate, difference).blamed)] = -STRENGTH
    return evidence_T


def _responsible(share_T: torch.Tensor, mask_T: torch.Tensor, correct: bool) -> torch.Tensor:
    """s·(r − mean r): how much more than others a token answers for the outcome, with the outcome's sign."""
    share_T = share_T.detach().float()
    counted = share_T[mask_T & torch.isfinite(share_T)]
    if not len(counted):
        return torch.full_like(share_T, float("nan"))
    return (share_T - counted.mean()) * (1.0 if correct else -1.0)
