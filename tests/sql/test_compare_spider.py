"""`spider_ex`: what it does to the texts, what it ignores in the results, and what `compat` copies."""

import itertools
import random
import sqlite3
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.sql.compare import spider_ex
from serl.sql.compare.permuted import same_up_to_columns
from serl.sql.compare.spider import same_result
from serl.sql.compare.spider_text import plugged, prepare
from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Sandbox

Run = Callable[[str], Outcome]


@pytest.fixture(scope="module")
def run(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Statements on pet(name, kind, age, value), where two pets have the same kind."""
    path = tmp_path_factory.mktemp("pets") / "pets.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE pet(name TEXT, kind TEXT, age INTEGER, value REAL);
        INSERT INTO pet VALUES ('Rex', 'dog', 1, 1.0), ('Tom', 'cat', 10, 10.0), ('Ben', 'dog', 3, NULL);
        """
    )
    connection.close()
    return lambda sql: sandbox.run(path, sql)


def result(*rows: tuple, columns: int = 1) -> Outcome:
    names = tuple("abcdef"[: len(rows[0]) if rows else columns])
    return Outcome(Status.OK if rows else Status.EMPTY, names, rows, len(rows))


@pytest.mark.parametrize(
    ("sql", "prepared"),
    [
        ("SELECT DISTINCT a FROM t", "SELECT  a FROM t"),
        ("select count(distinct a) from t", "select count( a) from t"),
        ("SELECT 'distinct' FROM t -- DISTINCT", "SELECT 'distinct' FROM t -- DISTINCT"),
        ("SELECT a FROM t WHERE b > = 1 AND c < = 2 AND d ! = 3", "SELECT a FROM t WHERE b >= 1 AND c <= 2 AND d != 3"),
        ("SELECT year ( CURDATE ( ) )  - a", "SELECT 2020- a"),
        ("SELECT a IS DISTINCT FROM b", "SELECT a IS DISTINCT FROM b"),
        ("SELECT a IS NOT DISTINCT FROM b", "SELECT a IS NOT DISTINCT FROM b"),
    ],
)
def test_what_is_done_to_the_text(sql: str, prepared: str) -> None:
    assert prepare(sql) == prepared


def test_distinct_can_be_kept() -> None:
    sql = "SELECT DISTINCT a FROM t WHERE b > = 1"
    assert prepare(sql, keep_distinct=True) == "SELECT DISTINCT a FROM t WHERE b >= 1"


@pytest.mark.parametrize(
    ("pred", "gold", "match"),
    [
        ("SELECT kind FROM pet", "SELECT DISTINCT kind FROM pet", True),
        ("SELECT DISTINCT kind FROM pet", "SELECT kind FROM pet", True),
        ("SELECT count(DISTINCT kind) FROM pet", "SELECT count(kind) FROM pet", True),
        ("SELECT kind FROM pet GROUP BY kind", "SELECT kind FROM pet", False),  # multisets differ
        ("SELECT age, name FROM pet", "SELECT name, age FROM pet", True),
        ("SELECT age FROM pet ORDER BY age DESC", "SELECT age FROM pet", True),
        ("SELECT age FROM pet ORDER BY age DESC", "SELECT age FROM pet ORDER BY age", False),
        # "order by" counts wherever it stands in gold
        ("SELECT age FROM pet ORDER BY name", "SELECT age FROM (SELECT age FROM pet ORDER BY age)", False),
        ("SELECT name FROM pet WHERE age > = 10", "SELECT name FROM pet WHERE age >= 10", True),
        ("SELECT name, age FROM pet WHERE 0", "SELECT name FROM pet WHERE age > 99", True),
        ("SELECT nothing FROM pet", "SELECT name FROM pet", False),
        ("", "SELECT name FROM pet", False),
        ("DELETE FROM pet", "SELECT name FROM pet WHERE 0", False),
    ],
)
def test_default_rule(run: Run, pred: str, gold: str, match: bool) -> None:
    assert spider_ex(pred, gold, run).match is match


def test_keep_distinct_lets_duplicates_count(run: Run) -> None:
    pred, gold = "SELECT kind FROM pet", "SELECT DISTINCT kind FROM pet"
    assert not spider_ex(pred, gold, run, keep_distinct=True).match
    assert spider_ex(gold, gold, run, keep_distinct=True).match


def test_plug_value_tries_golds_literals(run: Run) -> None:
    pred = "SELECT name FROM pet WHERE kind = 'bird' AND age > 0"
    gold = "SELECT name FROM pet WHERE kind = 'cat' AND age > 5"
    assert not spider_ex(pred, gold, run).match
    verdict = spider_ex(pred, gold, run, plug_value=True)
    assert (verdict.match, verdict.reason) == (True, "same rows with gold's values")
    # Its own values count too, also where gold has none.
    assert spider_ex("SELECT name FROM pet WHERE age > 0", "SELECT name FROM pet", run, plug_value=True).match
    assert not spider_ex("SELECT age FROM pet WHERE age > 5", gold, run, plug_value=True).match


