"""Log-probs: aligned to their tokens, and the same however sequences are batched and padded."""

import pytest
import torch

from serl.train.scoring import batches, pad, score, tail_logprobs
from tests.models import tiny_model

MODEL = tiny_model(64, dtype=torch.float64)
SEQUENCES = [torch.randint(3, 64, (length,), generator=torch.Generator().manual_seed(length)).tolist()
             for length in (5, 12, 9, 30, 2)]
FIRSTS = [2, 1, 8, 20, 1]


def by_definition(sequence: list[int], first: int) -> list[float]:
    """log softmax of the logits after each prefix, one prefix at a time."""
    with torch.no_grad():
        return [torch.log_softmax(MODEL(torch.tensor([sequence[:i]])).logits[0, -1], -1)[sequence[i]].item()
                for i in range(first, len(sequence))]


@pytest.mark.parametrize("micro_tokens", [1, 40, 10_000])
def test_scores_equal_the_definition_whatever_the_batch(micro_tokens):
    scores = score(MODEL, SEQUENCES, FIRSTS, micro_tokens, 1.0)
    for sequence, first, found in zip(SEQUENCES, FIRSTS, scores):
        assert found.tolist() == pytest.approx(by_definition(sequence, first), abs=1e-5)


def test_temperature_divides_the_logits():
    (found,) = score(MODEL, SEQUENCES[:1], [4], 100, 0.5)
    with torch.no_grad():
        logits = MODEL(torch.tensor([SEQUENCES[0][:4]])).logits[0, -1]
    assert found.item() == pytest.approx(torch.log_softmax(logits / 0.5, -1)[SEQUENCES[0][4]].item(), abs=1e-5)


def test_gradients_flow_and_padding_has_no_influence():
    model = tiny_model(64, dtype=torch.float64)
    sequence = SEQUENCES[1]

    def gradient(rows: list[list[int]]) -> torch.Tensor:
        model.zero_grad()
        ids = pad(rows, 0, torch.long, "cpu")
        tail_logprobs(model, ids, [len(row) for row in rows], 1, 1.0)[0, : len(sequence) - 1].sum().backward()
        return model.model.embed_tokens.weight.grad.clone()

    torch.testing.assert_close(gradient([sequence]), gradient([sequence, SEQUENCES[3]]), rtol=1e-6, atol=1e-6)


def test_batches_respect_the_budget_and_lose_nothing():
    lengths = [5, 9, 1, 30, 7, 7]
    found = list(batches(lengths, 20))
    assert sorted(index for chunk in found for index in chunk) == list(range(6))
    assert all(len(chunk) * max(lengths[i] for i in chunk) <= 20 or len(chunk) == 1 for chunk in found)
