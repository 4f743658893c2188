"""Does the gap say more than its controls do? From log-probs of the same tokens under several contexts.

    noise/gap_mean, gap_abs_mean, gap_std     Δ of a synchronized teacher with empty hindsight, the noise floor:
                                              what the mere frame does to the student's own log-probs
    control/NAME_gap_mean, _gap_abs_mean, _gap_std      Δ of the run's teacher under the context NAME
    control/NAME_sign_auc                               P(Δ of a token with A > 0 > Δ of one with A < 0), ties half
    control/NAME_correlation                            Pearson's r of that Δ and the real one, token by token

NAME is `real` for the hindsight that the weights are made of, else a control's: `empty`, and whatever contexts the
caller has (another sample's hindsight, a flipped verdict). `surprisal` is no context but the student's own log-prob.

A gap that finds what was right and wrong has a sign AUC above ½ and above those of its controls; one whose real and
control Δ correlate near 1 comes from the frame or a stale teacher and not from what the database said. The sign of A
is that of the whole trajectory, right tokens of failed ones included, so an AUC far from ½ is not to be expected:
which token is wrong, only the comparison to gold tells (`serl.hindsight.credit.mistakes`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from serl.hindsight.credit.auc import auc

REAL, SURPRISAL = "real", "surprisal"


def noise_floor(gap_N: torch.Tensor) -> dict[str, float]:
    """The noise floor from its Δ; NaN: no value."""
    return _spread("noise/", gap_N[torch.isfinite(gap_N)])


def control_metrics(gaps: Mapping[str, torch.Tensor], student_N: torch.Tensor, positive_N: torch.Tensor
                    ) -> dict[str, float]:
    """The metrics `control/` of Δ under each context, [N] each, `real` among them; NaN: no value.

    `student_N` are the student's log-probs, `positive_N` says where A > 0. Only tokens with a real Δ are looked at.
    """
    real_N = gaps[REAL].double()
    metrics = {}
    for name, value_N in {**gaps, SURPRISAL: student_N}.items():
        value_N = value_N.double()
        known_N = torch.isfinite(value_N) & torch.isfinite(real_N)
        if name != SURPRISAL:
            metrics |= _spread(f"control/{name}_", value_N[known_N])
        found = auc(value_N[known_N].numpy(), positive_N[known_N].numpy()) if known_N.any() else None
        if found is not None:
            metrics[f"control/{name}_sign_auc"] = found
        if name != REAL and known_N.any():
            metrics |= _correlation(f"control/{name}_correlation", value_N[known_N], real_N[known_N])
    return metrics


def _spread(prefix: str, gap_N: torch.Tensor) -> dict[str, float]:
    if not len(gap_N):
        return {}
    gap_N = gap_N.double()
    return {f"{prefix}gap_mean": gap_N.mean().item(), f"{prefix}gap_abs_mean": gap_N.abs().mean().item(),
            f"{prefix}gap_std": gap_N.std(correction=0).item()}


def _correlation(name: str, one_N: torch.Tensor, other_N: torch.Tensor) -> dict[str, float]:
    """Nothing where either does not vary."""
    one_N, other_N = one_N - one_N.mean(), other_N - other_N.mean()
    scale = (one_N.norm() * other_N.norm()).item()
    return {name: (one_N @ other_N).item() / scale} if scale else {}
