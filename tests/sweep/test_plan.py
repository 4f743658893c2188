"""A sweep file becomes the runs it says, and every mistake in it is one line."""

from pathlib import Path

import pytest

from serl.errors import InputError
from serl.sweep.plan import read_sweep

RECIPE = "experiments/recipes/serl_bird.yaml"
SWEEPS = sorted((Path(__file__).parents[2] / "experiments" / "sweeps").glob("*.yaml"))


def sweep_of(tmp_path, text: str):
    path = tmp_path / "mine.yaml"
    path.write_text(f"config: {RECIPE}\n{text}", encoding="utf-8")
    return read_sweep(path)


def test_arms_and_seeds_in_the_order_that_can_be_compared_early(tmp_path):
    sweep = sweep_of(tmp_path, """
seeds: [3, 1]
baseline: plain
set: {train: {steps: 2, lr: 1.0e-5}, eval.n: 0}
arms:
  serl: {}
  plain: {hindsight.source: none, train.lr: 2.0e-5}
""")
    assert [run.name for run in sweep.runs] == ["serl-s3", "plain-s3", "serl-s1", "plain-s1"]
    assert (sweep.name, sweep.baseline) == ("mine", "plain")
    config = sweep.config_of(sweep.runs[1], Path("there"), [("train.steps", "9")])
    assert (config.train.steps, config.train.lr, config.eval.n, config.seed) == (9, 2e-5, 0, 3)
    assert (config.runs, config.name, config.hindsight.source) == ("there", "plain-s3", "none")
    assert (config.tracking.group, config.tracking.tags) == ("mine", ("plain",))
    assert sweep.config_of(sweep.runs[0], Path("there"), []).train.lr == 1e-5


def test_a_grid_is_every_combination_on_top_of_each_arm(tmp_path):
    sweep = sweep_of(tmp_path, """
arms: {a: {hindsight.lambda0: 0.1}, b: {}}
grid: {hindsight: {lambda0: [0.5, 1.0]}, train.loss: [grpo, cispo]}
""")
    assert list(sweep.arms) == [f"{arm},lambda0={lam},loss={loss}" for arm in "ab" for lam in ("0.5", "1.0")
                                for loss in ("grpo", "cispo")]
    assert dict(sweep.arms["a,lambda0=0.5,loss=cispo"]) == {"hindsight.lambda0": "0.5", "train.loss": '"cispo"'}
    alone = sweep_of(tmp_path, "grid: {rollout.group_size: [4, 8]}")
    assert list(alone.arms) == ["group_size=4", "group_size=8"] and alone.baseline == "group_size=4"


@pytest.mark.parametrize("text, words", [
    ("", "neither arms nor grid"), ("arm: {a: {}}", "unknown key 'arm'"), ("arms: [a]", "arms should be a mapping"),
    ("arms: {a: {}}\nbaseline: b", "baseline 'b' is no arm; there are a"), ("arms: {a/b: {}}", "names become folders"),
    ("arms: {a: {}}\nceiling: b", "ceiling 'b' is no arm"), ("arms: {a: {}}\nceiling: a", "are both a"),
    ("arms: {a: {}}\ncurves: eval/seen", "curves should be a list"),
    ("arms: {a: {}}\nseeds: 3", "seeds should be a list"), ("arms: {a: {}}\nseeds: [1, 1]", "different whole numbers"),
    ("grid: {train.lr: 1}", "train.lr should be a list of values"),
    ("arms: {a: {}}\nmetrics: [greedy]", "split/metric"),
    ("arms: {a: 3}", "arms: a should be a mapping"), ("arms: {a: {}", "not YAML"),
])
def test_a_wrong_file_is_one_line(tmp_path, text, words):
    with pytest.raises(InputError) as error:
        sweep_of(tmp_path, text)
    assert words in str(error.value) and "mine.yaml" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_shipped_sweep_has_only_valid_runs(path, monkeypatch):
    monkeypatch.chdir(path.parents[2])
    sweep = read_sweep(path)
    names = [sweep.config_of(run, Path("runs"), []).name for run in sweep.runs]
    assert len(names) == len(set(names)) == len(sweep.arms) * len(sweep.seeds)
