"""The policy loss that a config asks for, with its own bounds where the config names none."""

import torch

from serl.config import TrainConfig
from serl.train.losses import cispo, dapo, gspo
from serl.train.losses.dr_grpo import dr_grpo_loss
from serl.train.losses.grpo import grpo_loss


def policy_loss(options: TrainConfig, logp: torch.Tensor, old_logp: torch.Tensor, advantage: torch.Tensor,
                mask: torch.Tensor, row: torch.Tensor, denominator: float, coefficient: torch.Tensor | None = None
                ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """`options.loss` of a (micro-)batch of whole rows, tokens [N]; see `serl.train.losses` for the arguments."""
    tokens = (logp, old_logp, advantage, mask)
    low, high = clip_bounds(options)
    match options.loss:
        case "grpo":
            return grpo_loss(*tokens, denominator, low, high, options.dual_clip, coefficient)
        case "dapo":
            return dapo.dapo_loss(*tokens, denominator, low, high, options.dual_clip, coefficient)
        case "dr_grpo":
            return dr_grpo_loss(*tokens, denominator, low, high, options.dual_clip, coefficient)
        case "gspo":
            return gspo.gspo_loss(*tokens, row, denominator, low, high, options.dual_clip, coefficient)
        case "cispo":
            return cispo.cispo_loss(*tokens, denominator, low, high, coefficient)
        case other:
            raise ValueError(f"no such loss: {other!r}")


def clip_bounds(options: TrainConfig) -> tuple[float, float]:
    """(ε_lo, ε_hi): `clip_low` and `clip_high`, each the loss's own where it is None.

    >>> clip_bounds(TrainConfig(loss="dapo")), clip_bounds(TrainConfig(loss="dapo", clip_high=0.3))
    ((0.2, 0.28), (0.2, 0.3))
    """
    own = {"dapo": (options.clip_eps, dapo.CLIP_HIGH), "gspo": (gspo.CLIP_LOW, gspo.CLIP_HIGH),
           "cispo": (cispo.CLIP_LOW, cispo.CLIP_HIGH)}
    low, high = own.get(options.loss, (options.clip_eps, options.clip_eps))
    return (low if options.clip_low is None else options.clip_low,
            high if options.clip_high is None else options.clip_high)
