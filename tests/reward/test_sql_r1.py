"""SQL-R1's four terms, worked out by hand for completions on a real database."""

import pytest

from serl.config import RewardConfig

OPTIONS = RewardConfig("sql_r1", length_max=100)
COUNT = "SELECT count(*) FROM city"  # 25 bytes
BAD, STUCK, WRONG = (-1, 0, 0, 0), (1, -2, 0, 0), (1, 2, -3, 0)  # form; not executable; another result


def block(sql: str) -> str:
    """11 bytes more than its SQL."""
    return f"```sql\n{sql}\n```"


def said(sql: str) -> str:
    """The plainest completion: a thought of two bytes, and an answer of 11 bytes more than its SQL."""
    return f"<think>hm</think><answer>{block(sql)}</answer>"


def right(thinking: int, answer: int, sql: int) -> tuple[float, ...]:
    """The terms of a match with these bytes of thinking, of the answer, and of the SQL in it."""
    return 1, 2, 3, 0.5 * min(1, (thinking + answer) / 100) + sql / answer


FORM = {
    "nothing": ("", BAD),
    "SQL alone": (COUNT, BAD),
    "a block without an answer": (f"<think>hm</think>{block(COUNT)}", BAD),
    "no thinking": (f"<answer>{block(COUNT)}</answer>", BAD),
    "thinking that is not closed": (f"<think>hm<answer>{block(COUNT)}</answer>", BAD),
    "thinking that nobody opened": (f"hm</think><answer>{block(COUNT)}</answer>", BAD),
    "thinking opened twice": (f"<think><think>hm</think><answer>{block(COUNT)}</answer>", BAD),
    "thinking closed twice": (f"<think>hm</think></think><answer>{block(COUNT)}</answer>", BAD),
    "two thoughts": (f"<think>h</think><think>m</think><answer>{block(COUNT)}</answer>", BAD),
    "the answer opened twice": (f"<think>hm</think><answer><answer>{block(COUNT)}</answer>", BAD),
    "two answers": (said(COUNT) + f"<answer>{block(COUNT)}</answer>", BAD),
    "an answer that is not closed": (f"<think>hm</think><answer>{block(COUNT)}", BAD),
    "an answer before the thinking": (f"<answer>{block(COUNT)}</answer><think>hm</think>", BAD),
    "an answer within the thinking": (f"<think><answer>{block(COUNT)}</answer></think>", BAD),
    "tags quoted in the thinking": (f"<think><answer></answer></think><answer>{block(COUNT)}</answer>", BAD),
    "a tag quoted in SQL": (said("SELECT '<think>'"), BAD),
    "tags in capitals": (f"<THINK>hm</THINK><answer>{block(COUNT)}</answer>", BAD),
    "an answer of nothing": ("<think>hm</think><answer></answer>", BAD),
    "an answer in words": ("<think>hm</think><answer>There are 5.</answer>", BAD),
    "SQL without a block": (f"<think>hm</think><answer>{COUNT}</answer>", BAD),
    "a block of another language": (f"<think>hm</think><answer>```python\n{COUNT}\n```</answer>", BAD),
    "a block that is not closed": (f"<think>hm</think><answer>```sql\n{COUNT}\n</answer>", BAD),
    "a block of nothing": ("<think>hm</think><answer>```sql\n```</answer>", BAD),
    "a block of white space": (said(" \n\t "), BAD),
    "a last block of nothing": (f"<think>hm</think><answer>{block(COUNT)}{block('')}</answer>", BAD),

    "the plain form": (said(COUNT), right(2, 36, 25)),
    "thinking of nothing": (f"<think></think><answer>{block(COUNT)}</answer>", right(0, 36, 25)),
    "thinking beyond L_max": (f"<think>{'h' * 99}</think><answer>{block(COUNT)}</answer>", right(99, 36, 25)),
    "text around the tags": (f"Well: <think>hm</think>\nSo\n<answer>\n{block(COUNT)}\n</answer>\n", right(2, 38, 25)),
    "words around the block": (f"<think>hm</think><answer>Try {block(COUNT)} now.</answer>", right(2, 45, 25)),
    "two blocks, the last one right": (
        f"<think>hm</think><answer>{block('SELECT 1')}{block(COUNT)}</answer>", right(2, 19 + 36, 25)),
    "two blocks, the last one wrong": (f"<think>hm</think><answer>{block(COUNT)}{block('SELECT 1')}</answer>", WRONG),
}


@pytest.mark.parametrize(("completion", "terms"), FORM.values(), ids=FORM)
def test_the_form(play, completion, terms):
    check(play(completion, COUNT, OPTIONS), terms)


PREFILL = {
    "the prompt opens the thinking": (f"hm</think><answer>{block(COUNT)}</answer>", right(2, 36, 25)),
    "and the model opens it again": (said(COUNT), right(2, 36, 25)),
    "and again, behind a line break": ("\n" + said(COUNT), right(2, 36, 25)),
    "and twice more": (f"<think><think>hm</think><answer>{block(COUNT)}</answer>", BAD),
    "and somewhere in the midst": (f"h<think>m</think><answer>{block(COUNT)}</answer>", BAD),
    "and no one closes it": (f"<answer>{block(COUNT)}</answer>", BAD),
}


@pytest.mark.parametrize(("completion", "terms"), PREFILL.values(), ids=PREFILL)
def test_the_form_behind_a_prefill(play, completion, terms):
    check(play(completion, COUNT, OPTIONS, prefill="<think>\n"), terms)


