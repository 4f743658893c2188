"""Log-probs: aligned to their tokens, and the same however sequences are batched, padded and shared."""

import logging

import pytest
import torch

from serl.ragged import batches, buckets, pad
from serl.train import sharing
from serl.train.scoring import Tail, _say_long, logprobs, micro_batches, score
from tests.models import tiny_model

MODEL = tiny_model(64, dtype=torch.float64)


@pytest.fixture(autouse=True)
def sharing_at_any_size(monkeypatch):
    monkeypatch.setattr(sharing, "LEAST", 1)
    monkeypatch.setattr(sharing, "SHARE", 0.0)


def ids(length: int, seed: int = 0) -> list[int]:
    return torch.randint(3, 64, (length,), generator=torch.Generator().manual_seed(100 * seed + length)).tolist()


PROMPTS = [ids(11), ids(7), ids(20)]
# Ragged groups, as GRPO's and the teacher's are: several lengths, one row alone, one token after the prompt.
TAILS = [Tail([*PROMPTS[p], *ids(own, own)], len(PROMPTS[p]) + skip, len(PROMPTS[p]) - 1)
         for p, own, skip in ((0, 5, 0), (1, 30, 4), (0, 1, 0), (2, 9, 2), (0, 14, 0), (1, 3, 0), (1, 30, 0))]


def by_definition(tail: Tail) -> list[float]:
    """log softmax of the logits after each prefix, one prefix at a time."""
    with torch.no_grad():
        return [torch.log_softmax(MODEL(torch.tensor([tail.ids[:i]])).logits[0, -1], -1)[tail.ids[i]].item()
                for i in range(tail.first, len(tail.ids))]


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("micro_tokens", [1, 40, 10_000])
def test_scores_equal_the_definition_whatever_the_batch(micro_tokens, share):
    for tail, found in zip(TAILS, score(MODEL, TAILS, micro_tokens, 1.0, share), strict=True):
        assert found.tolist() == pytest.approx(by_definition(tail), abs=1e-5)


@pytest.mark.parametrize("share", [False, True])
def test_no_batch_is_over_the_budget_but_for_a_sequence_that_is_longer(share, caplog):
    prompt = ids(30)  # 29 tokens are shared; 5, 10, 15 and 41 follow
    group = [Tail([*prompt, *[3 + own] * own], 30, 29) for own in (4, 9, 14, 40)]
    _say_long.cache_clear()
    with caplog.at_level(logging.WARNING):
        for budget, expected in ((60, [3, 1] if share else [1, 1, 1, 1]), (44, [2, 1, 1] if share else [1, 1, 1, 1])):
            found = [sorted(batch) for _ in range(2) for batch in micro_batches(group, budget, share)]
            batches_ = found[: len(found) // 2]
            assert sorted(sum(batches_, [])) == [0, 1, 2, 3] and [3] in batches_
            assert sorted(map(len, batches_), reverse=True) == expected
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == 2 and "train.micro_tokens is 60: longer sequences are encoded alone" in logged[0]
    caplog.clear()
    list(micro_batches(group, 70, share))
    assert not caplog.records, "the longest has just this many"


@pytest.mark.parametrize("share", [False, True])
def test_scorers_have_no_dropout_and_leave_the_mode_as_it_was(share):
    model = tiny_model(64)
    expected = torch.cat(score(model, TAILS, 100, 1.0, share))
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    model.train()
    assert torch.equal(torch.cat(score(model, TAILS, 100, 1.0, share)), expected) and model.training
    model.eval()
    score(model, TAILS, 100, 1.0, share)
    assert not model.training


@pytest.mark.parametrize("share", [False, True])
def test_temperature_divides_the_logits(share):
    tail = TAILS[0]
    (found,) = score(MODEL, [tail], 100, 0.5, share)
    with torch.no_grad():
        logits = MODEL(torch.tensor([tail.ids[:tail.first]])).logits[0, -1]
    assert found[0].item() == pytest.approx(torch.log_softmax(logits / 0.5, -1)[tail.ids[tail.first]].item(), abs=1e-5)


def gradients(model, tails: list[Tail], share: bool, chosen: range) -> dict[str, torch.Tensor]:
    model.zero_grad()
    found = logprobs(model, tails, 1.0, share)
    # Weights that differ by row and token: a sum alone would hide tokens that are swapped.
    sum((found[i] * torch.linspace(-1.0, 2.0 + i, len(found[i]))).sum() for i in chosen).backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("tied", [True, False])
def test_shared_prompts_give_every_parameter_the_gradient_of_the_plain_way(tied):
    model = tiny_model(64, dtype=torch.float64, tied=tied)
    plain, shared = (gradients(model, TAILS, share, range(len(TAILS))) for share in (False, True))
    for name, gradient in plain.items():
        torch.testing.assert_close(shared[name], gradient, rtol=1e-4, atol=1e-5 * gradient.abs().max().item())


@pytest.mark.parametrize("share", [False, True])
def test_other_rows_and_padding_have_no_influence_on_gradients(share):
    model = tiny_model(64, dtype=torch.float64)
    alone, beside = gradients(model, TAILS[:1], share, range(1)), gradients(model, TAILS, share, range(1))
    for name, gradient in alone.items():
        torch.testing.assert_close(beside[name], gradient, rtol=1e-4, atol=1e-5 * gradient.abs().max().item())


def test_micro_batches_respect_the_budget_keep_groups_together_and_lose_nothing():
    found = list(micro_batches(TAILS, 60, share=True))
    assert sorted(index for batch in found for index in batch) == list(range(len(TAILS)))
    for batch in found:
        prompts = {tuple(TAILS[i].ids[:TAILS[i].shared]) for i in batch}
        size = sum(map(len, prompts)) + sum(len(TAILS[i].ids) - TAILS[i].shared for i in batch)
        assert size <= 60 or len(batch) == 1
    assert len(found) < len(list(micro_batches(TAILS, 60, share=False)))


def test_batches_respect_the_budget_and_lose_nothing():
    lengths = [5, 9, 1, 30, 7, 7]
    found = list(batches(lengths, 20))
    assert sorted(index for chunk in found for index in chunk) == list(range(6))
    assert all(len(chunk) * max(lengths[i] for i in chunk) <= 20 or len(chunk) == 1 for chunk in found)


def test_buckets_hold_rows_of_similar_length():
    found = list(buckets([100, 3, 40, 4, 110, 140]))
    assert found == [[1, 3], [2], [0, 4], [5]] or all(
        max(b) <= 1.3 * min(b) + 8 for b in ([[100, 3, 40, 4, 110, 140][i] for i in bucket] for bucket in found))
    assert sorted(index for bucket in found for index in bucket) == list(range(6))


def test_padding_on_either_side():
    assert pad([[1], [2, 3]], 0, torch.long, "cpu").tolist() == [[1, 0], [2, 3]]
    assert pad([[1], [2, 3]], 0, torch.long, "cpu", left=True).tolist() == [[0, 1], [2, 3]]
    assert pad([[1], [2, 3]], 9, torch.long, "cpu", multiple=4).tolist() == [[1, 9, 9, 9], [2, 3, 9, 9]]
