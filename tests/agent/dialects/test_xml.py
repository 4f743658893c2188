"""The xml dialect: kinds, exact byte spans, tags that are quoted in thinking, malformed actions."""

import pytest

from serl.agent.dialects import Kind, Think, Xml

parse = Xml().parse


def test_a_query_after_thinking_has_the_exact_byte_span_of_its_sql():
    text = "<think>größe?</think> <sql>SELECT 'é' FROM t</sql>".encode()
    action = parse(text)
    assert action.kind is Kind.SQL
    assert action.sql == "SELECT 'é' FROM t"
    assert text[slice(*action.sql_span)].decode() == "SELECT 'é' FROM t"
    assert action.acting == (action.sql_span,)
    assert isinstance(action.events[0], Think) and text[slice(*action.events[0].span)].decode() == "größe?"


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
    (b"<tool_call>SELECT 1</tool_call>", "expected <sql>"),
])
def test_malformed_actions_say_what_was_expected(sampled, reason):
    action = parse(sampled)
    assert action.kind is Kind.MALFORMED
    assert action.sql is None and action.acting == ()
    assert reason in action.reason


def test_empty_sql_is_an_action_that_the_database_will_refuse():
    assert parse(b"<sql></sql>").sql == ""


def test_line_breaks_of_any_kind_belong_to_the_sql():
    assert parse(b"<sql>\r\nSELECT 1\r\n</sql>").sql == "\r\nSELECT 1\r\n"
