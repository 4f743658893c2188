"""Data parallel: the gradient of a batch is the sum of the gradients of its parts, since each carries the batch's Z.

    ∇L = Σ_ranks ∇L_rank

Gradients travel as flat tensors of up to `BUCKET` elements. Which parameters have a gradient anywhere is asked first:
one that has none on any rank keeps none, so that the optimizer leaves it alone as it does in one process; one that has
none on this rank adds zeros, so that every rank sends the same buckets whatever its part of the batch holds.
"""

from collections.abc import Iterator, Sequence

import torch

from serl.parallel import Ranks

BUCKET = 2**25  # elements: 128 MiB in float32


def sum_gradients(parameters: Sequence[torch.nn.Parameter], ranks: Ranks) -> None:
    """Put the sum over ranks in place of every parameter's gradient."""
    if ranks.size == 1:
        return
    anywhere_P = torch.tensor([p.grad is not None for p in parameters], dtype=torch.int32)
    ranks.reduce(anywhere_P, "MAX")
    for bucket in buckets([p for p, anywhere in zip(parameters, anywhere_P.tolist()) if anywhere]):
        flat_N = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
        ranks.reduce(flat_N)
        for p, summed_N in zip(bucket, flat_N.split([p.numel() for p in bucket])):
            p.grad = summed_N.view_as(p).clone()


def buckets(parameters: Sequence[torch.nn.Parameter]) -> Iterator[list[torch.nn.Parameter]]:
    """Parameters of one type and device behind one another, of at most `BUCKET` elements; a larger one is alone."""
    bucket: list[torch.nn.Parameter] = []
    for p in parameters:
        if bucket and (sum(map(torch.numel, bucket)) + p.numel() > BUCKET
                       or (p.dtype, p.device) != (bucket[0].dtype, bucket[0].device)):
            yield bucket
            bucket = []
        bucket.append(p)
    if bucket:
        yield bucket
