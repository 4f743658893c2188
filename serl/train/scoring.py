"""Log-probs of given tokens, the plain way: right-padded batches, one full forward a batch.

Every faster path must reproduce these numbers. Log-probs are at the sampling temperature, since that is
the policy that acted.
"""

from collections.abc import Iterator, Sequence

import torch


def batches(lengths: Sequence[int], micro_tokens: int) -> Iterator[list[int]]:
    """Indices of batches of similar length whose padded size stays within `micro_tokens`.

    A single sequence above the budget is a batch of its own.
    """
    chunk: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if chunk and (len(chunk) + 1) * lengths[index] > micro_tokens:
            yield chunk
            chunk = []
        chunk.append(index)
    if chunk:
        yield chunk


def pad(rows: Sequence[Sequence], fill: float, dtype: torch.dtype, device, multiple: int = 1) -> torch.Tensor:
    """[B, L] tensor of right-padded rows; L is the longest row, rounded up to `multiple`."""
    longest = max(map(len, rows))
    out = torch.full((len(rows), longest + -longest % multiple), fill, dtype=dtype)
    for index, row in enumerate(rows):
        out[index, : len(row)] = torch.as_tensor(row, dtype=dtype)
    return out.to(device)


def tail_logprobs(model, ids_BL: torch.Tensor, lengths: Sequence[int], first: int, temperature: float
                  ) -> torch.Tensor:
    """Log-probs [B, L − first] of the tokens at columns first..L−1, each given all before it (first >= 1).

    Rows are right-padded to L; columns at or beyond a row's length hold values of padding, to be masked.
    """
    mask_BL = torch.arange(ids_BL.shape[1], device=ids_BL.device) < torch.tensor(
        lengths, device=ids_BL.device)[:, None]
    keep = ids_BL.shape[1] - first
    # One extra row of logits, after the last column, predicts nothing that is asked for.
    logits_BKV = model(input_ids=ids_BL, attention_mask=mask_BL.long(), use_cache=False,
                       logits_to_keep=keep + 1).logits[:, :-1].float()
    if temperature != 1.0:
        logits_BKV = logits_BKV / temperature
    target_BK1 = ids_BL[:, first:, None]
    return logits_BKV.gather(-1, target_BK1)[..., 0] - logits_BKV.logsumexp(-1)


@torch.no_grad()
def score(model, sequences: Sequence[list[int]], firsts: Sequence[int], micro_tokens: int,
          temperature: float) -> list[torch.Tensor]:
    """Log-probs of `sequence[first:]` for each sequence, float32 on the CPU, in eval mode, no gradient."""
    training = model.training
    model.eval()
    scores: list[torch.Tensor | None] = [None] * len(sequences)
    for chunk in batches([len(sequence) for sequence in sequences], micro_tokens):
        ids_BL = pad([sequences[i] for i in chunk], 0, torch.long, model.device)
        first = min(firsts[i] for i in chunk)
        logp_BK = tail_logprobs(model, ids_BL, [len(sequences[i]) for i in chunk], first, temperature).cpu()
        for row, index in enumerate(chunk):
            scores[index] = logp_BK[row, firsts[index] - first: len(sequences[index]) - first].clone()
    model.train(training)
    return scores
