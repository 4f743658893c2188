"""`grounding eval`: links against gold, data sets as they unpack, and the command."""

import json

import pytest

from grounding import Grounder, GroundingConfig, Request
from grounding.cli import main
from grounding.errors import InputError
from grounding.evaluate.gold import GoldUse
from grounding.evaluate.links import count_tokens, full_schema_tokens, link_scores, mean_of
from grounding.evaluate.questions import read_split
from grounding.reasoning import reasoner
from tests.grounding.chat_server import chat_server


@pytest.fixture
def spider(racing, tmp_path):
    """Spider's layout with three questions: one has no database, one no targets."""
    root = tmp_path / "spider"
    (root / "database").mkdir(parents=True)
    racing.parent.rename(root / "database" / "racing")
    records = [
        {"db_id": "racing", "question": "Which drivers are British?",
         "query": "SELECT name FROM driver WHERE nationality = 'British'"},
        {"db_id": "elsewhere", "question": "?", "query": "SELECT 1"},
        {"db_id": "racing", "question": "How many circuits are there?", "query": "SELECT count(*) FROM circuit"},
    ]
    (root / "dev.json").write_text(json.dumps(records))
    return root


def test_link_scores_by_hand(racing, tmp_path):
    config = GroundingConfig(keep_all_columns=0, keep_table_columns=0)
    grounded = Grounder(tmp_path / "cache", "none", config).ground(Request("Who is British?", racing))
    assert [(t.name, sorted(c.name for c in t.columns)) for t in grounded.tables] == [("driver", ["id", "nationality"])]
    gold = GoldUse(frozenset({"driver", "result"}), frozenset({("driver", "nationality"), ("driver", "name")}), ())
    scores = link_scores(grounded, gold, full_schema_tokens(grounded, "compact"), "compact")
    assert scores["table recall"] == 0.5 and scores["table recall, strict"] == 0 and scores["table precision"] == 1
    assert scores["column recall"] == 0.5 and scores["column precision"] == 0.5
    assert 0 < scores["tokens saved"] < 1
    assert count_tokens("a.b = 'c d'") == 8


def test_a_mean_lies_within_its_interval():
    mean = mean_of([0.0, 1.0, 1.0, 1.0])
    assert mean.value == 0.75 and mean.low <= 0.75 <= mean.high and mean.targets == 4


