"""One policy update from a batch of samples: micro-batches, one denominator, one optimizer step."""

from collections.abc import Iterable, Mapping, Sequence

import torch

from serl.config import Config
from serl.train.engine import TorchEngine
from serl.train.guards import Step, unguarded
from serl.train.losses import k3_loss, policy_loss, row_share, sampler_correction
from serl.train.samples import Sample, weigh
from serl.train.scoring import logprobs, logprobs_with_branches, micro_batches
from serl.train.tail import IDLE

# Sums that losses return → metrics, as means over the loss tokens that were encoded. Those that a setting does not
# have are left out; the others are there for an empty batch too.
TOKEN_MEANS = {"clipped": "ratio/clip_fraction", "clipped_low": "ratio/clip_low", "clipped_high": "ratio/clip_high",
               "clipped_dual": "ratio/clip_dual", "kl_old": "kl/old", "kl_ref": "kl", "mismatch_k1": "mismatch/k1",
               "mismatch_k3": "mismatch/k3", "mismatch_unknown": "mismatch/unknown", "tis_weight": "tis/weight_mean",
               "tis_limited": "tis/limited"}
OPTIONAL = ("clipped_dual", "kl_ref", "tis_weight", "tis_limited")


def denominator(samples: Sequence[Sample], reduction: str) -> float:
    """Z of these samples: their loss tokens, or their number. Infrastructure failures are out."""
    scored = [sample for sample in samples if sample.reward is not None]
    if reduction in ("seq_sum", "seq_mean"):
        return float(len(scored))
    return float(sum(sample.trajectory.loss_tokens for sample in scored))


def update(engine: TorchEngine, samples: Sequence[Sample], lam: float, config: Config, apply: Step = unguarded
           ) -> tuple[dict[str, float], list[Sample]]:
    """Apply one optimizer step; returns loss, gradient norm and ratio diagnostics, and the samples.

    A trajectory with A = 0 has no gradient of the surrogate, so it is only encoded when there is a KL term.
    It counts in Z all the same. A batch without any gradient leaves weights and optimizer as they are. With several
    ranks, Z, the metrics and whether there is a gradient are those of all parts of the batch: every rank takes the same
    steps, after as many forward and backward passes as the engine wants, and returns the same metrics beside the
    samples of its part.
    `apply` takes the step when all gradients are there.

    Samples whose old log-probs are not known yet get them from this forward: before the update, the current
    policy is the old one. They come back with these log-probs and their ω, for the next pass over the batch.
    """
    options, samples = config.train, list(samples)
    total = max(1.0, engine.over_ranks(denominator(samples, options.reduction)))
    active = [index for index, sample in enumerate(samples)
              if sample.reward is not None and (sample.learns or options.kl_beta > 0.0)]
    engine.model.eval()  # as scorers: with dropout, log-probs were another policy's than the one that acted
    engine.zero_grad()
    sums: dict[str, float] = {}
    tokens = 0
    tails, share = [samples[index].tail for index in active], config.model.shared_prefix
    batches = list(micro_batches(tails, options.micro_tokens, share))
    idle = engine.rounds(len(batches)) - len(batches)
    for batch in batches:
        chosen = [active[i] for i in batch]
        loss, metrics, scored = micro_loss(engine.model, [samples[index] for index in chosen], lam, config, total)
        engine.backward(loss)
        for index, sample in zip(chosen, scored):
            samples[index] = sample
            tokens += sample.trajectory.loss_tokens
        for name, value in {"loss": loss.detach(), **metrics}.items():
            sums[name] = sums.get(name, 0.0) + float(value)
    for _ in range(idle):
        engine.backward(0.0 * sum(logprobs(engine.model, [IDLE], 1.0, share)).sum())
    means = batch_means(engine, sums, tokens)
    grad_norm = apply(engine, means) if engine.over_ranks(len(active)) else 0.0
    return {**means, "grad_norm": grad_norm, "lr": engine.lr}, samples


def batch_means(engine: TorchEngine, sums: Mapping[str, float], tokens: int) -> dict[str, float]:
    """The loss, and the TOKEN_MEANS, of the whole batch, from the sums of this rank's part and its encoded tokens."""
    # A rank whose part has nothing to encode has no sums, and adds zeros.
    total = {key: engine.over_ranks(sums.get(key, 0.0)) for key in ("loss", *TOKEN_MEANS)}
    known = {key for key in TOKEN_MEANS if key not in OPTIONAL or engine.over_ranks(key in sums)}
    tokens = max(1.0, engine.over_ranks(tokens))
    return {"loss": total["loss"]} | {name: total[key] / tokens for key, name in TOKEN_MEANS.items() if key in known}


def micro_loss(model, samples: Sequence[Sample], lam: float, config: Config, total: float
               ) -> tuple[torch.Tensor, dict[str, torch.Tensor], list[Sample]]:
    """Loss of a micro-batch with the batch's denominator, its diagnostics' sums, and its samples with log-probs.

    The tokens of all rows stand behind one another, [N]. A loss or a weight that needs a whole trajectory finds it by
    its row: a micro-batch never splits one.
    """
    logps, samples = forward(model, samples, lam, config)
    loss, metrics = loss_of(samples, logps, config, total)
    return loss, metrics, samples


def forward(model, samples: Sequence[Sample], lam: float, config: Config) -> tuple[list[torch.Tensor], list[Sample]]:
    """Log-probs of each sample's tail, and the samples with what they did not know yet.

    That is the old policy's log-probs, which before the update are these, and those of a teacher who is the student.
    """
    logps, taught = logprobs_with_branches(
        model, [sample.tail for sample in samples], [[branch for _, branch in sample.asked] for sample in samples],
        config.rollout.temperature, config.model.shared_prefix)
    known = []
    for sample, logp, found in zip(samples, logps, taught):
        if sample.student is None or sample.asked:
            student = sample.aligned(logp) if sample.student is None else sample.student
            sample = sample.answered(found, student) if sample.asked else sample
            sample = weigh(sample, student, lam, config.hindsight)
        known.append(sample)
    return logps, known


def loss_of(samples: Sequence[Sample], logps: Sequence[torch.Tensor], config: Config, total: float
            ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Loss of a micro-batch from its log-probs, with the batch's denominator, and its diagnostics' sums."""
    device = logps[0].device

    def flat(rows: Iterable[torch.Tensor]) -> torch.Tensor:
        return torch.cat(list(rows)).to(device)

    options = config.train
    logp_N = torch.cat(logps)
    mask_N = flat(torch.tensor(s.trajectory.loss_mask[s.first:], dtype=torch.bool) for s in samples)
    row_N = flat(torch.full((len(logp),), row) for row, logp in enumerate(logps))
    old_N = flat(s.student[s.first:] for s in samples)
    sampler_N = flat(s.sampler[s.first:] for s in samples)
    advantage_N = flat((s.advantages * s.weight)[s.first:] for s in samples)

    share_N = row_share(mask_N, row_N) if options.reduction == "seq_mean" else torch.ones_like(old_N)
    correction_N, metrics = sampler_correction(old_N, sampler_N, mask_N, row_N, options.tis, options.tis_cap,
                                               options.tis_floor)
    loss, sums = policy_loss(options, logp_N, old_N, advantage_N, mask_N, row_N, total, share_N * correction_N)
    metrics |= sums
    if options.kl_beta > 0.0:
        reference_N = flat(s.reference[s.first:] for s in samples)
        leash, sums = k3_loss(logp_N, reference_N, mask_N, total, options.kl_beta, share_N)
        loss, metrics = loss + leash, metrics | sums
    return loss, metrics
