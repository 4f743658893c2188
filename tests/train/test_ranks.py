"""Steps that several ranks share are those of one process: trajectories, metrics, weights, files."""

import pytest
import torch

from serl import lora
from serl.agent.rollout import RolloutResult
from serl.config import load_config
from serl.io import read_jsonl
from serl.tracking import RunFolder, Tracker, guard_file, hindsight_file, read_metrics, trajectory_file
from serl.train.trainer import Trainer
from serl.workbench import workbench_of
from tests.models import tiny_model, tiny_tokenizer
from tests.ranks import in_threads
from tests.train.conftest import RECIPE, always, opened_trainer

STEPS = 2
SETTINGS = {
    "uneven shares": {"hindsight.diagnose_every": 2, "hindsight.dump": True,
                      "hindsight.diagnose_trajectories": 3, "hindsight.teacher.sync_every": 1},
    "a rank without a question, and refills": {"rollout.questions": 2, "train.refill": 2, "train.kl_beta": 0.02,
                                               "hindsight.teacher.mode": "live", "hindsight.level": "exec+clauses"},
    "imitation": {"train.loss": "distillation", "hindsight.dump": True},
    "sampled ahead": {"rollout.overlap": 1, "train.tis": "token", "train.score_first": True},
    "siblings, adapters, two updates": {"hindsight.source": "sibling_contrast", "train.updates_per_batch": 2,
                                        "model.lora.rank": 4, "train.loss": "gspo", "train.reduction": "seq_mean"},
}


class Played(Trainer):
    """A trainer whose policy answers with gold, with fewer rows, or not at all; at every third place always alike."""

    def roll_out(self, step, questions, places=None, model=None):
        trajectories = []
        for question, place in zip(questions, places, strict=True):
            gold = question.example.gold_sql
            texts = ([f"<solution>{gold}</solution>"] * 3 if (place + step) % 3 == 0 else
                     [f"<solution>{gold}</solution>", f"<sql>{gold}</sql>", f"<solution>{gold} LIMIT 0</solution>"])
            trajectories += [always(self.bench, question, text) for text in texts]
        return RolloutResult(trajectories, 0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def config_of(minibird, tmp_path_factory):
    caches = tmp_path_factory.mktemp("caches")
    base = {"data.root": minibird, "data.train_from": 0, "grounding.cache": caches / "grounding",
            "grounding.encoder": "none", "grounding.budget": 64, "agent.prompt": "brief",
            "sql.gold_cache": caches / "gold", "sql.workers": 1,
            "model.max_length": 4096, "agent.max_turns": 2, "rollout.questions": 4, "rollout.group_size": 3,
            "train.steps": STEPS, "train.save_every": STEPS, "train.lr": 1e-3, "tracking.wandb": "disabled"}
    return lambda more: load_config(RECIPE, [(key, str(value)) for key, value in (base | more).items()])


def run(config, folder, ranks, model, tokenizer) -> torch.Tensor:
    with workbench_of(config, model, tokenizer, ranks) as bench:
        Played(bench, RunFolder(folder), Tracker("disabled")).train()
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def without_times(row: dict) -> dict:
    return {key: value for key, value in row.items() if not key.startswith("time/")}


@pytest.mark.parametrize("name", [*SETTINGS, pytest.param("the gap's controls", marks=pytest.mark.slow)])
def test_steps_of_three_ranks_are_those_of_one(name, config_of, tmp_path):
    config, tokenizer = config_of(SETTINGS.get(name, {"hindsight.gate_every": 1})), tiny_tokenizer()
    weights = {}
    for size in (1, 3):
        models = [tiny_model(len(tokenizer)) for _ in range(size)]
        if config.model.lora.rank:
            for model in models:
                lora.add(model, config.model.lora, "tiny", config.seed)
        weights[size] = in_threads(size, lambda ranks, models=models, size=size: run(
            config, tmp_path / str(size), ranks, models[ranks.rank], tokenizer))
    assert all(torch.equal(weights[3][0], other) for other in weights[3]), "every rank takes the same steps"
    torch.testing.assert_close(weights[3][0], weights[1][0], rtol=0, atol=1e-4)
    one, three = (read_metrics(tmp_path / folder) for folder in ("1", "3"))
    assert len(one) == len(three) == STEPS and one[0]["grad_norm"] > 0
    for mine, theirs in zip(three, one):
        assert without_times(mine) == pytest.approx(without_times(theirs), abs=1e-4, rel=1e-4)
    for step in range(STEPS):
        mine, theirs = (read_jsonl(trajectory_file(tmp_path / folder, step)) for folder in ("3", "1"))
        for key in ("question_id", "sample", "token_ids", "reward", "advantage"):
            assert [row[key] for row in mine] == [row[key] for row in theirs]
        if config.hindsight.dump:
            mine, theirs = (read_jsonl(hindsight_file(tmp_path / folder, step)) for folder in ("3", "1"))
            assert mine == theirs and mine
    assert (tmp_path / "3" / "checkpoints" / f"step_{STEPS:06d}" / "state.pt").is_file()


def test_a_batch_that_a_guard_leaves_out_is_that_of_all_ranks(config_of, tmp_path):
    config, tokenizer = config_of({"train.guards.length": "skip", "train.guards.length_floor": 1e6}), tiny_tokenizer()
    start = torch.cat([weight.detach().flatten() for weight in tiny_model(len(tokenizer)).parameters()])
    for size in (1, 3):
        models = [tiny_model(len(tokenizer)) for _ in range(size)]
        ends = in_threads(size, lambda ranks, models=models, size=size: run(
            config, tmp_path / str(size), ranks, models[ranks.rank], tokenizer))
        assert all(torch.equal(end, start) for end in ends)
    one, three = (read_metrics(tmp_path / folder) for folder in ("1", "3"))
    for mine, theirs in zip(three, one, strict=True):
        assert mine["guard/skipped"] == 1 and without_times(mine) == pytest.approx(without_times(theirs), abs=1e-4)
    for step in range(STEPS):
        mine, theirs = (read_jsonl(guard_file(tmp_path / folder, step)) for folder in ("3", "1"))
        assert len(mine) == 4 * 3 and "length_floor" in mine[0]["guard"]
        for key in ("question_id", "sample", "token_ids", "guard"):
            assert [row[key] for row in mine] == [row[key] for row in theirs]


def test_a_trajectory_is_sampled_by_its_place_in_the_step(small_config, tmp_path):
    with opened_trainer(small_config(), tmp_path) as trainer:
        questions = trainer.bench.preparer.prepare(trainer.train_split, range(3))
        whole = trainer.roll_out(0, questions).trajectories
        part = trainer.roll_out(0, questions[1:], [1, 2]).trajectories
    assert [each.token_ids for each in part] == [each.token_ids for each in whole[4:]]
