"""What an engine is asked for: nothing left to its defaults, seeds that are a function of (seed, stream, place)."""

import pytest

from serl.generate.stopping import ActionTokens, StopRule
from serl.generate.vllm.action import sampling, seed_of

RULE = StopRule(lambda token: b"a", frozenset({0}), ("</sql>", "</solution>"), lambda sampled, fresh: False)


def test_seeds_are_of_63_bits_and_differ_by_seed_stream_and_place():
    seeds = {seed_of(seed, stream, sampled) for seed in (0, 1) for stream in ((0, 1), (1, 0), (0, 1, 0))
             for sampled in (0, 1)}
    assert len(seeds) == 12 and all(0 <= seed < 2**63 for seed in seeds)
    assert seed_of(3, None, 0) is None


@pytest.mark.parametrize("temperature, seed", [(0.7, 5), (0.7, None)])
def test_nothing_is_left_to_the_defaults_of_a_server(temperature, seed):
    asked = sampling(ActionTokens(RULE, 8), temperature, seed)
    assert asked["temperature"] == (0.0 if seed is None else 0.7) and asked["seed"] == seed
    assert (asked["top_p"], asked["top_k"], asked["min_p"], asked["repetition_penalty"]) == (1.0, 0, 0.0, 1.0)
    assert asked["stop"] == ["</sql>", "</solution>"] and asked["stop_token_ids"] == [0]


def test_after_some_tokens_an_engine_is_asked_for_the_rest():
    action = ActionTokens(RULE, 20)
    for token in (1, 2, 3):
        action.append(token, -1.0)
    assert sampling(action, 1.0, 5)["max_tokens"] == 17
