"""Entropy of the student's distribution at every sampled token, by a scoring pass of its own.

    H_i = −Σ_v π(v | y_<i) log π(v | y_<i)      nats, at the sampling temperature

The update's forward keeps one log-prob a token and no logits, so it cannot give this. The pass takes the plain way of
padded batches (`serl.train.scoring`); only the source `entropy` and analyses need it.
"""

from collections.abc import Sequence

import torch

from serl.config import Config
from serl.ragged import pad
from serl.train.samples import Sample
from serl.train.scoring import Tail, micro_batches


@torch.no_grad()
def sample_entropies(model, samples: Sequence[Sample], config: Config) -> list[torch.Tensor]:
    """H [T] of each sample, on the CPU, in eval mode; NaN for context tokens."""
    tails = [sample.tail for sample in samples]
    training = model.training
    model.eval()
    found: list[torch.Tensor | None] = [None] * len(samples)
    for batch in micro_batches(tails, config.train.micro_tokens, share=False):
        parts = _entropies(model, [tails[index] for index in batch], config.rollout.temperature)
        for index, entropy in zip(batch, parts):
            found[index] = samples[index].aligned(entropy)
    model.train(training)
    return found


def _entropies(model, tails: Sequence[Tail], temperature: float) -> list[torch.Tensor]:
    """H [len(ids) − first] of each tail."""
    ids_BL = pad([tail.ids for tail in tails], 0, torch.long, model.device)
    lengths = torch.tensor([len(tail.ids) for tail in tails], device=model.device)
    mask_BL = torch.arange(ids_BL.shape[1], device=model.device) < lengths[:, None]
    first = min(tail.first for tail in tails)
    logits_BKV = model(input_ids=ids_BL, attention_mask=mask_BL.long(), use_cache=False,
                       logits_to_keep=ids_BL.shape[1] - first + 1).logits[:, :-1]
    parts = []
    for logits_KV, tail in zip(logits_BKV, tails):
        logp_KV = (logits_KV[tail.first - first: len(tail.ids) - first].float() / temperature).log_softmax(-1)
        parts.append(-(logp_KV.exp() * logp_KV).sum(-1))
    return parts
