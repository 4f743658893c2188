"""SynSQL's reader: three formats that mean the same, what is left out and named, samples without the rest in memory."""

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from serl.cli import main
from serl.data import Sample, load
from serl.data.synsql import load_synsql
from serl.errors import InputError
from tests.data.layouts import make_synsql, synsql_record

LEVELS = ("Simple", "Moderate", "Complex", "Highly Complex")
RECORDS = [synsql_record(question=f"Which {number}?", sql_complexity=LEVELS[number % 4]) for number in range(40)]


@pytest.fixture(params=["json", "jsonl", "parquet"])
def format(request) -> str:
    if request.param == "parquet":
        pytest.importorskip("pyarrow")
    return request.param


def test_a_record_becomes_an_example(tmp_path, format):
    make_synsql(tmp_path, [synsql_record(), synsql_record(question="All?", external_knowledge=None, cot="")], format)
    first, second = load("synsql", tmp_path, "data")
    assert (first.db_id, first.question, first.evidence) == ("shop", "How many?", "all of them")
    assert (first.gold_sql, first.difficulty, first.reasoning) == ("SELECT count(*) FROM t", "Simple",
                                                                   "Count the rows of t.")
    assert (first.db_path, first.split) == (tmp_path / "databases" / "shop" / "shop.sqlite", "data")
    assert (second.evidence, second.reasoning, second.position) == ("", "", 1)
    assert first.question_id != second.question_id


def test_the_three_formats_give_the_same_sample(tmp_path):
    pytest.importorskip("pyarrow")
    samples = []
    for format in ("json", "jsonl", "parquet"):
        make_synsql(tmp_path / format, RECORDS, format)
        found = load_synsql(tmp_path / format, "data", Sample(("Complex", "Simple"), 4))
        samples.append([replace(example, db_path=Path()) for example in found])
    assert len(samples[0]) == 8 and samples[0] == samples[1] == samples[2]


def test_parts_of_a_file_are_read_in_order(tmp_path):
    make_synsql(tmp_path, RECORDS[:3], "jsonl", "data-00000")
    make_synsql(tmp_path, RECORDS[3:5], "jsonl", "data-00001")
    found = load_synsql(tmp_path, "data")
    assert [example.position for example in found] == [0, 1, 2, 3, 4]
    assert [example.question for example in found] == [f"Which {number}?" for number in range(5)]


def test_a_record_that_comes_twice_is_read_once(tmp_path):
    make_synsql(tmp_path, [RECORDS[0], RECORDS[1], {**RECORDS[0], "cot": "Otherwise."}])
    assert [example.position for example in load_synsql(tmp_path, "data")] == [0, 1]


BAD = [
    (synsql_record(sql=" "), '"sql" is missing or not a text'),
    ({"db_id": "shop"}, '"sql_complexity" is missing or not a text'),
    (synsql_record(question=7), '"question" is missing or not a text'),
    (synsql_record(cot=["a"]), '"cot" is not a text'),
    (synsql_record(db_id="../shop"), '"db_id" \'../shop\' is no name of a folder'),
    ("SELECT 1", "should be an object, is str"),
    (None, "should be an object, is NoneType"),
]


@pytest.mark.parametrize(("record", "reason"), BAD)
@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_a_malformed_record_is_left_out_and_named(tmp_path, caplog, record, reason, format):
    path = make_synsql(tmp_path, [RECORDS[0], record, RECORDS[1]], format)
    assert [example.position for example in load_synsql(tmp_path, "data")] == [0, 2]
    line = 11 if format == "json" else 2  # a record has nine lines
    assert caplog.messages == [f"{path}: skipped 1 of 3 records, which are malformed: {path.name}, line {line}: "
                               f"{reason}"]


def test_many_malformed_records_are_counted(tmp_path, caplog):
    path = make_synsql(tmp_path, [*RECORDS[:2], {}, {}, {}, {}, {}], "jsonl")
    path.write_text(path.read_text() + '\n{"db_id": "shop"')
    assert len(load_synsql(tmp_path, "data")) == 2
    (message,) = caplog.messages
    assert "skipped 6 of 8 records" in message and "line 5" in message and "line 6" not in message
    assert message.endswith("; ...")