def test_the_command_evaluates_a_data_set(spider, tmp_path, capsys):
    task, out = tmp_path / "task.jsonl", tmp_path / "report.json"
    shared = ["--encoder", "none", "--cache", str(tmp_path / "cache"), "--json", "--root", str(spider)]
    assert main(["eval", "--format", "spider", "--save-task", str(task), "--out", str(out), *shared]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert document == json.loads(out.read_text()) and "column recall, strict" in printed.err
    assert document["values"]["verbatim"]["1"]["value"] == 1.0
    assert document["links"]["table recall, strict"] == {"value": 1.0, "low": 1.0, "high": 1.0, "targets": 2}
    assert document["counts"]["question: database is missing"] == 1
    assert document["counts"]["question: without targets"] == 1
    assert main(["eval", "--task", str(task), *shared]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["values"] == document["values"] and again["links"] == {}


def test_the_command_indexes_what_its_options_say(spider, tmp_path, capsys):
    options = ["--no-numbers", "--max-values", "7", "--max-embedded", "5"]
    command = ["eval", "--format", "spider", "--root", str(spider), "--encoder", "none"]
    assert main([*command, "--cache", str(tmp_path / "cache"), *options]) == 0
    (manifest,) = (tmp_path / "cache").glob("racing-*/manifest.json")
    identity = json.loads(manifest.read_text())["identity"]
    assert [identity[name] for name in ("numbers", "max_values_per_column", "max_embedded_per_column")] == [False, 7, 5]


def test_tables_json_is_taken_from_where_the_option_says(spider, tmp_path, capsys):
    records = [{"db_id": "racing", "question": "How many grandstands?", "query": "SELECT laps FROM race"}]
    (spider / "dev.json").write_text(json.dumps(records))
    entry = {"db_id": "racing", "table_names_original": ["race"], "table_names": ["race"],
             "column_names_original": [[0, "laps"]], "column_names": [[0, "grandstand"]]}
    (tmp_path / "elsewhere.json").write_text(json.dumps([entry]))
    command = ["eval", "--format", "spider", "--root", str(spider), "--encoder", "none", "--modes", "hybrid", "--json",
               "--cache", str(tmp_path / "cache"), "--keep-all-columns", "0", "--keep-table-columns", "0"]
    precision = []
    for options in ([], ["--tables", str(tmp_path / "elsewhere.json")]):
        assert main([*command, *options]) == 0
        printed = capsys.readouterr()
        precision.append(json.loads(printed.out)["links"]["table precision"]["value"])
    assert precision == [1 / 4, 1], "without it nothing speaks for any table, and all are kept"
    assert "1/1" in printed.err, "the progress bar comes to its end"


def test_rows_by_links_and_budget(spider, tmp_path, capsys):
    shared = ["--encoder", "none", "--cache", str(tmp_path / "cache"), "--json", "--root", str(spider)]
    assert main(["eval", "--format", "spider", *shared, "--budgets", "none", "12", "--keep-all-columns", "0"]) == 0
    printed = capsys.readouterr()
    rows = {(row["links"], row["budget"]): {name: each["value"] for name, each in row["measures"].items()}
            for row in json.loads(printed.out)["rows"]}
    assert list(rows) == [(mode, budget) for mode in ("hybrid", "full", "oracle") for budget in (None, 12)]
    assert rows["full", None]["column recall, strict"] == 1 and rows["full", None]["tokens saved"] < 0
    # driver: name, nationality, id; circuit: its table alone, so id. The second question has no gold column.
    oracle = rows["oracle", None]
    assert oracle["table precision"] == oracle["column recall, strict"] == 1 and oracle["column precision"] == 2 / 3
    assert all(measures["tokens"] <= 12 for (_, budget), measures in rows.items() if budget)
    assert 0 < rows["full", 12]["table recall"] <= rows["hybrid", None]["table recall"] == 1
    assert "oracle" in printed.err and "column R" in printed.err


def test_reasoning_links_have_a_row_and_what_failed_is_counted(spider, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reasoner, "PAUSE_S", 0.0)
    monkeypatch.setenv("no_proxy", "*")

    def answer(messages):
        return '{"tables": ["circuit"]}' if "circuits" in messages[1]["content"] else "I do not know"

    shared = ["--encoder", "none", "--cache", str(tmp_path / "cache"), "--json", "--root", str(spider)]
    with chat_server(answer) as server:
        chat = ["--chat-url", server.url, "--chat-model", "m", "--modes", "hybrid"]
        assert main(["eval", "--format", "spider", *shared, *chat]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["links"] for row in document["rows"]] == ["hybrid", "hybrid+reasoning"]
    assert document["links"] == document["rows"][1]["measures"]
    assert {name: count for name, count in document["counts"].items() if name.startswith("reasoning")} == {
        "reasoning: asked": 2, "reasoning: no usable answer, linked without": 1,
        "reasoning: shown a part of the schema": 0}, "a count of 0 says that nothing was left out"


@pytest.mark.parametrize(("arguments", "said"), [
    ([], "--format"), (["--format", "spider", "--chat-url", "http://a/v1"], "together"),
    (["--format", "spider", "--chat-key", "KEY"], "--chat-key"),
    (["--format", "spider", "--chat-url", "http://a/v1", "--chat-model", "m", "--chat-workers", "0"], "above 0"),
    (["--task", "t", "--chat-url", "http://a/v1", "--chat-model", "m"], "--task"),
    (["--format", "bird"], "--databases DIR"), (["--format", "spider", "--split", "x"], "x.json"),
    (["--task", "nowhere.jsonl"], "nowhere.jsonl"), (["--format", "spider", "--questions", "{bad}"], "record 0"),
])
def test_wrong_input_is_one_line(spider, tmp_path, capsys, arguments, said):
    (tmp_path / "bad.json").write_text('[{"db_id": "racing"}]')
    filled = [argument.format(bad=tmp_path / "bad.json") for argument in arguments]
    assert main(["eval", "--root", str(spider), "--encoder", "none", *filled]) == 2
    printed = capsys.readouterr()
    assert said in printed.err and printed.err.count("\n") == 1 and not printed.out


def test_a_sample_is_even_and_a_data_set_without_its_databases_is_refused(spider):
    split = read_split("spider", spider, "dev")
    assert [question.index for question in split.questions] == [0, 2] and split.missing == {"elsewhere": 1}
    assert split.sample(None).questions == split.sample(5).questions == split.questions
    assert [question.index for question in split.sample(1).questions] == [0]
    with pytest.raises(InputError, match="none of the databases"):
        read_split("spider", spider, "dev", databases=spider)
