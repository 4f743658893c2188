"""`hindsight.teacher.path`: a teacher of its own scores, stays as it is, and is resumed exactly."""

from dataclasses import replace

import pytest
import torch

from serl.config import Config, load_config
from serl.errors import InputError
from serl.io import read_jsonl
from serl.tracking import trajectory_file
from serl.train import checkpoint
from serl.train.credit.replay import sample_of
from serl.train.samples import add_teacher
from tests.models import tiny_model, tiny_tokenizer
from tests.train.teach.conftest import trainer_of


@pytest.fixture(scope="module")
def own(bench, tmp_path_factory) -> str:
    """A model folder of another architecture: other weights, one layer."""
    folder = tmp_path_factory.mktemp("own") / "teacher"
    model = tiny_model(bench.model.config.vocab_size, seed=7)
    model.model.layers = model.model.layers[:1]
    model.config.num_hidden_layers, model.config.layer_types = 1, model.config.layer_types[:1]
    checkpoint.replace_model(folder, model, bench.tokenizer, {})
    return str(folder)


def state(model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def test_the_teacher_has_the_folders_weights_and_keeps_them(bench, own, tmp_path):
    trainer = trainer_of(bench, tmp_path, mode="frozen", path=own)
    assert len(trainer.teacher.model.model.layers) == 1 and not trainer.teacher.model.training
    assert not any(weight.requires_grad for weight in trainer.teacher.model.parameters())
    before, student = state(trainer.teacher.model), state(trainer.bench.model)
    metrics = trainer.step(0)
    assert same(before, trainer.teacher.model.state_dict()) and not same(student, trainer.bench.model.state_dict())
    assert metrics["teacher/own_bytes"] > 0 and metrics["hindsight/coverage"] > 0

    # The recorded teacher's log-probs are those of the folder's model, and not of the student.
    record = next(each for each in read_jsonl(trajectory_file(tmp_path, 0)) if each["advantage"])
    sample = sample_of(record, bench.env.token_bytes.of)
    unscored = replace(sample, teacher=torch.full_like(sample.teacher, float("nan")))
    (again,), _ = add_teacher(trainer.teacher.model, [unscored], bench.encode, 0.5, trainer.config)
    known = torch.isfinite(sample.teacher)
    assert known.any()
    torch.testing.assert_close(again.teacher[known], sample.teacher[known], atol=1e-4, rtol=1e-4)
    (other,), _ = add_teacher(tiny_model(bench.model.config.vocab_size), [unscored], bench.encode, 0.5,
                              trainer.config)
    assert (other.teacher[known] - sample.teacher[known]).abs().max() > 0.1


def test_a_resumed_run_repeats_an_uninterrupted_one_even_if_the_folder_has_changed(bench, own, tmp_path):
    options = {"mode": "frozen", "path": own}
    whole = trainer_of(bench, tmp_path / "whole", **options)
    first = [whole.step(step) for step in (0, 1)][1]
    cut = trainer_of(bench, tmp_path / "cut", **options)
    cut.step(0)
    cut.next_step = 1
    folder, trained = cut.save(), state(cut.bench.model)
    weights = state(cut.teacher.model)

    changed = tmp_path / "changed"
    other = tiny_model(bench.model.config.vocab_size, seed=8)
    other.model.layers = other.model.layers[:1]
    other.config.num_hidden_layers, other.config.layer_types = 1, other.config.layer_types[:1]
    checkpoint.replace_model(changed, other, bench.tokenizer, {})
    resumed = trainer_of(bench, tmp_path / "cut", mode="frozen", path=str(changed))
    resumed.bench.model.load_state_dict(trained)
    resumed.restore(checkpoint.load_state(folder))
    assert same(weights, resumed.teacher.model.state_dict())
    again = resumed.step(1)
    assert same(state(whole.bench.model), resumed.bench.model.state_dict())
    timeless = [{key: value for key, value in metrics.items() if not key.startswith("time/")}
                for metrics in (first, again)]
    assert timeless[0] == timeless[1] and first["teacher/lag"] == 1


def test_imitation_needs_a_teacher_with_the_students_distribution(bench, own, tmp_path):
    wide = tmp_path / "wide"
    checkpoint.replace_model(wide, tiny_model(bench.model.config.vocab_size + 8), bench.tokenizer, {})
    distilled = replace(bench, config=replace(bench.config, train=replace(bench.config.train, loss="distillation")))
    assert trainer_of(distilled, tmp_path / "run", mode="frozen", path=own).step(0)["distill/divergence"] > 0
    with pytest.raises(InputError, match="its distribution is over"):
        trainer_of(distilled, tmp_path / "run", mode="frozen", path=str(wide))


def test_a_teacher_that_cannot_read_the_students_tokens_is_refused(bench, tmp_path):
    tokenizer = tiny_tokenizer(270)
    checkpoint.replace_model(tmp_path / "other", tiny_model(len(tokenizer)), tokenizer, {})
    with pytest.raises(InputError, match="hindsight.teacher.path .*tokenizer is not the student's"):
        trainer_of(bench, tmp_path / "run", mode="frozen", path=str(tmp_path / "other"))
    short = tiny_model(bench.model.config.vocab_size)
    short.config.max_position_embeddings = 512
    checkpoint.replace_model(tmp_path / "short", short, bench.tokenizer, {})
    with pytest.raises(InputError, match="max_length is 4096; hindsight.teacher.path .*short has only 512 positions"):
        trainer_of(bench, tmp_path / "run", mode="frozen", path=str(tmp_path / "short"))
    with pytest.raises(InputError, match="no such folder"):
        trainer_of(bench, tmp_path / "run", mode="frozen", path=str(tmp_path / "none"))


@pytest.mark.parametrize(("mode", "why"), [("live", "no weights of its own"), ("periodic", "copy the student over"),
                                           ("ema", "blend these weights")])
def test_only_a_frozen_teacher_may_have_weights_of_its_own(mode, why):
    with pytest.raises(InputError, match=f"needs hindsight.teacher.mode frozen: {mode} .*{why}"):
        load_config(None, [("hindsight.teacher.path", "folder"), ("hindsight.teacher.mode", mode)])


def test_weights_of_its_own_need_a_source_that_asks_the_teacher():
    options = [("hindsight.teacher.path", "folder"), ("hindsight.teacher.mode", "frozen")]
    assert load_config(None, options).hindsight.teacher.path == "folder" and Config().hindsight.teacher.path is None
    with pytest.raises(InputError, match="plays no part in hindsight.source surprisal"):
        load_config(None, [*options, ("hindsight.source", "surprisal")])
