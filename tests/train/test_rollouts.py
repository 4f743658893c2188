"""Rollouts of a run: a function of the seed, and what a deadline does to a step."""

import pytest

from serl.io import read_jsonl
from serl.tracking import trajectory_file
from tests.train.conftest import opened_trainer


@pytest.fixture(scope="module")
def rollouts(small_config, tmp_path_factory):
    """`rollouts(**{"rollout.batch_size": 3})`: the trajectories of a rollout of 12."""

    def roll_out(**options):
        with opened_trainer(small_config(**options), tmp_path_factory.mktemp("run")) as trainer:
            questions = trainer.bench.preparer.prepare(trainer.train_split, range(3))
            return trainer.roll_out(0, questions).trajectories

    return roll_out


def test_a_rollout_repeats_bit_for_bit_and_batches_change_no_token(rollouts):
    first, again, small, plain = (rollouts(**options) for options in (
        {}, {}, {"rollout.batch_size": 5}, {"model.shared_prefix": False}))
    assert any(len(trajectory.turns) > 1 for trajectory in first)
    assert [one.sampler_logprobs for one in first] == [other.sampler_logprobs for other in again]
    for others in (again, small, plain):
        assert [one.token_ids for one in first] == [other.token_ids for other in others]
    for others in (small, plain):
        for one, other in zip(first, others):
            numbers = ([value for value in each.sampler_logprobs if value is not None] for each in (one, other))
            assert next(numbers) == pytest.approx(next(numbers), abs=1e-4)


def test_a_step_whose_trajectories_all_meet_their_deadline_learns_nothing_and_says_so(small_config, tmp_path):
    config = small_config(**{"rollout.deadline_s": 1e-9, "train.score_first": True, "train.kl_beta": 0.1})
    with opened_trainer(config, tmp_path) as trainer:
        metrics = trainer.step(0)
    assert metrics["infrastructure"] == 20 and metrics["tokens/sampled"] == 0 and metrics["loss"] == 0
    for record in read_jsonl(trajectory_file(tmp_path, 0)):
        assert (record["stop"], record["reward"], record["turns"]) == ("deadline", None, [])
