"""`serl score`: verdicts a question, totals, and what is left out or reported."""

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from serl.cli import main

QUESTIONS = [  # gold, then a prediction, then its scores by bird_ex, spider_ex, em, strict
    ("SELECT a FROM t", "SELECT a FROM t", (1, 1, 1, 1)),
    ("SELECT DISTINCT b FROM t", "SELECT b FROM t", (1, 1, 1, 0)),
    ("SELECT a FROM t ORDER BY a DESC", "SELECT a FROM t ORDER BY a", (1, 0, 0, 0)),
    ("SELECT a FROM t WHERE a > 1", "SELECT nothing FROM t", (0, 0, 0, 0)),
    ("SELECT a , b FROM t", "SELECT b , a FROM t", (0, 1, 1, 0)),
    ("SELECT gone FROM t", "SELECT gone FROM t", (None, None, None, None)),
    ("SELECT a FROM t", "", (0, 0, 0, 0)),
]
NAMES = ("bird_ex", "spider_ex", "em", "strict")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Spider's layout with one database: t(a, b) = (1, x), (2, x), (3, y)."""
    root = tmp_path / "data"
    (root / "database" / "d").mkdir(parents=True)
    connection = sqlite3.connect(root / "database" / "d" / "d.sqlite")
    connection.executescript("CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 'x'), (2, 'x'), (3, 'y');")
    connection.close()
    records = [{"db_id": "d", "question": f"{i}?", "query": gold} for i, (gold, _, _) in enumerate(QUESTIONS)]
    (root / "dev.json").write_text(json.dumps(records))
    columns = [[-1, "*"], [0, "a"], [0, "b"]]
    tables = [{"db_id": "d", "table_names_original": ["t"], "column_names_original": columns, "foreign_keys": []}]
    (root / "tables.json").write_text(json.dumps(tables))
    return root


