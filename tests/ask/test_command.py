"""`serl ask` and `serl serve` as commands: one line for what is wrong, one document for --json."""

import io
import json
import re
import socket
from pathlib import Path

import pytest

from serl.cli import main
from serl.serve.databases import databases_in
from tests.ask.made import make_databases
from tests.test_cli import fails

QUESTION = "How many members are there?"


@pytest.fixture
def database(tmp_path) -> Path:
    return make_databases(tmp_path, 1)["db0"]


def test_what_is_wrong_is_one_line(capsys, tmp_path, database):
    embedded, at = ["ask", "--checkpoint", "embedded"], ["--db", str(database)]
    none = str(tmp_path / "none.sqlite")
    assert "none.sqlite: the database file is missing" in fails(capsys, *embedded, "--db", none, QUESTION)
    (tmp_path / "text.sqlite").write_text("not a database" * 100)
    assert "text.sqlite: " in fails(capsys, *embedded, "--db", str(tmp_path / "text.sqlite"), QUESTION)
    assert "--json needs a question" in fails(capsys, *embedded, *at, "--json")
    assert "-n 0: should be at least 1" in fails(capsys, *embedded, *at, "-n", "0", QUESTION)
    assert "--rows -1: should be" in fails(capsys, *embedded, *at, "--rows", "-1", QUESTION)
    assert "nothing to choose from" in fails(capsys, *embedded, *at, "--select", "vote", QUESTION)
    assert "oracle needs gold" in fails(capsys, *embedded, *at, "-n", "2", "--select", "oracle", QUESTION)
    assert "--section.key=VALUE" in fails(capsys, *embedded, *at, "--seed", "1", QUESTION)
    assert "unknown key" in fails(capsys, *embedded, *at, "--agent.turns=1", QUESTION)
    assert "no such folder" in fails(capsys, "ask", "--checkpoint", str(tmp_path / "model"), "--config",
                                     "experiments/recipes/serl_bird.yaml", *at, QUESTION)


def test_a_model_without_a_chat_template_is_told(capsys, tmp_path, database):
    from tests.models import tiny_model, tiny_tokenizer
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    for each in (tokenizer, tiny_model(len(tokenizer))):
        each.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "config.yaml").write_text("name: bare")
    options = ["--checkpoint", str(tmp_path / "model"), "--db", str(database)]
    capsys.readouterr()  # what saving has said
    assert "has no chat template" in fails(capsys, "ask", *options, QUESTION)


def test_the_embedded_model_answers_about_any_file(capsys, tmp_path, minibird, monkeypatch):
    database = minibird / "dev_databases" / "gym" / "gym.sqlite"
    options = ["--checkpoint", "embedded", "--db", str(database), f"--grounding.cache={tmp_path / 'cache'}",
               "--grounding.encoder=none"]
    assert main(["ask", *options, "--json", "-n", "3", QUESTION]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["result"]["status"] == "ok" and "member" in document["sql"].lower()
    assert sum(vote["votes"] for vote in document["selection"]["votes"]) == 3
    assert document["tokens"]["prompt"] > 20 and document["database"] == "gym.sqlite"
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{QUESTION}\n/new\n{'how? ' * 3000}\n"))
    assert main(["ask", *options]) == 1
    shown = capsys.readouterr()
    assert shown.out == "" and "\x1b" not in shown.err and re.search(r"\n  \d+ rows?, \d+ ms\n", shown.err)
    assert "the question is too long" in shown.err


def test_a_folder_of_databases_is_served_by_name(tmp_path):
    paths = make_databases(tmp_path, 2)
    assert databases_in(tmp_path) == paths and databases_in(paths["db1"]) == {"db1": paths["db1"]}


def test_what_cannot_be_served_is_one_line(capsys, tmp_path, database):
    pytest.importorskip("fastapi")
    embedded = ["serve", "--checkpoint", "embedded", "--db"]
    (tmp_path / "more" / "db0").mkdir(parents=True)
    assert "no database in this folder" in fails(capsys, *embedded, str(tmp_path / "more"))
    (tmp_path / "more" / "db0" / "db0.db").write_bytes(database.read_bytes())
    assert "would have the same name" in fails(capsys, *embedded, str(tmp_path))
    (tmp_path / "more" / "bad.sqlite").write_text("no")
    assert "bad.sqlite" in fails(capsys, *embedded, str(tmp_path / "more"))
    for option in (["--timeout", "0"], ["--timeout", "nan"], ["--at-once", "0"], ["--rows", "0"], ["--port", "70000"]):
        assert option[0] in fails(capsys, *embedded, str(database), *option)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot listen there" in fails(capsys, *embedded, str(database), "--port", str(taken.getsockname()[1]))


def test_serving_without_its_packages_says_what_to_install(capsys, database, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    line = fails(capsys, "serve", "--checkpoint", "embedded", "--db", str(database))
    assert "pip install 'serl[serve]'" in line
