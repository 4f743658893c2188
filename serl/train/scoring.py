"""Log-probs of given tokens, two ways: right-padded batches of whole sequences, or what they share computed once.

The plain way is the oracle of the shared one, which gives the same numbers and gradients to float32 tolerance
(`model.shared_prefix` chooses). Log-probs are at the sampling temperature, since that is the policy that acted.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import torch

from serl.model import eval_mode
from serl.partition import rounds
from serl.ragged import batches, pad
from serl.train.sharing import shared_logprobs
from serl.train.tail import IDLE, Tail

__all__ = ["Tail", "by_micro_batches", "logprobs", "logprobs_with_branches", "micro_batches", "score"]

_log = logging.getLogger(__name__)


def micro_batches(tails: Sequence[Tail], micro_tokens: int, share: bool) -> Iterator[list[int]]:
    """Indices of batches of at most `micro_tokens` encoded tokens; sequences with the same prompt stay together.

    Where those of a prompt are more than that, it is encoded in each of their batches. A longer sequence is a batch of
    its own, which is logged.
    """
    if any(len(tail.ids) > micro_tokens for tail in tails):
        _say_long(micro_tokens)
    if not share:
        yield from batches([len(tail.ids) for tail in tails], micro_tokens)
        return
    order = sorted(range(len(tails)), key=lambda i: (tails[i].shared, tuple(tails[i].ids)))
    batch: list[int] = []
    prompts: set[tuple[int, ...]] = set()
    size = 0
    for index in order:
        tail = tails[index]
        own = len(tail.ids) - tail.shared
        added = own + (0 if tail.prompt in prompts else tail.shared)
        if batch and size + added > micro_tokens:
            yield batch
            batch, prompts, size, added = [], set(), 0, own + tail.shared
        batch.append(index)
        prompts.add(tail.prompt)
        size += added
    if batch:
        yield batch


@cache
def _say_long(micro_tokens: int) -> None:
    """Log this once."""
    _log.warning("train.micro_tokens is %d: longer sequences are encoded alone, in the memory that they need",
                 micro_tokens)


def logprobs(model, tails: Sequence[Tail], temperature: float, share: bool) -> list[torch.Tensor]:
    """Log-probs [len(ids) − first] of each tail, at least float32, with gradients where they are enabled.

    NaN where `tail.scored` says that nobody asks.
    """
    return logprobs_with_branches(model, tails, [()] * len(tails), temperature, share)[0]


def logprobs_with_branches(model, tails: Sequence[Tail], branches: Sequence[Sequence[Tail]], temperature: float,
                           share: bool) -> tuple[list[torch.Tensor], list[list[torch.Tensor]]]:
    """Log-probs of tails, and, without gradient and by the same weights, of the branches of each.

    `branches[i]` begin like tail i for some way, their prompts included. The shared way encodes only what they add: it
    reads the keys and values that the tail's own pass has made.
    """
    if share:
        return shared_logprobs(model, tails, branches, temperature)
    found = _plain(model, tails, temperature)
    with torch.no_grad():
        return found, [_plain(model, own, temperature) if own else [] for own in branches]


def _plain(model, tails: Sequence[Tail], temperature: float) -> list[torch.Tensor]:
    logits_BKV, ids_BK, first = plain_logits(model, tails)
    logp_BK = _gather(logits_BKV, ids_BK, temperature)
    rows = [logp_K[tail.first - first: len(tail.ids) - first] for logp_K, tail in zip(logp_BK, tails)]
    return [logp_K.masked_fill(~torch.tensor(tail.mask, device=model.device), torch.nan)
            for logp_K, tail in zip(rows, tails)]


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


def _gather(logits_BQV: torch.Tensor, ids_BQ: torch.Tensor, temperature: float) -> torch.Tensor:
    """log softmax of the logits at the given ids, [B, Q]."""
    logits_BQV = logits_BQV.to(torch.promote_types(logits_BQV.dtype, torch.float32))
    if temperature != 1.0:
        logits_BQV = logits_BQV / temperature
    return logits_BQV.gather(-1, ids_BQ[..., None])[..., 0] - logits_BQV.logsumexp(-1)


def score(model, tails: Sequence[Tail], micro_tokens: int, temperature: float, share: bool) -> list[torch.Tensor]:
    """Log-probs of each tail on the CPU, in eval mode, no gradient."""
    found = by_micro_batches(model, tails, micro_tokens, share,
                             lambda batch: logprobs(model, batch, temperature, share))
    return [logp.cpu() for logp in found]


@torch.no_grad()
def by_micro_batches(model, tails: Sequence[Tail], micro_tokens: int, share: bool,
                     work: Callable[[list[Tail]], Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    """What `work` makes of each tail, a micro-batch at a time, with the model in eval mode and without gradient.

    Through a partitioned model each rank makes as many passes as the one with the most micro-batches.
    """
    out: list[torch.Tensor | None] = [None] * len(tails)
    with eval_mode(model):
        chosen = list(micro_batches(tails, micro_tokens, share))
        for batch in chosen + [[]] * (rounds(model, len(chosen)) - len(chosen)):
            for index, found in zip(batch, work([tails[i] for i in batch] or [IDLE])):
                out[index] = found
    return out
