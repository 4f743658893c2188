"""`serl teach` on a small run: folder and card, the same weights again, and what is refused in one line."""

import json
import re

import pytest
import torch
from transformers import AutoModelForCausalLM

from serl import model as models
from serl.cli import main
from serl.errors import InputError
from serl.io import read_json, read_jsonl, write_jsonl
from serl.tracking import trajectory_file
from serl.train.teach.card import seen_by

ARGS = ("--step", "0", "--teach.levels", "[exec, exec+clauses]", "--teach.contrast", "1", "--teach.epochs", "2",
        "--teach.lr", "1e-3", "--teach.questions", "2", "--teach.held_out", "0.3")


@pytest.fixture(scope="module")
def taught(run_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "teacher"
    assert main(["teach", str(run_folder), "--out", str(out), *ARGS]) == 0
    return out


def weights_of(folder) -> dict[str, torch.Tensor]:
    return AutoModelForCausalLM.from_pretrained(folder).state_dict()


def test_a_model_folder_with_a_card_is_written(run_folder, taught, capsys):
    card = read_json(taught / "teacher.json")
    start = next((run_folder / "checkpoints").iterdir())
    assert (card["run"], card["steps"], card["start"]) == (str(run_folder), [0], str(start))
    assert card["teach"]["levels"] == ["exec", "exec+clauses"] and card["gold"] == "not used"
    questions = {record["question_id"] for record in read_jsonl(trajectory_file(run_folder, 0))}
    held_out = set(card["held_out_questions"])
    assert held_out and not held_out & set(card["questions"]) and held_out | set(card["questions"]) <= questions
    assert set(card["lessons"]) == {"contrast exec", "contrast exec+clauses", "corrected exec",
                                    "corrected exec+clauses", "kept exec", "kept exec+clauses", "own empty"}
    assert [exam["epoch"] for exam in card["epochs"]] == [0, 1, 2]
    losses = [exam["loss"] for exam in card["epochs"]]
    assert losses[card["kept_epoch"]] == min(losses) and card["kept_epoch"] > 0, "it learned something"
    assert set(card["epochs"][0]["auc"]) == {"exec", "exec+clauses", "empty", "student −logp"}
    before, after = weights_of(start), weights_of(taught)
    assert any(not torch.equal(before[name], after[name]) for name in before)
    model, tokenizer = models.load(str(taught), "float32")
    assert len(tokenizer) == model.config.vocab_size
    assert not list(taught.parent.glob(".*")), "nothing half written is left"


def test_the_same_command_writes_the_same_teacher_and_json(run_folder, taught, tmp_path, capsys):
    out = tmp_path / "again"
    assert main(["teach", str(run_folder), "--out", str(out), *ARGS, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == read_json(out / "teacher.json") == read_json(taught / "teacher.json")
    assert "epoch 0: loss" in captured.err and "teacher: " in captured.err
    first, again = weights_of(taught), weights_of(out)
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert main(["teach", str(run_folder), "--out", str(out), *ARGS, "--seed", "2"]) == 0  # its own folder: replaced
    assert any(not torch.equal(value, first[name]) for name, value in weights_of(out).items())


@pytest.mark.slow
def test_credit_warns_of_a_teacher_that_has_seen_what_it_is_measured_on(run_folder, taught, tmp_path, capsys):
    credit = ["credit", str(run_folder), "--samples", "4", "--teacher", str(taught), "--out", str(tmp_path / "credit")]
    assert main([*credit, "--step", "0"]) == 0
    seen = re.search(r"warning: teacher .*teacher was trained on trajectories of (\d+) of these (\d+) questions",
                     capsys.readouterr().err)
    assert seen[1] == seen[2] and int(seen[1]) > 0
    assert main([*credit, "--step", "1"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert seen_by(tmp_path) == frozenset()
    write_jsonl(tmp_path / "teacher.json", [["something else"]])
    with pytest.raises(InputError, match="not a card"):
        seen_by(tmp_path)


def test_gold_in_the_records_and_in_the_data_changes_nothing(run_folder, taught, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_bytes((run_folder / "config.yaml").read_bytes())
    rows = read_jsonl(trajectory_file(run_folder, 0))
    write_jsonl(trajectory_file(tmp_path / "run", 0), [row | {"gold_sql": "SELECT secret"} for row in rows])
    start = next((run_folder / "checkpoints").iterdir())
    out = tmp_path / "teacher"
    assert main(["teach", str(tmp_path / "run"), "--start", str(start), "--out", str(out), *ARGS]) == 0
    first, again = weights_of(taught), weights_of(out)
    assert all(torch.equal(value, again[name]) for name, value in first.items())


def test_what_cannot_be_taught_is_one_line(run_folder, tmp_path, capsys):
    def fails(*argv: str) -> str:
        assert main(["teach", *argv]) == 2
        return capsys.readouterr().err.strip().splitlines()[-1]

    run = str(run_folder)
    assert "not a run folder" in fails(str(tmp_path))
    assert "no trajectories of step 9" in fails(run, "--step", "9")
    assert "no such folder" in fails(run, "--start", str(tmp_path / "none"))
    assert "records hold 5" in fails(run, "--agent.observation_rows", "9")
    assert "exec+diff" in fails(run, "--teach.levels", "[exec+diff]")
    assert "name each level once" in fails(run, "--teach.levels", "[exec, exec]")
    assert "nothing to learn" in fails(run, "--teach.imitation", "0", "--teach.contrast", "0")
    assert "teach.epochs is 0" in fails(run, "--teach.epochs", "0")
    assert "holds out 0" in fails(run, "--step", "0", "--teach.held_out", "0")
    (tmp_path / "precious").mkdir()
    assert "was not written by `serl teach`" in fails(run, "--out", str(tmp_path / "precious"))
    assert (tmp_path / "precious").is_dir() and not (run_folder / "teacher").exists()
