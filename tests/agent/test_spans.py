"""Tokens that hold bytes."""

from hypothesis import given
from hypothesis import strategies as st

from serl.agent.spans import token_mask, token_span

lengths_and_span = st.lists(st.integers(0, 6), min_size=1, max_size=20).flatmap(
    lambda lengths: st.tuples(st.just(lengths), st.tuples(st.integers(0, sum(lengths)), st.integers(0, sum(lengths)))))


def holding(lengths: list[int], span: tuple[int, int]) -> list[int]:
    owners = [index for index, length in enumerate(lengths) for _ in range(length)]
    return sorted(set(owners[slice(*span)]))


@given(lengths_and_span)
def test_token_span_covers_the_bytes_and_no_token_more(case):
    lengths, span = case
    found = holding(lengths, span)
    assert token_span(lengths, span) == ((found[0], found[-1] + 1) if found else (0, 0))


@given(lengths_and_span, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=3))
def test_a_token_mask_is_the_union_of_its_spans(case, more):
    lengths, span = case
    expected = {index for each in (span, *more) for index in holding(lengths, each)}
    assert [index for index, on in enumerate(token_mask(lengths, [span, *more])) if on] == sorted(expected)
