"""Attention to a shared prefix and to own tokens equals one softmax over both, with its gradients, in any blocks."""

import pytest
import torch

from serl import prefix_attention
from serl.prefix_attention import Span

SPANS = [Span(0, 2, 0, 1, 6), Span(2, 3, 1, 0, 9), Span(3, 5, 0, 0, 4)]  # five rows, three prefixes in two tensors
HEADS, SHARED, QUERIES, WIDTH = 4, 2, 7, 8


def inputs(own: int) -> list[torch.Tensor]:
    """Queries, own keys and values, prefix keys (2), prefix values (2), float64."""
    torch.manual_seed(0)
    shapes = [(5, HEADS, QUERIES, WIDTH), *[(5, SHARED, own, WIDTH)] * 2,
              *[(2, SHARED, 6, WIDTH), (1, SHARED, 9, WIDTH)] * 2]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def by_definition(tensors: list[torch.Tensor], mask_BQS: torch.Tensor) -> torch.Tensor:
    """Row by row: keys of the prefix copied before the row's own, heads repeated, one masked softmax."""
    query, key, value, *prefixes = tensors
    rows = []
    for span in SPANS:
        for row in range(span.first, span.last):
            keys, values = (torch.cat([prefix[span.index, :, :span.length], own[row]], 1).repeat_interleave(2, 0)
                            for prefix, own in ((prefixes[span.tensor], key), (prefixes[2 + span.tensor], value)))
            seen = torch.cat([torch.ones(QUERIES, span.length, dtype=torch.bool), mask_BQS[row]], 1)
            rows.append(torch.softmax((0.3 * query[row] @ keys.mT).masked_fill(~seen, -torch.inf), -1) @ values)
    return torch.stack(rows)


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("block", [2, 6, 40, 10_000])
@pytest.mark.parametrize("before, masked", [(0, False), (0, True), (3, True)])
def test_outputs_and_gradients_are_those_of_one_softmax(monkeypatch, kernel, block, before, masked):
    if not kernel:  # what devices without PyTorch's CPU kernel run
        monkeypatch.setattr(prefix_attention, "attend_part", prefix_attention.part_by_definition)
        monkeypatch.setattr(prefix_attention, "part_backward", prefix_attention.part_backward_by_definition)
    monkeypatch.setattr(prefix_attention, "BLOCK_CPU", block)
    tensors = inputs(before + QUERIES)
    seen = torch.ones(5, QUERIES, before + QUERIES, dtype=torch.bool).tril(before)
    if masked:
        itself = torch.eye(before + QUERIES, dtype=torch.bool)[before:]
        seen &= (torch.rand(seen.shape) > 0.4) | itself
    ends = range(before + 1, before + QUERIES + 1)
    query, key, value, *prefixes = tensors
    found = prefix_attention.prefix_attention(query, key, value, 0.3, prefixes[:2], prefixes[2:], SPANS,
                                              seen if masked else None, ends if before else None)
    expected = by_definition(tensors, seen)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
    weight = torch.randn_like(found)
    for one, other in zip(*(torch.autograd.grad(out, tensors, weight) for out in (found, expected))):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-13)


def test_scores_are_float32_for_bfloat16_inputs():
    tensors = [tensor.detach().bfloat16() for tensor in inputs(QUERIES)]
    query, key, value, *prefixes = tensors
    found = prefix_attention.prefix_attention(query, key, value, 0.3, prefixes[:2], prefixes[2:], SPANS, None)
    exact = by_definition([tensor.double() for tensor in tensors],
                          torch.ones(5, QUERIES, QUERIES, dtype=torch.bool).tril())
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), exact, rtol=0.02, atol=0.02)


def test_memory_kept_for_the_backward_pass_grows_with_the_tokens_only():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.numel()) or tensor, lambda t: t):
        query, key, value, *prefixes = tensors = inputs(QUERIES)
        prefix_attention.prefix_attention(query, key, value, 0.3, prefixes[:2], prefixes[2:], SPANS, None)
    assert sum(kept) == sum(tensor.numel() for tensor in tensors) + query.numel() + query.numel() // WIDTH