def test_rows_of_parquet_are_named_by_their_number(tmp_path, caplog):
    pytest.importorskip("pyarrow")
    make_synsql(tmp_path, [RECORDS[0], synsql_record(sql=None), RECORDS[1]], "parquet")
    assert len(load_synsql(tmp_path, "data")) == 2
    assert 'data.parquet, row 1: "sql" is missing' in caplog.messages[0]


def test_a_question_without_its_database_is_left_out_before_the_sample_is_taken(tmp_path, caplog):
    gone = [synsql_record(db_id="gone", question=f"Which {number}?") for number in range(30)]
    make_synsql(tmp_path, [*gone, *RECORDS])
    assert len(load_synsql(tmp_path, "data", Sample(("Simple",), 10))) == 10
    assert "skipped 30 questions without a database" in caplog.messages[0] and "gone (30)" in caplog.messages[0]


def test_a_level_that_is_short_is_said_and_one_that_is_not_there_is_an_error(tmp_path, caplog):
    make_synsql(tmp_path, RECORDS)
    assert len(load_synsql(tmp_path, "data", Sample(("complex",), 50))) == 10
    assert "10 questions of level complex, fewer than the 50 asked for" in caplog.messages[0]
    with pytest.raises(InputError, match=r"no question to be read; of 40 records 0 .* Complex \(10\), Highly Complex"):
        load_synsql(tmp_path, "data", Sample(("hard",)))


@pytest.mark.parametrize("names", [[], ["data.json", "data.jsonl"]])
def test_files_that_are_missing_or_two_are_input_errors(tmp_path, names):
    (tmp_path / "databases").mkdir()
    for name in names:
        (tmp_path / name).write_text("[]")
    with pytest.raises(InputError, match="leave one of them" if names else "its split is called data"):
        load_synsql(tmp_path, "data")


def test_a_file_that_changes_is_read_again(tmp_path):
    make_synsql(tmp_path, RECORDS[:3])
    assert len(load_synsql(tmp_path, "data")) == 3
    make_synsql(tmp_path / "other", RECORDS[:5])
    (tmp_path / "other" / "data.json").rename(tmp_path / "data.json")
    assert len(load_synsql(tmp_path, "data")) == 5


def test_a_sample_of_a_large_file_holds_the_sample_alone(tmp_path):
    """50,000 records, 24 MB, of which 80 are kept: as much memory as for 5,000."""
    make_synsql(tmp_path, [])
    peaks = []
    for count in (5_000, 50_000):
        with open(tmp_path / "data.jsonl", "w") as file:
            for number in range(count):
                record = synsql_record(question=f"Which {number}?", cot="x" * 250, sql_complexity=LEVELS[number % 4])
                file.write(json.dumps(record) + "\n")
        (tmp_path / "data.json").unlink(missing_ok=True)
        tracemalloc.start()
        try:
            assert len(load_synsql(tmp_path, "data", Sample(per_level=20))) == 80
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] + 100_000 and peaks[1] < 2_000_000


def test_data_check_runs_the_gold_of_a_sample(tmp_path, capsys):
    wrong = synsql_record(question="Which?", sql="SELECT b FROM t", sql_complexity="Complex")
    make_synsql(tmp_path, [*RECORDS, wrong])
    arguments = ["data", "check", "--format", "synsql", "--root", str(tmp_path), "--split", "data", "--json"]
    assert main([*arguments, "--level", "Simple", "--level", "Moderate", "--per-level", "3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["examples"], report["status"]) == (6, {"ok": 6})
    assert main(arguments) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["examples"], report["status"]) == (41, {"ok": 40, "error": 1})
    assert main([*arguments, "--per-level", "0"]) == 2


def test_samples_are_for_formats_that_have_levels(tmp_path):
    with pytest.raises(InputError, match="read whole"):
        load("bird", tmp_path, "dev", Sample(per_level=3))
