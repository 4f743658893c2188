"""Every credit source through the whole trainer: a tiny model, a real database, rollouts whose text is given."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from serl.agent.rollout import RolloutResult
from serl.cli import main
from serl.config import Config, load_config, to_dict, validate
from serl.errors import InputError
from serl.io import read_json, read_jsonl
from serl.tracking import RunFolder, Tracker, trajectory_file
from serl.train import checkpoint
from serl.train.parts import add_parts
from serl.train.samples import add_teacher
from serl.train.trainer import Trainer
from serl.workbench import Workbench, workbench_of
from tests.models import tiny_model, tiny_tokenizer
from tests.train.conftest import RECIPE, always

SOURCES = ("teacher_gap", "oracle_diff", "sibling_contrast", "surprisal", "entropy", "parts", "parts_surprisal",
           "none")
GROUP = 4


@pytest.fixture(scope="module")
def bench(minibird, tmp_path_factory) -> Workbench:
    caches = tmp_path_factory.mktemp("caches")
    options = {"data.root": minibird, "data.train_from": 0, "grounding.cache": caches / "grounding",
               "grounding.encoder": "none", "sql.gold_cache": caches / "gold", "model.max_length": 4096,
               "rollout.questions": 3, "rollout.group_size": GROUP, "hindsight.allow_gold": True, "train.lr": 1e-3,
               "train.save_every": 99, "tracking.wandb": "disabled", "seed": 1}
    config = load_config(RECIPE, [(key, str(value)) for key, value in options.items()])
    tokenizer = tiny_tokenizer()
    with workbench_of(config, tiny_model(len(tokenizer)), tokenizer) as opened:
        yield opened


class Played(Trainer):
    """A trainer whose policy answers with gold, with fewer rows, with a column that is not there, or not at all."""

    def roll_out(self, step, questions, first=0):
        trajectories = []
        for question in questions:
            gold = question.example.gold_sql
            texts = [f"<solution>{gold}</solution>", f"<solution>{gold} LIMIT {step}</solution>",
                     f"<solution>SELECT seven, {gold.strip()[len('SELECT'):]}</solution>", "<sql>"]
            trajectories += [always(self.bench, question, text) for text in texts]
        return RolloutResult(trajectories, 0.0, 0.0, 0.0)


class Alike(Played):
    """One whose policy always answers with gold."""

    def roll_out(self, step, questions, first=0):
        result = super().roll_out(step, questions, first)
        return replace(result, trajectories=[each for each in result.trajectories[::GROUP] for _ in range(GROUP)])


@contextmanager
def opened(bench: Workbench, folder, kind=Played, **hindsight):
    config = replace(bench.config, hindsight=replace(bench.config.hindsight, **hindsight))
    model = tiny_model(bench.model.config.vocab_size)
    yield kind(replace(bench, config=config, model=model), RunFolder(folder), Tracker("disabled"))


def weights(trainer: Trainer) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in trainer.bench.model.parameters()])


@pytest.fixture(scope="module")
def grpo(bench, tmp_path_factory) -> torch.Tensor:
    with opened(bench, tmp_path_factory.mktemp("grpo"), lambda0=0.0) as trainer:
        trainer.step(0)
        return weights(trainer)


@pytest.mark.parametrize("source", SOURCES)
def test_at_lambda_zero_every_source_is_grpo_bit_for_bit(bench, grpo, tmp_path, source):
    with opened(bench, tmp_path, source=source, lambda0=0.0) as trainer:
        trainer.step(0)
        assert torch.equal(weights(trainer), grpo)


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_reweights_within_bounds_and_only_teacher_gap_asks_a_teacher(
        bench, grpo, tmp_path, source, monkeypatch):
    asked = []
    monkeypatch.setattr("serl.train.trainer.add_teacher", lambda *args: asked.append(1) or add_teacher(*args))
    with opened(bench, tmp_path, source=source) as trainer:
        assert (trainer.teacher.model is trainer.bench.model) == (source != "teacher_gap")
        metrics = trainer.step(0)
        assert torch.equal(weights(trainer), grpo) == (source == "none")
    assert bool(asked) == (source == "teacher_gap")
    records = read_jsonl(trajectory_file(tmp_path, 0))
    assert {record["correct"] for record in records} == {True, False}
    moved = {record["correct"]: 0 for record in records}
    for record in records:
        assert min(record["weights"]) >= 0.9 - 1e-6 and max(record["weights"]) <= 1.1 + 1e-6
        for index, weight in enumerate(record["weights"]):
            if weight != 1:
                moved[record["correct"]] += 1
                assert record["loss_mask"][index] and record["gaps"][index] is not None
                assert record["action_mask"][index] or "</solution>" in record["tokens"][index]
                assert (weight > 1) == ((record["advantage"] > 0) == (record["gaps"][index] > 0))
    failed_only = source in ("oracle_diff", "sibling_contrast", "parts")
    assert (moved[False] > 0) == (source != "none") and (moved[True] > 0) == (source != "none" and not failed_only)
    assert (metrics["hindsight/coverage"] > 0) == (source != "none")


@pytest.mark.parametrize("source", SOURCES)
def test_a_step_whose_refills_found_no_signal_changes_nothing(bench, tmp_path, source):
    train = replace(bench.config.train, refill=1, kl_beta=0.1)
    bench = replace(bench, config=replace(bench.config, train=train))
    with opened(bench, tmp_path, Alike, source=source, gate_every=1, diagnose_every=1) as trainer:
        before = weights(trainer)
        metrics = trainer.step(0)
        assert torch.equal(weights(trainer), before)
    assert (metrics["grad_norm"], metrics["groups/zero_variance"], metrics["ex/train"]) == (0.0, 1.0, 1.0)
    assert len(read_jsonl(trajectory_file(tmp_path, 0))) == metrics["groups/discarded"] == 2 * 3 * GROUP


@pytest.mark.parametrize("loss", ["grpo", "sdpo"])
def test_only_the_level_that_tells_parts_executes_them_and_only_the_teacher_reads_them(bench, tmp_path, monkeypatch,
                                                                                       loss):
    asked = []
    monkeypatch.setattr("serl.train.trainer.add_parts", lambda *args: asked.append(1) or add_parts(*args))
    bench = replace(bench, config=replace(bench.config, train=replace(bench.config.train, loss=loss)))
    records, read = {}, {}
    for level in ("exec", "exec+clauses"):
        folder = tmp_path / level
        told = int(level != "exec")
        with opened(bench, folder, level=level, dump=True, gate_every=told, diagnose_every=told) as trainer:
            metrics = trainer.step(1)
        assert ("time/parts" in metrics) == bool(asked) == (level == "exec+clauses")
        records[level] = read_jsonl(trajectory_file(folder, 1))
        (dumped,) = (folder / "hindsight").iterdir()
        read[level] = [row["hindsight"] for row in read_jsonl(dumped)]
    assert len(asked) == 1
    for one, other in zip(*records.values(), strict=True):
        assert all(one[key] == other[key] for key in ("token_ids", "reward", "reward_terms", "advantage"))
    assert not any("its parts" in text for text in read["exec"])
    assert sum("its parts:\n" in text and "table " in text for text in read["exec+clauses"]) > len(read["exec"]) / 2


def test_at_lambda_zero_no_part_is_executed(bench, tmp_path, monkeypatch):
    monkeypatch.setattr("serl.train.trainer.add_parts", None)
    with opened(bench, tmp_path, level="exec+clauses", lambda0=0.0) as trainer:
        assert trainer.step(0)["hindsight/lambda"] == 0


@pytest.mark.parametrize("source", ["oracle_diff", "surprisal", "entropy", "teacher_gap"])
def test_a_resumed_run_repeats_an_uninterrupted_one(bench, tmp_path, source):
    options = {"source": source, "gate_every": 1}
    with opened(bench, tmp_path / "whole", **options) as trainer:
        whole = [trainer.step(step) for step in (0, 1)]
        after = weights(trainer)
    with opened(bench, tmp_path / "cut", **options) as trainer:
        trainer.step(0)
        trainer.next_step = 1
        folder = trainer.save()
        trained = {name: value.clone() for name, value in trainer.bench.model.state_dict().items()}
    with opened(bench, tmp_path / "cut", **options) as trainer:
        trainer.bench.model.load_state_dict(trained)
        trainer.restore(checkpoint.load_state(folder))
        again = trainer.step(1)
        assert torch.equal(weights(trainer), after)
    timeless = [{key: value for key, value in metrics.items() if not key.startswith("time/")}
                for metrics in (whole[1], again)]
    assert timeless[0] == timeless[1]
    assert ("gate/auc" in again) == (source == "teacher_gap")


@pytest.fixture(scope="module")
def run_folder(bench, tmp_path_factory):
    """A run of two steps with a checkpoint, as `serl train` would leave it."""
    folder = tmp_path_factory.mktemp("run")
    with opened(bench, folder) as trainer:
        trainer.run.write_config(to_dict(trainer.config))
        for step in (0, 1):
            trainer.step(step)
        trainer.next_step = 2
        trainer.save()
    return folder


def test_serl_credit_writes_table_picture_and_json(run_folder, tmp_path, capsys):
    out = tmp_path / "out"
    frozen = next((run_folder / "checkpoints").iterdir())
    assert main(["credit", str(run_folder), "--step", "1", "--teacher", str(frozen), "--out", str(out), "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document == read_json(out / "credit.json")
    assert document["steps"] == [1] and document["samples"] > 0
    rows = {(row["source"], row["teacher"], row["hindsight"]): row for row in document["rows"]}
    assert rows["oracle_diff", "", ""]["overall"]["value"] == 1.0
    assert {("parts", "", ""), ("parts_surprisal", "", "")} < set(rows)
    assert ("teacher_gap", "as recorded", "exec") in rows and ("hindsight_only", frozen.name, "exec") in rows
    # The run's own teacher is still the starting policy, with controls of its own.
    behind = rows["teacher_gap", "periodic, 2 behind", "exec"]
    assert {"empty", "exec shuffled"} < {lead["control"] for lead in behind["leads"]}
    assert behind["overall"] != rows["teacher_gap", "synchronized", "exec"]["overall"]
    # The given teacher's weights are the student's, so that both gaps are the same.
    one, other = (rows["teacher_gap", teacher, "exec"]["overall"]["value"] for teacher in ("synchronized", frozen.name))
    assert one == pytest.approx(other, abs=1e-6)
    assert [row["kind"] for row in document["parts"]][0] == "table" and "| part | sign |" in captured.err
    assert "| teacher_gap | synchronized | exec |" in (out / "credit.md").read_text()
    assert (out / "credit.png").read_bytes().startswith(b"\x89PNG") and "credit.md" in captured.err


def test_serl_credit_names_what_is_missing(run_folder, tmp_path, capsys, monkeypatch):
    def fails(*argv: str) -> str:
        assert main(["credit", *argv]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        return line

    assert "not a run folder" in fails(str(tmp_path))
    assert "no trajectories of step 9" in fails(str(run_folder), "--step", "9")
    assert "no such folder" in fails(str(run_folder), "--checkpoint", str(tmp_path / "none"))
    assert "--samples" in fails(str(run_folder), "--samples", "0")
    assert "records hold 5" in fails(str(run_folder), "--agent.observation_rows", "9")
    (tmp_path / "file").touch()
    monkeypatch.setattr("serl.train.credit.report.measure_run", None)  # said before any work
    assert "cannot be written" in fails(str(run_folder), "--out", str(tmp_path / "file"))


def test_gold_reaches_token_credit_only_by_opt_in(bench):
    def config(**hindsight) -> Config:
        return replace(bench.config, hindsight=replace(bench.config.hindsight, **hindsight))

    validate(config(source="oracle_diff", allow_gold=True))
    validate(config(source="sibling_contrast", allow_gold=False))
    with pytest.raises(InputError, match="allow_gold"):
        validate(config(source="oracle_diff", allow_gold=False))
    with pytest.raises(InputError, match="choose one of teacher_gap, oracle_diff"):
        validate(config(source="gold"))
