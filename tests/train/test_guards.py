"""What guards say of a batch, by hand, and that an update with an alarm leaves everything as it was."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from serl.cli import main
from serl.config import GuardsConfig
from serl.config.guards import check_guards
from serl.errors import InputError, WorkFailed
from serl.io import read_jsonl
from serl.tracking import guard_file, read_metrics, trajectory_file
from serl.train import update as updates
from serl.train.engine import TorchEngine
from serl.train.guards import Guards, GuardStop
from serl.train.run import train_run
from serl.train.update import update
from tests.models import tiny_model, tiny_tokenizer
from tests.ranks import in_threads
from tests.train.test_update import config_of, make_samples

FILE = Path("guards/step_000003.jsonl")


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def guards(**options) -> Guards:
    return Guards(GuardsConfig(**options), lambda value: value)


def settled(guard: Guards, metrics: dict[str, float] | None = None) -> dict[str, float]:
    """What becomes of an update of these metrics whose gradient is fine."""
    metrics = {"loss": 0.5, "kl/old": 0.1} | (metrics or {})

    class Fine:
        def step(self) -> float:
            return 2.0

    norm = guard.step(Fine(), metrics)
    reasons: list[str] = []
    found = guard.settle(metrics | {"grad_norm": norm}, lambda reason: reasons.append(reason) or FILE)
    return found | {"reasons": reasons}


def test_entropy_is_the_mean_surprise_of_a_sampled_token_and_length_the_mean_of_trajectories():
    samples = make_samples(offset=0.25)  # 7, 8, 9 and 6 sampled tokens, each with a log-prob of -1.25
    found = guards().look(samples)
    assert found == {"rollout/entropy": pytest.approx(1.25), "rollout/length": pytest.approx(7.5)}
    samples[0] = replace(samples[0], reward=None)
    assert guards().look(samples)["rollout/length"] == pytest.approx(23 / 3), "a failure of ours is no short answer"
    assert guards().look([replace(sample, reward=None) for sample in samples]) == {}


def test_the_estimate_is_that_of_the_distribution_that_was_sampled_from():
    """Ĥ over many draws of a known distribution, at a temperature, against Σ −p ln p of the same."""
    logits = torch.tensor([2.0, 0.5, -1.0, 0.0]) / 0.7
    logp = logits.log_softmax(-1)
    exact = -(logp.exp() * logp).sum().item()
    drawn = torch.multinomial(logp.exp(), 40_000, replacement=True, generator=torch.Generator().manual_seed(0))
    assert -logp[drawn].mean().item() == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("guard, options, metrics", [
    ("non_finite", {}, {"loss": math.nan}), ("non_finite", {}, {"loss": math.inf}),
    ("kl", {"kl_limit": 0.2}, {"kl/old": 0.21}), ("kl", {"reference_limit": 3.0}, {"kl": 3.5}),
    ("length", {"length_floor": 7.6}, {}), ("entropy", {"entropy_floor": 1.1}, {})])
def test_each_guard_skips_stops_or_is_off(guard, options, metrics):
    skip = guards(**{**options, guard: "skip"})
    skip.look(make_samples())
    found = settled(skip, metrics)
    assert found["guard/skipped"] == 1 and found["grad_norm"] == 0 and found["reasons"][0].startswith(f"{guard}: ")
    assert all(math.isfinite(value) for name, value in found.items() if name != "reasons")
    stop = guards(**options)
    stop.look(make_samples())
    with pytest.raises(GuardStop, match=f"guards/step_000003.jsonl; --train.guards.{guard} skip"):
        settled(stop, metrics)
    if guard != "non_finite":
        off = guards(**{**options, guard: "off"})
        off.look(make_samples())
        assert settled(off, metrics) == {"loss": 0.5, "kl/old": 0.1, "grad_norm": 2.0, "guard/skipped": 0.0,
                                         "reasons": []} | metrics


def test_an_entropy_far_above_the_first_steps_is_an_alarm():
    guard = guards(entropy_rise=2.0)
    for offset, fine in ((0.25, True), (2.2, True), (2.3, False)):  # 1.25, 3.2 and 3.3 nats a token
        guard.look(make_samples(offset=offset))
        assert (guard.alarm is None) == fine
    with pytest.raises(GuardStop, match="3.3 nats a token, 2.05 more than in the first step.*lower train.lr"):
        settled(guard)


def test_a_healthy_batch_has_no_alarm_with_the_defaults():
    guard = guards()
    guard.look(make_samples())
    assert settled(guard)["guard/skipped"] == 0


def test_a_guard_that_stops_outweighs_one_that_skips():
    guard = guards(length="skip", length_floor=100.0)
    guard.look(make_samples())
    with pytest.raises(GuardStop, match="the loss is nan"):
        settled(guard, {"loss": math.nan})


def test_so_many_skips_in_a_row_stop_the_run_and_one_update_between_starts_anew():
    guard = guards(kl="skip", skips=3)
    for value in (9.0, 9.0, 0.0, 9.0, 9.0):
        guard.look(make_samples())
        settled(guard, {"kl/old": value})
    assert guard.skipped == 2
    guard.look(make_samples())
    with pytest.raises(GuardStop, match="the last of 3 in a row"):
        settled(guard, {"kl/old": 9.0})
    assert guard.skipped == 2, "the checkpoint of before the step counts it no earlier than the step itself"


def test_ranks_with_parts_of_a_batch_decide_by_the_whole_of_it():
    """Rank 0 has the longest trajectory alone, which no guard would mind; together they are too short."""
    parts = [2], [0, 1, 3], []
    whole = guards(length="skip", length_floor=7.6).look(make_samples())

    def look(ranks) -> tuple:
        guard = Guards(GuardsConfig(length="skip", length_floor=7.6), ranks.sum)
        return guard.look([make_samples()[place] for place in parts[ranks.rank]]), guard.alarm

    found = in_threads(3, look)
    assert [metrics for metrics, _ in found] == [pytest.approx(whole)] * 3
    assert len({alarm for _, alarm in found}) == 1 and found[0][1].guard == "length"


@pytest.mark.parametrize("bad", ["loss", "gradient"])
def test_an_update_that_is_not_finite_leaves_weights_optimizer_and_rate(bad, tokenizer, monkeypatch):
    model = tiny_model(len(tokenizer))
    engine = TorchEngine(model, 0.1, 0.1, 1.0, lambda step: 1.0 / (1 + step))
    guard = guards(non_finite="skip")
    guard.look(make_samples())
    update(engine, make_samples(), 0.0, config_of(), guard.step)
    assert guard.alarm is None
    before = [parameter.clone() for parameter in model.parameters()]
    state, lr = engine.optimizer.state_dict()["state"][0]["exp_avg"].clone(), engine.lr

    monkeypatch.setattr(updates, "loss_of", wrapped(updates.loss_of, bad))
    metrics, samples = update(engine, make_samples(), 0.0, config_of(), guard.step)
    assert guard.alarm.guard == "non_finite" and metrics["grad_norm"] == 0
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters())) and engine.lr == lr
    assert torch.equal(engine.optimizer.state_dict()["state"][0]["exp_avg"], state)
    assert all(sample.student is not None for sample in samples), "there is something to study"


def wrapped(loss_of, bad: str):
    def broken(samples, logps, config, total):
        loss, sums = loss_of(samples, logps, config, total)
        # The square root has no derivative at 0, where its value is 0.
        return loss * math.nan if bad == "loss" else loss + torch.sqrt(0 * torch.cat(list(logps)).nansum()), sums
    return broken


@pytest.mark.parametrize("options, message", [
    ({"kl": "warn"}, "train.guards.kl is 'warn'; choose one of off, skip, stop"),
    ({"non_finite": "off"}, "train.guards.non_finite is 'off'; choose one of skip, stop"),
    ({"length_floor": -1.0}, "train.guards.length_floor is -1.0"), ({"skips": 0}, "train.guards.skips is 0")])
def test_options_that_say_nothing_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        check_guards(GuardsConfig(**options))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_with_a_loss_that_is_no_number_stops_with_its_batch_kept_and_goes_on_without_it(
        small_config, tmp_path, monkeypatch, capsys):
    """The loss of step 1 is NaN: stopped, then resumed with `skip`; from there on the weights are those of step 0."""
    config = small_config(**{"train.steps": 3, "train.save_every": 3, "eval.n": 0, "data.max_eval": 2,
                             "rollout.questions": 3, "runs": tmp_path, "name": "run"})
    folder, real, calls = tmp_path / "run", updates.loss_of, []

    def second(samples, logps, config, total):
        loss, sums = real(samples, logps, config, total)
        calls.append(1)
        return (loss * math.nan if len(calls) == bad else loss), sums

    monkeypatch.setattr(updates, "loss_of", second)
    bad = 2
    with pytest.raises(WorkFailed, match="step 1 of 3: the loss is nan, .*serl train --resume"):
        train_run(config, folder)
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["step_000001"]
    rows = read_jsonl(guard_file(folder, 1))
    assert len(rows) == 12 and {row["guard"] for row in rows} == {"non_finite: the loss is nan"}
    bad = 3  # the first update after the resume is the same one
    capsys.readouterr()
    assert main(["train", "--resume", str(folder), "--train.guards.non_finite", "skip"]) == 0
    skipped = [row["guard/skipped"] for row in read_metrics(folder)]
    assert skipped == [0, 1, 0] and "loss" not in read_metrics(folder)[1]
    again = read_jsonl(trajectory_file(folder, 1))
    assert [row["token_ids"] for row in again] == [row["token_ids"] for row in rows]
