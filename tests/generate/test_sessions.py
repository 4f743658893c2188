"""Turns of a trajectory on keys and values that are kept, batches that are refilled, and what must not survive."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.generate.interface import Request
from serl.generate.interface import generate as ask
from serl.train.scoring import Tail, score
from tests.generate.conversations import (
    MODEL,
    PROMPTS,
    TOKENIZER,
    Conversation,
    converse,
    make_generator,
    some,
)
from tests.models import tiny_model


def sampled(conversations) -> list[list[list[int]]]:
    return [[generation.ids for generation in conversation.generations] for conversation in conversations]


def logprobs(conversations) -> list[float]:
    return [value for conversation in conversations for generation in conversation.generations
            for value in generation.logprobs]


def taught(conversations, model=MODEL) -> list[float]:
    """The trainer's log-probs of the same tokens, each turn in a plain pass over all that is before it."""
    out = []
    for conversation in conversations:
        at = len(conversation.prompt)
        for turn, generation in enumerate(conversation.generations):
            end = at + len(generation.ids)
            (found,) = score(model, [Tail(conversation.ids[:end], at, at - 1)], 1000, 1.0, share=False)
            out += found.tolist()
            at = end + (conversation.observations[turn] if turn < len(conversation.observations) else 0)
    return out


@pytest.fixture(scope="module")
def plain():
    """Three turns each, by the plain decoder."""
    return converse(make_generator(share=False), some(13))


@pytest.fixture
def read():
    """How many tokens each forward pass of the model reads."""
    sizes: list[int] = []
    hook = MODEL.model.embed_tokens.register_forward_hook(lambda _, args, output: sizes.append(args[0].numel()))
    yield sizes
    hook.remove()


@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
def test_turns_on_kept_keys_and_values_in_refilled_batches_are_those_of_whole_sequences(plain, batch_size):
    kept = converse(make_generator(batch_size), some(13))
    assert sampled(kept) == sampled(plain)
    assert logprobs(kept) == pytest.approx(logprobs(plain), abs=1e-4)


def test_log_probs_of_every_turn_are_the_trainers(plain):
    kept = converse(make_generator(5), some(13))
    assert len({len(conversation.ids) for conversation in kept}) > 5, "rows of unequal lengths"
    assert logprobs(kept) == pytest.approx(taught(kept), abs=1e-4)
    assert logprobs(plain) == pytest.approx(taught(plain), abs=1e-4)


def test_every_token_is_read_once(read):
    (conversation,) = converse(make_generator(), [Conversation(0, PROMPTS[1], (5, 1))])
    assert sum(read) == len(conversation.ids) - 1, "all but the last, which nothing follows"
    read.clear()
    group = converse(make_generator(), [Conversation(i, PROMPTS[1], (5, 1)) for i in range(4)])
    own = [len(conversation.ids) - len(PROMPTS[1]) for conversation in group]
    # The prompt's last token is each row's own: its logits give the first token.
    assert sum(read) == len(PROMPTS[1]) - 1 + sum(own)


def test_a_batch_is_refilled_as_sequences_end_and_never_larger_than_it_may_be(read):
    requests = [Request(PROMPTS[0], (0, i), len(PROMPTS[0])) for i in range(30)]
    lengths = [len(generation.ids) for generation in ask(make_generator(), requests, 40, 1.0)]
    read.clear()
    assert [len(generation.ids) for generation in ask(make_generator(6), requests, 40, 1.0)] == lengths
    prompt, *steps = read
    assert prompt == len(PROMPTS[0]) - 1 and max(steps) == 6 and sum(steps) == sum(lengths)
    # First come, first served: the same on six machines, each taking the next request when it is done with one.
    busy = [0] * 6
    for length in lengths:
        busy[busy.index(min(busy))] += length
    assert len(steps) == max(busy) < sum(max(lengths[i: i + 6]) for i in range(0, 30, 6))


def test_a_request_that_is_cancelled_in_the_middle_leaves_the_others_alone(plain):
    generator, others = make_generator(4), some(13)
    victims = [Conversation(number, PROMPTS[number % 3]) for number in (100, 101, 103)]
    for victim in victims:
        generator.submit(victim.number, victim.request, 12, 1.0)
    assert generator.poll(block=False) == []
    generator.cancel(victims[0].number)  # while it is decoded
    generator.release(victims[0].request.session)
    generator.submit("waits", Request(PROMPTS[0], None), 12, 1.0)
    generator.cancel("waits")
    generator.cancel("unknown")
    for victim in victims[1:]:
        generator.cancel(victim.number)  # their sessions stay: they give way when there is need
    assert generator.poll() == []
    assert sampled(converse(generator, others)) == sampled(plain)


def changed(model):
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.2)


