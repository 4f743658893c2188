"""Real runs that are cut and go on, and checkpoints of adapters that are evaluated."""

import json

import pytest
import torch
from safetensors.torch import load_file

from serl import model as models
from serl.cli import main
from serl.config import to_dict
from serl.evaluate.stage import evaluate_stage
from serl.io import read_jsonl
from serl.task import question_order
from serl.tracking import read_metrics, trajectory_file
from serl.train import checkpoint
from tests.train.conftest import opened_trainer


def without_times(metrics: dict) -> dict:
    return {key: value for key, value in metrics.items() if not key.startswith("time/")}


def whole_and_cut(config, folder):
    """The metrics of a run of three steps, of one that was cut in its second and resumed, and its newest checkpoint."""
    with opened_trainer(config, folder / "whole") as trainer:
        trainer.train()
    with opened_trainer(config, folder / "cut") as trainer:
        for step in range(2):
            trainer.run.append_metrics(step, trainer.step(step))
            trainer.next_step = step + 1
            if step == 0:
                trainer.save()  # the second step happened, but a kill came before its checkpoint
    newest = checkpoint.latest(folder / "cut" / "checkpoints")
    assert newest.name == "step_000001"
    with opened_trainer(config, folder / "cut", str(newest)) as trainer:
        trainer.restore(checkpoint.load_state(newest))
        trainer.run.truncate_metrics(trainer.next_step)
        trainer.train()
    whole, cut = (read_metrics(folder / name) for name in ("whole", "cut"))
    assert [row["step"] for row in cut] == [0, 1, 2]
    return list(map(without_times, whole)), list(map(without_times, cut)), checkpoint.latest(newest.parent)


def test_a_resumed_run_repeats_the_metrics_of_an_uninterrupted_one(small_config, tmp_path):
    config = small_config(**{"train.steps": 3, "train.save_every": 1, "hindsight.teacher.sync_every": 2,
                             "hindsight.decay_updates": 4})
    whole, cut, _ = whole_and_cut(config, tmp_path)
    assert cut == whole
    assert [row["hindsight/lambda"] for row in whole] == [0.5, 0.375, 0.25]
    assert [row["teacher/lag"] for row in whole] == [0, 1, 0]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_in_bfloat16_whose_layers_are_computed_again_resumes_exactly(small_config, tmp_path):
    config = small_config(**{"train.steps": 3, "train.save_every": 1, "train.lr": 1e-5, "model.dtype": "bfloat16",
                             "model.gradient_checkpointing": True, "hindsight.teacher.mode": "ema",
                             "rollout.questions": 3})
    whole, cut, newest = whole_and_cut(config, tmp_path)
    assert cut == whole and whole[-1]["grad_norm"] > 0
    weights, masters = load_file(newest / "model.safetensors"), checkpoint.load_state(newest)["engine"]["masters"]
    assert weights.keys() == masters.keys()
    assert all(torch.equal(weight, masters[name].bfloat16()) for name, weight in weights.items())
    start = models.load("embedded", "bfloat16")[0].state_dict()
    lost = [(masters[name].bfloat16() == start[name]) & (masters[name] != start[name].float()) for name in masters]
    assert sum(each.sum().item() for each in lost) > 0, "steps that bfloat16 alone would have lost"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_with_adapters_and_a_refill_resumes_exactly_and_asks_each_question_once(small_config, tmp_path):
    config = small_config(**{"train.steps": 3, "train.save_every": 1, "train.refill": 2, "train.kl_beta": 0.02,
                             "train.lr": 1e-3, "model.lora.rank": 4, "hindsight.teacher.mode": "ema",
                             "hindsight.teacher.decay": 0.5, "rollout.questions": 3})
    whole, cut, _ = whole_and_cut(config, tmp_path)
    with opened_trainer(config, tmp_path / "whole") as trainer:
        examples = trainer.train_split.examples
    assert cut == whole
    assert sum(row["groups/refill_rounds"] for row in whole) > 0, "nothing was refilled: the test would say little"
    assert whole[2]["kl"] > 0, "the reference is the adapter switched off, and stays"
    asked = 0
    for step, row in enumerate(whole):
        records = read_jsonl(trajectory_file(tmp_path / "whole", step))
        again = read_jsonl(trajectory_file(tmp_path / "cut", step))
        for key in ("question_id", "token_ids", "advantage", "teacher_logprobs", "weights"):
            assert [record[key] for record in again] == [record[key] for record in records]
        groups = [records[i: i + 4] for i in range(0, len(records), 4)]
        signal = [any(record["advantage"] for record in group) for group in groups]
        assert row["groups/zero_variance"] == pytest.approx(signal.count(False) / len(groups))
        assert row["groups/discarded"] == 4 * signal.count(False), "and yet it is recorded"
        assert signal == sorted(signal, reverse=True), "what was discarded stands last"
        assert sum(signal) == 3 or (sum(signal) < 3 and row["groups/refill_rounds"] == 2)
        order = question_order(len(examples), config.seed, asked, len(groups))
        assert sorted(group[0]["question_id"] for group in groups) == sorted(examples[i].question_id for i in order)
        asked += len(groups)


def test_a_checkpoint_of_adapters_holds_only_these_and_is_evaluated_as_it_was_trained(small_config, tmp_path, capsys):
    config = small_config(**{"train.lr": 1e-3, "model.lora.rank": 4, "rollout.questions": 2, "data.max_eval": 4})
    with opened_trainer(config, tmp_path / "run") as trainer:
        assert trainer.step(0)["grad_norm"] > 0
        folder = trainer.save()
        base, _ = models.load("embedded", "float32")
        now = trainer.bench.model.state_dict()
        for name, value in base.state_dict().items():  # an adapter's layer holds the base's weight inside of it
            assert torch.equal(now[name if name in now else name.replace(".weight", ".base_layer.weight")], value)
        here = evaluate_stage(trainer.bench, "here", tmp_path / "here", 0)
    assert not list(folder.glob("model*.safetensors"))
    (tmp_path / "config.yaml").write_text(json.dumps(to_dict(config)))
    command = ["eval", "--config", str(tmp_path / "config.yaml"), "--checkpoint", str(folder), "-n", "0", "--json"]
    capsys.readouterr()
    assert main([*command, "--out", str(tmp_path / "there")]) == 0
    assert json.loads(capsys.readouterr().out)["splits"]["all"]["greedy"] == here["splits"]["all"]["greedy"]
    assert main([*command, "--out", str(tmp_path / "merged"), "--model.lora.rank", "0"]) == 0
    answers = [[row["greedy"]["sql"] for row in read_jsonl(tmp_path / name / "candidates.jsonl")]
               for name in ("here", "there", "merged")]
    assert answers[0] == answers[1] == answers[2] and any(answers[0])
