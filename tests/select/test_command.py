"""`serl select` on files made by hand: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest

from serl.cli import main
from serl.select.candidate import Use
from serl.select.features import FEATURES
from serl.select.pool import results_of
from serl.select.reward import FILE, LearntReward
from tests.select.made import candidate, failed


@pytest.fixture
def file(tmp_path):
    """Two questions: the vote is right on the first, greedy on the second."""
    def row(number, greedy_right, results, right):
        greedy = candidate((9,), sql="SELECT 9", greedy=True)
        samples = [failed() if key == "-" else candidate((key,), sql=f"SELECT '{key}'") for key in results]
        return {"question_id": str(number), "db_id": "shop", "seen": True, "difficulty": "simple", "gold_sql": "SELECT",
                "gold": {"status": "ok"}, "greedy": greedy.to_json() | {"correct": greedy_right},
                "samples": [each.to_json() | {"correct": key == right} for each, key in zip(samples, results)],
                "results": results_of((greedy, *samples))}

    path = tmp_path / "candidates.jsonl"
    rows = row(0, False, "abb-", "b"), row(1, True, "a--c", "c")
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


def select(capsys, file, *arguments):
    assert main(["select", "--trajectories", str(file), *arguments]) == 0
    return capsys.readouterr()


def test_it_says_what_each_method_takes_and_what_that_is_worth(file, capsys, tmp_path):
    printed = select(capsys, file, "--method", "vote,greedy", "--json", "--out", str(tmp_path / "chosen.jsonl"))
    document = json.loads(printed.out)
    assert document["chosen"] == [
        {"question_id": "0", "db_id": "shop", "method": "vote", "sample": 1, "sql": "SELECT 'b'", "status": "ok"},
        {"question_id": "1", "db_id": "shop", "method": "vote", "sample": 0, "sql": "SELECT 'a'", "status": "ok"},
        {"question_id": "0", "db_id": "shop", "method": "greedy", "sample": None, "sql": "SELECT 9", "status": "ok"},
        {"question_id": "1", "db_id": "shop", "method": "greedy", "sample": None, "sql": "SELECT 9", "status": "ok"},
    ]
    at = document["selection"]["splits"]["all"]["at"]["4"]
    assert (at["vote"]["value"]["value"], at["vote"]["regret"]["value"], at["oracle"]["value"]["value"]) == (.5, .5, 1)
    assert [json.loads(line) for line in (tmp_path / "chosen.jsonl").read_text().splitlines()] == document["chosen"]
    assert "oracle@N needs gold" in printed.err and "vote: 2 of 2 questions answered" in printed.err


def test_without_gold_in_the_file_the_choice_is_the_same_and_nothing_is_told_of_its_worth(file, capsys):
    methods = ["--method", "first,greedy,vote,soft,adaptive", "--json"]
    with_gold = json.loads(select(capsys, file, *methods).out)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        del row["gold"], row["gold_sql"], row["greedy"]["correct"]
        for sample in row["samples"]:
            del sample["correct"]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    printed = select(capsys, file, *methods)
    without_gold = json.loads(printed.out)
    assert without_gold["chosen"] == with_gold["chosen"] and with_gold["selection"] is not None
    assert without_gold["selection"] is None and "nothing is known of what is right" in printed.err


def test_fewer_samples_are_a_prefix(file, capsys):
    document = json.loads(select(capsys, file, "--method", "vote", "-n", "1", "--json").out)
    assert [each["sample"] for each in document["chosen"]] == [0, 0]
    assert document["selection"]["ns"] == [1]


def test_the_learnt_selector_is_a_file_or_a_checkpoints(file, capsys, tmp_path):
    weights = dict.fromkeys(FEATURES, 0.0) | {"share": -1.0}  # the fewer have it, the better
    LearntReward(0.0, weights).write(tmp_path / FILE)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    use = dict.fromkeys(Use.__dataclass_fields__, 1)
    file.write_text("".join(json.dumps(row | {"samples": [each | {"use": use} for each in row["samples"]]}) + "\n"
                            for row in rows))
    for path in (tmp_path, tmp_path / FILE):
        document = json.loads(select(capsys, file, "--method", "reward", "--selector", str(path), "--json").out)
        assert [each["sample"] for each in document["chosen"]] == [0, 0]


@pytest.mark.parametrize("arguments, said", [
    (["--method", "oracle"], "needs gold, so it is no selector"),
    (["--method", "best"], "no selector 'best'"),
    (["--method", "reward"], "--method reward needs --selector PATH"),
    (["--method", "vote", "--selector", "x"], "which is not asked for"),
    (["--method", "vote", "-n", "5"], "-n 5 should be between 1 and 4"),
    (["--method", "vote", "--confidence", "0.2"], "between 0.5 and 1"),
    (["--method", "verifier"], "none of these has it; evaluate anew with --select verifier"),
    ([], "give --trajectories FILE and --method M, or fit RUN"),
])
def test_what_cannot_be_done_is_one_line(file, capsys, arguments, said):
    assert main(["select", "--trajectories", str(file), *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and said in printed.err and printed.err.count("\n") == 1


def test_a_file_that_is_none_and_a_run_that_is_none_are_named(capsys, tmp_path):
    assert main(["select", "--trajectories", str(tmp_path / "none.jsonl"), "--method", "vote"]) == 2
    assert "none.jsonl: cannot be read" in capsys.readouterr().err
    assert main(["select", "fit", str(tmp_path)]) == 2
    assert "not a run folder" in capsys.readouterr().err


def test_evaluation_with_the_learnt_selector_needs_its_weights_before_it_samples(capsys, tmp_path):
    recipe = Path(__file__).parents[2] / "experiments" / "recipes" / "serl_bird.yaml"
    base = ["eval", "--config", str(recipe), "--out", str(tmp_path / "out")]
    assert main([*base, "--select", "all", "--eval.selector", str(tmp_path / FILE)]) == 2
    assert "`serl select fit RUN` learns them" in capsys.readouterr().err
    assert main([*base, "--select", "vote", "--eval.selector", str(tmp_path / FILE)]) == 2
    assert "name it in eval.select" in capsys.readouterr().err
    assert main([*base, "--select", "best"]) == 2
    assert "eval.select has 'best'" in capsys.readouterr().err
    assert main([*base, "--select", "reward", "--grounding.mode", "oracle", "--grounding.allow_gold", "true"]) == 2
    assert "in grounding.mode oracle that is what gold SQL uses" in capsys.readouterr().err
    assert main([*base, "--select", "vote", "--eval.confidence", "0.8"]) == 2
    assert "eval.confidence is of the selector adaptive" in capsys.readouterr().err
    assert main(["train", "--config", str(recipe), "--runs", str(tmp_path), "--name", "out", "--eval.select",
                 "[reward]", "--eval.selector", str(tmp_path / FILE)]) == 2
    assert "`serl select fit RUN` learns them" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
