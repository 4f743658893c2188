"""Minibird is trained through vLLM, in process and as servers; servers are killed, and nothing is lost."""

import threading
import time
from pathlib import Path

import pytest

from serl.config import load_config
from serl.errors import WorkFailed
from serl.generate.vllm.build import Engines
from serl.generate.vllm.guard import kill_group
from serl.io import read_jsonl
from serl.tracking import read_metrics, trajectory_file
from serl.train.run import train_run
from tests.generate.vllm.conftest import needs_vllm

pytestmark = [pytest.mark.engine, needs_vllm, pytest.mark.timeout(1800)]

RECIPE = Path(__file__).parents[3] / "experiments" / "recipes" / "serl_bird.yaml"
STEPS = 5


@pytest.fixture(scope="module")
def configured(minibird, tmp_path_factory):
    caches = tmp_path_factory.mktemp("caches")

    def make(engine: str, **more):
        options = {"data.root": minibird, "data.train_from": 0, "data.max_eval": 2, "grounding.cache": caches / "g",
                   "grounding.encoder": "none", "sql.gold_cache": caches / "gold", "rollout.questions": 3,
                   "rollout.group_size": 4, "agent.max_new_tokens": 64, "train.lr": 1e-4, "train.steps": STEPS,
                   "train.save_every": 1, "eval.every": 0, "eval.untrained": 0, "eval.start": False, "eval.n": 0,
                   "tracking.wandb": "disabled", "seed": 1, "rollout.engine": engine, "rollout.vllm.threads": 1,
                   "rollout.vllm.kv_cache_gib": 0.25, "rollout.vllm.max_sequences": 32,
                   "rollout.vllm.folder": caches} | more
        return load_config(RECIPE, [(key, str(value)) for key, value in options.items()])

    return make


@pytest.fixture(scope="module")
def in_process(configured, tmp_path_factory):
    """The folder of a run with the engine in process."""
    folder = tmp_path_factory.mktemp("runs") / "in_process"
    train_run(configured("vllm"), folder)
    return folder


def check(folder: Path) -> None:
    """A whole run that learned something, whose engines had the trainer's weights at each step."""
    rows = read_metrics(folder)
    assert [row["step"] for row in rows] == list(range(STEPS))
    assert all(row["mismatch/max"] < 1e-3 and row["sync/difference"] < 1e-4 for row in rows)
    assert any(row["grad_norm"] > 0 for row in rows) and (folder / "eval" / "rl" / "summary.json").is_file()


def sampled(folder: Path, step: int) -> list[list[int]]:
    return [record["token_ids"] for record in read_jsonl(trajectory_file(folder, step))]


class Killer(threading.Thread):
    """Kills servers as soon as a generator has requests on their way in step `step` of the run in `folder`."""

    def __init__(self, folder: Path, step: int, count: int, monkeypatch) -> None:
        super().__init__(daemon=True)
        self.folder, self.step, self.count = folder, step, count
        self.generators, self.killed = [], []
        make = Engines.current

        def noted(engines, model):
            generator = make(engines, model)
            self.generators = [generator]
            return generator

        monkeypatch.setattr(Engines, "current", noted)

    def run(self) -> None:
        while True:
            time.sleep(0.01)
            metrics = self.folder / "metrics.jsonl"
            done = len(read_metrics(self.folder)) if metrics.is_file() else 0
            if done == self.step and self.generators and self.generators[0]._loop.pending > 4:
                break
        for endpoint in self.generators[0]._pool.endpoints[: self.count]:
            self.killed.append(endpoint.process.pid)
            kill_group(endpoint.process.pid)


def test_minibird_is_trained_by_an_engine_in_process(in_process):
    check(in_process)


def test_a_server_that_is_killed_in_a_step_costs_nothing(configured, in_process, tmp_path, monkeypatch, capfd):
    folder = tmp_path / "servers"
    killer = Killer(folder, 1, 1, monkeypatch)
    killer.start()
    train_run(configured("vllm_server", **{"rollout.vllm.servers": 2}), folder)
    assert len(killer.killed) == 1 and "is left out" in capfd.readouterr().err
    check(folder)
    rows = read_metrics(folder)
    assert rows[1]["time/rollout"] < 60, "noticed in seconds"
    assert rows[-1]["sync/engines"] == 2, "it was started again for the next step"
    # The samples are a function of seed, stream and weights: neither the engine nor its death shows in them.
    assert all(sampled(folder, step) == sampled(in_process, step) for step in range(2))


def test_without_any_server_the_run_stops_and_resumes_to_the_same_result(configured, in_process, tmp_path, monkeypatch):
    folder = tmp_path / "stopped"
    config = configured("vllm_server")
    with monkeypatch.context() as patch:
        killer = Killer(folder, 2, 1, patch)
        killer.start()
        with pytest.raises(WorkFailed, match=f"step 2 of 5: no vLLM engine is left .*--resume {folder}"):
            train_run(config, folder)
    assert len(read_metrics(folder)) == 2
    train_run(config, folder)
    check(folder)
    assert all(sampled(folder, step) == sampled(in_process, step) for step in range(3))
