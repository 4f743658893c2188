"""One policy update from a batch of samples: micro-batches, one denominator, one optimizer step."""

from collections.abc import Iterable, Sequence

import torch

from serl.config import TrainConfig
from serl.train.engine import TorchEngine
from serl.train.losses import grpo_loss
from serl.train.samples import Sample
from serl.train.scoring import logprobs, micro_batches


def denominator(samples: Sequence[Sample], reduction: str) -> float:
    """Z of the whole optimizer batch: its loss tokens, or its trajectories. Infrastructure failures are out."""
    scored = [sample for sample in samples if sample.reward is not None]
    if reduction == "seq_sum":
        return float(max(1, len(scored)))
    return float(max(1, sum(sample.trajectory.loss_tokens for sample in scored)))


def update(engine: TorchEngine, samples: Sequence[Sample], config: TrainConfig, temperature: float, share: bool
           ) -> dict[str, float]:
    """Apply one optimizer step; returns loss, gradient norm and ratio diagnostics.

    A trajectory with A = 0 has no gradient of the surrogate, so it is only encoded when there is a KL term.
    It counts in Z all the same. A batch without any gradient leaves weights and optimizer as they are.
    """
    total = denominator(samples, config.reduction)
    active = [sample for sample in samples
              if sample.reward is not None and (sample.advantage != 0.0 or config.kl_beta > 0.0)]
    engine.model.train()
    engine.zero_grad()
    sums: dict[str, float] = {"loss": 0.0, "clipped": 0.0, "kl_old": 0.0}
    tokens = 0
    for batch in micro_batches([sample.tail for sample in active], config.micro_tokens, share):
        loss, metrics, count = micro_loss(engine.model, [active[i] for i in batch], config, total, temperature, share)
        engine.backward(loss)
        tokens += count
        for name, value in {"loss": loss.detach(), **metrics}.items():
            sums[name] = sums.get(name, 0.0) + float(value)
    grad_norm = engine.step() if active else 0.0
    result = {"loss": sums["loss"], "grad_norm": grad_norm, "lr": engine.lr,
              "ratio/clip_fraction": sums["clipped"] / max(1, tokens),
              "kl/old": sums["kl_old"] / max(1, tokens)}
    if "kl_ref" in sums:
        result["kl"] = sums["kl_ref"] / max(1, tokens)
    return result


def micro_loss(model, samples: Sequence[Sample], config: TrainConfig, total: float, temperature: float,
               share: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor], int]:
    """Loss of a micro-batch with the batch's denominator, its diagnostics' sums, and its loss tokens.

    The tokens of all rows stand behind one another, [N]: the loss is a sum over tokens, so rows do not matter.
    """
    device = model.device

    def flat(rows: Iterable[torch.Tensor]) -> torch.Tensor:
        return torch.cat(list(rows)).to(device)

    logp_N = torch.cat(logprobs(model, [sample.tail for sample in samples], temperature, share))
    mask_N = flat(torch.tensor(s.trajectory.loss_mask[s.first:], dtype=torch.bool) for s in samples)
    old_N = flat(s.student[s.first:] for s in samples)
    advantage_N = flat(s.advantage * s.weight[s.first:] for s in samples)
    reference_N = flat(s.reference[s.first:] for s in samples) if config.kl_beta > 0.0 else None
    loss, metrics = grpo_loss(logp_N, old_N, advantage_N, mask_N, total, config.clip_eps, reference_N, config.kl_beta)
    return loss, metrics, int(mask_N.sum())
