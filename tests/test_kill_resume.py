"""SIGKILL in the middle of `serl train`; `--resume` ends with the metrics of an uninterrupted run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serl.data.minibird import generate
from serl.tracking import read_metrics

RECIPE = Path(__file__).parents[1] / "experiments" / "recipes" / "serl_bird.yaml"
STEPS = 4


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_run_resumes_to_the_same_metrics(tmp_path):
    generate(tmp_path / "data", seed=5, train=36, dev=6, unseen=4)
    overrides = {"data.root": tmp_path / "data", "data.train_from": 0,
                 "grounding.cache": tmp_path / "cache", "grounding.encoder": "none",
                 "sql.gold_cache": tmp_path / "gold", "runs": tmp_path, "rollout.questions": 4, "rollout.group_size": 4,
                 "train.steps": STEPS, "train.save_every": 1, "train.lr": 1e-4, "eval.n": 2, "eval.every": 0,
                 "eval.untrained": 0, "tracking.wandb": "offline", "hindsight.teacher.sync_every": 2}
    arguments = [text for key, value in overrides.items() for text in (f"--{key}", str(value))]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def command(*more: str) -> list[str]:
        return [sys.executable, "-m", "serl.cli", "train", *more]

    subprocess.run(command("--config", str(RECIPE), "--name", "whole", *arguments), check=True, env=environment)

    run = tmp_path / "cut"
    process = subprocess.Popen(command("--config", str(RECIPE), "--name", "cut", *arguments), env=environment)
    while not (run / "checkpoints" / "step_000002").exists():
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(read_metrics(run)) < STEPS

    subprocess.run(command("--resume", str(run)), check=True, env=environment)
    whole, cut = (
        [{key: value for key, value in row.items() if not key.startswith("time/")} for row in read_metrics(folder)]
        for folder in (tmp_path / "whole", run))
    assert len(whole) == STEPS and cut == whole
    assert any(row["grad_norm"] > 0 for row in whole), "the runs learned something, so equality says something"
    assert (run / "report.html").is_file() and (run / "eval" / "rl" / "summary.json").is_file()

    summary = run / "eval" / "rl" / "summary.json"
    before = summary.stat().st_mtime_ns
    subprocess.run(command("--resume", str(run)), check=True, env=environment)
    assert summary.stat().st_mtime_ns == before, "nothing to do: nothing is done again"
    subprocess.run(command("--resume", str(run), "--train.steps", str(STEPS + 1)), check=True, env=environment)
    assert len(read_metrics(run)) == STEPS + 1
    assert summary.stat().st_mtime_ns > before, "more steps: evaluated again"
