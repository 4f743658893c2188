"""The `grounding` command: shapes, exit codes, and what it imports."""

import json
import os
import subprocess
import sys

import pytest

from grounding.cli import main
from tests.grounding.chat_server import chat_server


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_query_prints_one_json_document_of_the_published_shape(racing, tmp_path, capsys):
    code, out, _ = run(
        capsys, "query", "--db", racing, "Which driver is British?", "--json", "--cache", tmp_path, "--encoder", "none"
    )
    document = json.loads(out)
    assert code == 0 and set(document) == {"tables", "values"}
    assert set(document["tables"][0]) == {"name", "columns"}
    assert set(document["tables"][0]["columns"][0]) == {"name", "why"}
    assert document["tables"][0]["name"] == "driver"
    assert document["values"][0] == {
        "table": "driver", "column": "nationality", "value": "British", "score": 1.0, "channel": "exact"
    }  # fmt: skip


def test_query_answers_a_file_of_questions_line_by_line(racing, tmp_path, capsys):
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "Who is British?"}\n\n{"question": "Where?", "evidence": "in Italy"}\n')
    code, out, _ = run(
        capsys, "query", "--db", racing, "--questions", questions, "--json", "--cache", tmp_path, "--encoder", "none"
    )
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [answer["values"][0]["value"] for answer in answers] == ["British", "Italy"]


