"""From evidence to bounded, masked token weights (DESIGN section 4; arXiv 2605.19447, 2604.03128).

    x = sign(A) · Δ                                                  Δ: evidence, e.g. the teacher's gap (`gaps.py`)
    w = map(x) in [1−ε_lo, 1+ε_hi]                                   `maps.py`; clip is the published one
    ω = where(m, 1 + λ (w − 1), 1)                                   in [1−λε_lo, 1+λε_hi], always > 0
    Â = A · ω                                                        sign(Â) = sign(A)

`m` = mask ∧ Δ finite ∧ A in the sign scope. What the options keep of DESIGN's invariants:

    1, 2, 3   λ = 0, ε = 0, an empty m: ω = 1 bit for bit; the bounds; nothing outside m     every option
    4         the four quadrants, by the sign of Δ                  `none`, any map
                                                                    `mean1`: or ω = 1, if all evidence points one way
                                                                    `center`: of Δ − mean Δ, so not of Δ itself

`sign_scope` goes by the sign of A: `negative` re-weights failed trajectories only, `positive` successful ones only.
"""

import torch

from serl.config import HindsightConfig
from serl.hindsight.maps import deviation
from serl.hindsight.normalize import balance, center


def token_weights(advantage: torch.Tensor, evidence: torch.Tensor, mask: torch.Tensor, lam: float,
                  options: HindsightConfig) -> torch.Tensor:
    """ω, shaped like its inputs, float32, without gradient.

    All tensors have one shape, [T] or [B, T], a trajectory a row: `advantage` A at each token, `evidence` Δ in nats
    (NaN or inf: none), `mask` bool. ω is exactly 1 outside m, at λ = 0 and at A = 0.
    Raises ValueError unless 0 <= λ <= 1, 0 <= ε_lo < 1 and ε_hi >= 0.
    """
    eps_low, eps_high = options.eps_low, options.eps_high
    if not 0.0 <= lam <= 1.0:
        raise ValueError(f"lambda must be in [0, 1], not {lam}")
    if not 0.0 <= eps_low < 1.0 or eps_high < 0.0:
        raise ValueError(f"need 0 <= eps_low < 1 and eps_high >= 0, not {eps_low} and {eps_high}")
    signed, active = signed_evidence(advantage, evidence, mask, options)
    change = deviation(signed, eps_low, eps_high, options.map)
    if options.normalize == "mean1":
        change = balance(change, active)
    return torch.where(active, 1.0 + lam * change, 1.0)


def signed_evidence(advantage: torch.Tensor, evidence: torch.Tensor, mask: torch.Tensor, options: HindsightConfig
                    ) -> tuple[torch.Tensor, torch.Tensor]:
    """x, what the map sees (0 outside m), and m; inputs as in `token_weights`."""
    evidence = evidence.detach().float()
    active = mask & torch.isfinite(evidence) & in_scope(advantage, options.sign_scope)
    gap = torch.where(active, evidence, 0.0)
    if options.normalize == "center":
        gap = center(gap, active)
    return advantage.sign() * gap, active


def in_scope(advantage: torch.Tensor, sign_scope: str) -> torch.Tensor:
    """Where A's sign is one that is re-weighted: both | negative | positive."""
    match sign_scope:
        case "both":
            return torch.ones_like(advantage, dtype=torch.bool)
        case "negative":
            return advantage < 0
        case "positive":
            return advantage > 0
        case other:
            raise ValueError(f"no such sign scope: {other!r}")
