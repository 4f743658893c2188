"""Sampling: the same stream gives the same tokens in any batch, and log-probs are the trainer's."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from serl.generate.interface import Request, StopReason
from serl.generate.interface import generate as ask
from serl.generate.sampling import sample
from serl.train.scoring import Tail, score
from tests.generate.conversations import EOS, MODEL, PROMPTS, TOKEN_BYTES, make_generator


def requests() -> list[Request]:
    return [Request(PROMPTS[i % 3], (0, i)) for i in range(12)] + [Request(PROMPTS[0], None)]


def generate(batch_size: int, chosen=slice(None), seed: int = 0, temperature: float = 1.0, share: bool = True):
    return ask(make_generator(batch_size, seed, share), requests()[chosen], 24, temperature)


def test_batch_composition_does_not_change_what_is_sampled():
    together = generate(100)
    assert [g.ids for g in generate(4)] == [g.ids for g in together]
    assert [g.ids for g in generate(100, slice(3, 9))] == [g.ids for g in together[3:9]]


def test_shared_prompts_and_the_plain_way_sample_the_same():
    shared, plain = generate(100), generate(100, share=False)
    assert [g.ids for g in shared] == [g.ids for g in plain]
    for one, other in zip(shared, plain):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_what_requests_are_said_to_share_does_not_change_what_is_sampled():
    said = [replace(request, shared=shared) for request, shared in zip(requests(), (1, 2, 0) * 5)]
    assert [g.ids for g in ask(make_generator(), said, 24, 1.0)] == [g.ids for g in generate(100)]


def test_another_seed_gives_other_samples_but_the_same_greedy_ones():
    first, second = generate(100), generate(100, seed=1)
    assert [g.ids for g in first[:-1]] != [g.ids for g in second[:-1]]
    assert first[-1].ids == second[-1].ids


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_are_those_of_the_trainer(temperature):
    generations = generate(5, slice(0, 12), temperature=temperature)
    sequences = [[*request.ids, *g.ids] for request, g in zip(requests(), generations)]
    tails = [Tail(ids, len(request.ids), len(request.ids) - 1) for request, ids in zip(requests(), sequences)]
    scored = score(MODEL, tails, 100, temperature, share=False)
    for generation, expected in zip(generations, scored):
        assert generation.logprobs == pytest.approx(expected.tolist(), abs=1e-4)


def test_sampling_stops_at_an_end_token_at_a_tag_and_at_the_cap():
    by_stop = {}
    for generation in ask(make_generator(400, 3), [Request(PROMPTS[0], (0, i)) for i in range(400)], 40, 1.5):
        by_stop.setdefault(generation.stop, generation)
    assert set(by_stop) == set(StopReason), "400 random samples hold every kind of stop"
    assert by_stop[StopReason.EOS].ids[-1] in EOS
    assert TOKEN_BYTES.join(by_stop[StopReason.TAG].ids).endswith((b"</sql>", b"</solution>"))
    assert len(by_stop[StopReason.LENGTH].ids) == 40


def test_inverse_transform_sampling_has_the_right_frequencies():
    logits = torch.log(torch.tensor([[0.5, 0.2, 0.3]])).expand(10_000, 3)
    uniforms = torch.from_numpy((np.arange(10_000) + 0.5) / 10_000)
    tokens, logprobs = sample(logits, uniforms, 1.0)
    assert (tokens.bincount() / 10_000).tolist() == pytest.approx([0.5, 0.2, 0.3], abs=1e-3)
    assert logprobs.exp().unique().tolist() == pytest.approx([0.2, 0.3, 0.5])


def test_a_uniform_next_to_one_still_picks_a_token_with_probability():
    logits = torch.tensor([[0.0, 0.0, -1e9]])
    tokens, _ = sample(logits, torch.tensor([1.0 - 1e-16], dtype=torch.float64), 1.0)
    assert tokens.item() == 1
