"""Gold results are computed once, for exactly this database, SQL and limits."""

import dataclasses
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from serl.data.example import Example
from serl.errors import InputError
from serl.sql import cache as cache_module
from serl.sql.cache import OutcomeCache, is_repeatable
from serl.sql.gold import GoldCache
from serl.sql.outcome import Status
from serl.sql.sandbox import Sandbox
from tests.sql.shops import HASTY, LIMITS, make_shop

FOREVER = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"


class CountingSandbox(Sandbox):
    """A real sandbox that counts the statements it runs."""

    ran = 0

    def run_many(self, jobs):
        jobs = list(jobs)
        self.ran += len(jobs)
        return super().run_many(jobs)


@pytest.fixture
def counting() -> Iterator[CountingSandbox]:
    with CountingSandbox(workers=1, limits=LIMITS) as pool:
        yield pool


def example(question_id: str, sql: str, path: Path) -> Example:
    return Example(question_id, "shop", "?", "", sql, "", path, "dev")


def test_second_use_runs_nothing(counting: CountingSandbox, shop: Path, tmp_path: Path) -> None:
    examples = [
        example("a", "SELECT name, price FROM item", shop),
        example("b", "SELECT x'00', 1 WHERE 0", shop),
        example("same as a", "SELECT name, price FROM item", shop),
        example("wrong", "SELECT nothing", shop),
    ]
    first = GoldCache(tmp_path / "gold.jsonl", counting).outcomes(examples)
    assert counting.ran == 3
    assert {key: outcome.status.value for key, outcome in first.items()} == {
        "a": "ok", "b": "empty", "same as a": "ok", "wrong": "error",
    }
    second = GoldCache(tmp_path / "gold.jsonl", counting).outcomes(examples)
    assert counting.ran == 3
    assert {key: (o.columns, o.rows) for key, o in second.items()} == {
        key: (o.columns, o.rows) for key, o in first.items()
    }


def test_results_leave_out_gold_that_failed(counting: CountingSandbox, shop: Path, tmp_path: Path) -> None:
    examples = [example("good", "SELECT 1", shop), example("bad", "SELECT nothing", shop)]
    outcomes = GoldCache(tmp_path / "gold.jsonl", counting).outcomes(examples)
    assert [key for key, outcome in outcomes.items() if outcome.ran] == ["good"]


def test_changed_database_or_limits_are_run_anew(counting: CountingSandbox, tmp_path: Path) -> None:
    database, cache = tmp_path / "shop.sqlite", tmp_path / "gold.jsonl"
    make_shop(database)
    examples = [example("a", "SELECT count(*) FROM item", database)]
    assert GoldCache(cache, counting).outcomes(examples)["a"].rows == ((3,),)
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM item WHERE id = 1")
    connection.close()
    assert GoldCache(cache, counting).outcomes(examples)["a"].rows == ((2,),)
    with CountingSandbox(1, dataclasses.replace(LIMITS, max_rows=5)) as other_limits:
        GoldCache(cache, other_limits).outcomes(examples)
        assert other_limits.ran == 1


def test_a_database_that_changes_between_two_calls_is_run_anew(counting: CountingSandbox, tmp_path: Path) -> None:
    database = tmp_path / "shop.sqlite"
    make_shop(database)
    cache = OutcomeCache(tmp_path / "cache.jsonl", counting)
    assert cache.outcomes([(database, "SELECT count(*) FROM item")])[0].rows == ((3,),)
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM item WHERE id = 1")
    connection.close()
    assert cache.outcomes([(database, "SELECT count(*) FROM item")])[0].rows == ((2,),)


def test_what_waits_in_the_write_ahead_log_is_part_of_the_database(counting: CountingSandbox, tmp_path: Path) -> None:
    database = tmp_path / "shop.sqlite"
    make_shop(database)
    writer = sqlite3.connect(database, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    for number in (4, 5):
        writer.execute("INSERT INTO item VALUES (?, 'nib', 2)", (number,))
        assert (tmp_path / "shop.sqlite-wal").stat().st_size > 0
        outcomes = OutcomeCache(tmp_path / "cache.jsonl", counting).outcomes([(database, "SELECT max(id) FROM item")])
        assert outcomes[0].rows == ((number,),)
    writer.close()


def test_a_database_that_changes_while_it_is_read_is_not_kept(shop: Path, tmp_path: Path) -> None:
    database = tmp_path / "shop.sqlite"
    make_shop(database)

    class Meanwhile(CountingSandbox):
        def run_many(self, jobs):
            with sqlite3.connect(database) as connection:
                connection.execute("INSERT INTO item(name) VALUES ('nib')")
            connection.close()
            return super().run_many(jobs)

    with Meanwhile(1, LIMITS) as pool:
        OutcomeCache(tmp_path / "cache.jsonl", pool).outcomes([(database, "SELECT 1")])
    assert not (tmp_path / "cache.jsonl").exists()


def test_another_time_limit_shares_what_was_quick_enough(shop: Path, tmp_path: Path) -> None:
    rows = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 100000)"
    jobs = [(shop, "SELECT 1"), (shop, f"{rows} SELECT count(*) FROM r")]  # the second takes milliseconds
    with CountingSandbox(1, LIMITS) as pool:
        OutcomeCache(tmp_path / "cache.jsonl", pool).outcomes(jobs)
    with CountingSandbox(1, dataclasses.replace(LIMITS, timeout_s=60.0)) as patient:
        assert all(outcome.ran for outcome in OutcomeCache(tmp_path / "cache.jsonl", patient).outcomes(jobs))
        assert patient.ran == 0
    with CountingSandbox(1, dataclasses.replace(LIMITS, timeout_s=0.001)) as hasty:
        assert OutcomeCache(tmp_path / "cache.jsonl", hasty).outcomes(jobs)[1].status is Status.TIMEOUT
        assert hasty.ran >= 1


