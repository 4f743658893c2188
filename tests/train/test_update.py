"""The update on hand-made trajectories and a tiny model: which loss, weights and masks a config turns on."""

import math
from dataclasses import replace

import pytest
import torch

from serl.config import Config, HindsightConfig, TeacherConfig, TrainConfig
from serl.hindsight.schedule import lambda_at
from serl.reward.panel import Reward
from serl.train import sharing
from serl.train.engine import TorchEngine
from serl.train.samples import Sample, add_reference, add_student, add_teacher
from serl.train.scoring import logprobs
from serl.train.update import denominator, micro_loss, update
from tests.models import tiny_model, tiny_tokenizer
from tests.train.made import made_trajectory

PROMPT = [11, 12, 13, 14, 15]
ACTIONS = [([21, 22, 23, 24], [31, 32], [25, 26, 27]), ([41, 42, 43], [33], [44, 45, 46, 47, 48]),
           ([51, 52, 53, 54, 55, 56], [34, 35, 36], [57, 58, 59]), ([61, 62, 63], [37], [64, 65, 66])]
ADVANTAGES = (1.0, -0.5, 0.7, -1.2)
LOSSES = {"grpo": "token_mean", "dapo": "token_mean", "dr_grpo": "seq_sum", "gspo": "seq_mean", "cispo": "token_mean"}


def make_samples(offset: float = 0.0) -> list[Sample]:
    return [Sample.of(made_trajectory(PROMPT, *actions, offset=offset), Reward(1.0, {}, True), advantage)
            for actions, advantage in zip(ACTIONS, ADVANTAGES)]


def config_of(hindsight: dict | None = None, **train) -> Config:
    return Config(train=TrainConfig(**train), hindsight=HindsightConfig(**(hindsight or {})))


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def encode(tokenizer):
    return lambda text: tokenizer.encode(text, add_special_tokens=False)


@pytest.fixture(scope="module")
def model(tokenizer):
    return tiny_model(len(tokenizer))


@pytest.fixture(scope="module")
def old_model(tokenizer, model):
    """The policy some updates ago: near enough for most ratios, far enough for some clipping."""
    other = tiny_model(len(tokenizer))
    with torch.no_grad():
        generator = torch.Generator().manual_seed(1)
        for parameter in other.parameters():
            parameter += 0.01 * torch.randn(parameter.shape, generator=generator)
    return other


def gradient(model, samples, config, size=4, lam=0.0) -> tuple[torch.Tensor, dict[str, float]]:
    """The whole batch's gradient and sums, from micro-batches of `size` rows."""
    model.zero_grad()
    total, sums = denominator(samples, config.train.reduction), {}
    for start in range(0, len(samples), size):
        loss, metrics, _ = micro_loss(model, samples[start: start + size], lam, config, total)
        loss.backward()
        for name, value in {**metrics, "loss": loss}.items():
            sums[name] = sums.get(name, 0.0) + value.item()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()]), sums


