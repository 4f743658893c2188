"""Attention of many rows to a prefix that they share and to their own tokens: one softmax over both, exactly.

    s = scaling · q [k_prefix, k_own]ᵀ        o = softmax(s) [v_prefix; v_own]

The prefix's keys are never copied per row: the queries of all rows of a prefix, and all heads that share a key head,
are folded into one matrix. Scores are made for one block of queries at a time, and again in the backward pass, as in
FlashAttention (arXiv 2205.14135): memory grows with the tokens, not with their square. With P = exp(s − lse):

    dV = Pᵀ dO      dS = P ∘ (dO Vᵀ − rowsum(dO ∘ O))      dQ = scaling · dS K      dK = scaling · dSᵀ Q

Prefix and own tokens are two parts; outputs o of parts become one by their log-sum-exps: Σ o_i exp(lse_i − lse).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

# Queries of a block: enough for a kernel to be efficient, few enough that what is computed in vain, of tokens after a
# query, stays small, and that scores do where they are held (elsewhere than on a CPU).
BLOCK_CPU, BLOCK = 1024, 16_384


@dataclass(frozen=True)
class Span:
    """Rows [first, last) attend to the first `length` keys at place `index` of the prefix tensor number `tensor`."""

    first: int
    last: int
    tensor: int
    index: int
    length: int


def prefix_attention(query_BHQD: torch.Tensor, key_BKSD: torch.Tensor, value_BKSD: torch.Tensor, scaling: float,
                     prefix_keys: Sequence[torch.Tensor], prefix_values: Sequence[torch.Tensor],
                     spans: Sequence[Span], mask_BQS: torch.Tensor | None, ends_Q: Sequence[int] | None = None
                     ) -> torch.Tensor:
    """Outputs [B, H, Q, D]. Prefixes are [U, K, P, D] each; the spans name every row once.

    `mask_BQS` says which of its row's own tokens a query sees, at least one; None: those up to itself, S = Q. With a
    mask, `ends_Q` says how many of the first tokens hold all that the q-th query of any row sees: the others are left
    out of the computation.
    """
    if mask_BQS is None:
        ends_Q = range(1, query_BHQD.shape[2] + 1)
    ends_Q = ends_Q or [key_BKSD.shape[2]] * query_BHQD.shape[2]
    prefixes = (*prefix_keys, *prefix_values)
    return _PrefixAttention.apply(query_BHQD, key_BKSD, value_BKSD, scaling, spans, mask_BQS, ends_Q, *prefixes)


class _PrefixAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, scaling, spans, mask, ends, *prefixes):
        out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        lse = _wide(torch.empty(query.shape[:3], dtype=query.dtype, device=query.device))
        bias = _bias(query, key, mask)
        for block in _blocks(query, key, spans, ends):
            folded = block.fold(query) * scaling
            prefix, prefix_lse = attend_part(folded[None], *(part[None] for part in block.prefix(prefixes)))
            own, own_lse = attend_part(block.by_row(folded), block.own(key), block.own(value), block.own_bias(bias))
            (prefix, prefix_lse), (own, own_lse) = (prefix[0], prefix_lse[0]), (block.back(own), block.back(own_lse))
            total = torch.logaddexp(prefix_lse, own_lse)
            block.unfold(out, prefix * (prefix_lse - total).exp() + own * (own_lse - total).exp())
            block.unfold(lse[..., None], total)
        ctx.save_for_backward(query, key, value, mask, out, lse, *prefixes)
        ctx.scaling, ctx.spans, ctx.ends = scaling, spans, ends
        return out

    @staticmethod
    def backward(ctx, grad):
        query, key, value, mask, out, lse, *prefixes = ctx.saved_tensors
        d_query, d_key, d_value = torch.empty_like(query), torch.zeros_like(key), torch.zeros_like(value)
        d_prefixes = [torch.zeros_like(prefix) for prefix in prefixes]
        bias = _bias(query, key, mask)
        for block in _blocks(query, key, ctx.spans, ctx.ends):
            folded = block.fold(query) * ctx.scaling
            merged = [block.fold(tensor) for tensor in (grad, out, lse[..., None])]
            from_prefix, *found = part_backward(folded[None], *(part[None] for part in block.prefix(prefixes)),
                                                *(tensor[None] for tensor in merged))
            for whole, part in zip(block.prefix(d_prefixes), found):
                whole += part[0]
            from_own, *found = part_backward(block.by_row(folded), block.own(key), block.own(value),
                                             *map(block.by_row, merged), block.own_bias(bias))
            for whole, part in zip((d_key, d_value), found):
                block.own(whole).add_(part)
            block.unfold(d_query, (from_prefix[0] + block.back(from_own)) * ctx.scaling)
        return d_query, d_key, d_value, None, None, None, None, *d_prefixes


def attend_part(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None = None
                ) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention to some of the keys alone, [X, K, M, D], and its log-sum-exp [X, K, M, 1].

    Queries [X, K, M, D], scaled; keys and values [X, K, S, D]; the bias is broadcast to [X, K, M, S].
    """
    if query.device.type == "cpu":  # PyTorch's own kernel; no public function shows its log-sum-exp
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, attn_mask=bias,
                                                                              scale=1.0)
        return out, lse[..., None]
    return part_by_definition(query, key, value, bias)


