"""Whatever happens to `serl train`, going on gives what would have been: bit for bit, times aside.

One run is never stopped. Others are, again and again, at one point after the other, and then end as it did. Processes
and signals are real (`tests/train/faults.py`); a full disk is a limit on the size of files.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from serl.data.minibird import generate
from serl.io import read_json, read_jsonl
from serl.tracking import read_metrics
from serl.train import checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "experiments" / "recipes" / "serl_bird.yaml"
STEPS = 4


class Lab:
    """Runs in one folder, by the driver."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        generate(folder / "data", seed=5, train=36, dev=6, unseen=4)
        options = {"data.root": folder / "data", "data.train_from": 0, "grounding.cache": folder / "cache",
                   "grounding.encoder": "none", "sql.gold_cache": folder / "gold", "runs": folder,
                   "sql.timeout_s": 50, "rollout.questions": 3, "rollout.group_size": 4, "rollout.patience_s": 60,
                   "agent.max_new_tokens": 64, "train.steps": STEPS, "train.save_every": 2, "train.lr": 1e-4,
                   "eval.n": 0, "eval.every": 2, "eval.probe": 6, "eval.start": False, "eval.untrained": 0,
                   "tracking.wandb": "disabled", "hindsight.teacher.sync_every": 3}
        self.arguments = [text for key, value in options.items() for text in (f"--{key}", str(value))]
        self.driver = subprocess.Popen([sys.executable, "-m", "tests.train.faults"], cwd=ROOT, text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)})

    def train(self, name: str, fault: str | None = None, step: int = 0, *more: str) -> tuple[int, str]:
        """A run, new or gone on with; its exit code and the last line that it printed."""
        arguments = ["train", "--config", str(RECIPE), "--auto-resume", "--name", name, *self.arguments, *more]
        if (self.folder / name / "config.yaml").exists() and (fault is None or step % 2):  # either way is as good
            arguments = ["train", "--resume", str(self.folder / name), *more]
        return self.serl(arguments, fault, step)

    def serl(self, arguments: list[str], fault: str | None = None, step: int = 0) -> tuple[int, str]:
        self.driver.stdin.write(json.dumps({"fault": fault, "step": step, "arguments": arguments}) + "\n")
        self.driver.stdin.flush()
        told = json.loads(self.driver.stdout.readline())
        print(fault, told["code"], told["stderr"][-2000:])
        lines = [line.split("\r")[-1].strip() for line in told["stderr"].splitlines()]
        return told["code"], ([""] + [line for line in lines if line])[-1]

    def metrics(self, name: str) -> list[dict]:
        return [{key: value for key, value in row.items() if not key.startswith("time/")}
                for row in read_metrics(self.folder / name)]

    def whole(self, name: str) -> dict:
        """Everything that a run leaves behind, without times."""
        folder = self.folder / name
        weights = {path.parent.name: path.read_bytes() for path in folder.glob("checkpoints/*/model.safetensors")}
        return {"metrics": self.metrics(name), "weights": weights,
                "trajectories": {path.name: timeless(read_jsonl(path)) for path in folder.glob("trajectories/*")},
                "answers": timeless(read_jsonl(folder / "eval" / "rl" / "candidates.jsonl")),
                "summary": timeless(read_json(folder / "eval" / "rl" / "summary.json")),
                "best": os.readlink(folder / "checkpoints" / "best"), "left": sorted(
                    path.name for path in folder.rglob(".*"))}

    def saved(self, name: str) -> str | None:
        newest = checkpoint.latest(self.folder / name / "checkpoints")
        return newest and newest.name