@pytest.fixture
def score(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> Callable:
    """Runs `serl score` on some predictions: exit code, JSON document, lines of --out."""

    def run(predictions: dict[str, str], *options: str, metrics: str = ",".join(NAMES)) -> tuple[int, dict, list]:
        pred, out = tmp_path / "pred.jsonl", tmp_path / "out.jsonl"
        lines = (json.dumps({"question_id": key, "sql": sql}) for key, sql in predictions.items())
        pred.write_text("\n".join(lines))
        code = main(["score", "--format", "spider", "--root", str(root), "--pred", str(pred), "--metrics", metrics,
                     "--out", str(out), "--cache", str(tmp_path / "cache"), "--json", *options])  # fmt: skip
        return code, json.loads(capsys.readouterr().out), [json.loads(line) for line in out.open()]

    return run


def test_every_question_gets_its_verdicts(score: Callable) -> None:
    code, document, lines = score({str(i): pred for i, (_, pred, _) in enumerate(QUESTIONS)})
    assert code == 0
    for i, (line, (_, _, scores)) in enumerate(zip(lines, QUESTIONS)):
        assert list(line) == ["index", "question_id", "db_id", "pred_status", "gold_status", "metrics"]
        assert (line["index"], line["question_id"], line["db_id"]) == (i, str(i), "d")
        assert tuple(line["metrics"][name]["score"] for name in NAMES) == scores
    assert [line["pred_status"] for line in lines] == ["ok", "ok", "ok", "error", "ok", "error", "no_statement"]
    assert [line["gold_status"] for line in lines] == ["ok"] * 5 + ["error", "ok"]
    assert lines[2]["metrics"]["spider_ex"]["reason"] == "same rows in another order"
    assert lines[2]["metrics"]["em"]["reason"] == "differs in order, keywords"
    assert lines[6]["metrics"]["strict"]["reason"] == "no prediction"


def test_totals_leave_out_questions_whose_gold_failed(score: Callable) -> None:
    _, document, _ = score({str(i): pred for i, (_, pred, _) in enumerate(QUESTIONS)})
    overall = document["totals"]["all"]
    assert {name: (overall[name]["value"], overall[name]["n"]) for name in NAMES} == {
        "bird_ex": (3 / 6, 6), "spider_ex": (3 / 6, 6), "em": (3 / 6, 6), "strict": (1 / 6, 6),
    }  # fmt: skip
    assert overall["strict"]["low"] <= 1 / 6 <= overall["strict"]["high"]
    assert document["left_out"]["strict"] == {"5": "gold has no result: error"}
    reason = "gold is not in Spider's subset of SQL: no column 'gone' in FROM's tables"
    assert document["left_out"]["em"] == {"5": reason}
    # By Spider's hardness of gold: two selected columns make a query medium.
    assert {level: means["em"]["n"] for level, means in document["totals"].items()} == {
        "easy": 5, "medium": 1, "all": 6,
    }  # fmt: skip


def test_predictions_that_are_no_text_are_scored_too(score: Callable) -> None:
    _, _, lines = score({"0": "SELECT t.\ud800 FROM t", "1": "SELECT \0", "2": "-- nothing"})
    assert [line["pred_status"] for line in lines[:3]] == ["error", "error", "no_statement"]
    assert [line["metrics"]["em"]["score"] for line in lines[:3]] == [0, 0, 0]


def test_em_compat_reads_value_as_a_number(score: Callable, root: Path) -> None:
    records = [{"db_id": "d", "question": "?", "query": "SELECT a FROM t WHERE a > 1"}]
    (root / "dev.json").write_text(json.dumps(records))
    _, _, (line,) = score({"0": "SELECT a FROM t WHERE a > value"}, metrics="em,em_compat")
    assert [line["metrics"][name]["score"] for name in ("em", "em_compat")] == [0, 1]


def test_missing_duplicate_and_extra_predictions_are_reported(score: Callable, root: Path) -> None:
    code, document, lines = score({"0": "SELECT a FROM t", "99": "SELECT 1"})
    assert code == 0
    assert document["predictions"]["missing"] == ["1", "2", "3", "4", "5", "6"]
    assert len(document["predictions"]["extra"]) == 1
    assert [line["pred_status"] for line in lines] == ["ok"] + ["missing"] * 6
    assert document["totals"]["all"]["strict"]["value"] == 1 / 6


def test_a_second_scoring_runs_nothing_again(score: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    from serl.sql.sandbox import Sandbox

    predictions = {"0": "SELECT a FROM t", "1": "SELECT b FROM t"}
    first = score(predictions)
    ran = []
    monkeypatch.setattr(Sandbox, "run", lambda self, *job: ran.append(job))
    second = score(predictions)
    assert ran == []
    assert (first[1]["totals"], first[2]) == (second[1]["totals"], second[2])


def test_turns_of_dialogues_make_interactions(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    queries = [["SELECT a FROM t", "SELECT b FROM t"], ["SELECT a FROM t"]]
    dialogues = [{"database_id": "d", "interaction": [{"utterance": "?", "query": sql} for sql in turns]}
                 for turns in queries]  # fmt: skip
    (root / "dev.json").write_text(json.dumps(dialogues))
    (tmp_path / "pred.txt").write_text("SELECT a FROM t\nSELECT a FROM t\n\nSELECT a FROM t\n")
    command = ["score", "--format", "sparc", "--root", str(root), "--pred", str(tmp_path / "pred.txt"),
               "--metrics", "strict,soft_f1", "--cache", str(tmp_path / "cache")]  # fmt: skip
    assert main([*command, "--json"]) == 0
    captured = capsys.readouterr()
    dialogues = json.loads(captured.out)["dialogues"]
    assert list(dialogues) == ["strict"]  # soft_f1 has no verdict
    assert dialogues["strict"]["question_match"]["value"] == 2 / 3
    assert dialogues["strict"]["interaction_match"]["value"] == 1 / 2
    assert dialogues["strict"]["by_turn"]["2"]["value"] == 0
    assert main(command) == 0
    assert re.search(r"^interaction match \(2\) +50.0 ", capsys.readouterr().err, re.MULTILINE)


def test_right_answers_are_timed_as_often_as_asked(score: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    from serl.sql.sandbox import Sandbox

    ran, run = [], Sandbox.run
    monkeypatch.setattr(Sandbox, "run", lambda self, *job: ran.append(job[1]) or run(self, *job))
    _, _, lines = score({"0": "SELECT a FROM t", "3": "SELECT b FROM t"}, "--iterations", "3", metrics="ves")
    assert lines[0]["metrics"]["ves"]["reason"].endswith(" times gold's speed in 3 runs")
    assert lines[3]["metrics"]["ves"]["score"] == 0
    assert ran.count("SELECT a FROM t") == 1 + 3 * 2  # once up front, then prediction and gold, three times
    assert ran.count("SELECT b FROM t") == 1


def test_the_table_goes_to_stderr(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "pred.txt").write_text("SELECT a FROM t\n")
    assert main(["score", "--format", "spider", "--root", str(root), "--pred", str(tmp_path / "pred.txt"), "--metrics",
                 "strict", "--cache", str(tmp_path / "cache")]) == 0  # fmt: skip
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.search(r"^all \(6\) +16.7 \(0.0–50.0\)$", captured.err, re.MULTILINE)
    assert "6 questions have no prediction and count as wrong: 1, 2, 3, 4, 5, ..." in captured.err
    assert "1 questions have no score by strict: 5 (gold has no result: error)" in captured.err


def test_failures_of_ours_are_not_scored(score: Callable, root: Path) -> None:
    (root / "database" / "d" / "d.sqlite").write_bytes(b"no database at all" * 100)
    code, document, lines = score({"0": "SELECT a FROM t"}, metrics="strict")
    assert code == 1
    assert lines[0]["gold_status"] == "infrastructure"
    assert lines[0]["metrics"]["strict"]["score"] is None
    assert document["totals"]["all"] == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metrics", "ex"], "--metrics: no metric 'ex', should be of: bird_ex, spider_ex"),
        (["--metrics", "strict", "--workers", "0"], "--workers should be at least 1"),
        (["--metrics", "ves", "--iterations", "0"], "--iterations should be at least 1"),
        (["--metrics", "strict", "--split", "test"], "Spider's test questions not found"),
        (["--metrics", "strict", "--pred", "none.txt"], "none.txt: cannot be read"),
        (["--metrics", "strict", "--timeout", "inf"], "timeout_s is inf, should be more than 0 and at most 86400"),
        (["--metrics", "strict", "--out", "/proc/out.jsonl"], "/proc/out.jsonl: cannot be written"),
        (["--metrics", "strict", "--cache", "/proc/cache"], "spider_dev.jsonl: cannot be written"),
    ],
)
def test_wrong_usage_is_one_line(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture, options: list[str], message: str
) -> None:
    (tmp_path / "pred.txt").write_text("SELECT a FROM t\n")
    common = ["score", "--format", "spider", "--root", str(root), "--pred", str(tmp_path / "pred.txt")]
    assert main([*common, "--cache", str(tmp_path / "cache"), *options]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line


def test_predictions_are_not_overwritten(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pred = tmp_path / "pred.txt"
    pred.write_text("SELECT a FROM t\n")
    (tmp_path / "link").symlink_to(pred)
    for out in (pred, tmp_path / "link"):
        assert main(["score", "--format", "spider", "--root", str(root), "--pred", str(pred), "--metrics", "strict",
                     "--cache", str(tmp_path / "cache"), "--out", str(out)]) == 2  # fmt: skip
        assert "this is the file of predictions" in capsys.readouterr().err
    assert pred.read_text() == "SELECT a FROM t\n"


def test_em_without_tables_json_says_what_is_missing(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (root / "tables.json").unlink()
    (tmp_path / "pred.txt").write_text("SELECT a FROM t\n")
    common = ["score", "--format", "spider", "--root", str(root), "--pred", str(tmp_path / "pred.txt")]
    assert main([*common, "--cache", str(tmp_path / "cache"), "--metrics", "em"]) == 2
    assert "em needs the foreign keys in tables.json" in capsys.readouterr().err
    assert main([*common, "--cache", str(tmp_path / "cache"), "--metrics", "strict"]) == 0


def test_birds_own_file_by_its_difficulties(minibird: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    questions = json.loads((minibird / "dev.json").read_text())
    gold = {str(i): f"{q['SQL']}\t----- bird -----\t{q['db_id']}" for i, q in enumerate(questions)}
    (tmp_path / "pred.json").write_text(json.dumps(gold))
    assert main(["score", "--format", "bird", "--root", str(minibird), "--pred", str(tmp_path / "pred.json"), "--json",
                 "--metrics", "bird_ex,spider_ex,strict", "--cache", str(tmp_path / "cache")]) == 0  # fmt: skip
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert list(totals) == ["simple", "moderate", "challenging", "all"]
    assert {name: mean["value"] for name, mean in totals["all"].items()} == {
        "bird_ex": 1.0, "spider_ex": 1.0, "strict": 1.0,
    }  # fmt: skip
    assert totals["all"]["strict"]["n"] == len(questions)
