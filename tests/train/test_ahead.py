"""One step off: which weights sample which batch, exact resume, and what must not be combined."""

import threading
from concurrent.futures import CancelledError, wait

import pytest

from serl import model as models
from serl.config import load_config
from serl.errors import InputError
from serl.io import read_jsonl
from serl.tracking import trajectory_file
from serl.train import checkpoint
from serl.train.ahead import Ahead
from tests.models import tiny_model
from tests.train.conftest import opened_trainer
from tests.train.test_trainer_resume import whole_and_cut

OVERLAP = {"rollout.overlap": 1, "train.tis": "token", "rollout.questions": 2, "train.lr": 1e-3, "train.steps": 3,
           "train.save_every": 1}


def test_the_copy_samples_while_the_policy_changes_and_follows_when_told():
    policy = tiny_model(50)
    ahead, go = Ahead(policy), threading.Event()

    def work(model):
        assert go.wait(10)
        return [weight.sum().item() for weight in model.parameters()]

    def now(model):
        return [weight.sum().item() for weight in model.parameters()]

    first = now(policy)
    ahead.start(work)
    for weight in policy.parameters():
        weight.data += 1.0
    with pytest.raises(RuntimeError, match="must stay"):
        ahead.follow(policy, 1)
    go.set()
    assert ahead.result(work) == first != now(policy)
    ahead.follow(policy, 1)
    assert (ahead.updates, ahead.result(work)) == (1, now(policy))

    other = Ahead(tiny_model(50, seed=1))
    other.load_state_dict(ahead.state_dict(), 7)
    assert (other.updates, other.result(work)) == (1, now(policy))
    fresh = Ahead(policy)
    fresh.load_state_dict(None, 7)
    assert (fresh.updates, fresh.result(work)) == (7, now(policy))

    def fail(model):
        raise InputError("no such database")

    with pytest.raises(InputError):
        ahead.result(fail)
    assert not ahead.under_way


def test_each_batch_is_sampled_by_the_weights_of_before_the_last_update(small_config, tmp_path):
    """Step 1 of an overlapped run samples what a run without any update would; step 2 what step 1 of another does."""
    def tokens(folder, step):
        return [record["token_ids"] for record in read_jsonl(trajectory_file(tmp_path / folder, step))]

    metrics = {}
    for name, options in (("overlap", {}), ("in turn", {"rollout.overlap": 0}),
                          ("still", {"rollout.overlap": 0, "train.lr": 0.0})):
        with opened_trainer(small_config(**(OVERLAP | {"train.steps": 2} | options)), tmp_path / name) as trainer:
            metrics[name] = [trainer.step(step) for step in range(2)]
    assert [row["rollout/lag"] for row in metrics["overlap"]] == [0, 1]
    assert [row["rollout/lag"] for row in metrics["in turn"]] == [0, 0]
    assert tokens("overlap", 0) == tokens("in turn", 0)
    assert tokens("overlap", 1) == tokens("still", 1) != tokens("in turn", 1)
    assert metrics["overlap"][0]["mismatch/max"] < 1e-3 < metrics["overlap"][1]["mismatch/max"]
    assert metrics["overlap"][1]["tis/weight_mean"] != pytest.approx(1.0, abs=1e-4)


def test_a_rollout_under_way_ends_with_a_run_that_fails(small_config, tmp_path):
    """It has no sandbox any more; otherwise the process would stay until it is done."""
    with (pytest.raises(RuntimeError, match="the update failed"),
          opened_trainer(small_config(**OVERLAP), tmp_path) as trainer):
        questions = trainer.bench.preparer.prepare(trainer.train_split, range(4))
        trainer.ahead.start(lambda model: trainer.roll_out(0, questions, model=model))
        raise RuntimeError("the update failed")
    under_way = trainer.ahead._rollout
    assert not wait([under_way], 60).not_done and isinstance(under_way.exception(), (RuntimeError, CancelledError))


@pytest.mark.slow
def test_a_resumed_run_samples_the_batch_in_flight_again_by_the_weights_that_it_had(small_config, tmp_path):
    whole, cut, newest = whole_and_cut(small_config(**OVERLAP), tmp_path)
    assert cut == whole and [row["rollout/lag"] for row in whole] == [0, 1, 1]
    for step in range(3):
        one, other = (read_jsonl(trajectory_file(tmp_path / name, step)) for name in ("whole", "cut"))
        assert [record["token_ids"] for record in one] == [record["token_ids"] for record in other]

    # Negative control: with the newest weights instead, the third batch is another one.
    config = small_config(**OVERLAP)
    folder = newest.parent / "step_000002"
    with opened_trainer(config, tmp_path / "wrong", str(folder)) as trainer:
        state = checkpoint.load_state(folder)
        trainer.restore(state | {"ahead": None})
        trainer.step(2)
    wrong = read_jsonl(trajectory_file(tmp_path / "wrong", 2))
    assert [record["token_ids"] for record in wrong] != [record["token_ids"] for record in one]


@pytest.mark.parametrize("options, why", [({"train.tis": "'off'"}, "train.tis must correct for it"),
                                          ({"train.refill": 1}, "does not go with train.refill"),
                                          ({"rollout.overlap": 2}, "between 0 and 1")])
def test_what_does_not_go_with_it_is_refused(options, why):
    with pytest.raises(InputError, match=why):
        load_config(None, [(key, str(value)) for key, value in
                           ({"rollout.overlap": 1, "train.tis": "token"} | options).items()])


def test_a_copy_of_a_policy_with_adapters_shares_what_is_frozen():
    policy = tiny_model(50)
    for weight in list(policy.parameters())[:-2]:
        weight.requires_grad_(False)
    snapshot = models.Snapshot(policy)
    shared = [own is value for own, value in zip(snapshot.model.parameters(), policy.parameters())]
    assert shared.count(False) == 2
    for weight in policy.parameters():
        weight.data += 1.0
    snapshot.blend(policy)
    assert all((own == value).all() for own, value in zip(snapshot.model.parameters(), policy.parameters()))
