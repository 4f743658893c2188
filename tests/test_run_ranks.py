"""`serl train --processes 2` from the command line: the run of one; a signal; a rank that is killed; and resuming."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serl.data.minibird import generate
from serl.io import read_jsonl
from serl.tracking import read_metrics, trajectory_file

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "experiments" / "recipes" / "serl_bird.yaml"
STEPS = 5


def without_times(folder: Path) -> list[dict]:
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in read_metrics(folder)]


def close(found: list[dict], expected: list[dict], tolerance: float) -> None:
    assert len(found) == len(expected) == STEPS
    for mine, theirs in zip(found, expected):
        assert mine == pytest.approx(theirs, abs=tolerance, rel=tolerance)


def ranks_of(launcher: subprocess.Popen) -> list[int]:
    """The processes of its ranks, rank 0 first."""
    listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(launcher.pid)], capture_output=True, text=True)
    return sorted(int(line.split()[0]) for line in listed.stdout.splitlines() if "serl.cli train" in line)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_run_of_two_processes_is_that_of_one_and_survives_a_signal_and_the_loss_of_a_rank(tmp_path):
    generate(tmp_path / "data", seed=5, train=36, dev=6, unseen=4)
    overrides = {"data.root": tmp_path / "data", "data.train_from": 0,
                 "grounding.cache": tmp_path / "cache", "grounding.encoder": "none",
                 "sql.gold_cache": tmp_path / "gold", "sql.workers": 1, "runs": tmp_path, "rollout.questions": 3,
                 "rollout.group_size": 4, "rollout.patience_s": 60, "train.steps": STEPS, "train.save_every": 1,
                 "train.lr": 1e-4, "eval.n": 2, "eval.every": 3, "eval.probe": 5, "eval.untrained": 0,
                 "tracking.wandb": "offline", "hindsight.teacher.sync_every": 2}
    arguments = [text for key, value in overrides.items() for text in (f"--{key}", str(value))]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}

    def command(*more: str) -> list[str]:
        return [sys.executable, "-m", "serl.cli", "train", *more]

    def run(name: str, *more: str) -> None:
        subprocess.run(command("--config", str(RECIPE), "--name", name, *arguments, *more), check=True,
                       env=environment)

    run("one")
    run("two", "--processes", "2")
    one, two = tmp_path / "one", tmp_path / "two"
    assert any(row["grad_norm"] > 0 for row in read_metrics(one))
    close(without_times(two), without_times(one), 1e-4)
    for step in range(STEPS):
        mine, theirs = (read_jsonl(trajectory_file(folder, step)) for folder in (two, one))
        for key in ("question_id", "sample", "token_ids", "reward", "advantage"):
            assert [row[key] for row in mine] == [row[key] for row in theirs]
    answers = [[(row["question_id"], row["greedy"]["sql"], [sample["sql"] for sample in row["samples"]])
                for row in read_jsonl(folder / "eval" / "sft" / "candidates.jsonl")] for folder in (two, one)]
    assert answers[0] == answers[1] and (two / "report.html").is_file()

    cut = tmp_path / "cut"

    def until(step: int, *more: str) -> subprocess.Popen:
        """A run that has written a checkpoint."""
        launcher = subprocess.Popen(command(*more, "--processes", "2"), env=environment, stderr=subprocess.PIPE,
                                    text=True)
        while not (cut / "checkpoints" / f"step_{step:06d}").exists():
            assert launcher.poll() is None, "the run ended before something could happen to it"
            time.sleep(0.05)
        return launcher

    launcher = until(1, "--config", str(RECIPE), "--name", "cut", *arguments)
    launcher.send_signal(signal.SIGTERM)
    said = launcher.communicate(timeout=600)[1]
    assert launcher.returncode == 143 and said.count(f"go on with `serl train --resume {cut}`") == 1, said
    assert 1 <= len(read_metrics(cut)) < STEPS

    launcher = until(len(read_metrics(cut)) + 1, "--resume", str(cut))
    os.kill(ranks_of(launcher)[1], signal.SIGKILL)
    said = launcher.communicate(timeout=60)[1]
    assert launcher.returncode == 1 and "serl: rank 1 was ended by SIGKILL" in said
    assert len(read_metrics(cut)) < STEPS
    subprocess.run(command("--resume", str(cut), "--processes", "2"), check=True, env=environment)
    close(without_times(cut), without_times(two), 1e-5)
