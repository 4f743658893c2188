"""The fence dialect: the last whole sql block of the last answer."""

import pytest

from serl.agent.dialects import Fence, Kind, Malformed, Think

parse = Fence().parse


def answer(text: str, thinking: str = "<think>hm</think>") -> bytes:
    return f"{thinking}<answer>{text}</answer>".encode()


@pytest.mark.parametrize(("text", "sql"), [
    ("```sql\nSELECT 1\n```", "SELECT 1"),
    ("So:\n```sql\nSELECT 1;\n```\nThat is it.", "SELECT 1;"),
    ("```SQL \r\nSELECT 1\r\n```", "SELECT 1\r"),
    ("```sql SELECT 1```", "SELECT 1"),
    ("```sql\n\n  SELECT 'é'\n-- why\n\n```", "\n  SELECT 'é'\n-- why\n"),
    ("```sql\nSELECT 0\n```\nor rather\n```sql\nSELECT 1\n```", "SELECT 1"),
    ("```sql\nSELECT 1\n```\nor ```sql\nSELECT 2", "SELECT 1"),  # a block without an end is none
    ("```\nplain\n```\n```sql\nSELECT 1\n```", "SELECT 1"),
    ("```sql\n```", ""),
    ("```sql```", ""),
    ("<answer>```sql\nSELECT 1\n```", "SELECT 1"),
])
def test_the_solution_is_what_stands_in_the_last_whole_block(text, sql):
    sampled = answer(text)
    action = parse(sampled)
    assert (action.kind, action.sql) == (Kind.FINAL, sql)
    assert sampled[slice(*action.sql_span)].decode() == sql and action.acting == (action.sql_span,)


def test_the_last_answer_wins():
    assert parse(answer("```sql\nSELECT 0\n```") + answer("```sql\nSELECT 1\n```", "")).sql == "SELECT 1"


def test_an_answer_quoted_in_thinking_is_none():
    quoted = "<think><answer>```sql\nSELECT 0\n```</answer></think>"
    assert parse(answer("```sql\nSELECT 1\n```", quoted)).sql == "SELECT 1"
    assert parse(quoted.encode()).kind is Kind.MALFORMED


@pytest.mark.parametrize("sampled", [b"hm</think>", b"<think>hm</think>", b"\n<think>hm</think>"])
def test_thinking_that_the_prompt_has_opened_may_be_opened_again(sampled):
    sampled += b"<answer>```sql\nSELECT 1\n```</answer>"
    action = Fence(thinking_open=True).parse(sampled)
    assert action.sql == "SELECT 1"
    assert isinstance(action.events[0], Think) and sampled[slice(*action.events[0].span)] == b"hm"


@pytest.mark.parametrize(("sampled", "reason"), [
    (b"SELECT 1", "expected <answer>"),
    (b"```sql\nSELECT 1\n```", "expected <answer>"),
    (b"<answer>SELECT 1</answer>", "expected a ```sql block"),
    (b"<answer>```sqlite\nSELECT 1\n```</answer>", "expected a ```sql block"),
    (b"<answer>```sql\nSELECT 1\n</answer>", "was not closed with ```"),
    (b"<answer>```sql\nSELECT 1\n```", "</answer>"),
    (b"<think>hm<answer>```sql\nSELECT 1\n```</answer>", "</think>"),
    (b"<answer>```sql\n\xc3\n```</answer>", "UTF-8"),
])
def test_malformed_answers_say_what_was_expected(sampled, reason):
    action = parse(sampled)
    assert action.kind is Kind.MALFORMED and reason in action.reason
    assert isinstance(action.events[-1], Malformed)


def test_a_form_has_its_parts():
    sampled = b"Well: <think>hm</think> So <answer>It is ```sql\nSELECT 1\n```.</answer>"
    form = Fence().form(sampled)
    assert form.fault == "" and sampled[slice(*form.thinking)] == b"hm"
    assert sampled[slice(*form.answer)] == b"It is ```sql\nSELECT 1\n```." and sampled[slice(*form.sql)] == b"SELECT 1"


@pytest.mark.parametrize("sampled", [b"hm</think>", b"<think>hm</think>", b" \n<think>hm</think>"])
def test_thinking_that_the_prompt_has_opened_counts_and_may_be_opened_once_more(sampled):
    form = Fence(thinking_open=True).form(sampled + answer("```sql\nSELECT 1\n```", ""))
    assert form.fault == "" and sampled[slice(*form.thinking)] == b"hm"


@pytest.mark.parametrize(("sampled", "fault"), [
    (answer("```sql\nSELECT 1\n```", "hm"), "<think> stands there 0 times, not once"),
    (answer("```sql\nSELECT 1\n```", "<think><think>hm</think>"), "<think> stands there 2 times, not once"),
    (answer("```sql\nSELECT 1\n```", "") + b"<think>hm</think>", "the tags are in another order"),
    (answer("```sql\n \n```"), "the ```sql block is empty"),
    (answer("SELECT 1"), "expected a ```sql block in <answer>...</answer>"),
])
def test_a_fault_says_what_breaks_the_form(sampled, fault):
    assert Fence().form(sampled).fault == fault


def test_there_are_no_queries():
    with pytest.raises(ValueError, match="no action sql"):
        Fence().write(Kind.SQL, "SELECT 1")


@pytest.mark.parametrize("sql", ["SELECT '```'", "SELECT '</answer>'"])
def test_sql_that_would_close_its_own_block_cannot_be_written(sql):
    with pytest.raises(ValueError, match="cannot be written"):
        Fence().write(Kind.FINAL, sql)