def part_backward(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, grad: torch.Tensor, out: torch.Tensor,
                  lse: torch.Tensor, bias: torch.Tensor | None = None
                  ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What these keys contribute to the gradients: dQ, dK, dV. `out` and `lse` are those of all keys together."""
    if query.device.type == "cpu":
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad, query, key, value, out, lse[..., 0], 0.0, False, attn_mask=bias, scale=1.0)
    return part_backward_by_definition(query, key, value, grad, out, lse, bias)


def part_by_definition(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None = None
                       ) -> tuple[torch.Tensor, torch.Tensor]:
    """`attend_part` for other devices, and its oracle."""
    scores = _scores(query, key, bias)
    lse = scores.logsumexp(-1, keepdim=True)
    return scores.sub_(lse).exp_().to(query.dtype) @ value, lse


def part_backward_by_definition(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, grad: torch.Tensor,
                                out: torch.Tensor, lse: torch.Tensor, bias: torch.Tensor | None = None
                                ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`part_backward` for other devices, and its oracle."""
    p = _scores(query, key, bias).sub_(lse).exp_()
    ds = (grad @ value.mT).sub_((grad * out).sum(-1, keepdim=True)).mul_(p).to(query.dtype)
    return ds @ key, ds.mT @ query, p.to(query.dtype).mT @ grad


def _scores(query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    scores = _wide(query @ key.mT)
    return scores if bias is None else scores.add_(bias)


def _bias(query: torch.Tensor, key: torch.Tensor, mask_BQS: torch.Tensor | None) -> torch.Tensor:
    """`bias_of` a mask, or of that in which a token sees all tokens up to itself; [1 or B, Q, S]."""
    if mask_BQS is None:
        mask_BQS = torch.ones(1, query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
    return bias_of(mask_BQS, query.dtype)


def bias_of(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What is added to the scores: 0 where a query may look, −inf elsewhere."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """At least float32."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


@dataclass(frozen=True)
class _Block:
    """Queries of the tokens [start, stop) of the rows of a span; they see no tokens of their row from `end` on.

    Two layouts: folded [K, M, X], with M = rows · heads of a key head · tokens, for the prefix; by row [rows, K, m, X]
    for the row's own tokens.
    """

    span: Span
    start: int
    stop: int
    end: int
    shared: int  # key heads K
    heads: int  # queries' heads of each

    @property
    def rows(self) -> slice:
        return slice(self.span.first, self.span.last)

    def prefix(self, prefixes: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the prefix, views [K, P, D]."""
        half, span = len(prefixes) // 2, self.span
        keys, values = (prefixes[number][span.index, :, :span.length] for number in (span.tensor, half + span.tensor))
        return keys, values

    def own(self, tensor_BKSD: torch.Tensor) -> torch.Tensor:
        """The rows' own keys or values, a view [rows, K, end, D]."""
        return tensor_BKSD[self.rows, :, :self.end]

    def own_bias(self, bias_BQS: torch.Tensor) -> torch.Tensor:
        """[rows or 1, 1, m, end]."""
        part = bias_BQS[self.rows if len(bias_BQS) > 1 else slice(None), None, None, self.start: self.stop, :self.end]
        return part.expand(-1, -1, self.heads, -1, -1).flatten(2, 3)

    def fold(self, tensor_BHQX: torch.Tensor) -> torch.Tensor:
        heads = tensor_BHQX.unflatten(1, (self.shared, -1))[self.rows, :, :, self.start: self.stop]
        return heads.transpose(0, 1).flatten(1, 3)

    def unfold(self, out_BHQX: torch.Tensor, folded_KMX: torch.Tensor) -> None:
        """Write what was folded to its place in `out`."""
        place = out_BHQX.unflatten(1, (self.shared, -1))[self.rows, :, :, self.start: self.stop]
        place.copy_(folded_KMX.view(place.transpose(0, 1).shape).transpose(0, 1))

    def by_row(self, folded_KMX: torch.Tensor) -> torch.Tensor:
        return folded_KMX.unflatten(1, (self.span.last - self.span.first, -1)).transpose(0, 1)

    def back(self, by_row: torch.Tensor) -> torch.Tensor:
        """Folded again."""
        return by_row.transpose(0, 1).flatten(1, 2)


def _blocks(query: torch.Tensor, key: torch.Tensor, spans: Sequence[Span], ends: Sequence[int]) -> Iterator[_Block]:
    """All queries in blocks of about equal size: whole rows of a span where they fit, else parts of a row."""
    heads, tokens = query.shape[1] // key.shape[1], query.shape[2]
    limit = BLOCK_CPU if query.device.type == "cpu" else BLOCK
    rows = max(1, limit // (heads * tokens))
    parts = 1 if rows > 1 else -(-heads * tokens // limit)
    step = -(-tokens // parts)
    for span in spans:
        for first in range(span.first, span.last, rows):
            part = replace(span, first=first, last=min(first + rows, span.last))
            for start in range(0, tokens, step):
                stop = min(start + step, tokens)
                yield _Block(part, start, stop, max(ends[start: stop]), key.shape[1], heads)
