"""`serl data check` and `serl sql`: their reports and exit codes."""

import json
from pathlib import Path

import pytest

from serl.cli import main
from tests.data.layouts import bird_record, make_bird, make_database, make_spider


def test_good_data_is_counted_and_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    records = [bird_record(), bird_record(question_id=8, SQL="SELECT a FROM t WHERE a > 2")]
    make_bird(tmp_path / "dev.json", tmp_path / "dev_databases", records)
    assert main(["data", "check", "--format", "bird", "--root", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report.pop("seconds") > 0
    assert report == {
        "format": "bird", "root": str(tmp_path), "split": "dev", "examples": 2, "databases": 1,
        "status": {"ok": 1, "empty": 1}, "failing": [],
    }  # fmt: skip


def test_gold_that_fails_is_listed_and_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    good = {"db_id": "shop", "question": "?", "query": "SELECT a FROM t"}
    make_spider(tmp_path, [good, {**good, "query": "SELECT b FROM t"}, {**good, "query": "DROP TABLE t"}])
    arguments = ["data", "check", "--format", "spider", "--root", str(tmp_path), "--split", "dev"]
    assert main([*arguments, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["status"] == {"ok": 1, "error": 1, "denied": 1}
    assert report["failing"][0] == {
        "question_id": "1", "db_id": "shop", "status": "error", "error": "no such column: b", "sql": "SELECT b FROM t",
    }  # fmt: skip
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "3 questions on 1 databases" in captured.err
    assert "1 (shop): error: no such column: b" in captured.err


def test_wrong_input_exits_2_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["data", "check", "--format", "bird", "--root", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == f"serl: {tmp_path}/none: no such folder; it should be the BIRD data's root\n"


@pytest.mark.parametrize(
    ("sql", "code", "status", "rows"),
    [
        ("SELECT a FROM t", 0, "ok", [[1], [2]]),
        ("SELECT a FROM t WHERE a > 2", 0, "empty", []),
        ("SELECT b FROM t", 1, "error", []),
        ("DELETE FROM t", 1, "denied", []),
        ("-- nothing", 1, "no_statement", []),
    ],
)
def test_sql_prints_the_outcome(
    tmp_path: Path, capsys: pytest.CaptureFixture, sql: str, code: int, status: str, rows: list
) -> None:
    make_database(tmp_path / "t.sqlite")
    assert main(["sql", "--db", str(tmp_path / "t.sqlite"), sql, "--json"]) == code
    outcome = json.loads(capsys.readouterr().out)
    assert list(outcome) == ["status", "columns", "rows", "row_count", "error", "ms"]
    assert (outcome["status"], outcome["rows"], outcome["row_count"]) == (status, rows, len(rows))


def test_sql_prints_a_table_for_people(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    make_database(tmp_path / "t.sqlite")
    sql = "SELECT a, NULL AS b, 'x' || char(10) || 'y' AS c FROM t LIMIT 1"
    assert main(["sql", "--db", str(tmp_path / "t.sqlite"), sql]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[:3] == ["a  b     c", "-  ----  ---", "1  NULL  x y"]


def test_sql_without_a_database_or_time_is_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["sql", "--db", str(tmp_path / "none.sqlite"), "SELECT 1"]) == 2
    assert "none.sqlite: no such file" in capsys.readouterr().err
    make_database(tmp_path / "t.sqlite")
    assert main(["sql", "--db", str(tmp_path / "t.sqlite"), "SELECT 1", "--timeout", "0"]) == 2
    assert not (tmp_path / "none.sqlite").exists()