NAMES, EMPTY = "SELECT name FROM city", "SELECT name FROM city WHERE people > 99"
SORTED = "SELECT name FROM city ORDER BY people"
FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"
SQL = {
    "a syntax error": ("SELEC count(*) FROM city", COUNT, STUCK),
    "an unknown column": ("SELECT nam FROM city", NAMES, STUCK),
    "a query without an end": (FOREVER.format("max(i)"), COUNT, STUCK),
    "too many rows": (FOREVER.format("i"), COUNT, STUCK),
    "a write": ("DELETE FROM city", COUNT, STUCK),
    "a second statement": (f"{COUNT}; DROP TABLE city", COUNT, STUCK),
    "the same statement twice": (f"{COUNT}; {COUNT}", COUNT, STUCK),
    "a semicolon at the end": (f"{COUNT};", COUNT, right(2, 37, 26)),
    "another result": ("SELECT 4", COUNT, WRONG),

    "a comment alone": ("-- the number of rows", COUNT, STUCK),
    "a comment alone, where gold is empty": ("-- nothing", EMPTY, STUCK),
    "an open comment": ("/* SELECT 5", COUNT, STUCK),
    "a semicolon alone": (";", EMPTY, STUCK),
    "a comment in front": (f"-- rows\n{COUNT}", COUNT, right(2, 44, 33)),
    "a comment in the midst": ("SELECT count(*) -- rows\nFROM city", COUNT, right(2, 44, 33)),
    "a condition that is a comment": (f"{COUNT} -- WHERE people > 3", COUNT, right(2, 56, 45)),

    "gold counts different names": ("SELECT count(name) FROM city", "SELECT count(DISTINCT name) FROM city", WRONG),
    "different names, gold lists all": ("SELECT DISTINCT name FROM city", NAMES, WRONG),
    "all names, gold lists different": (NAMES, "SELECT DISTINCT name FROM city", WRONG),

    "another order, where gold has none": (SORTED, NAMES, right(2, 48, 37)),
    "another order than gold's": (f"{SORTED} DESC", SORTED, WRONG),
    "no order, where gold has one": (NAMES, SORTED, WRONG),
    "another order, where a subquery of gold has one": (
        f"{SORTED} DESC", "SELECT name FROM (SELECT name FROM city ORDER BY people)", right(2, 53, 42)),
    "another order, where a text of gold says so": (
        SORTED, "SELECT name FROM city WHERE name <> 'order by'", right(2, 48, 37)),

    "a sum of floats": ("SELECT 0.1 + 0.2", "SELECT area FROM city WHERE name = 'Quito'", right(2, 27, 16)),
    "a float that is not close": ("SELECT 0.30001", "SELECT area FROM city WHERE name = 'Quito'", WRONG),
    "a float for an integer": ("SELECT 5.0", COUNT, right(2, 21, 10)),
    "a text for an integer": ("SELECT '5'", COUNT, WRONG),

    "columns in another order": ("SELECT people, name FROM city", "SELECT name, people FROM city", WRONG),
    "a column more": ("SELECT name, people FROM city", NAMES, WRONG),
    "a column by another name": ("SELECT name AS n FROM city", NAMES, right(2, 37, 26)),
    "no rows, as gold": ("SELECT name FROM city WHERE 0", EMPTY, right(2, 40, 29)),
    "no rows of two columns": ("SELECT name, area FROM city WHERE 0", EMPTY, WRONG),
    "no rows, where gold has some": (EMPTY, NAMES, WRONG),
    "a row of NULL, where gold is empty": ("SELECT NULL", EMPTY, WRONG),
}


@pytest.mark.parametrize(("sql", "gold", "terms"), SQL.values(), ids=SQL)
def test_the_sql(play, sql, gold, terms):
    check(play(said(sql), gold, OPTIONS), terms)


def check(reward, terms: tuple[float, ...]) -> None:
    assert list(reward.terms) == ["format", "execution", "result", "length"]
    assert tuple(reward.terms.values()) == pytest.approx(terms)
    assert reward.total == pytest.approx(sum(terms))
    low, high = {BAD: (-1, -1), STUCK: (-1, -1), WRONG: (0, 0)}.get(terms, (6, 7.5))
    assert low <= reward.total <= high


def test_characters_count_where_the_config_says_so(play):
    text = "<think>é</think><answer>```sql\nSELECT 'é'\n```</answer>"
    for unit, sizes in (("token", (2, 22, 11)), ("char", (1, 21, 10))):
        options = RewardConfig("sql_r1", length_max=2048, length_unit=unit)
        reward = play(text, "SELECT 'é'", options)
        assert reward.terms["length"] == pytest.approx(
            0.5 * (sizes[0] + sizes[1]) / 2048 + sizes[2] / sizes[1])


def test_a_total_in_numbers(play):
    # 0.5 · (2 + 36) / 100 + 25 / 36 = 0.19 + 0.6944
    assert play(said(COUNT), COUNT, OPTIONS).total == pytest.approx(6.8844, abs=1e-4)


@pytest.mark.parametrize(("left_out", "totals"), [
    ("format", (0, -2, -1, 5.8844)), ("execution", (-1, 1, -2, 4.8844)),
    ("result", (-1, -1, 3, 3.8844)), ("length", (-1, -1, 0, 6)),
])
def test_a_term_that_is_left_out_is_logged_and_not_rewarded(play, left_out, totals):
    options = RewardConfig("sql_r1", terms={left_out: 0.0}, length_max=100)
    for sql, total in zip(("", "SELEC", "SELECT 4", COUNT), totals):
        reward = play(said(sql), COUNT, options)
        assert reward.total == pytest.approx(total, abs=1e-4)
        assert reward.terms == play(said(sql), COUNT, OPTIONS).terms
