"""On-policy distillation (SERL-SQL's Eq. 6; GKD, arXiv 2306.13649): imitate the teacher who has seen the hindsight.

    L = (1/Z) Σ mask · KL[ π_T(· | h, y_<i, c) ‖ π_θ(· | h, y_<i) ]

A baseline for ablation: the same teacher and the same tokens as SERL, but its distribution is the target instead of a
weight, and no reward decides the direction. The states come from the student's own rollouts, and no gradient goes
through their sampling (as in GKD). `full` sums over the vocabulary; `topk` over the teacher's k likeliest tokens and
the rest as one bucket, which bounds the full KL from below (see `divergence.py`). Logits come divided by the sampling
temperature. Rows without a teacher are left out by the mask. Eq. 6 is a plain sum; Z and the mask are the caller's (see
`serl.train.distill`).
"""

import torch

from serl.train.losses.divergence import clean, forward_kl, masked_total, with_tail


def distillation_loss(student_logits: torch.Tensor, teacher_logits: torch.Tensor, mask: torch.Tensor,
                      denominator: float) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Full KL from logits [N, V]; Σ KL over the mask [N] as `distill_kl`."""
    student, teacher = (clean(values, mask).log_softmax(-1) for values in (student_logits, teacher_logits.detach()))
    return masked_total(forward_kl(student, teacher), mask, denominator, "distill_kl")


def topk_distillation_loss(student_logp: torch.Tensor, teacher_logp: torch.Tensor, mask: torch.Tensor,
                           denominator: float) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """KL over k tokens and the tail, from both models' log-probs [N, k] of the teacher's k likeliest tokens.

    They are log-probs of the full softmax, not renormalised: what they lack to 1 is the tail.
    """
    student, teacher = (with_tail(clean(values, mask)) for values in (student_logp, teacher_logp.detach()))
    return masked_total(forward_kl(student, teacher), mask, denominator, "distill_kl")