def test_another_version_of_the_engine_runs_anew(counting: CountingSandbox, shop: Path, tmp_path: Path, monkeypatch):
    for version in ("3.40.1", "3.50.0"):
        monkeypatch.setattr(cache_module, "engine_version", lambda dialect, version=version: version)
        OutcomeCache(tmp_path / "cache.jsonl", counting).outcomes([(shop, "SELECT 1")])
    assert counting.ran == 2


def test_timeouts_are_tried_again(shop: Path, tmp_path: Path) -> None:
    with CountingSandbox(1, HASTY) as pool:
        for _ in range(2):
            cache = GoldCache(tmp_path / "gold.jsonl", pool)
            assert cache.outcomes([example("a", FOREVER, shop)])["a"].status is Status.TIMEOUT
        assert pool.ran == 2


@pytest.mark.parametrize("content", ["not JSON\n", '{"key": "x"}\n', "[1]\n"])
def test_damaged_cache_is_named(counting: CountingSandbox, tmp_path: Path, content: str) -> None:
    (tmp_path / "gold.jsonl").write_text(content)
    with pytest.raises(InputError, match=r"gold\.jsonl"):
        GoldCache(tmp_path / "gold.jsonl", counting)


def test_missing_database_is_named(counting: CountingSandbox, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.sqlite: cannot read the database"):
        missing = example("a", "SELECT 1", tmp_path / "none.sqlite")
        GoldCache(tmp_path / "gold.jsonl", counting).outcomes([missing])


def test_a_line_cut_short_by_a_kill_is_dropped(counting: CountingSandbox, shop: Path, tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    examples = [example("a", "SELECT 1", shop), example("b", "SELECT 2", shop)]
    GoldCache(path, counting).outcomes(examples)
    path.write_bytes(path.read_bytes()[:-9])
    assert GoldCache(path, counting).outcomes(examples)["b"].rows == ((2,),)
    assert counting.ran == 3
    assert GoldCache(path, counting).outcomes(examples)["b"].rows == ((2,),)
    assert counting.ran == 3


def test_two_users_of_one_file_keep_each_others_entries(counting: CountingSandbox, shop: Path, tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    first, second = GoldCache(path, counting), GoldCache(path, counting)
    first.outcomes([example("a", "SELECT 1", shop)])
    second.outcomes([example("b", "SELECT 2", shop)])
    GoldCache(path, counting).outcomes([example("a", "SELECT 1", shop), example("b", "SELECT 2", shop)])
    assert counting.ran == 2


def test_other_dialect_is_another_entry(shop: Path, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    database = tmp_path / "a.duckdb"
    duckdb.connect(str(database)).close()
    with CountingSandbox(1, LIMITS, "duckdb") as pool:
        for _ in range(2):
            cache = OutcomeCache(tmp_path / "cache.jsonl", pool)
            assert cache.outcomes([(database, "SELECT 1::UTINYINT")])[0].rows == ((1,),)
        assert pool.ran == 1


def test_what_may_change_is_run_again(counting: CountingSandbox, shop: Path, tmp_path: Path) -> None:
    for _ in range(2):
        OutcomeCache(tmp_path / "cache.jsonl", counting).outcomes([(shop, "SELECT random()"), (shop, "SELECT 1")])
    assert counting.ran == 3


@pytest.mark.parametrize(
    ("sql", "repeatable"),
    [
        ("SELECT name FROM item ORDER BY price", True),
        ("SELECT date(day), time(day, '+1 day') FROM t", True),
        ("SELECT strftime('%Y', day) FROM t", True),
        ("SELECT random FROM t", True),
        ("SELECT 'random()' FROM t -- random()", True),
        ("SELECT * FROM t ORDER BY RANDOM() LIMIT 1", False),
        ('SELECT "random"()', False),
        ("SELECT strftime('%Y', 'NOW') - year FROM t", False),
        ('SELECT date("now")', False),
        ("SELECT strftime('%Y')", False),
        ("SELECT datetime ( )", False),
        ("SELECT current_timestamp", False),
        ("SELECT sample, age FROM t", True),
        ("SELECT * FROM t USING SAMPLE 1", False),
        ("SELECT * FROM t TABLESAMPLE 10%", False),
        ("SELECT age(born) FROM t", False),
        ("SELECT current_localtimestamp()", False),
    ],
)
def test_statements_that_ask_for_time_or_chance_are_not_repeatable(sql: str, repeatable: bool) -> None:
    assert is_repeatable(sql) is repeatable