def test_the_default_is_bit_for_bit_the_published_loss_with_its_weights(model, old_model, encode):
    config = config_of(kl_beta=0.1)
    samples, _ = add_teacher(old_model, make_samples(), encode, 0.5, config)
    samples = add_reference(old_model, add_student(old_model, samples, 0.5, config), config)
    own, sums = gradient(model, samples, config, lam=0.5)

    model.zero_grad()
    logp = torch.cat(logprobs(model, [s.tail for s in samples], 1.0, True))
    mask = torch.cat([torch.tensor(s.trajectory.loss_mask[s.first:], dtype=torch.bool) for s in samples])
    old, reference = (torch.cat([getattr(s, name)[s.first:] for s in samples]) for name in ("student", "reference"))
    advantage = []
    for s in samples:
        inside = s.hindsight_mask & torch.isfinite(s.teacher)
        gap = torch.where(inside, s.teacher - s.student, 0.0)
        bounded = (gap if s.advantage > 0 else -gap).clamp(math.log1p(-0.2), math.log1p(0.2))
        advantage.append(s.advantage * torch.where(inside, 1.0 + 0.5 * torch.expm1(bounded), 1.0)[s.first:])
        assert inside.sum() == sum(s.trajectory.action_mask)
    advantage = torch.where(mask, torch.cat(advantage), 0.0)
    log_ratio = torch.where(mask, logp - old, 0.0)
    ratio = log_ratio.exp()
    log_ref = torch.where(mask, reference - logp, 0.0)
    loss = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).sum() / mask.sum().item()
    loss = loss + 0.1 * (log_ref.exp() - log_ref - 1.0).sum() / mask.sum().item()
    loss.backward()
    assert sums["loss"] == loss.item()
    assert torch.equal(own, torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    assert 0 < sums["clipped"] < mask.sum()


@pytest.mark.parametrize("loss", LOSSES)
def test_where_hindsight_may_change_nothing_value_and_gradient_are_the_plain_losss_bit_for_bit(
        model, old_model, encode, loss):
    options = {"loss": loss, "reduction": LOSSES[loss], "clip_low": 0.2, "clip_high": 0.2}
    usual = config_of(**options)
    plain, sums = gradient(model, add_student(old_model, make_samples(), 0.0, usual), usual)
    mute = make_samples()
    for sample in mute:
        for turn in sample.trajectory.turns:
            turn.outcome = None
    for hindsight, lam, samples in (({}, 0.0, make_samples()), ({"eps_low": 0.0, "eps_high": 0.0}, 0.5, make_samples()),
                                    ({"mask": "none"}, 0.5, make_samples()), ({}, 0.5, mute)):
        config = config_of(hindsight, **options)
        samples, _ = add_teacher(old_model, samples, encode, lam, config)
        own, other = gradient(model, add_student(old_model, samples, lam, config), config, lam=lam)
        assert torch.equal(own, plain) and other == sums
    samples, _ = add_teacher(old_model, make_samples(), encode, 0.5, usual)
    moved, _ = gradient(model, add_student(old_model, samples, 0.5, usual), usual, lam=0.5)
    assert not torch.equal(moved, plain), "and elsewhere it does change them"


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_holds_the_weights_constant_and_none_reaches_the_teacher(model, encode, loss):
    """A live teacher, and old log-probs from the update's own forward: Δ depends on the weights twice over."""
    config = config_of(loss=loss, reduction=LOSSES[loss])
    samples, _ = add_teacher(model, make_samples(), encode, 0.5, config)
    own, _ = gradient(model, samples, config, lam=0.5)
    fixed = add_student(model, samples, 0.5, config)
    assert any(sample.weight.ne(1).any() for sample in fixed)
    assert not any(tensor.requires_grad for sample in fixed for tensor in (sample.teacher, sample.weight))
    constant = [replace(sample, teacher=torch.full_like(sample.teacher, math.nan)) for sample in fixed]
    expected, _ = gradient(model, constant, config, lam=0.5)
    torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-6 * expected.abs().max().item())


@pytest.mark.parametrize("tis", ["off", "token", "sequence", "mask"])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_and_sums_do_not_depend_on_micro_batches(model, old_model, loss, tis):
    config = config_of(loss=loss, reduction=LOSSES[loss], tis=tis, kl_beta=0.05)
    samples = add_student(old_model, make_samples(offset=3.0), 0.0, config)
    samples = add_reference(old_model, samples, config)
    whole, sums = gradient(model, samples, config)
    parts, other = gradient(model, samples[::-1], config, size=1)
    torch.testing.assert_close(parts, whole, rtol=1e-3, atol=1e-5 * whole.abs().max().item())
    assert other == pytest.approx(sums, rel=1e-4, abs=1e-5)


def test_losses_differ_off_policy_and_have_grpos_direction_on_policy(model, old_model):
    off = {}
    for loss, reduction in LOSSES.items():
        config = config_of(loss=loss, reduction=reduction)
        off[loss], _ = gradient(model, add_student(old_model, make_samples(), 0.0, config), config)
        on, _ = gradient(model, make_samples(), config)
        plain, _ = gradient(model, make_samples(), config_of(reduction=reduction))
        torch.testing.assert_close(on, plain, rtol=1e-4, atol=1e-6 * plain.abs().max().item())
    names = list(off)
    for number, name in enumerate(names):
        for other in names[number + 1:]:
            assert not torch.allclose(off[name] / off[name].norm(), off[other] / off[other].norm(), rtol=1e-3) \
                or {name, other} == {"grpo", "dr_grpo"}  # these differ by a constant, and by their advantages


