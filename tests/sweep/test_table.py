"""Finished runs become means, differences seed by seed, shares and curves: against numbers worked out by hand."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from serl.errors import InputError
from serl.sweep.compare import Reached, compare
from serl.sweep.plan import Sweep
from serl.sweep.stats import mean_of, ratio_of
from serl.sweep.table import text_of, write_comparison

OTHER = (("train.lr", "0.1"),)
SWEEP = Sweep("demo", Path("recipe.yaml"), "base", None, (0, 1, 2), {"base": (), "other": OTHER, "absent": ()},
              ("seen/greedy", "seen/mean@2"), ("ex/train",))


def write_run(folder: Path, name: str, greedy: float, curve: list[float], stage: str = "rl", train: str = "{}") -> None:
    run = folder / name
    (run / "eval" / stage).mkdir(parents=True)
    splits = {"seen": {"greedy": {"value": greedy}, "mean@2": {"value": greedy / 2}}, "unseen": {}}
    (run / "eval" / stage / "summary.json").write_text(json.dumps({"stage": stage, "splits": splits}))
    (run / "metrics.jsonl").write_text("".join(json.dumps({"step": step, "ex/train": value}) + "\n"
                                               for step, value in enumerate(curve)))
    (run / "config.yaml").write_text(f"name: {name}\nseed: {name[-1]}\ntrain: {train}\n")


@pytest.fixture
def folder(tmp_path):
    for seed, (base, other) in enumerate([(0.5, 0.6), (0.7, 0.7), (0.6, 0.8)]):
        write_run(tmp_path, f"base-s{seed}", base, [0.2, 0.4])
        write_run(tmp_path, f"other-s{seed}", other, [0.2 + 0.01 * seed, 0.5 - 0.01 * seed, 0.6], train="{lr: 0.1}")
    write_run(tmp_path, "absent-s0", 0.9, [0.1], stage="sft")  # it has not got to its last evaluation
    return tmp_path


def values(arm, curve: str = "ex/train") -> list[tuple[int, float]]:
    return [(updates, mean.value) for updates, mean in arm.curves[curve]]


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
    (folder / "base-s2" / "metrics.jsonl").write_text('{"step": 1, "ex/train": 0.45}\n')
    comparison = compare(SWEEP, folder)
    _, other = comparison.arms
    assert other.seeds == (0, 1, 2)
    assert (other.differences["seen/greedy"].value, other.differences["seen/greedy"].n) == pytest.approx((0.15, 2))
    # Seeds 0 and 2 alone: 0.21, 0.49 on the way to (0.4 + 0.45) / 2; 0.48 is above 0.45, too.
    assert other.reached["ex/train"] == Reached(pytest.approx(1 + (0.425 - 0.21) / 0.28), 2, 2)
    assert "| other | 3 of 3 | 70.0 (45.2–94.8) | +15.0 (−48.5 to +78.5), 2 seeds |" in text_of(comparison)


def test_updates_to_the_baselines_last_value(folder):
    write_run(folder, "absent-s1", 0.5, [0.1, 0.41])
    write_run(folder, "absent-s2", 0.5, [0.1, 0.37])
    base, other, absent = compare(SWEEP, folder).arms
    assert base.reached["ex/train"] == Reached(2, 3, 3)  # its curve ends there
    assert values(other) == [(1, pytest.approx(0.21)), (2, pytest.approx(0.49)), (3, pytest.approx(0.6))]
    assert other.curves["ex/train"][0][1].high == pytest.approx(mean_of([0.2, 0.21, 0.22]).high)
    assert other.reached["ex/train"] == Reached(pytest.approx(1 + 0.19 / 0.28), 3, 3)
    assert absent.reached["ex/train"] == Reached(None, 1, 2)  # one of them does, their mean does not


def test_shares_are_of_what_the_ceiling_gains_in_the_seeds_that_all_have(folder):
    sweep = replace(SWEEP, ceiling="absent")
    assert "absent, the ceiling, has no finished run of a seed of base" in text_of(compare(sweep, folder))
    for seed, best in enumerate([0.62, 0.81, 0.73]):
        write_run(folder, f"absent-s{seed}", best, [0.1])
    comparison = compare(sweep, folder)
    base, other, best = comparison.arms
    assert base.shares == best.shares == {}
    expected = ratio_of([0.1, 0.0, 0.2], [0.12, 0.11, 0.13])
    share = other.shares["seen/greedy"]
    assert (share.value, share.low, share.high) == pytest.approx((0.1 / 0.12, expected.low, expected.high))
    text = text_of(comparison)
    assert "What absent, the ceiling, is worth, in points beside base: seen/greedy +12.0 (+9.5 to +14.5); " in text
    assert "| other | 83.3 (" in text
    text = text_of(compare(replace(SWEEP, ceiling="other"), folder))  # +10.0 (−14.8 to +34.8)
    assert "None of it is shown to be above 0, so no arm has a share of it" in text and "| share of it" not in text


def test_several_passes_over_a_batch_are_as_many_updates(folder):
    for seed in range(3):
        (folder / f"other-s{seed}" / "config.yaml").write_text("train: {updates_per_batch: 2}\n")
    sweep = replace(SWEEP, arms={"base": (), "other": (("train.updates_per_batch", "2"),)})
    _, other = compare(sweep, folder).arms
    assert [updates for updates, _ in values(other)] == [2, 4, 6]


def test_runs_that_differ_by_more_than_their_arm_are_not_compared(folder):
    config = folder / "other-s1" / "config.yaml"
    config.write_text("train: {lr: 0.2}\n")
    with pytest.raises(InputError, match=r"other-s1: .* options of sweep demo .train.lr: 0.2, now 0.1"):
        compare(SWEEP, folder)
    config.write_text("train: {lr: 0.1, steps: 7}\n")
    with pytest.raises(InputError, match=r"other-s1: it differs from base-s0 .*train.steps: \d+, now 7"):
        compare(SWEEP, folder)
    config.write_text("name: x\nseed: 5\ntrain: {lr: 0.1, save_every: 3}\ntracking: {wandb: disabled}\n")
    assert len(compare(SWEEP, folder).arms) == 2


def test_options_of_the_command_line_win_over_those_of_the_arm(folder):
    for run in folder.glob("*-s?"):
        (run / "config.yaml").write_text("train: {lr: 0.3}\n")
    with pytest.raises(InputError, match="other-s0"):
        compare(SWEEP, folder)
    assert len(compare(SWEEP, folder, [("train.lr", "0.3")]).arms) == 2


def test_the_json_of_a_single_seed_has_no_interval_and_no_nan(folder):
    comparison = compare(replace(SWEEP, seeds=(0,), metrics=("seen/greedy", "unseen/greedy")), folder)
    document = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
    assert document["arms"][1]["means"] == {
        "seen/greedy": {"value": 0.6, "low": None, "high": None, "n": 1},
        "unseen/greedy": {"value": None, "low": None, "high": None, "n": 1}}
    assert document["arms"][1]["curves"]["ex/train"][2] == [3, {"value": 0.6, "low": None, "high": None, "n": 1}]


def test_nothing_done_is_no_comparison(tmp_path):
    assert compare(SWEEP, tmp_path) is None


def test_a_long_curve_has_some_of_its_points_in_the_table(folder):
    for seed in range(3):
        write_run(folder / "long", f"base-s{seed}", 0.5, [step / 100 + seed / 1000 for step in range(30)])
    text = text_of(compare(SWEEP, folder / "long"))
    head = next(line for line in text.splitlines() if line.startswith("| ex/train at update"))
    cells = [cell.strip() for cell in head.strip("|").split("|")]
    assert len(cells) == 1 + 8 + 2 and cells[8] == "30" and sorted(map(int, cells[1:9])) == list(map(int, cells[1:9]))


def test_files_hold_the_same_numbers(folder, tmp_path):
    comparison = compare(SWEEP, folder)
    where = write_comparison(comparison, SWEEP, Path("demo.yaml"), tmp_path / "out")
    text = where.read_text(encoding="utf-8")
    assert "| other | 3 of 3 | 70.0 (45.2–94.8) | +10.0 (−14.8 to +34.8) |" in text and "3 runs are not done" in text
    assert "| other | 21.0 (18.5–23.5) | 49.0 (46.5–51.5) | 60.0 | 2 | 3 of 3 |" in text
    assert "base gains +20.0 points from its first point to its last, which is not shown" in text
    rows = list(csv.DictReader(where.with_suffix(".csv").read_text().splitlines()))
    assert [(row["arm"], row["metric"]) for row in rows] == [(arm, metric) for arm in ("base", "other")
                                                             for metric in SWEEP.metrics]
    assert float(rows[2]["difference"]) == pytest.approx(0.1) and rows[0]["difference"] == ""
    assert rows[2]["difference_seeds"] == "3" and math.isnan(float(rows[2]["share"] or "nan"))
    assert where.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
