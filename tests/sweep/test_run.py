"""Runs of a sweep as processes: done ones are skipped, failed ones reported, no two work on one run."""

import fcntl
import json
import time

import pytest

from serl.cli import main
from serl.config import to_dict
from serl.errors import InputError
from serl.sweep.run import is_done
from serl.tracking import RunFolder
from tests.sweep.made import sweep_file


def sweep(file, folder, *options: str) -> int:
    return main(["sweep", str(file), "--runs", str(folder), *options])


def finish(folder, config) -> None:
    """Leave behind what a finished run does."""
    run = RunFolder(folder / config.name)
    run.write_config(to_dict(config))
    for step in range(config.train.steps):
        run.append_metrics(step, {"ex/train": 0.5})
    (run.path / "eval" / "rl").mkdir(parents=True)
    summary = {"stage": "rl", "splits": {"seen": {"greedy": {"value": 0.5}}, "unseen": {"greedy": {"value": 0.5}}}}
    (run.path / "eval" / "rl" / "summary.json").write_text(json.dumps(summary))


def test_a_run_is_done_with_its_last_evaluation_and_all_steps(tmp_path, minibird):
    _, configs = sweep_file(tmp_path, minibird)
    plain, serl = configs(tmp_path)
    assert not is_done(tmp_path, plain)
    finish(tmp_path, plain)
    assert is_done(tmp_path, plain) and not is_done(tmp_path, serl)
    longer, _ = configs(tmp_path, ("train.steps", "2"))
    assert not is_done(tmp_path, longer)
    other, _ = configs(tmp_path, ("train.lr", "0.1"))
    with pytest.raises(InputError, match="plain-s0: this run exists with other settings .train.lr: 5e-05, now 0.1."):
        is_done(tmp_path, other)


def test_what_is_done_is_not_run_again(tmp_path, capfd, minibird):
    file, configs = sweep_file(tmp_path, minibird)
    for config in configs(tmp_path / "runs"):
        finish(tmp_path / "runs", config)
    assert sweep(file, tmp_path / "runs", "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert found["states"] == {"plain-s0": "done", "serl-s0": "done"}
    assert [arm["name"] for arm in found["comparison"]["arms"]] == ["plain", "serl"]
    assert not list((tmp_path / "runs").glob("*.log"))
    assert sweep(file, tmp_path / "runs", "--only-table", "--arms", "serl", "--json") == 0  # with its baseline
    found = json.loads(capfd.readouterr().out)
    assert [arm["name"] for arm in found["comparison"]["arms"]] == ["plain", "serl"] and found["states"] == {}
    assert sweep(file, tmp_path / "runs", "--only-table", "--arms", "plain", "--json") == 0
    assert [arm["name"] for arm in json.loads(capfd.readouterr().out)["comparison"]["arms"]] == ["plain"]
    assert sweep(file, tmp_path / "runs", "--only-table", "--train.steps", "2") == 2  # not what was run
    assert "plain-s0: it was not run with the options" in capfd.readouterr().err


@pytest.mark.slow
def test_a_failed_run_is_reported_and_tried_again_only_when_asked(tmp_path, capfd, minibird):
    file, _ = sweep_file(tmp_path, minibird, root=tmp_path / "nowhere")
    folder = tmp_path / "runs"
    assert sweep(file, folder, "--workers", "2") == 1
    words = (folder / "serl-s0.failed").read_text()
    assert words.startswith("exit code 2: serl: ") and "nowhere" in words
    assert "serl-s0 failed, see" in capfd.readouterr().err
    before = (folder / "serl-s0.log").stat().st_size
    assert sweep(file, folder) == 1 and (folder / "serl-s0.log").stat().st_size == before
    assert sweep(file, folder, "--retry", "--arms", "serl") == 1
    assert (folder / "serl-s0.log").stat().st_size > before
    assert (folder / "plain-s0.log").stat().st_size < (folder / "serl-s0.log").stat().st_size


def test_a_run_that_another_sweep_works_on_is_left_alone(tmp_path, capfd, minibird):
    file, _ = sweep_file(tmp_path, minibird)
    (tmp_path / "runs").mkdir()
    with open(tmp_path / "runs" / "serl-s0.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        start = time.monotonic()
        assert sweep(file, tmp_path / "runs", "--arms", "serl", "--json") == 1  # nothing is done yet
        assert time.monotonic() - start < 5
    said = capfd.readouterr()
    assert json.loads(said.out)["states"] == {"serl-s0": "busy"} and "no run of" in said.err


def test_wrong_options_are_found_before_the_first_run(tmp_path, capfd, minibird):
    file, _ = sweep_file(tmp_path, minibird)
    assert sweep(file, tmp_path / "runs", "--arms", "none") == 2
    assert "--arms none: no such arm; there are plain, serl" in capfd.readouterr().err
    assert sweep(file, tmp_path / "runs", "--train.rate", "1") == 2
    assert "unknown key" in capfd.readouterr().err and not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_arms_are_trained_and_compared(tmp_path, capfd, minibird):
    file, _ = sweep_file(tmp_path, minibird)
    assert sweep(file, tmp_path / "runs", "--workers", "2", "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert found["states"] == {"plain-s0": "done", "serl-s0": "done"} and found["comparison"]["missing"] == 0
    assert all(0 <= arm["means"]["seen/greedy"]["value"] <= 1 for arm in found["comparison"]["arms"])
    assert (tmp_path / "runs" / "tiny.png").is_file()
    assert sweep(file, tmp_path / "runs", "--train.steps", "2", "--arms", "plain") == 0  # goes on
    assert (tmp_path / "runs" / "plain-s0" / "metrics.jsonl").read_text().count("\n") == 2