def test_a_sampler_that_was_surer_than_the_trainer_scales_the_gradient(model):
    # The trainer's probability is 1.5 times the sampler's at each token.
    samples = add_student(model, make_samples(), 0.0, config_of())
    for sample in samples:
        known = [None if value is None else sample.student[place].item() - math.log(1.5)
                 for place, value in enumerate(sample.trajectory.sampler_logprobs)]
        sample.trajectory.sampler_logprobs[:] = known
    plain, _ = gradient(model, samples, config_of())
    for tis, cap, factor in (("token", 2.0, 1.5), ("token", 1.2, 1.2), ("mask", 1.4, 0.0), ("sequence", 1.3, 1.3)):
        scaled, _ = gradient(model, samples, config_of(tis=tis, tis_cap=cap))
        torch.testing.assert_close(scaled, factor * plain, rtol=1e-3, atol=1e-5 * plain.abs().max().item())


@pytest.mark.parametrize("reduction", ["token_mean", "seq_sum", "seq_mean"])
def test_the_kl_term_is_averaged_as_the_surrogate_is(model, old_model, reduction):
    samples = add_reference(old_model, add_student(model, make_samples(), 0.0, config_of()), config_of())
    _, plain = gradient(model, samples, config_of(reduction=reduction))
    _, leashed = gradient(model, samples, config_of(reduction=reduction, kl_beta=0.5))
    rows = []
    for sample in samples:
        gap = (sample.reference - sample.student)[torch.tensor(sample.trajectory.loss_mask, dtype=torch.bool)].double()
        rows.append((gap.exp() - gap - 1).tolist())
    expected = {"token_mean": sum(map(sum, rows)) / sum(map(len, rows)), "seq_sum": sum(map(sum, rows)) / 4,
                "seq_mean": sum(sum(row) / len(row) for row in rows) / 4}[reduction]
    assert leashed["loss"] - plain["loss"] == pytest.approx(0.5 * expected, rel=1e-3)


def test_an_update_reports_clipping_and_mismatch_also_when_there_is_nothing_to_learn(model):
    engine = TorchEngine(model, 0.0, 0.0, 1.0, lambda step: 1.0)
    metrics, _ = update(engine, make_samples(), 0.0, config_of(tis="token", dual_clip=3.0))
    empty, _ = update(engine, [replace(sample, advantage=0.0) for sample in make_samples()], 0.0, config_of())
    assert update(engine, [], 0.0, config_of())[0] == empty, "as after a refill that found no signal"
    assert set(metrics) - set(empty) == {"ratio/clip_dual", "tis/weight_mean", "tis/limited"}
    assert metrics["mismatch/k3"] > 0 and metrics["ratio/clip_fraction"] == 0
    assert all(value == 0 for value in empty.values())


@pytest.mark.parametrize("scope", ["action", "final_only", "all", "none"])
def test_the_mask_scope_decides_which_tokens_get_a_weight(model, old_model, encode, scope):
    config = config_of({"mask": scope})
    samples, skipped = add_teacher(old_model, make_samples(), encode, 0.5, config)
    assert skipped == 0
    for sample in add_student(model, samples, 0.5, config):
        turns = sample.trajectory.turns[1:] if scope == "final_only" else sample.trajectory.turns
        spans = {"none": []}.get(scope, [turn.action if scope == "all" else turn.sql for turn in turns])
        inside = torch.zeros(len(sample.trajectory), dtype=torch.bool)
        for start, end in spans:
            inside[start:end] = True
        assert torch.equal(sample.weight != 1, inside)


