"""Where an action ends, whatever the engine stopped at; seeds that are a function of (seed, stream, place)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.agent.dialects import DIALECTS
from serl.generate.interface import StopReason
from serl.generate.vllm.action import Action, StopRule, sampling, seed_of

EOS = 0
PIECES = {EOS: b"<eos>", 1: b"<think>", 2: b"</think>", 3: b"<sql>", 4: b"</s", 5: b"ql>", 6: b"</sql>\n", 7: b"a",
          8: b"\xc3", 9: b"\xa9", 10: b""}
RULE = StopRule(PIECES.__getitem__, frozenset({EOS}), tuple(tag.decode() for tag in DIALECTS["xml"].stop_tags),
                    DIALECTS["xml"].is_complete)


def extended(*answers: list[int], limit: int = 20) -> Action:
    action = Action(RULE, limit)
    for ids in answers:
        action.extend(ids, [-float(token) for token in ids])
    return action


def test_an_action_ends_at_the_token_that_completes_its_tag_and_what_follows_is_cut():
    action = extended([3, 7, 4, 5, 7, 7])
    assert (action.ids, action.stop) == ([3, 7, 4, 5], StopReason.TAG)
    assert action.generation().logprobs == [-3.0, -7.0, -4.0, -5.0]


def test_a_tag_that_is_quoted_in_thinking_does_not_end_it():
    action = extended([1, 7, 6])
    assert action.stop is None
    assert sampling(action, 1.0, 5)["max_tokens"] == 17, "the engine is asked for the rest"
    action.extend([2, 3, 7, 6], [-1.0] * 4)
    assert (action.ids, action.stop) == ([1, 7, 6, 2, 3, 7, 6], StopReason.TAG)


def test_an_end_token_and_the_cap_end_it_too():
    assert extended([7, EOS, 7]).stop is StopReason.EOS
    full = extended([7, 7], [7, 7], limit=3)
    assert (full.ids, full.stop) == ([7, 7, 7], StopReason.LENGTH)
    assert extended([3, 6], limit=2).stop is StopReason.TAG, "the cap is no reason where the tag was completed"


@given(st.lists(st.sampled_from(sorted(PIECES)), min_size=1, max_size=30), st.integers(1, 30), st.data())
def test_how_the_answers_are_cut_into_pieces_makes_no_difference(ids, limit, data):
    whole, parts = extended(ids, limit=limit), Action(RULE, limit)
    while ids:
        size = data.draw(st.integers(1, len(ids)))
        parts.extend(ids[:size], [-float(token) for token in ids[:size]])
        ids = ids[size:]
    assert (parts.ids, parts.logprobs, parts.stop) == (whole.ids, whole.logprobs, whole.stop)


def test_seeds_are_of_63_bits_and_differ_by_seed_stream_and_place():
    seeds = {seed_of(seed, stream, sampled) for seed in (0, 1) for stream in ((0, 1), (1, 0), (0, 1, 0))
             for sampled in (0, 1)}
    assert len(seeds) == 12 and all(0 <= seed < 2**63 for seed in seeds)
    assert seed_of(3, None, 0) is None


@pytest.mark.parametrize("temperature, seed", [(0.7, 5), (0.7, None)])
def test_nothing_is_left_to_the_defaults_of_a_server(temperature, seed):
    asked = sampling(Action(RULE, 8), temperature, seed)
    assert asked["temperature"] == (0.0 if seed is None else 0.7) and asked["seed"] == seed
    assert (asked["top_p"], asked["top_k"], asked["min_p"], asked["repetition_penalty"]) == (1.0, 0, 0.0, 1.0)
    assert asked["stop"] == ["</sql>", "</solution>"] and asked["stop_token_ids"] == [EOS]