def test_no_option_brings_another_with_it(run: Run) -> None:
    other_literal = "SELECT name FROM pet WHERE kind = 'bird'", "SELECT name FROM pet WHERE kind = 'cat'"
    duplicates = "SELECT kind FROM pet", "SELECT DISTINCT kind FROM pet"
    for options, matches in (({}, [False, True]), ({"keep_distinct": True}, [False, False]),
                             ({"plug_value": True}, [True, True])):
        assert [spider_ex(*each, run, **options).match for each in (other_literal, duplicates)] == matches


def test_plugged_gives_every_assignment_of_literals() -> None:
    pred = "SELECT T1.a2 FROM t AS T1 WHERE `b 3` = \"x\" AND c = 'O''Hare' -- 4"
    texts = list(plugged(pred, "SELECT 1.5 FROM t WHERE a = 'y'"))
    assert len(texts) == 4 and len(set(texts)) == 4
    assert "SELECT T1.a2 FROM t AS T1 WHERE `b 3` = 1.5 AND c = 'y' -- 4" in texts
    assert list(plugged("SELECT a FROM t", "SELECT 1")) == ["SELECT a FROM t"]
    assert list(plugged("SELECT 1", "SELECT a FROM t")) == []


def test_compat_copies_the_faults(run: Run) -> None:
    def both(pred: str, gold: str) -> tuple[bool, bool]:
        return spider_ex(pred, gold, run).match, spider_ex(pred, gold, run, compat=True).match

    assert both("SELECT value FROM pet", "SELECT value FROM pet") == (True, False)  # reads SELECT 1
    assert both("SELECT name FROM pet; SELECT 1", "SELECT name FROM pet") == (False, True)
    gold = "SELECT name FROM pet WHERE kind IS NOT DISTINCT FROM 'dog'"
    assert both("SELECT name FROM pet WHERE kind = 'dog'", gold) == (True, False)  # gold is broken by it
    # Rows (1, 10), sorted by text: 10 before 1. Rows (1.0, 10.0): 1.0 before 10.0.
    pred = "SELECT age + 0.0, age * 10 FROM pet WHERE name = 'Rex'"
    assert both(pred, "SELECT age, age * 10 FROM pet WHERE name = 'Rex'") == (True, False)


def test_bytes_that_are_no_text_are_left_out() -> None:
    assert same_result(result(("a\ufffdb",)), result(("ab",)), ordered=False).match


@pytest.mark.parametrize("status", [status for status in Status if not Outcome(status).ran])
def test_what_did_not_run_matches_nothing(status: Status) -> None:
    failed = Outcome(status, error="x")
    for pred, gold in [(failed, failed), (failed, result()), (result(), failed)]:
        assert not same_result(pred, gold, ordered=False).match


def test_reasons() -> None:
    gold = result((1, "a"), (2, "b"))
    assert same_result(result((1, "a")), gold, False).reason == "1 rows, gold has 2"
    assert same_result(result((1,), (2,)), gold, False).reason == "1 columns, gold has 2"
    assert same_result(result(("b", 2), ("a", 1)), gold, True).reason == "same rows in another order"
    assert same_result(result((1, "b"), (2, "a")), gold, False).reason == "different rows"


def test_wide_results_are_compared_quickly() -> None:
    shuffle = random.Random(0)
    rows = [tuple(shuffle.randrange(3) for _ in range(12)) for _ in range(300)]
    order = shuffle.sample(range(12), 12)
    mixed = shuffle.sample([tuple(row[i] for i in order) for row in rows], 300)
    assert same_up_to_columns(rows, mixed, ordered=False)
    assert not same_up_to_columns(rows, [*mixed[1:], (9,) * 12], ordered=False)
    same = [(1,) * 40] * 50  # every permutation is right, and every column is interchangeable
    assert same_up_to_columns(same, same, ordered=False)
    assert not same_up_to_columns(same, [*same[1:], (1,) * 39 + (2,)], ordered=False)
    # Any eleven of the twelve columns are the same on both sides: only whole rows differ.
    even, odd = ([row for row in itertools.product((0, 1), repeat=12) if sum(row) % 2 == rest] for rest in (0, 1))
    assert not same_up_to_columns(even, odd, ordered=False)


_CELLS = st.sampled_from([None, 0, 1, 1.0, 2, "1", "a"])
_TABLES = st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[_CELLS] * width), min_size=1, max_size=4))


@given(_TABLES, _TABLES, st.booleans())
def test_equals_trying_every_permutation(left: list, right: list, ordered: bool) -> None:
    def equal(a: list, b: list) -> bool:
        return a == b if ordered else any(a == list(c) for c in itertools.permutations(b))

    by_hand = len(left) == len(right) and len(left[0]) == len(right[0]) and any(
        equal(left, [tuple(row[i] for i in order) for row in right])
        for order in itertools.permutations(range(len(left[0])))
    )
    assert same_up_to_columns(left, right, ordered) is by_hand


@given(_TABLES, st.randoms(use_true_random=False))
def test_order_of_columns_never_counts_and_order_of_rows_only_when_asked(rows: list, shuffle) -> None:
    order = shuffle.sample(range(len(rows[0])), len(rows[0]))
    mixed = [tuple(row[i] for i in order) for row in rows]
    assert same_up_to_columns(rows, mixed, ordered=True)
    assert same_up_to_columns(rows, shuffle.sample(mixed, len(mixed)), ordered=False)
    assert not same_up_to_columns(rows, [*mixed, mixed[0]], ordered=False)