def test_hindsight_only_measures_one_teacher_against_itself(model, old_model, encode):
    config = config_of({"gap": "hindsight_only"})
    samples, _ = add_teacher(old_model, make_samples(), encode, 0.5, config)
    alone = add_student(old_model, make_samples(), 0.0, config)
    for sample, other in zip(samples, alone):
        torch.testing.assert_close(sample.unaided, other.student, equal_nan=True)
    # A teacher that is the student: both gaps are the same, and so are the weights.
    synced, _ = add_teacher(model, make_samples(), encode, 0.5, config)
    paper = config_of({"gap": "teacher_student"})
    for one, two in zip(add_student(model, synced, 0.5, config), add_student(model, synced, 0.5, paper)):
        torch.testing.assert_close(one.weight, two.weight, rtol=0, atol=1e-5)
        assert one.weight.ne(1).any()
    # A stale one: the student's own log-probs do not matter to the gap.
    stale = [add_student(student, samples, 0.5, config) for student in (model, old_model)]
    assert all(torch.equal(one.weight, two.weight) for one, two in zip(*stale))
    usual = add_student(model, samples, 0.5, paper)
    assert not all(torch.equal(one.weight, two.weight) for one, two in zip(stale[0], usual))


def test_no_teacher_runs_for_either_gap_at_lambda_zero(model, encode):
    calls = []
    hook = model.register_forward_hook(lambda *_: calls.append(1))
    options = {"gap": "hindsight_only", "warmup_updates": 5}
    samples, _ = add_teacher(model, make_samples(), encode, lambda_at(0, HindsightConfig(**options), 30),
                             config_of(options))
    hook.remove()
    assert calls == [] and not any(sample.hindsight_mask.any() for sample in samples)


@pytest.mark.parametrize("gap", ["teacher_student", "hindsight_only"])
def test_no_teacher_reads_a_trajectory_without_a_signal(model, encode, gap):
    samples = make_samples()
    samples[1] = replace(samples[1], advantage=0.0)
    read = []
    hook = model.model.register_forward_pre_hook(
        lambda module, args, kwargs: read.append((kwargs["input_ids"] if kwargs.get("input_ids") is not None else
                                                  kwargs["inputs_embeds"]).shape[0]), with_kwargs=True)
    config = replace(config_of({"gap": gap}, micro_tokens=1), model=replace(Config().model, shared_prefix=False))
    known, _ = add_teacher(model, samples, encode, 0.5, config)
    hook.remove()
    assert sum(read) == 3 * (2 if gap == "teacher_student" else 3)  # two turns each, and maybe the whole
    assert known[1].teacher.isnan().all() and known[1].hindsights == (None, None)
    assert all(sample.teacher.isfinite().any() for sample in (known[0], *known[2:]))


@pytest.mark.parametrize("gap", ["teacher_student", "hindsight_only"])
def test_a_live_teacher_in_the_updates_own_pass_is_the_one_of_a_pass_before_it(model, encode, gap, monkeypatch):
    monkeypatch.setattr(sharing, "LEAST", 1)
    hindsight = {"gap": gap, "teacher": TeacherConfig("live")}
    config = config_of(hindsight)
    asked, skipped = add_teacher(model, make_samples(), encode, 0.5, config)
    assert skipped == 0 and all(len(s.asked) == 2 and s.teacher.isnan().all() for s in asked)
    before, _ = add_teacher(model, make_samples(), encode, 0.5, config_of(hindsight, score_first=True))
    calls = []
    hook = model.model.register_forward_hook(lambda *_: calls.append(1))
    ours, sums = gradient(model, asked, config, lam=0.5)
    hook.remove()
    assert len(calls) == 3  # the prompt, what follows it, the branches
    theirs, others = gradient(model, before, config, lam=0.5)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5 * theirs.abs().max().item())
    assert sums == pytest.approx(others, rel=1e-4, abs=1e-6)
    _, _, scored = micro_loss(model, asked, 0.5, config, 1.0)
    for sample, other in zip(scored, add_student(model, before, 0.5, config)):
        assert not sample.asked
        assert sample.hindsights == other.hindsights and all(hint is not None for hint in sample.hindsights)
        for name in ("teacher", "student", "weight", "hindsight_mask"):
            torch.testing.assert_close(getattr(sample, name), getattr(other, name), rtol=0, atol=1e-5, equal_nan=True)
        assert sample.weight.ne(1).any()


