"""Entropy of the student's distribution at every sampled token, by a scoring pass of its own.

    H_i = −Σ_v π(v | y_<i) log π(v | y_<i)      nats, at the sampling temperature

The update's forward keeps one log-prob a token and no logits, so it cannot give this. Only the source `entropy` and
analyses need it.
"""

from collections.abc import Sequence

import torch

from serl.config import Config
from serl.train.samples import Sample
from serl.train.scoring import Tail, by_micro_batches, plain_logits
from serl.train.sharing import shared_entropies


def sample_entropies(model, samples: Sequence[Sample], config: Config) -> list[torch.Tensor]:
    """H [T] of each sample, on the CPU, in eval mode; NaN for context tokens."""
    tails, share = [sample.tail for sample in samples], config.model.shared_prefix
    entropies = shared_entropies if share else _entropies
    found = by_micro_batches(model, tails, config.train.micro_tokens, share,
                             lambda batch: entropies(model, batch, config.rollout.temperature))
    return [sample.aligned(entropy) for sample, entropy in zip(samples, found)]


def _entropies(model, tails: Sequence[Tail], temperature: float) -> list[torch.Tensor]:
    """H [len(ids) − first] of each tail."""
    logits_BKV, _, first = plain_logits(model, tails)
    parts = []
    for logits_KV, tail in zip(logits_BKV, tails):
        logp_KV = (logits_KV[tail.first - first: len(tail.ids) - first].float() / temperature).log_softmax(-1)
        parts.append(-(logp_KV.exp() * logp_KV).sum(-1))
    return parts
