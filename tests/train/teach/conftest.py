"""The database of the hand-made groups, and a run of two steps whose rollouts are given."""

from dataclasses import replace
from pathlib import Path

import pytest

from serl.config import load_config, to_dict
from serl.tracking import RunFolder, Tracker
from serl.workbench import Workbench, workbench_of
from tests.models import tiny_model, tiny_tokenizer
from tests.train.conftest import RECIPE
from tests.train.credit.conftest import city, model  # noqa: F401  (fixtures)
from tests.train.credit.test_training import Played


@pytest.fixture(scope="session")
def bench(minibird, tmp_path_factory) -> Workbench:
    caches = tmp_path_factory.mktemp("caches")
    options = {"data.root": minibird, "data.train_from": 0, "grounding.cache": caches / "grounding",
               "grounding.encoder": "none", "sql.gold_cache": caches / "gold", "model.max_length": 4096,
               "rollout.questions": 4, "rollout.group_size": 4, "train.lr": 1e-3, "train.save_every": 99,
               "hindsight.gate_every": 0, "hindsight.diagnose_every": 0, "tracking.wandb": "disabled", "seed": 1}
    config = load_config(RECIPE, [(key, str(value)) for key, value in options.items()])
    tokenizer = tiny_tokenizer()
    with workbench_of(config, tiny_model(len(tokenizer)), tokenizer) as opened:
        yield opened


def trainer_of(bench: Workbench, folder: Path, **teacher) -> Played:
    """A trainer of fresh tiny weights; options of `hindsight.teacher`."""
    hindsight = bench.config.hindsight
    config = replace(bench.config, hindsight=replace(hindsight, teacher=replace(hindsight.teacher, **teacher)))
    weights = tiny_model(bench.model.config.vocab_size)
    return Played(replace(bench, config=config, model=weights), RunFolder(folder), Tracker("disabled"))


@pytest.fixture(scope="session")
def run_folder(bench, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("taught") / "run"
    trainer = trainer_of(bench, folder)
    trainer.run.write_config(to_dict(trainer.config))
    for step in (0, 1):
        trainer.step(step)
    trainer.next_step = 2
    trainer.save()
    return folder
