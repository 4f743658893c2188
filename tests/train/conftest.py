"""A small real run: minibird, the embedded model, a few questions a step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serl.agent.trajectory import Trajectory
from serl.config import Config, load_config
from serl.task import Question
from serl.tracking import RunFolder, Tracker
from serl.train.trainer import Trainer
from serl.workbench import Workbench, open_workbench

RECIPE = Path(__file__).parents[2] / "experiments" / "recipes" / "serl_bird.yaml"


@pytest.fixture(scope="session")
def small_config(minibird, tmp_path_factory) -> Callable[..., Config]:
    """`small_config(**{"train.steps": 2})`: the default recipe, cut to seconds."""
    caches = tmp_path_factory.mktemp("caches")
    base = {"data.root": minibird, "data.train_from": 0,
            "grounding.cache": caches / "grounding", "grounding.encoder": "none",
            "sql.gold_cache": caches / "gold", "rollout.questions": 5, "rollout.group_size": 4, "train.lr": 1e-4,
            "agent.max_new_tokens": 64, "rollout.patience_s": 60,  # repeats bit for bit on a machine that is busy, too
            "eval.every": 0, "eval.untrained": 0, "tracking.wandb": "disabled", "seed": 1}

    def make(**overrides) -> Config:
        return load_config(RECIPE, [(key, str(value)) for key, value in (base | overrides).items()])

    return make


def always(bench: Workbench, question: Question, text: str) -> Trajectory:
    """The trajectory of a policy that takes every action with this text."""
    episode = bench.env.start(list(question.prompt_ids))
    while not episode.done:
        ids = bench.encode(text)
        sql = episode.act(ids, [-0.5] * len(ids))
        episode.observe(sql and bench.sandbox.run(question.example.db_path, sql))
    return episode.trajectory


@contextmanager
def opened_trainer(config: Config, folder: Path, model_path: str | None = None) -> Iterator[Trainer]:
    with open_workbench(config, model_path) as bench:
        yield Trainer(bench, RunFolder(folder), Tracker("disabled"))
