"""Quantities of a whole row (one trajectory's sampled tokens, all turns together), spread to its tokens."""

import torch


def row_sum(values: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    """At each token [N], the sum of `values` [N] over the token's row."""
    # There are at most N rows: room for N sums spares a look at `row`, which would wait for the accelerator.
    return torch.zeros_like(values).index_add(0, row, values)[row]


def row_share(mask: torch.Tensor, row: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """1/|o_i| at each token [N]: as a coefficient it makes a sum over tokens a sum of the rows' means (`seq_mean`)."""
    return row_sum(mask.to(dtype), row).clamp(min=1.0).reciprocal()
