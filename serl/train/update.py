"""One policy update from a batch of samples: micro-batches, one denominator, one optimizer step."""

from collections.abc import Iterable, Sequence

import torch

from serl.config import Config
from serl.train.engine import TorchEngine
from serl.train.losses import grpo_loss
from serl.train.samples import Sample, weigh
from serl.train.scoring import logprobs, micro_batches


def denominator(samples: Sequence[Sample], reduction: str) -> float:
    """Z of the whole optimizer batch: its loss tokens, or its trajectories. Infrastructure failures are out."""
    scored = [sample for sample in samples if sample.reward is not None]
    if reduction == "seq_sum":
        return float(max(1, len(scored)))
    return float(max(1, sum(sample.trajectory.loss_tokens for sample in scored)))


def update(engine: TorchEngine, samples: Sequence[Sample], lam: float, config: Config
           ) -> tuple[dict[str, float], list[Sample]]:
    """Apply one optimizer step; returns loss, gradient norm and ratio diagnostics, and the samples.

    A trajectory with A = 0 has no gradient of the surrogate, so it is only encoded when there is a KL term.
    It counts in Z all the same. A batch without any gradient leaves weights and optimizer as they are.

    Samples whose old log-probs are not known yet get them from this forward: before the update, the current
    policy is the old one. They come back with these log-probs and their ω, for the next pass over the batch.
    """
    options, samples = config.train, list(samples)
    total = denominator(samples, options.reduction)
    active = [index for index, sample in enumerate(samples)
              if sample.reward is not None and (sample.advantage != 0.0 or options.kl_beta > 0.0)]
    engine.model.train()
    engine.zero_grad()
    sums: dict[str, float] = {"loss": 0.0, "clipped": 0.0, "kl_old": 0.0}
    tokens = 0
    tails = [samples[index].tail for index in active]
    for batch in micro_batches(tails, options.micro_tokens, config.model.shared_prefix):
        chosen = [active[i] for i in batch]
        loss, metrics, scored = micro_loss(engine.model, [samples[index] for index in chosen], lam, config, total)
        engine.backward(loss)
        for index, sample in zip(chosen, scored):
            samples[index] = sample
            tokens += sample.trajectory.loss_tokens
        for name, value in {"loss": loss.detach(), **metrics}.items():
            sums[name] = sums.get(name, 0.0) + float(value)
    grad_norm = engine.step() if active else 0.0
    result = {"loss": sums["loss"], "grad_norm": grad_norm, "lr": engine.lr,
              "ratio/clip_fraction": sums["clipped"] / max(1, tokens),
              "kl/old": sums["kl_old"] / max(1, tokens)}
    if "kl_ref" in sums:
        result["kl"] = sums["kl_ref"] / max(1, tokens)
    return result, samples


def micro_loss(model, samples: Sequence[Sample], lam: float, config: Config, total: float
               ) -> tuple[torch.Tensor, dict[str, torch.Tensor], list[Sample]]:
    """Loss of a micro-batch with the batch's denominator, its diagnostics' sums, and its samples with log-probs.

    The tokens of all rows stand behind one another, [N]: the loss is a sum over tokens, so rows do not matter.
    """
    logps = logprobs(model, [sample.tail for sample in samples], config.rollout.temperature,
                     config.model.shared_prefix)
    samples = [sample if sample.student is not None else weigh(sample, sample.aligned(logp), lam, config.hindsight)
               for sample, logp in zip(samples, logps)]

    def flat(rows: Iterable[torch.Tensor]) -> torch.Tensor:
        return torch.cat(list(rows)).to(model.device)

    mask_N = flat(torch.tensor(s.trajectory.loss_mask[s.first:], dtype=torch.bool) for s in samples)
    old_N = flat(s.student[s.first:] for s in samples)
    advantage_N = flat(s.advantage * s.weight[s.first:] for s in samples)
    reference_N = flat(s.reference[s.first:] for s in samples) if config.train.kl_beta > 0.0 else None
    loss, metrics = grpo_loss(torch.cat(logps), old_N, advantage_N, mask_N, total, config.train.clip_eps, reference_N,
                              config.train.kl_beta)
    return loss, metrics, samples