def test_query_asks_a_model_keeps_a_budget_and_says_what_a_model_did_not(racing, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    shared = ("query", "--db", racing, "Who is British?", "--json", "--cache", tmp_path, "--encoder", "none")
    with chat_server('{"tables": ["race"], "projection": ["race.laps"]}', "no", "no") as server:
        chat = ("--chat-url", server.url, "--chat-model", "m")
        _, out, err = run(capsys, *shared, *chat)
        whys = {(t["name"], c["name"]): c["why"] for t in json.loads(out)["tables"] for c in t["columns"]}
        assert whys["race", "laps"] == ["reasoning"] and whys["driver", "nationality"] == ["value"]
        assert "no reasoning links" not in err and "warnings" not in json.loads(out)
        code, out, err = run(capsys, *shared, *chat, "--budget", "15", "--evidence", "else")
        document = json.loads(out)
    assert code == 0 and "no reasoning links" in err and document["warnings"][0] in err
    (table,) = document["tables"]
    assert [column["name"] for column in table["columns"]] == ["nationality"]


def test_the_text_marks_values_that_are_like_the_question_and_lists_all(racing, tmp_path, capsys):
    shared = ("query", "--db", racing, "Monaco Grand Prix and the British", "--cache", tmp_path, "--encoder", "none")
    code, out, _ = run(capsys, *shared)
    text, listed = out.split("\n  ", 1)
    assert code == 0 and "name text = 'Monaco Grand Prix', " in text and "Circuit de Monaco" not in text
    assert "circuit.name = 'Circuit de Monaco'" in listed and "race.name = 'ITALIAN GRAND PRIX'" in listed
    _, out, _ = run(capsys, *shared, "--min-score", "0.3")
    assert "name text = 'Circuit de Monaco'" in out.split("\n  ", 1)[0]
    _, whole, _ = run(capsys, *shared, "--json")
    _, cut, _ = run(capsys, *shared, "--json", "--budget", "20")
    assert json.loads(cut)["values"] == json.loads(whole)["values"] and cut != whole


def test_the_text_comes_in_both_styles_with_samples(racing, tmp_path, capsys):
    shared = ("query", "--db", racing, "status and points of results", "--cache", tmp_path, "--encoder", "none")
    _, out, _ = run(capsys, *shared, "--style", "ddl", "--samples", "2")
    assert "CREATE TABLE result (" in out and "  status TEXT, -- e.g. 'F', 'R'" in out
    assert "e.g." not in run(capsys, *shared)[1]


def test_values_are_listed_as_sql_writes_them(make_database, tmp_path, capsys):
    path = make_database("CREATE TABLE t (year INTEGER, a TEXT); INSERT INTO t VALUES (1998, 'O''Hare'), (2004, 'x');")
    _, out, _ = run(capsys, "query", "--db", path, "O'Hare in 1998", "--cache", tmp_path, "--encoder", "none")
    assert "t.year = 1998\n" in out and "t.a = 'O''Hare'\n" in out


def test_build_says_what_a_dense_index_misses(racing, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("grounding.build.misses", lambda about_dense: ["the dense channel finds 0.5"])
    _, _, err = run(capsys, "build", "--root", racing.parent, "--cache", tmp_path, "--encoder", "none")
    assert err.count("racing.sqlite: the dense channel finds 0.5") == 1


def test_build_indexes_every_database_and_counts_the_bad_ones(racing, tmp_path, capsys):
    (racing.parent / "broken.sqlite").write_text("no database")
    code, out, err = run(
        capsys, "build", "--root", racing.parent, "--cache", tmp_path / "cache", "--encoder", "none", "--json"
    )
    document = json.loads(out)
    assert code == 1 and "broken.sqlite" in err
    assert [entry["db_id"] for entry in document["built"]] == ["racing"] and document["built"][0]["strings"] == 19
    assert [entry["path"].endswith("broken.sqlite") for entry in document["failed"]] == [True]


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "--db", "nowhere.sqlite", "a question"),
        ("query", "--db", "{racing}"),
        ("query", "--db", "{racing}", "--questions", "nowhere.jsonl"),
        ("query", "--db", "{racing}", "--questions", "{bad}"),
        ("query", "--db", "{racing}", "a question", "--encoder", "nowhere"),
        ("query", "--db", "{racing}", "a question", "--descriptions", "nowhere"),
        ("query", "--db", "{racing}", "--questions", "{evidence}"),
        ("build", "--root", "nowhere"),
        ("build", "--root", "{empty}"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(racing, tmp_path, capsys, arguments):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.jsonl").write_text('{"question": "a"}\n{"query": "b"}\n')
    (tmp_path / "evidence.jsonl").write_text('{"question": "a", "evidence": []}\n')
    places = {"racing": racing, **{path.stem: path for path in tmp_path.iterdir() if path.stem != "racing"}}
    filled = [argument.format(**places) for argument in arguments]
    encoder = () if "--encoder" in filled else ("--encoder", "none")
    code, out, err = run(capsys, *filled, *encoder, "--cache", tmp_path / "cache")
    assert code == 2 and out == "" and err.count("\n") == 1


def test_a_bad_line_of_questions_is_named(racing, tmp_path, capsys):
    (tmp_path / "bad.jsonl").write_text('{"question": "a"}\n{"query": "b"}\n')
    _, _, err = run(capsys, "query", "--db", racing, "--questions", tmp_path / "bad.jsonl", "--encoder", "none")
    assert "bad.jsonl, line 2" in err


def test_help_loads_no_heavy_library():
    script = (
        "import sys, contextlib\nfrom grounding.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['query', '--help'])\n"
        "heavy = {'torch', 'faiss', 'sentence_transformers', 'transformers', 'numpy'} & set(sys.modules)\n"
        "print(heavy, file=sys.stderr)\nsys.exit(bool(heavy))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "--questions" in result.stdout


def test_the_module_is_the_command():
    result = subprocess.run([sys.executable, "-m", "grounding", "query"], capture_output=True, text=True)
    assert result.returncode == 2 and "--db" in result.stderr


@pytest.mark.parametrize("option", ["--top-values=-5", "--min-score=nan", "--min-score=7", "--max-values=0"])
def test_numbers_out_of_range_are_wrong_usage(racing, capsys, option):
    with pytest.raises(SystemExit, match="2"):
        main(["query", "--db", str(racing), "a question", option])
    assert option.split("=")[0] in capsys.readouterr().err


def test_questions_may_begin_with_a_byte_order_mark_and_have_no_evidence(racing, tmp_path, capsys):
    (tmp_path / "q.jsonl").write_bytes(b'\xef\xbb\xbf{"question": "Who is British?", "evidence": null}\r\n')
    questions = ("--questions", tmp_path / "q.jsonl")
    code, out, _ = run(capsys, "query", "--db", racing, *questions, "--json", "--cache", tmp_path, "--encoder", "none")
    assert code == 0 and json.loads(out)["values"][0]["value"] == "British"


@pytest.mark.parametrize(
    "question",
    ["", "?!.,;'\"`()[]{}<>", "🏎️ 👨\u200d👩\u200d👧 🇩🇪", "'; DROP TABLE race; -- \" OR 1=1", "“«„‘「",
     "caf\udce9 \ud800", "a\x00b", "```sql `race`.`name` ``` <|im_start|>"],
)  # fmt: skip
def test_a_question_may_be_any_text(racing, tmp_path, capsys, question):
    arguments = ("--evidence", question, "--json", "--cache", tmp_path, "--encoder", "none")
    code, out, err = run(capsys, "query", "--db", racing, question, *arguments)
    assert code == 0 and {table["name"] for table in json.loads(out)["tables"]} and err == ""


def test_output_that_cannot_hold_a_value_holds_its_escape(make_database, tmp_path):
    path = make_database("CREATE TABLE t (city TEXT); INSERT INTO t VALUES ('Zürich');")
    query = ["query", "--db", path, "Zurich", "--cache", tmp_path, "--encoder", "none"]
    command = [sys.executable, "-m", "grounding", *query]
    for json_option, written in ((["--json"], "Z\\u00fcrich"), ([], "Z\\xfcrich")):
        result = subprocess.run(
            [*map(str, command), *json_option], capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}
        )
        assert result.returncode == 0 and written in result.stdout.decode("ascii"), result.stderr


def test_a_reader_who_leaves_early_is_no_error_with_a_traceback(racing, tmp_path):
    (tmp_path / "q.jsonl").write_text('{"question": "Which British driver?"}\n' * 500)
    query = f"query --db {racing} --questions {tmp_path / 'q.jsonl'} --json --encoder none --cache {tmp_path}"
    command = f"{sys.executable} -m grounding {query} | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert json.loads(result.stdout)["values"] and result.stderr == ""


def test_what_a_prompt_cannot_show_and_what_a_terminal_would_obey_is_told_harmlessly(make_database, tmp_path, capsys):
    path = make_database(
        """CREATE TABLE "a\x1b[31m<|im_start|>" (city TEXT); INSERT INTO "a\x1b[31m<|im_start|>" VALUES ('Oslo');
        CREATE VIEW gone AS SELECT * FROM missing;"""
    )
    code, out, err = run(capsys, "query", "--db", path, "Oslo", "--cache", tmp_path, "--encoder", "none")
    said = err.splitlines()
    assert code == 0 and len(said) == 2 and "view gone is left out" in said[0] and "is shown as" in said[1]
    assert "\x1b" not in out + err and "<|" not in out + err
