"""Nothing that a selector looks at depends on gold: by its types, by its code, and by running it with gold gone."""

import ast
import inspect
import json
import shutil
from pathlib import Path

import pytest

from serl import select
from serl.cli import main
from serl.io import read_jsonl
from serl.select import NAMES
from serl.select.candidate import Candidate, Use
from serl.select.features import FEATURES
from serl.select.pool import Pool
from serl.select.reward import FILE, LearntReward

RECIPE = Path(__file__).parents[2] / "experiments" / "recipes" / "serl_bird.yaml"
GOLD = {"gold", "gold_sql", "correct"}
# What learns from gold's verdicts, the bound, and what may not be imported by the rest.
OF_GOLD = {"oracle", "learn", "rollouts", "fit"}


def modules():
    return {path.stem: path for path in Path(inspect.getfile(select)).parent.glob("*.py")}


@pytest.mark.parametrize("name", sorted(set(modules()) - OF_GOLD))
def test_what_selects_names_no_gold_and_imports_nothing_that_does(name):
    tree = ast.parse(modules()[name].read_text())
    named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    named |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    named |= {node.arg for node in ast.walk(tree) if isinstance(node, (ast.arg, ast.keyword))}
    assert not named & (GOLD | {"judge", "Marked", "GoldCache"})
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not imported & {f"serl.select.{other}" for other in OF_GOLD}
    assert not any(module.startswith(("serl.reward", "serl.evaluate", "serl.sql.gold")) for module in imported)


def test_no_type_that_selectors_take_has_a_place_for_gold():
    for kind in (Candidate, Use, Pool):
        assert not GOLD & set(kind.__dataclass_fields__)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A reward selector, whose weights a hand has set."""
    path = tmp_path_factory.mktemp("weights") / FILE
    LearntReward(0.5, {name: (-1) ** place * 0.3 for place, name in enumerate(FEATURES)}).write(path)
    return path


def evaluated(root, out, weights, caches):
    """`serl eval --select all` of the embedded model on a few questions."""
    options = {"data.root": root, "data.max_eval": 3, "grounding.cache": caches / "grounding",
               "grounding.encoder": "none", "sql.gold_cache": out / "gold", "agent.max_new_tokens": 64,
               "rollout.patience_s": 60, "eval.selector": weights, "eval.temperature": 1.3,
               "tracking.wandb": "disabled"}
    assert main(["eval", "--config", str(RECIPE), "-n", "3", "--select", "all", "--out", str(out / "eval"), "--json",
                 *(f"--{key}={value}" for key, value in options.items())]) == 0
    return out / "eval" / "candidates.jsonl"


def without(row, *names):
    return {name: without(value, *names) if isinstance(value, dict) else
            [without(each, *names) for each in value] if name == "samples" else value
            for name, value in row.items() if name not in names}


@pytest.mark.slow
def test_other_gold_changes_no_fact_and_no_choice_and_none_is_needed_to_choose(minibird, tmp_path, weights, capsys):
    caches, copy, choices = tmp_path / "caches", tmp_path / "copy", {}
    shutil.copytree(minibird, copy)
    first = evaluated(minibird, tmp_path / "one", weights, caches)
    records = json.loads((copy / "dev.json").read_text())
    (copy / "dev.json").write_text(json.dumps([record | {"SQL": "SELECT 42"} for record in records]))
    other = evaluated(copy, tmp_path / "two", weights, caches)
    summary = json.loads(capsys.readouterr().out.splitlines()[0])
    assert set(summary["selection"]["splits"]["all"]["at"]) == {"1", "2", "3"}
    assert set(summary["selection"]["splits"]["all"]["at"]["3"]) == {*NAMES, "oracle"} - {"greedy"}

    rows = [[without(row, *GOLD) for row in read_jsonl(file)] for file in (first, other)]
    assert rows[0] == rows[1]  # SQL, results, use, P("Yes"), log-probs: all the same under another gold
    golds = [[row["gold_sql"] for row in read_jsonl(file)] for file in (first, other)]
    assert golds[0] != golds[1]
    facts = [sample for row in rows[0] for sample in row["samples"] if sample["result_key"]]
    assert facts and all(sample["verified"] is not None and sample["use"] is not None for sample in facts)

    stripped = tmp_path / "stripped.jsonl"
    stripped.write_text("".join(json.dumps(row) + "\n" for row in rows[0]))
    told = {}
    for name, file in (("first", first), ("other", other)):
        choices[name], told[name] = chosen(file, weights, capsys)
    shutil.rmtree(copy)  # questions, gold SQL and databases
    shutil.rmtree(tmp_path / "one")
    shutil.rmtree(tmp_path / "two")
    choices["stripped"], told["stripped"] = chosen(stripped, weights, capsys)
    assert choices["stripped"] == choices["first"] == choices["other"]
    assert told["stripped"] is None and told["first"] != told["other"]
    assert told["first"]["splits"] == summary["selection"]["splits"]


def chosen(file, weights, capsys):
    """What every method chooses of a file, and what it is told to be worth."""
    assert main(["select", "--trajectories", str(file), "--method", "all", "--selector", str(weights), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["questions"] == 3 and len(document["chosen"]) == 3 * len(NAMES)
    return document["chosen"], document["selection"]