def test_weights_that_change_under_a_session_are_an_error(monkeypatch):
    model = tiny_model(len(TOKENIZER), seed=1)
    generator = make_generator(model=model)
    conversation = Conversation(0, PROMPTS[1])

    def turn() -> bool:
        generator.submit(0, conversation.request, 12, 1.0)
        ((_, generation),) = generator.poll()
        return conversation.take(generation)

    assert turn()
    changed(model)
    with pytest.raises(RuntimeError, match="weights changed while 1 trajectories were under way"):
        turn()

    # What the error prevents: numbers that no weights would give.
    monkeypatch.setattr(generator, "_check_weights", lambda: None)
    ((_, generation),) = generator.poll()
    conversation.take(generation)
    first = len(conversation.generations[0].ids)
    wrong, right = logprobs([conversation])[first:], taught([conversation], model)[first:]
    assert max(abs(one - other) for one, other in zip(wrong, right)) > 0.01


def test_weights_that_change_under_a_request_of_the_plain_decoder_are_an_error():
    model = tiny_model(len(TOKENIZER), seed=1)
    generator = make_generator(share=False, model=model)
    generator.submit(0, Request(PROMPTS[1], (0, 0)), 12, 1.0)
    assert generator.poll(block=False) == []
    changed(model)
    with pytest.raises(RuntimeError, match="weights changed while 1 requests were under way"):
        generator.poll()


def test_after_an_update_everything_is_read_again():
    model = tiny_model(len(TOKENIZER), seed=1)
    generator = make_generator(batch_size=1, model=model)
    group = [Conversation(i, PROMPTS[1], ()) for i in range(2)]
    for conversation in group:
        generator.submit(conversation.number, conversation.request, 12, 1.0)
    ((first, before),) = generator.poll()  # the other still waits, and the prompt with it
    generator.release(group[first].request.session)
    changed(model)
    ((second, after),) = generator.poll()
    group[first].take(before)
    group[second].take(after)
    assert logprobs([group[second]]) == pytest.approx(taught([group[second]], model), abs=1e-4)
    assert logprobs([group[first]]) != pytest.approx(taught([group[first]], model), abs=1e-2)

    generator.release(group[second].request.session)
    changed(model)
    again = converse(generator, some(4))
    assert logprobs(again) == pytest.approx(taught(again, model), abs=1e-4)


def test_requests_that_do_not_fit_are_refused_with_both_lengths():
    generator = make_generator()
    with pytest.raises(ValueError, match="4084 tokens and 13 new ones does not fit the model's 4096"):
        generator.submit(0, Request([3] * 4084, None), 13, 1.0)
    generator.submit(0, Request([3] * 4084, None), 12, 1.0)
    with pytest.raises(ValueError, match="there is one pending already"):
        generator.submit(0, Request([3] * 5, None), 12, 1.0)
    with pytest.raises(ValueError, match="two tokens"):
        generator.submit(1, Request([3], None), 12, 1.0)


def test_a_session_goes_on_only_from_what_it_was():
    generator = make_generator()
    conversation = Conversation(0, PROMPTS[1])
    generator.submit(0, conversation.request, 12, 1.0)
    with pytest.raises(ValueError, match="there is one pending already"):
        generator.submit("other key", conversation.request, 12, 1.0)
    with pytest.raises(ValueError, match="cancel it first"):
        generator.release(conversation.request.session)
    ((_, generation),) = generator.poll()
    conversation.take(generation)
    for ids in (conversation.ids[:-8], [conversation.ids[0] + 1, *conversation.ids[1:]]):
        with pytest.raises(ValueError, match="does not go on from"):
            generator.submit(0, Request(ids, (0, 0, 1), len(PROMPTS[1]), conversation.request.session), 12, 1.0)
    generator.submit(0, conversation.request, 12, 1.0)
    assert generator.poll()


schedules = st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(1, 20), max_size=3), st.booleans()),
                     min_size=1, max_size=7)


@settings(max_examples=15)
@given(schedules, st.integers(1, 8))
def test_any_mix_of_turns_lengths_and_cancellations_gives_the_samples_of_each_alone(schedule, batch_size):
    conversations = [Conversation(i, PROMPTS[prompt], observations)
                     for i, (prompt, observations, _) in enumerate(schedule)]
    generator, running = make_generator(batch_size), {}
    for conversation, (*_, cancelled) in zip(conversations, schedule):
        generator.submit(conversation.number, conversation.request, 8, 1.0)
        running[conversation.number] = cancelled
    while running:
        for key, generation in generator.poll(block=False):
            if conversations[key].take(generation) and not running[key]:
                generator.submit(key, conversations[key].request, 8, 1.0)
            else:
                generator.release(conversations[key].request.session)
                del running[key]
        for key in [key for key, cancelled in running.items() if cancelled and key % 2]:
            generator.cancel(key)
            generator.release(conversations[key].request.session)
            del running[key]
    alone = converse(make_generator(1), [Conversation(each.number, each.prompt, each.observations)
                                         for each in conversations], 8)
    for one, other in zip(conversations, alone):
        assert [g.ids for g in one.generations] == [g.ids for g in other.generations][: len(one.generations)]
    assert logprobs(conversations) == pytest.approx(taught(conversations), abs=1e-4)
