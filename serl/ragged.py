"""Sequences of unequal length as padded tensors, and batches that waste little on padding."""

from collections.abc import Iterator, Sequence

import torch


def pad(rows: Sequence[Sequence], fill: float, dtype: torch.dtype, device, multiple: int = 1, left: bool = False
        ) -> torch.Tensor:
    """[B, L] tensor of padded rows; L is the longest row, rounded up to `multiple`."""
    longest = max(map(len, rows))
    width = longest + -longest % multiple
    out = torch.full((len(rows), width), fill, dtype=dtype)
    for index, row in enumerate(rows):
        start = width - len(row) if left else 0
        out[index, start: start + len(row)] = torch.as_tensor(row, dtype=dtype)
    return out.to(device)


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


def buckets(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Indices of rows that may be padded to each other's length: the longest is at most 1.3 times the shortest, + 8."""
    bucket: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if bucket and lengths[index] > 1.3 * lengths[bucket[0]] + 8:
            yield bucket
            bucket = []
        bucket.append(index)
    if bucket:
        yield bucket
