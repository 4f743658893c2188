"""Means, differences seed by seed, and updates to the baseline's last value: against numbers worked out by hand."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from serl.sweep.plan import Sweep
from serl.sweep.table import compare, mean_of, updates_to, write_comparison

SWEEP = Sweep("demo", Path("recipe.yaml"), "base", (0, 1, 2), {"base": (), "other": (), "absent": ()},
              ("seen/greedy", "seen/mean@2"), "ex/train")


def write_run(folder: Path, name: str, greedy: float, curve: list[float], stage: str = "rl") -> None:
    run = folder / name
    (run / "eval" / stage).mkdir(parents=True)
    splits = {"seen": {"greedy": {"value": greedy}, "mean@2": {"value": greedy / 2}}, "unseen": {}}
    (run / "eval" / stage / "summary.json").write_text(json.dumps({"stage": stage, "splits": splits}))
    (run / "metrics.jsonl").write_text("".join(json.dumps({"step": step, "ex/train": value}) + "\n"
                                               for step, value in enumerate(curve)))


@pytest.fixture
def folder(tmp_path):
    for seed, (base, other) in enumerate([(0.5, 0.6), (0.7, 0.7), (0.6, 0.8)]):
        write_run(tmp_path, f"base-s{seed}", base, [0.2, 0.4])
        write_run(tmp_path, f"other-s{seed}", other, [0.2 + 0.01 * seed, 0.5 - 0.01 * seed, 0.6])
    write_run(tmp_path, "absent-s0", 0.9, [0.1], stage="sft")  # it has not got to its last evaluation
    return tmp_path


def test_a_mean_has_students_interval():
    mean = mean_of([0.1, 0.0, 0.2])
    half = 4.302652729911275 * 0.1 / math.sqrt(3)  # t(0.975, 2), s = 0.1
    assert (mean.value, mean.low, mean.high, mean.n) == pytest.approx((0.1, 0.1 - half, 0.1 + half, 3))
    assert math.isnan(mean_of([0.3]).low) and mean_of([0.3]).value == 0.3


def test_differences_are_taken_seed_by_seed(folder):
    comparison = compare(SWEEP, folder)
    assert [arm.name for arm in comparison.arms] == ["base", "other"] and comparison.missing == 3
    base, other = comparison.arms
    assert base.means["seen/greedy"].value == pytest.approx(0.6) and base.differences == {}
    apart = other.differences["seen/greedy"]
    assert (apart.value, apart.low) == pytest.approx((0.1, mean_of([0.1, 0.0, 0.2]).low))
    assert other.differences["seen/mean@2"].value == pytest.approx(0.05)


def test_only_seeds_that_both_have_are_compared(folder):
    (folder / "base-s1" / "eval" / "rl" / "summary.json").unlink()
    _, other = compare(SWEEP, folder).arms
    assert other.seeds == (0, 1, 2)
    assert (other.differences["seen/greedy"].value, other.differences["seen/greedy"].n) == pytest.approx((0.15, 2))


def test_updates_to_the_baselines_last_value(folder):
    base, other = compare(SWEEP, folder).arms
    assert base.updates_to_baseline == 2  # its curve ends there
    assert other.curve == [(1, pytest.approx(0.21)), (2, pytest.approx(0.49)), (3, pytest.approx(0.6))]
    assert other.updates_to_baseline == pytest.approx(1 + 0.19 / 0.28)
    assert updates_to([(1, 0.2), (2, 0.3)], 0.4) is None and updates_to([], 0.4) is None
    assert updates_to([(5, 0.5)], 0.4) == 5


def test_several_passes_over_a_batch_are_as_many_updates(folder):
    for seed in range(3):
        (folder / f"other-s{seed}" / "config.yaml").write_text("train: {updates_per_batch: 2}\n")
    _, other = compare(SWEEP, folder).arms
    assert [updates for updates, _ in other.curve] == [2, 4, 6]


def test_the_json_of_a_single_seed_has_no_interval_and_no_nan(folder):
    comparison = compare(replace(SWEEP, seeds=(0,), metrics=("seen/greedy", "unseen/greedy")), folder)
    document = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
    assert document["arms"][1]["means"] == {
        "seen/greedy": {"value": 0.6, "low": None, "high": None, "n": 1},
        "unseen/greedy": {"value": None, "low": None, "high": None, "n": 1}}


def test_nothing_done_is_no_comparison(tmp_path):
    assert compare(SWEEP, tmp_path) is None


def test_files_hold_the_same_numbers(folder, tmp_path):
    comparison = compare(SWEEP, folder)
    where = write_comparison(comparison, SWEEP, Path("demo.yaml"), tmp_path / "out")
    text = where.read_text(encoding="utf-8")
    assert "| other | 3 | 70.0 (45.2–94.8) | +10.0 (−14.8 to +34.8) |" in text and "3 runs are not done" in text
    rows = list(csv.DictReader(where.with_suffix(".csv").read_text().splitlines()))
    assert [(row["arm"], row["metric"]) for row in rows] == [(arm, metric) for arm in ("base", "other")
                                                             for metric in SWEEP.metrics]
    assert float(rows[2]["difference"]) == pytest.approx(0.1) and rows[0]["difference"] == ""
    assert where.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
