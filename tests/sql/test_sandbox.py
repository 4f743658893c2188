"""The pool: outcomes, files that are not databases, workers that die, callers that wait or leave."""

import importlib.util
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from serl.errors import InputError
from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Limits, Sandbox
from tests.sql.processes import alive
from tests.sql.shops import HASTY, LIMITS, make_shop

FOREVER = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"


def test_result_keeps_names_order_and_types(sandbox: Sandbox, shop: Path) -> None:
    outcome = sandbox.run(shop, "SELECT name AS \"the name\", price, x'00ff', id FROM item ORDER BY id DESC LIMIT 2;")
    assert outcome.status is Status.OK
    assert outcome.columns == ("the name", "price", "x'00ff'", "id")
    assert outcome.rows == (("Ölfarbe", 12.25, b"\x00\xff", 3), ("ink", None, b"\x00\xff", 2))
    assert outcome.row_count == 2


def test_no_rows_is_empty_and_has_columns(sandbox: Sandbox, shop: Path) -> None:
    outcome = sandbox.run(shop, "SELECT id, name FROM item WHERE id > 3")
    assert (outcome.status, outcome.columns, outcome.rows) == (Status.EMPTY, ("id", "name"), ())


def test_error_is_the_engines_message(sandbox: Sandbox, shop: Path) -> None:
    outcome = sandbox.run(shop, "SELECT nme FROM item")
    assert (outcome.status, outcome.error) == (Status.ERROR, "no such column: nme")


def test_denied_says_what_was_refused(sandbox: Sandbox, shop: Path) -> None:
    assert sandbox.run(shop, "DELETE FROM item").error == "DELETE is not allowed, only SELECT"


def test_too_large_keeps_a_preview(sandbox: Sandbox, shop: Path) -> None:
    outcome = sandbox.run(shop, "SELECT 1 FROM item a, item b, item c, item d, item e, item f, item g")
    assert outcome.status is Status.TOO_LARGE
    assert outcome.row_count == LIMITS.max_rows + 1
    assert outcome.rows == ((1,),) * 20


def test_text_that_is_not_utf8_is_read_with_replacements(sandbox: Sandbox, shop: Path) -> None:
    assert sandbox.run(shop, "SELECT CAST(x'41ff' AS TEXT)").rows == (("A\ufffd",),)


def test_what_outgrows_the_cache_works_in_memory_without_a_file(sandbox: Sandbox, shop: Path) -> None:
    rows = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 100000)"
    outcome = sandbox.run(shop, f"{rows} SELECT count(*) FROM (SELECT DISTINCT hex(n * 7919) || name FROM r, item)")
    assert outcome.rows == ((300_000,),), outcome.error


