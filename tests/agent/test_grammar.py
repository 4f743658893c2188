"""The xml dialect: kinds, exact byte spans, tags that are quoted in thinking, malformed actions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.agent.grammar import STOP_TAGS, Kind, after_thinking, is_complete, parse, token_span, write


def test_a_query_after_thinking_has_the_exact_byte_span_of_its_sql():
    text = "<think>größe?</think> <sql>SELECT 'é' FROM t</sql>".encode()
    action = parse(text)
    assert action.kind is Kind.SQL
    assert action.sql == "SELECT 'é' FROM t"
    assert text[slice(*action.sql_span)].decode() == "SELECT 'é' FROM t"


def test_a_tag_quoted_in_thinking_is_not_an_action():
    action = parse(b"<think>maybe <solution>SELECT 0</solution>?</think><sql>SELECT 1</sql>")
    assert (action.kind, action.sql) == (Kind.SQL, "SELECT 1")


def test_the_first_action_counts_when_a_model_writes_two():
    action = parse(b"<solution>SELECT 2</solution><sql>SELECT 1</sql>")
    assert (action.kind, action.sql) == (Kind.FINAL, "SELECT 2")


@pytest.mark.parametrize(("sampled", "reason"), [
    (b"", "expected <sql>"),
    (b"SELECT 1", "expected <sql>"),
    (b"<think>no end <sql>SELECT 1</sql>", "</think>"),
    (b"<sql>SELECT 1", "</sql>"),
    (b"<solution>SELECT 1</sql>", "</solution>"),
    (b"<sql>\xff</sql>", "UTF-8"),
])
def test_malformed_actions_say_what_was_expected(sampled, reason):
    action = parse(sampled)
    assert action.kind is Kind.MALFORMED
    assert action.sql is None
    assert reason in action.reason


def test_empty_sql_is_an_action_that_the_database_will_refuse():
    assert parse(b"<sql></sql>").sql == ""


sql_text = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="<"), max_size=40)


@given(kind=st.sampled_from([Kind.SQL, Kind.FINAL]), sql=sql_text, thinking=sql_text)
def test_what_is_written_is_parsed_back(kind, sql, thinking):
    sampled = write(kind, sql, thinking).encode()
    action = parse(sampled)
    assert (action.kind, action.sql) == (kind, sql)
    assert sampled[slice(*action.sql_span)] == sql.encode()


@given(st.lists(st.integers(0, 6), min_size=1, max_size=20), st.data())
def test_token_span_covers_the_bytes_and_no_token_more(lengths, data):
    total = sum(lengths)
    start = data.draw(st.integers(0, total))
    end = data.draw(st.integers(start, total))
    first, last = token_span(lengths, (start, end))
    offsets = [sum(lengths[:index]) for index in range(len(lengths) + 1)]
    holding = [index for index, length in enumerate(lengths)
               if length and offsets[index] < end and offsets[index + 1] > start]
    assert (first, last) == ((holding[0], holding[-1] + 1) if holding else (0, 0))


@given(st.lists(st.sampled_from([b"<think>", b"</think>", b"<sql>", b"</sql>", b"</solution>", b"x", b"</s", b"ql>"]),
                max_size=12))
def test_sampling_stops_at_the_first_closing_tag_outside_thinking(pieces):
    stops = [is_complete(b"".join(pieces[: i + 1]), len(pieces[i])) for i in range(len(pieces))]
    for count in range(1, len(pieces) + 1):
        text = b"".join(pieces[:count])
        start = after_thinking(text)
        closed = start is not None and any(tag in text[start:] for tag in STOP_TAGS)
        assert closed == any(stops[:count]) or any(stops[: count - 1])
