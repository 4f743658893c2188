"""Log-probs of given tokens, two ways: right-padded batches of whole sequences, or shared prompts encoded once.

The plain way is the oracle of the shared one, which gives the same numbers and gradients to float32 tolerance
(`model.shared_prefix` chooses). Log-probs are at the sampling temperature, since that is the policy that acted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from serl.ragged import batches, buckets, pad
from serl.shared_prefix import Prompts, Rows


@dataclass(frozen=True)
class Tail:
    """The tokens `ids[first:]`, to be scored; other sequences begin with the same `ids[:shared]`, shared < first."""

    ids: Sequence[int]
    first: int
    shared: int


def micro_batches(tails: Sequence[Tail], micro_tokens: int, share: bool) -> Iterator[list[int]]:
    """Indices of batches of at most `micro_tokens` encoded tokens; sequences with the same prompt stay together."""
    if not share:
        yield from batches([len(tail.ids) for tail in tails], micro_tokens)
        return
    order = sorted(range(len(tails)), key=lambda i: (tails[i].shared, tuple(tails[i].ids)))
    batch: list[int] = []
    prompts: set[tuple[int, ...]] = set()
    size = 0
    for index in order:
        tail = tails[index]
        prompt = tuple(tail.ids[:tail.shared])
        own = len(tail.ids) - tail.shared
        added = own + (0 if prompt in prompts else tail.shared)
        if batch and size + added > micro_tokens:
            yield batch
            batch, prompts, size, added = [], set(), 0, own + tail.shared
        batch.append(index)
        prompts.add(prompt)
        size += added
    if batch:
        yield batch


def logprobs(model, tails: Sequence[Tail], temperature: float, share: bool) -> list[torch.Tensor]:
    """Log-probs [len(ids) − first] of each tail, float32, with gradients where they are enabled."""
    return (_shared if share else _plain)(model, tails, temperature)


def _plain(model, tails: Sequence[Tail], temperature: float) -> list[torch.Tensor]:
    logits_BKV, ids_BK, first = plain_logits(model, tails)
    logp_BK = _gather(logits_BKV, ids_BK, temperature)
    return [logp_K[tail.first - first: len(tail.ids) - first] for logp_K, tail in zip(logp_BK, tails)]


def plain_logits(model, tails: Sequence[Tail]) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Logits [B, K, V] of a right-padded batch, the ids [B, K] that they predict, and the first one's place."""
    ids_BL = pad([tail.ids for tail in tails], 0, torch.long, model.device)
    lengths = torch.tensor([len(tail.ids) for tail in tails], device=model.device)
    mask_BL = torch.arange(ids_BL.shape[1], device=model.device) < lengths[:, None]
    first = min(tail.first for tail in tails)
    # One extra column of logits, after the last token, predicts nothing that is asked for.
    logits_BKV = model(input_ids=ids_BL, attention_mask=mask_BL.long(), use_cache=False,
                       logits_to_keep=ids_BL.shape[1] - first + 1).logits[:, :-1]
    return logits_BKV, ids_BL[:, first:], first


def _shared(model, tails: Sequence[Tail], temperature: float) -> list[torch.Tensor]:
    heads = [tuple(tail.ids[:tail.shared]) for tail in tails]
    number = {head: place for place, head in enumerate(dict.fromkeys(heads))}
    prompts = Prompts(model, list(number))
    own = [tail.ids[tail.shared:] for tail in tails]
    out: list[torch.Tensor | None] = [None] * len(tails)
    for bucket in buckets([len(ids) for ids in own]):
        ids_BQ = pad([own[i] for i in bucket], 0, torch.long, model.device)
        start_B1 = torch.tensor([[tails[i].shared] for i in bucket], device=model.device)
        position_BQ = start_B1 + torch.arange(ids_BQ.shape[1] - 1, device=model.device)
        logits_BQV = Rows(prompts, [number[heads[i]] for i in bucket]).logits(ids_BQ[:, :-1], position_BQ)
        for i, logp_Q in zip(bucket, _gather(logits_BQV, ids_BQ[:, 1:], temperature)):
            tail = tails[i]
            out[i] = logp_Q[tail.first - tail.shared - 1: len(tail.ids) - tail.shared - 1]
    return out


def _gather(logits_BQV: torch.Tensor, ids_BQ: torch.Tensor, temperature: float) -> torch.Tensor:
    """log softmax of the logits at the given ids, [B, Q]."""
    logits_BQV = logits_BQV.float()
    if temperature != 1.0:
        logits_BQV = logits_BQV / temperature
    return logits_BQV.gather(-1, ids_BQ[..., None])[..., 0] - logits_BQV.logsumexp(-1)


@torch.no_grad()
def score(model, tails: Sequence[Tail], micro_tokens: int, temperature: float, share: bool) -> list[torch.Tensor]:
    """Log-probs of each tail on the CPU, in eval mode, no gradient."""
    training = model.training
    model.eval()
    scores: list[torch.Tensor | None] = [None] * len(tails)
    for batch in micro_batches(tails, micro_tokens, share):
        for index, logp in zip(batch, logprobs(model, [tails[i] for i in batch], temperature, share)):
            scores[index] = logp.cpu()
    model.train(training)
    return scores