@pytest.mark.parametrize("name", ["missing", "folder", "not a database", "damaged"])
def test_unreadable_database_is_infrastructure(sandbox: Sandbox, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif name == "not a database":
        path.write_text("hello, this is a letter " * 100)
    elif name == "damaged":
        make_shop(path)
        data = bytearray(path.read_bytes())
        data[100:] = b"\xff" * (len(data) - 100)  # the header is whole, nothing else is
        path.write_bytes(data)
    outcome = sandbox.run(path, "SELECT * FROM item")
    assert outcome.status is Status.INFRASTRUCTURE
    assert str(path) in outcome.error
    assert os.listdir(tmp_path) == ([] if name == "missing" else [name])


def test_locked_database_is_infrastructure(hasty: Sandbox, tmp_path: Path) -> None:
    make_shop(tmp_path / "shop.sqlite")
    writer = sqlite3.connect(tmp_path / "shop.sqlite", isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    assert hasty.run(tmp_path / "shop.sqlite", "SELECT * FROM item").status is Status.INFRASTRUCTURE
    writer.close()


def test_path_with_special_characters(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "a b%20c?mode=rwc#é.sqlite"
    make_shop(path)
    assert sandbox.run(path, "SELECT count(*) FROM item").rows == ((3,),)
    assert os.listdir(tmp_path) == [path.name]


def test_wal_database_at_rest_is_read_without_new_files(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    make_shop(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("INSERT INTO item VALUES (4, 'nib', 2)")
    connection.commit()
    connection.close()
    assert sandbox.run(path, "SELECT count(*) FROM item").rows == ((4,),)
    assert os.listdir(tmp_path) == [path.name]


def test_run_many_keeps_the_order_and_works_in_parallel(hasty: Sandbox, shop: Path) -> None:
    start = time.monotonic()
    sqls = [FOREVER, "SELECT 1", "SELECT 2", FOREVER, "SELECT 3"]
    outcomes = hasty.run_many([(shop, sql) for sql in sqls])
    assert [outcome.rows for outcome in outcomes] == [(), ((1,),), ((2,),), (), ((3,),)]
    assert time.monotonic() - start < 3.5 * HASTY.timeout_s  # bounded, as the machine may be busy


def test_callers_in_many_threads_get_their_own_answers(sandbox: Sandbox, shop: Path) -> None:
    answers: dict[int, Outcome] = {}
    threads = [
        threading.Thread(target=lambda n=n: answers.update({n: sandbox.run(shop, f"SELECT {n}")})) for n in range(32)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: outcome.rows for n, outcome in answers.items()} == {n: ((n,),) for n in range(32)}


def test_dead_worker_is_replaced_and_its_statement_run_again(shop: Path) -> None:
    with Sandbox(workers=1, limits=LIMITS) as pool:
        pool.run(shop, "SELECT 1")
        os.kill(pool.pids()[0], signal.SIGKILL)
        assert pool.run(shop, "SELECT 2").rows == ((2,),)


def test_interrupted_call_does_not_leave_its_answer_to_the_next(shop: Path) -> None:
    with Sandbox(workers=1, limits=HASTY) as pool:
        pool.run(shop, "SELECT 1")
        previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            pool.run(shop, FOREVER)
        signal.signal(signal.SIGALRM, previous)
        assert pool.run(shop, "SELECT 2").rows == ((2,),)


def test_close_ends_the_workers_and_refuses_further_work(shop: Path) -> None:
    pool = Sandbox(workers=2, limits=LIMITS)
    pids = pool.pids()
    pool.close()
    pool.close()
    assert not any(alive(pid) for pid in pids)
    with pytest.raises(RuntimeError, match="closed"):
        pool.run(shop, "SELECT 1")


def test_close_waits_for_what_runs_and_drops_what_waits(shop: Path) -> None:
    pool = Sandbox(workers=1, limits=HASTY)
    pool.run(shop, "SELECT 1")
    results: list[Outcome | RuntimeError] = []

    def ask() -> None:
        try:
            results.append(pool.run(shop, FOREVER))
        except RuntimeError as error:
            results.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)  # one runs, one waits for its worker
    pool.close()
    for thread in threads:
        thread.join()
    assert sorted(str(getattr(result, "status", result)) for result in results) == ["the sandbox is closed", "timeout"]
    assert pool.pids() == []


def test_a_forked_process_cannot_read_the_answers_of_another(shop: Path) -> None:
    with Sandbox(workers=1, limits=LIMITS) as pool:
        pool.run(shop, "SELECT 1")
        child = os.fork()
        if child == 0:
            try:
                pool.close()  # does nothing to the workers
                pool.run(shop, "SELECT 2")
            except RuntimeError as error:
                os._exit(7 if "after a fork" in str(error) else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert pool.run(shop, "SELECT 3").rows == ((3,),)


@pytest.mark.parametrize(
    ("name", "value"),
    [("timeout_s", math.inf), ("timeout_s", 1e9), ("grace_s", -1), ("max_rows", -1), ("memory_mb", 0)],
)
def test_a_limit_that_is_none_is_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"the sandbox's {name} is {value:g}".replace("+", r"\+")):
        Limits(**{name: value})


def test_workers_end_when_the_caller_is_killed(shop: Path) -> None:
    script = (
        "import sys; from serl.sql.sandbox import Sandbox\n"
        f"pool = Sandbox(2); pool.run({str(shop)!r}, 'SELECT 1'); print(*pool.pids(), flush=True); sys.stdin.read()"
    )
    caller = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in caller.stdout.readline().split()]
    assert len(pids) == 2
    caller.kill()
    caller.communicate()
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in pids)


def test_worker_takes_no_module_from_the_current_folder(shop: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "sqlite3.py").write_text("raise SystemExit('taken over')")
    (tmp_path / "serl").mkdir()
    (tmp_path / "serl" / "__init__.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    with Sandbox(workers=1, limits=LIMITS) as pool:
        assert pool.run(shop, "SELECT 1").rows == ((1,),)


def test_unknown_dialect_is_named() -> None:
    with pytest.raises(InputError, match="unknown SQL dialect 'mysql'; known are sqlite, duckdb, postgres"):
        Sandbox(dialect="mysql")


def test_dialect_whose_package_is_absent_says_how_to_get_it(monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"dialect duckdb needs the package duckdb: pip install 'serl\[duckdb\]'"):
        Sandbox(dialect="duckdb")


def test_what_a_thread_raises_reaches_the_caller_of_run_many(shop: Path) -> None:
    with Sandbox(workers=2, limits=LIMITS) as pool, pytest.raises(TypeError):
        pool.run_many([(shop, "SELECT 1"), (shop,)])


def test_stopping_early_stops_the_rest(shop: Path) -> None:
    with Sandbox(workers=1, limits=HASTY) as pool:
        outcomes = pool.iter_many([(shop, "SELECT 1"), *[(shop, FOREVER)] * 100])
        assert next(outcomes).rows == ((1,),)
        outcomes.close()
        start = time.monotonic()
    assert time.monotonic() - start < 10 * HASTY.timeout_s  # not a hundred times


def test_worker_is_light() -> None:
    script = "import sys, serl.sql.worker; print([m for m in ('torch', 'numpy', 'sqlglot') if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
