"""Losses as pure functions of tensors, one a file: inputs → (loss, sums of diagnostics).

What they share. Tokens lie flat, [N]: the tokens of all rows (trajectories) behind one another, with `row` [N],
numbered from 0 without gaps, where a quantity of the whole row is needed. `mask` (bool) says which tokens were sampled;
what is outside of it may hold anything, NaN included, and gets zero gradient. Â comes a token, since it holds the token
weight ω. `denominator` is Z of the whole optimizer batch, not of the call, so that micro-batches simply add up, as long
as a row is not split. `coefficient` [N] is a constant factor of a token's term (see `importance` and `rows`). Metrics
are sums over the mask, for the caller to divide. Only the policy's own log-probs take a gradient.
"""

from serl.train.losses.cispo import cispo_loss
from serl.train.losses.dapo import dapo_loss
from serl.train.losses.distillation import distillation_loss, topk_distillation_loss
from serl.train.losses.dr_grpo import dr_grpo_loss
from serl.train.losses.grpo import grpo_loss
from serl.train.losses.gspo import gspo_loss
from serl.train.losses.imitation import imitation_loss
from serl.train.losses.importance import sampler_correction
from serl.train.losses.kl import k3_loss
from serl.train.losses.policy import policy_loss
from serl.train.losses.rows import row_share, row_sum
from serl.train.losses.sdpo import sdpo_advantage, sdpo_loss, topk_sdpo_loss

__all__ = ["cispo_loss", "dapo_loss", "distillation_loss", "dr_grpo_loss", "grpo_loss", "gspo_loss", "imitation_loss",
           "k3_loss", "policy_loss", "row_share", "row_sum", "sampler_correction", "sdpo_advantage", "sdpo_loss",
           "topk_distillation_loss", "topk_sdpo_loss"]
