"""The `grounding` command: shapes, exit codes, and what it imports."""

import json
import subprocess
import sys

import pytest

from grounding.cli import main


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
        ("build", "--root", "nowhere"),
        ("build", "--root", "{empty}"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(racing, tmp_path, capsys, arguments):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.jsonl").write_text('{"question": "a"}\n{"query": "b"}\n')
    places = {"racing": racing, "bad": tmp_path / "bad.jsonl", "empty": tmp_path / "empty"}
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
