"""From the teacher's gap to bounded, masked token weights (DESIGN section 4; arXiv 2605.19447, 2604.03128).

    Δ  = logp_T − logp_S                                             float32, no gradient
    w  = exp( clamp( sign(A)·Δ, ln(1−ε_lo), ln(1+ε_hi) ) )
    ω  = where(m, 1 + λ (w − 1), 1)                                  always > 0
    Â  = A · ω                                                       sign(Â) = sign(A)

`m` = loss mask ∧ action mask ∧ has hindsight ∧ both log-probs finite.
"""

import math

import torch


def token_weights(advantage: torch.Tensor, student: torch.Tensor, teacher: torch.Tensor, mask: torch.Tensor,
                  lam: float, eps_low: float, eps_high: float) -> torch.Tensor:
    """ω, shaped like its inputs, float32, without gradient.

    All tensors have one shape, [T] or [B, T]: `advantage` A at each token, `student` and `teacher` log-probs,
    `mask` bool (m before the test for finite values). ω is exactly 1 outside m, at λ = 0 and at A = 0.
    Raises ValueError unless 0 <= λ <= 1, 0 <= ε_lo < 1 and ε_hi >= 0.
    """
    if not 0.0 <= lam <= 1.0:
        raise ValueError(f"lambda must be in [0, 1], not {lam}")
    if not 0.0 <= eps_low < 1.0 or eps_high < 0.0:
        raise ValueError(f"need 0 <= eps_low < 1 and eps_high >= 0, not {eps_low} and {eps_high}")
    student, teacher = student.detach().float(), teacher.detach().float()
    active = mask & torch.isfinite(student) & torch.isfinite(teacher)
    gap = torch.where(active, teacher - student, 0.0)
    bounded = (advantage.sign() * gap).clamp(math.log1p(-eps_low), math.log1p(eps_high))
    return torch.where(active, 1.0 + lam * torch.expm1(bounded), 1.0)


def lambda_at(update: int, lambda0: float, schedule: str, decay_updates: int) -> float:
    """λ_k after `update` optimizer steps: constant, or linear from λ_0 to 0 at `decay_updates`."""
    if schedule == "constant":
        return lambda0
    return lambda0 * max(0.0, 1.0 - update / decay_updates)
