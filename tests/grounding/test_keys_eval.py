"""`grounding eval --keys`: inferred foreign keys against declared ones."""

import json

import pytest

from grounding.cli import main
from grounding.errors import InputError
from grounding.evaluate.keys import count_keys, evaluate_keys

ROWS = ", ".join(f"({i}, {i})" for i in range(1, 9))
SCRIPT = f"""CREATE TABLE team (id INTEGER PRIMARY KEY, city INTEGER);
    CREATE TABLE game (team_id INTEGER REFERENCES team, host INTEGER REFERENCES team);
    CREATE TABLE goal (team_id INTEGER, n INTEGER);
    INSERT INTO team VALUES {ROWS}; INSERT INTO game VALUES {ROWS}; INSERT INTO goal VALUES {ROWS};"""


def test_precision_and_recall_by_hand(make_database):
    declared, none = make_database(SCRIPT, "a"), make_database("CREATE TABLE t (a TEXT);", "b")
    (none.parent / "damaged.sqlite").write_text("no database")
    counts = count_keys(declared)
    team = ("team", "id")
    assert counts.declared == {(("game", "team_id"), team), (("game", "host"), team)}
    assert counts.inferred == {(("game", "team_id"), team), (("goal", "team_id"), team)}
    report = evaluate_keys([declared, none, none.parent / "damaged.sqlite"])
    assert (report.measures["precision"].value, report.measures["recall"].value) == (0.5, 0.5)
    assert list(report.left_out.values())[0] == "it declares no foreign keys" and len(report.left_out) == 2
    (database,) = report.to_json()["databases"]
    assert (database["missed"], database["not_declared"]) == (["game.host -> team.id"], ["goal.team_id -> team.id"])
    with pytest.raises(InputError, match="none of 1"):
        evaluate_keys([none])


def test_the_command_prints_and_writes_the_figures(make_database, tmp_path, capsys):
    root, out = make_database(SCRIPT, "a").parent, tmp_path / "keys.json"
    assert main(["eval", "--keys", "--root", str(root), "--json", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads(out.read_text())
    assert json.loads(printed.out)["keys"]["recall"]["value"] == 0.5 and "precision" in printed.err
    assert main(["eval", "--keys", "--root", str(tmp_path / "nowhere")]) == 2


def test_the_keys_of_spiders_dev_databases_are_inferred(shared_data, capsys):
    """Measured: precision 98.1, recall 82.5, of 63 pairs in 20 databases; nothing was chosen by them."""
    command = ["eval", "--keys", "--format", "spider", "--root", str(shared_data / "spider"), "--json"]
    assert main(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["databases"]) == 20 and document["keys"]["recall"]["targets"] == 63
    assert document["keys"]["precision"]["value"] >= 0.95 and document["keys"]["recall"]["value"] >= 0.8