@pytest.mark.parametrize("share", [True, False])
def test_the_policy_that_learns_is_the_one_that_acted_also_where_a_model_has_dropout(tokenizer, share):
    model = tiny_model(len(tokenizer))
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    config = config_of()
    config = replace(config, model=replace(config.model, shared_prefix=share))
    _, samples = update(TorchEngine(model, 0.0, 0.0, 1.0, lambda step: 1.0), make_samples(), 0.0, config)
    for sample, other in zip(samples, add_student(model, make_samples(), 0.0, config)):
        torch.testing.assert_close(sample.student, other.student, rtol=0, atol=1e-5, equal_nan=True)
    metrics, _ = update(TorchEngine(model, 0.0, 0.0, 1.0, lambda step: 1.0), samples, 0.0, config)
    assert metrics["kl/old"] < 1e-9 and metrics["ratio/clip_fraction"] == 0


# Actions with advantages of their own.


@pytest.mark.parametrize("loss", LOSSES)
def test_actions_that_have_their_trajectorys_advantage_change_nothing_bit_for_bit(model, old_model, encode, loss):
    config = config_of(loss=loss, reduction=LOSSES[loss])
    samples, _ = add_teacher(old_model, make_samples(), encode, 0.5, config)
    samples = add_student(old_model, samples, 0.5, config)
    own = add_student(old_model, [replace(sample, steps=(sample.advantage,) * 2) for sample in samples], 0.5, config)
    assert all(torch.equal(one.weight, other.weight) for one, other in zip(samples, own))
    (whole, sums), (by_step, step_sums) = (gradient(model, each, config, lam=0.5) for each in (samples, own))
    assert torch.equal(whole, by_step) and sums == step_sums


def test_each_actions_gradient_has_its_own_advantage_and_hindsight_follows_its_sign(model, old_model, encode):
    """The gradient is the sum of two, of batches in which only the one or the other action counts."""
    config = config_of(hindsight={"mask": "all"})
    samples, _ = add_teacher(old_model, make_samples(), encode, 0.5, config)
    mixed = [replace(sample, advantage=0.0, steps=(1.5, -0.5)) for sample in samples]
    parts = [[replace(sample, advantage=0.0, steps=steps) for sample in samples] for steps in ((1.5, 0.0), (0.0, -0.5))]
    (whole, _), *(found) = (gradient(model, add_student(old_model, each, 0.5, config), config, lam=0.5)
                            for each in (mixed, *parts))
    torch.testing.assert_close(whole, found[0][0] + found[1][0], rtol=1e-4, atol=1e-6)
    for sample in add_student(old_model, mixed, 0.5, config):
        for turn, sign in zip(sample.trajectory.turns, (1, -1)):
            gap, weight = (values[slice(*turn.action)] for values in (sample.gap, sample.weight))
            assert torch.equal((weight - 1.0).sign(), sign * gap.sign()), "four quadrants, by the action's own sign"
            assert (weight != 1).any()


def test_a_trajectory_whose_mean_credit_is_zero_still_learns_by_its_actions(tokenizer):
    config, learner = config_of(lr=1e-3), tiny_model(len(tokenizer))
    before = [parameter.detach().clone() for parameter in learner.parameters()]
    still = [replace(sample, advantage=0.0, steps=(0.0, 0.0)) for sample in make_samples()]
    metrics, _ = update(TorchEngine(learner, 1e-3, 0.0, 1.0, lambda step: 1.0), still, 0.0, config)
    assert metrics["grad_norm"] == 0.0 and all(map(torch.equal, before, learner.parameters()))
    moved = [replace(sample, advantage=0.0, steps=(1.0, -1.0)) for sample in make_samples()]
    metrics, scored = update(TorchEngine(learner, 1e-3, 0.0, 1.0, lambda step: 1.0), moved, 0.0, config)
    assert metrics["grad_norm"] > 0 and all(sample.student is not None for sample in scored)
