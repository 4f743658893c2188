"""A run whose one process has all parts is the run of the torch engine: rollouts, updates, checkpoints, resume."""

import json
from pathlib import Path

import pytest

from serl.config import Config
from serl.train import checkpoint
from tests.train.conftest import opened_trainer
from tests.train.deepspeed.pair import opened

pytestmark = [pytest.mark.engine, pytest.mark.deepspeed, pytest.mark.timeout(900)]


def train(ranks, config: Config, folder: Path, start: Path | None = None) -> list[dict[str, float]]:
    """Metrics of the steps."""
    with opened_trainer(config, folder, start and str(start)) as trainer:
        if start is not None:
            trainer.restore(checkpoint.load_state(start, trainer.engine.ranks))
        trainer.train()
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [{name: value for name, value in row.items() if not name.startswith("time/")} for row in rows]


def test_a_run_with_weights_in_parts_has_the_metrics_of_torchs_and_resumes_exactly(small_config, tmp_path):
    options = {"train.steps": 2, "train.save_every": 1, "train.micro_tokens": 1200, "rollout.questions": 2,
               "hindsight.diagnose_every": 1, "hindsight.diagnose_trajectories": 2, "hindsight.teacher.sync_every": 1}
    parts = options | {"engine.kind": "deepspeed", "engine.zero": 3}
    with opened(60.0, size=1) as run:
        (whole,) = run(train, small_config(**options), tmp_path / "torch")
        (ours,) = run(train, small_config(**parts), tmp_path / "parts")
        first = tmp_path / "parts" / "checkpoints" / "step_000001"
        (again,) = run(train, small_config(**parts), tmp_path / "again", first)
    assert len(ours) == len(whole) == 2 and any(row["grad_norm"] > 0 for row in whole)
    for row, other in zip(ours, whole):
        assert row == pytest.approx(other, rel=1e-4, abs=1e-4, nan_ok=True)
    assert again[-1] == pytest.approx(ours[-1], rel=0, abs=0, nan_ok=True)
