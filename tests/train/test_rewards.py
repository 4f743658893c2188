"""Rewards of several terms in a run: its metrics and its records have each of them, before they were weighed."""

from statistics import fmean

import pytest

from serl.io import read_jsonl
from serl.tracking import trajectory_file
from tests.train.conftest import opened_trainer


def test_terms_are_logged_apart_and_add_up_by_their_weights(small_config, tmp_path):
    config = small_config(**{"reward": "sql_r1", "reward.terms": "{length: 0.5, format: 0}",
                             "hindsight.source": "none"})
    with opened_trainer(config, tmp_path) as trainer:
        metrics = trainer.step(0)
    records = read_jsonl(trajectory_file(tmp_path, 0))
    assert {record["reward_terms"]["format"] for record in records} == {-1.0, 1.0}
    for record in records:
        terms = record["reward_terms"]
        assert list(terms) == ["format", "execution", "result", "length"]
        assert record["reward"] == pytest.approx(terms["execution"] + terms["result"] + 0.5 * terms["length"])
        assert (terms["result"] == 3) == (terms["length"] > 0) == (record["correct"] and terms["format"] == 1)
    for name in ("format", "execution", "result", "length"):
        assert metrics[f"reward/{name}"] == pytest.approx(fmean(record["reward_terms"][name] for record in records))
    assert metrics["reward/mean"] == pytest.approx(fmean(record["reward"] for record in records))