def timeless(value):
    """JSON without the times in it."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in ("ms", "seconds")}
    return [timeless(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    made = Lab(tmp_path_factory.mktemp("lab"))
    assert made.train("whole")[0] == 0
    yield made
    made.driver.stdin.close()
    made.driver.wait()


def test_the_run_that_is_never_stopped_learns_something(lab):
    rows = lab.metrics("whole")
    assert len(rows) == STEPS and sum(row["grad_norm"] > 0 for row in rows) > 1
    assert [("eval/seen" in row) for row in rows] == [False, True, False, True]
    assert all(row["guard/skipped"] == 0 and row["rollout/entropy"] > 0.01 for row in rows)


def test_the_best_checkpoint_is_evaluated_as_it_was_probed(lab):
    best = lab.folder / "whole" / "checkpoints" / "best"
    state = checkpoint.load_state(checkpoint.latest(best.parent))["best"]
    assert os.readlink(best) == f"step_{state['step']:06d}"
    code, _ = lab.serl(["eval", "--config", str(lab.folder / "whole" / "config.yaml"), "--checkpoint", str(best),
                        "--data.max_eval", "6", "--out", str(lab.folder / "best")])
    assert code == 0
    summary = read_json(lab.folder / "best" / "summary.json")
    assert (summary["splits"]["all"]["greedy"]["value"], summary["questions"]) == (state["accuracy"], 6)


def test_a_run_that_is_killed_at_six_points_of_its_steps_ends_as_if_it_never_was(lab):
    kills = [("rollout", 1, None), ("scoring", 2, "step_000002"), ("checkpoint", 3, "step_000002"),
             ("update", 2, "step_000002"), ("sync", 3, "step_000002"), ("eval", 3, "step_000002")]
    for point, step, saved in kills:
        code, _ = lab.train("killed", f"kill in {point}", step)
        assert code == -9, point
        rows = lab.metrics("killed")
        assert rows == lab.metrics("whole")[: len(rows)] and lab.saved("killed") == saved, point
    assert lab.train("killed")[0] == 0
    assert lab.whole("killed") == lab.whole("whole")

    summary = lab.folder / "killed" / "eval" / "rl" / "summary.json"
    before = summary.stat().st_mtime_ns
    assert lab.train("killed")[0] == 0
    assert summary.stat().st_mtime_ns == before, "nothing to do: nothing is done again"
    assert lab.train("killed", None, 0, "--train.steps", str(STEPS + 1))[0] == 0
    assert len(lab.metrics("killed")) == STEPS + 1
    assert summary.stat().st_mtime_ns > before, "more steps: evaluated again"


def test_a_run_that_is_told_to_leave_does_so_where_it_stands_and_loses_nothing(lab):
    told = [("term in query", 1, 143, "step_000001", 1), ("int in rollout", 1, 130, "step_000001", 1),
            ("term in update", 1, 143, "step_000002", 1),  # its step is done, and the probe is still to come
            ("term in eval", -1, 143, "step_000002", 1), ("twice in update", 2, 143, "step_000002", 2),
            ("term in checkpoint", 3, 143, "step_000004", 4)]
    for fault, step, expected, saved, rows in told:
        code, line = lab.train("told", fault, step)
        assert (code, lab.saved("told"), len(lab.metrics("told"))) == (expected, saved, rows), fault
        if not fault.startswith("twice"):
            assert f"go on with `serl train --resume {lab.folder / 'told'}`" in line, fault
    assert lab.train("told")[0] == 0
    assert lab.whole("told") == lab.whole("whole") | {"weights": lab.whole("told")["weights"]}
    # Of the checkpoints only those that a signal added are others.
    assert lab.whole("told")["weights"].items() >= {"step_000004": lab.whole("whole")["weights"]["step_000004"]}.items()


def test_a_full_disk_ends_a_run_with_one_line_and_leaves_nothing_half_written(lab):
    full = [("trajectories", 0, None, 0, "trajectories/step_000000.jsonl: cannot be written (File too large)"),
            ("metrics", 1, None, 1, "metrics.jsonl: cannot be written (File too large)"),
            ("weights", 1, None, 2, "step_000002: this checkpoint cannot be written (Error while serializing: I/O er"),
            ("state", 3, "step_000002", 4, "step_000004: this checkpoint cannot be written ([Errno 27] File too large")]
    for point, step, saved, rows, reason in full:
        code, line = lab.train("full", f"full in {point}", step)
        assert (code, lab.saved("full"), len(lab.metrics("full"))) == (1, saved, rows), line
        assert line.startswith("serl: ") and reason in line and f" of {STEPS}: " in line, line
        assert f"go on with `serl train --resume {lab.folder / 'full'}`" in line
        assert lab.metrics("full") == lab.metrics("whole")[:rows]
        assert rows == 0 or (lab.folder / "full" / "metrics.jsonl").read_bytes().endswith(b"\n")
        assert [path.name for path in (lab.folder / "full").rglob(".*")] == [".lock"]
        assert not (lab.folder / "full" / "error.txt").exists()
    assert lab.train("full")[0] == 0
    assert lab.whole("full") == lab.whole("whole")
