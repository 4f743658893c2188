"""The imitation loss that a config asks for, on the next-token distributions of some tokens.

    train.loss     train.distill_over = vocabulary    topk                                  sampled
    distillation   KL(T‖S), Eq. 6                     the teacher's k likeliest and a tail   -
    sdpo           KL(S‖T), or Jensen-Shannon         the student's k likeliest and a tail   A = ln T(y) − ln S(y), once
"""

import torch

from serl.config import TrainConfig
from serl.train.losses.distillation import distillation_loss, topk_distillation_loss
from serl.train.losses.grpo import grpo_loss
from serl.train.losses.sdpo import sdpo_advantage, sdpo_loss, topk_sdpo_loss


def imitation_loss(options: TrainConfig, student_NV: torch.Tensor, teacher_NV: torch.Tensor, target_N: torch.Tensor,
                   mask_N: torch.Tensor, denominator: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss from logits [N, V], and the sum over the mask of the divergence that it minimises (an estimate: `sampled`).

    `target_N` are the sampled tokens. Only `student_NV` takes a gradient.
    """
    symmetric = {"symmetric": options.sdpo_symmetric} if options.loss == "sdpo" else {}
    if options.distill_over == "vocabulary":
        loss_of = {"distillation": distillation_loss, "sdpo": sdpo_loss}[options.loss]
        loss, sums = loss_of(student_NV, teacher_NV, mask_N, denominator, **symmetric)
    elif options.distill_over == "topk":
        loss_of, leader_NV = {"distillation": (topk_distillation_loss, teacher_NV),
                              "sdpo": (topk_sdpo_loss, student_NV)}[options.loss]
        # All but one token, with that one as the tail, are the whole vocabulary.
        place_NK = leader_NV.detach().topk(min(options.distill_k, leader_NV.shape[-1] - 1)).indices
        loss, sums = loss_of(at(student_NV, place_NK), at(teacher_NV, place_NK), mask_N, denominator, **symmetric)
    else:
        logp_N, teacher_N = (at(logits_NV, target_N[:, None])[:, 0] for logits_NV in (student_NV, teacher_NV))
        advantage_N = sdpo_advantage(logp_N, teacher_N, mask_N)
        loss, _ = grpo_loss(logp_N, logp_N.detach(), advantage_N, mask_N, denominator)
        return loss, -advantage_N.sum()
    (divergence,) = sums.values()
    return loss, divergence


def at(logits_NV: torch.Tensor, place_NK: torch.Tensor) -> torch.Tensor:
    """Log-probs [N, K] of the tokens at `place_NK`, under the full softmax."""
    return logits_NV.gather(-1, place_NK) - logits_NV.logsumexp(-1, keepdim=True)
