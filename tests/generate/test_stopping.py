"""Where an action ends: at a tag outside of thinking, an end token, the cap; what comes later is cut."""

from serl.agent.dialects import DIALECTS
from serl.generate.interface import StopReason
from serl.generate.stopping import ActionTokens, StopRule

EOS = 0
PIECES = {EOS: b"<eos>", 1: b"<think>", 2: b"</think>", 3: b"<sql>", 4: b"</s", 5: b"ql>", 6: b"</sql>\n", 7: b"a",
          8: b"\xc3", 9: b"\xa9", 10: b""}
RULE = StopRule(PIECES.__getitem__, frozenset({EOS}), ("</sql>", "</solution>"), DIALECTS["xml"].is_complete)


def sampled(*ids: int, limit: int = 20) -> ActionTokens:
    action = ActionTokens(RULE, limit)
    for token in ids:
        action.append(token, -float(token))
    return action


def test_an_action_ends_at_the_token_that_completes_its_tag_and_what_follows_is_cut():
    action = sampled(3, 7, 4, 5, 7, 7)
    assert (action.ids, action.stop) == ([3, 7, 4, 5], StopReason.TAG)
    assert action.generation().logprobs == [-3.0, -7.0, -4.0, -5.0]


def test_a_token_that_holds_more_than_the_end_of_the_tag_is_kept_whole():
    assert (sampled(3, 8, 9, 6, 7).ids, sampled(3, 6).stop) == ([3, 8, 9, 6], StopReason.TAG)


def test_a_tag_that_is_quoted_in_thinking_does_not_end_it():
    assert sampled(1, 7, 6).stop is None
    action = sampled(1, 7, 6, 2, 3, 7, 6)
    assert (action.ids, action.stop) == ([1, 7, 6, 2, 3, 7, 6], StopReason.TAG)


def test_a_token_of_no_bytes_ends_nothing():
    assert sampled(1, 6, 2, 10).stop is None


def test_an_end_token_and_the_cap_end_it_too():
    assert sampled(7, EOS, 7).stop is StopReason.EOS
    full = sampled(7, 7, 7, 7, limit=3)
    assert (full.ids, full.stop) == ([7, 7, 7], StopReason.LENGTH)
    assert sampled(3, 6, limit=2).stop is StopReason.TAG, "the cap is no reason where the tag was completed"
