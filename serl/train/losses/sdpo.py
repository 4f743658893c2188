"""SDPO (arXiv 2601.20802), self-distillation from one's own view after the feedback; a baseline for ablation.

    L = (1/Z) Σ mask · KL[ π_θ(· | x, y_<t) ‖ sg π_T(· | x, f, y_<t) ]                     T: the self-teacher

Its gradient is a policy gradient whose advantage, for every token v of the vocabulary, is how much likelier the
feedback makes it (the reward plays no part):

    ∇L = −(1/Z) Σ E_{v∼π_θ}[ A(v) ∇ ln π_θ(v) ],    A(v) = ln π_T(v) − ln π_θ(v)

Three forms, from exact to cheap: `sdpo_loss` over the vocabulary [N, V]; `topk_sdpo_loss` over the *student's* k
likeliest tokens and one bucket for the rest; `sdpo_advantage`, A of the sampled token alone, an unbiased estimate of
the same gradient when it goes into a policy loss at r = 1. `symmetric` takes the Jensen-Shannon divergence that the
paper's experiments prefer for stability; the paper's equation is the reverse KL, our default. Deviations: the teacher
is one of `serl.hindsight.teacher` (the paper's is an exponential moving average), the feedback is execution hindsight
a turn, and the released code's clipped off-policy ratio is left to `importance.py`.
"""

import torch

from serl.train.losses.divergence import clean, jensen_shannon, masked_total, reverse_kl, with_tail


def sdpo_loss(student_logits: torch.Tensor, teacher_logits: torch.Tensor, mask: torch.Tensor, denominator: float,
              symmetric: bool = False) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """From logits [N, V], divided by the sampling temperature; the divergence's sum over the mask as `sdpo_kl`."""
    student, teacher = (clean(values, mask).log_softmax(-1) for values in (student_logits, teacher_logits.detach()))
    divergence = jensen_shannon if symmetric else reverse_kl
    return masked_total(divergence(student, teacher), mask, denominator, "sdpo_kl")


def topk_sdpo_loss(student_logp: torch.Tensor, teacher_logp: torch.Tensor, mask: torch.Tensor, denominator: float,
                   symmetric: bool = False) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """From both models' log-probs [N, k], under the full softmax, of the student's k likeliest tokens."""
    student, teacher = (with_tail(clean(values, mask)) for values in (student_logp, teacher_logp.detach()))
    divergence = jensen_shannon if symmetric else reverse_kl
    return masked_total(divergence(student, teacher), mask, denominator, "sdpo_kl")


def sdpo_advantage(student_logp: torch.Tensor, teacher_logp: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """A [N] of the sampled tokens, without gradient, from their log-probs [N]; 0 outside the mask."""
    return torch.where(mask, teacher_logp.detach() - student_logp.detach(), 0.0)
