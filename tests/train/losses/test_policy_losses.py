"""The policy losses against slow references written from the papers, by hand, and by properties that all share."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.config import TrainConfig
from serl.train.losses import (
    cispo_loss,
    dapo_loss,
    dr_grpo_loss,
    grpo_loss,
    gspo_loss,
    policy_loss,
    row_share,
    sampler_correction,
)
from tests.train.losses import reference
from tests.train.losses.cases import Row, by_row, differences, flatten, gradient, random_rows

SEEDS = st.integers(0, 10_000)
LOSSES = {"grpo": {}, "dapo": {}, "dr_grpo": {"reduction": "seq_sum"}, "gspo": {"reduction": "seq_mean"}, "cispo": {}}
DUAL = {f"{name} dual": {**LOSSES[name], "dual_clip": 1.5} for name in ("grpo", "gspo")}
EVERY = {**{name: {"loss": name, **more} for name, more in LOSSES.items()},
         **{name: {"loss": name.split()[0], **more} for name, more in DUAL.items()},
         "grpo seq_mean": {"loss": "grpo", "reduction": "seq_mean"}}
every_loss = pytest.mark.parametrize("options", [TrainConfig(**more) for more in EVERY.values()], ids=EVERY)


def agrees(loss, flat, expected, moved):
    """Value and gradient equal the reference's; `moved` is the reference as a function of the current log-probs."""
    assert loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    for own, slow in zip(by_row(gradient(loss, flat), flat), differences(moved, by_row(flat.logp, flat))):
        assert own == pytest.approx(slow, rel=1e-6, abs=1e-8)


def tokens_of(rows):
    return sum(len(row.logp) for row in rows)


def logps(rows):
    return [row.logp for row in rows]


@settings(max_examples=20)
@given(SEEDS, st.sampled_from([None, 1.4]))
def test_grpo_with_the_papers_mean_agrees_with_the_loop(seed, dual):
    rows = random_rows(seed)
    flat = flatten(rows)
    loss, _ = grpo_loss(*flat.tokens, len(rows), dual_clip=dual,
                        coefficient=row_share(flat.mask, flat.row, torch.float64))
    agrees(loss, flat, reference.grpo(rows, logps(rows), dual=dual), lambda x: reference.grpo(rows, x, dual=dual))


@settings(max_examples=20)
@given(SEEDS, st.sampled_from([None, 1.4]))
def test_dapo_agrees_with_the_loop(seed, dual):
    rows = random_rows(seed)
    flat = flatten(rows)
    loss, _ = dapo_loss(*flat.tokens, tokens_of(rows), dual_clip=dual)
    agrees(loss, flat, reference.dapo(rows, logps(rows), dual=dual), lambda x: reference.dapo(rows, x, dual=dual))


@settings(max_examples=20)
@given(SEEDS, st.sampled_from([None, 1.4]))
def test_dr_grpo_agrees_with_the_loop(seed, dual):
    rows = random_rows(seed)
    flat = flatten(rows)
    loss, _ = dr_grpo_loss(*flat.tokens, len(rows), dual_clip=dual)
    agrees(loss, flat, reference.dr_grpo(rows, logps(rows), dual=dual), lambda x: reference.dr_grpo(rows, x, dual=dual))


@settings(max_examples=20)
@given(SEEDS, st.sampled_from([None, 1.1]))
def test_gspo_token_agrees_with_the_loop(seed, dual):
    rows = random_rows(seed)
    flat = flatten(rows)
    loss, _ = gspo_loss(*flat.tokens, flat.row, len(rows), 0.1, 0.1, dual,
                        row_share(flat.mask, flat.row, torch.float64))
    agrees(loss, flat, reference.gspo_token(rows, logps(rows), logps(rows), 0.1, 0.1, dual),
           lambda x: reference.gspo_token(rows, x, logps(rows), 0.1, 0.1, dual))


@settings(max_examples=20)
@given(SEEDS)
def test_gspo_token_is_gspo_where_all_tokens_of_a_row_have_one_advantage(seed):
    rows = random_rows(seed, even=True)
    flat = flatten(rows)
    loss, _ = gspo_loss(*flat.tokens, flat.row, len(rows), 0.1, 0.1,
                        coefficient=row_share(flat.mask, flat.row, torch.float64))
    agrees(loss, flat, reference.gspo(rows, logps(rows), 0.1, 0.1), lambda x: reference.gspo(rows, x, 0.1, 0.1))


@settings(max_examples=20)
@given(SEEDS, st.sampled_from([(1.0, 4.0), (0.2, 0.2)]))
def test_cispo_agrees_with_the_loop(seed, bounds):
    rows = random_rows(seed, spread=0.8)
    flat = flatten(rows)
    loss, _ = cispo_loss(*flat.tokens, tokens_of(rows), *bounds)
    agrees(loss, flat, reference.cispo(rows, logps(rows), logps(rows), *bounds),
           lambda x: reference.cispo(rows, x, logps(rows), *bounds))


# For each loss: its options, Z, and its reference as a function of x, x0 and the correction c.
CORRECTED = {
    "grpo": ({"reduction": "seq_mean"}, len, lambda rows, x, x0, c: reference.grpo(rows, x, c=c)),
    "grpo token_mean": ({}, tokens_of, lambda rows, x, x0, c: reference.dapo(rows, x, 0.2, 0.2, c=c)),
    "grpo dual": ({"dual_clip": 1.4}, tokens_of, lambda rows, x, x0, c: reference.dapo(rows, x, 0.2, 0.2, 1.4, c)),
    "dapo": ({}, tokens_of, lambda rows, x, x0, c: reference.dapo(rows, x, c=c)),
    "dr_grpo": ({"reduction": "seq_sum"}, len, lambda rows, x, x0, c: reference.dr_grpo(rows, x, c=c)),
    "gspo": ({"reduction": "seq_mean", "clip_low": 0.1, "clip_high": 0.1}, len,
             lambda rows, x, x0, c: reference.gspo_token(rows, x, x0, 0.1, 0.1, c=c)),
    "cispo": ({}, tokens_of, lambda rows, x, x0, c: reference.cispo(rows, x, x0, 1.0, 4.0, c)),
}


@pytest.mark.parametrize("mode", ["token", "sequence", "mask"])
@pytest.mark.parametrize("name", CORRECTED)
@settings(max_examples=6)
@given(seed=SEEDS)
def test_every_loss_with_every_correction_of_the_sampler_agrees_with_the_loop(name, mode, seed):
    more, total, slow = CORRECTED[name]
    options = TrainConfig(loss=name.split()[0], tis=mode, tis_cap=1.3, tis_floor=0.7, **more)
    rows = random_rows(seed)
    flat = flatten(rows)
    factor, _ = sampler_correction(flat.old, flat.sampler, flat.mask, flat.row, mode, 1.3, 0.7)
    share = (row_share(flat.mask, flat.row, torch.float64) if options.reduction == "seq_mean"
             else torch.ones_like(flat.old))
    loss, _ = policy_loss(options, *flat.tokens, flat.row, total(rows), share * factor)
    weights = reference.correction(rows, mode, 1.3, 0.7)
    assert any(value != 1.0 for row in weights for value in row)
    agrees(loss, flat, slow(rows, logps(rows), logps(rows), weights), lambda x: slow(rows, x, logps(rows), weights))


def one_row(ratios, advantages):
    """A row whose tokens had probability 1/10 and now have the given ratios to it."""
    old = math.log(0.1)
    return flatten([Row([old + math.log(ratio) for ratio in ratios], [old] * len(ratios), advantages,
                        [old] * len(ratios), [old] * len(ratios))], garbage=())


def test_grpo_by_hand():
    # 1.5 with A > 0 is clipped at 1.2, with A < 0 it is not; 0.5 with A > 0 is not clipped, with A < 0 at 0.8
    flat = one_row([1.5, 1.5, 0.5, 0.5], [2.0, -2.0, 2.0, -2.0])
    loss, metrics = grpo_loss(*flat.tokens, 4.0)
    assert loss.item() == pytest.approx(-(2.4 - 3.0 + 1.0 - 1.6) / 4)
    assert gradient(loss, flat).tolist() == pytest.approx([0.0, 0.75, -0.25, 0.0])
    assert {name: metrics[name].item() for name in ("clipped", "clipped_low", "clipped_high")} == \
        {"clipped": 2, "clipped_low": 1, "clipped_high": 1}
    assert metrics["kl_old"].item() == pytest.approx(2 * (0.5 - math.log(1.5)) + 2 * (-0.5 + math.log(2)))


def test_dapo_lets_an_unlikely_right_token_grow_further_by_hand():
    flat = one_row([1.25, 1.5, 0.5], [1.0, 1.0, -1.0])
    loss, _ = dapo_loss(*flat.tokens, 3.0)
    assert loss.item() == pytest.approx(-(1.25 + 1.28 - 0.8) / 3)
    assert gradient(loss, flat).tolist() == pytest.approx([-1.25 / 3, 0.0, 0.0])


def test_dr_grpo_sums_tokens_by_hand():
    # rewards 1, 0, 0: A = 2/3, -1/3, -1/3 for answers of 1, 2 and 3 tokens, at r = 1
    flat = flatten([Row([-1.0] * size, [-1.0] * size, [advantage] * size, [-1.0] * size, [-1.0] * size)
                    for size, advantage in ((1, 2 / 3), (2, -1 / 3), (3, -1 / 3))])
    loss, _ = dr_grpo_loss(*flat.tokens, 3.0)
    assert loss.item() == pytest.approx(-(2 / 3 - 2 / 3 - 1) / 3)
    assert by_row(gradient(loss, flat), flat) == [pytest.approx([-2 / 9]), pytest.approx([1 / 9] * 2),
                                                  pytest.approx([1 / 9] * 3)]


def test_gspo_by_hand():
    # ratios 1.21 and 1: s = 1.1. The weights 1.2 and 0.8 share the gradient out, their mean leaves the value.
    flat = one_row([1.21, 1.0], [1.2, 0.8])
    half = torch.full((2,), 0.5, dtype=torch.float64)
    loss, metrics = gspo_loss(*flat.tokens, flat.row, 1.0, 0.2, 0.2, coefficient=half)
    assert loss.item() == pytest.approx(-1.1)
    assert gradient(loss, flat).tolist() == pytest.approx([-0.66, -0.44])
    assert metrics["clipped"].item() == 0
    # The paper's bounds: s = 1.1 is far beyond 1.0004, and the whole row is clipped, the token at r = 1 too.
    loss, metrics = gspo_loss(*flat.tokens, flat.row, 1.0, coefficient=half)
    assert loss.item() == pytest.approx(-1.0004)
    assert gradient(loss, flat).tolist() == [0.0, 0.0]
    assert (metrics["clipped"].item(), metrics["clipped_high"].item()) == (2, 2)


def test_cispo_by_hand():
    # r = 8 is bounded at 5 and keeps its gradient, 0.5 stays; log-probs are ln 0.8 and ln 0.05
    flat = one_row([8.0, 0.5], [2.0, -1.0])
    loss, metrics = cispo_loss(*flat.tokens, 2.0)
    assert loss.item() == pytest.approx(-(5 * 2 * math.log(0.8) - 0.5 * math.log(0.05)) / 2)
    assert gradient(loss, flat).tolist() == pytest.approx([-5.0, 0.25])
    assert (metrics["clipped"].item(), metrics["clipped_low"].item()) == (1, 0)


def test_dual_clip_bounds_a_likely_wrong_token_by_hand():
    flat = one_row([5.0, 2.0, 5.0, 0.5], [-1.0, -1.0, 1.0, -1.0])
    loss, metrics = grpo_loss(*flat.tokens, 1.0, dual_clip=3.0)
    assert loss.item() == pytest.approx(3 + 2 - 1.2 + 0.8)
    assert gradient(loss, flat).tolist() == pytest.approx([0.0, 2.0, 0.0, 0.0])
    assert {name: metrics[name].item() for name in ("clipped", "clipped_low", "clipped_high", "clipped_dual")} == \
        {"clipped": 3, "clipped_low": 1, "clipped_high": 1, "clipped_dual": 1}


def evaluate(options, rows, denominator, **changes):
    """Loss and gradient by row of `policy_loss`, as the update calls it."""
    flat = flatten(rows, **changes)
    share = (row_share(flat.mask, flat.row, torch.float64) if options.reduction == "seq_mean"
             else torch.ones_like(flat.old))
    loss, metrics = policy_loss(options, *flat.tokens, flat.row, denominator, share)
    return loss.item(), by_row(gradient(loss, flat), flat), metrics, gradient(loss, flat)[~flat.mask]


@every_loss
@settings(max_examples=20)
@given(seed=SEEDS)
def test_micro_batches_add_up_and_the_order_of_rows_does_not_matter(options, seed):
    rows = random_rows(seed)
    whole, gradients, metrics, _ = evaluate(options, rows, 7.0)
    parts = [evaluate(options, part, 7.0) for part in (rows[2:], rows[:1], rows[1:2])]
    assert whole == pytest.approx(sum(part[0] for part in parts), rel=1e-9, abs=1e-12)
    for own, part in zip(gradients, parts[1][1] + parts[2][1] + parts[0][1]):
        assert own == pytest.approx(part, rel=1e-9, abs=1e-12)
    for name, value in metrics.items():
        assert value.item() == pytest.approx(sum(part[2][name].item() for part in parts), rel=1e-9, abs=1e-12)


@every_loss
@settings(max_examples=20)
@given(seed=SEEDS)
def test_what_stands_outside_the_mask_changes_nothing_and_gets_no_gradient(options, seed):
    rows = random_rows(seed)
    bare, full = evaluate(options, rows, 7.0, garbage=()), evaluate(options, rows, 7.0)
    assert bare[0] == pytest.approx(full[0], rel=1e-12) and bare[1] == full[1]  # sums of other lengths round otherwise
    assert not full[3].any() and not full[3].isnan().any()


@every_loss
@settings(max_examples=20)
@given(seed=SEEDS)
def test_on_the_first_step_every_loss_is_the_plain_policy_gradient(options, seed):
    rows = [Row(row.old, row.old, row.advantage, row.ref, row.sampler) for row in random_rows(seed)]
    _, gradients, metrics, _ = evaluate(options, rows, 7.0)
    assert metrics["clipped"].item() == 0 and metrics["kl_old"].item() == 0
    for row, own in zip(rows, gradients):
        share = 1 / len(row.old) if options.reduction == "seq_mean" else 1
        assert own == pytest.approx([-value * share / 7 for value in row.advantage], rel=1e-9)


@every_loss
@settings(max_examples=20)
@given(seed=SEEDS, factor=st.floats(0.1, 3))
def test_a_coefficient_scales_a_tokens_term_and_a_zero_takes_the_token_out(options, seed, factor):
    flat = flatten(random_rows(seed))
    share = row_share(flat.mask, flat.row, torch.float64)
    factors = torch.tensor([factor, 0.0, 1.0, 1.0], dtype=torch.float64)[flat.row]
    loss = policy_loss(options, *flat.tokens, flat.row, 7.0, share)[0]
    scaled = policy_loss(options, *flat.tokens, flat.row, 7.0, share * factors)[0]
    torch.testing.assert_close(gradient(scaled, flat), gradient(loss, flat) * factors)


@settings(max_examples=20)
@given(SEEDS)
def test_gradient_equals_finite_differences_with_the_weight_held_constant(seed):
    flat = flatten(random_rows(seed))
    assert torch.autograd.gradcheck(
        lambda logp: grpo_loss(logp, flat.old, flat.advantage, flat.mask, 5.0, 0.2, 0.3, 3.0)[0], (flat.logp,))


@settings(max_examples=20)
@given(SEEDS)
def test_the_default_loss_is_bit_for_bit_the_textbook_line(seed):
    flat = flatten(random_rows(seed), garbage=())
    logp = flat.logp.detach().float().requires_grad_()
    old, advantage, mask = flat.old.float(), flat.advantage.float(), flat.mask
    ratio = (logp - old).exp()
    plain = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).sum() / 7.0
    loss, _ = policy_loss(TrainConfig(), logp, old, advantage, mask, flat.row, 7.0, torch.ones_like(old))
    assert torch.equal(loss, plain)
    assert torch.equal(*(torch.autograd.grad(value, logp)[0] for value in (loss, plain)))


def test_bounds_are_the_configs_or_the_losses_own():
    flat = one_row([1.25], [1.0])

    def value(**options):
        return -policy_loss(TrainConfig(**options), *flat.tokens, flat.row, 1.0)[0].item()

    assert value(loss="grpo") == pytest.approx(1.2)
    assert value(loss="grpo", clip_eps=0.1) == pytest.approx(1.1)
    assert value(loss="grpo", clip_eps=0.1, clip_high=0.15) == pytest.approx(1.15)
    assert value(loss="dapo") == pytest.approx(1.25)
    assert value(loss="dapo", clip_high=0.05) == pytest.approx(1.05)
    assert value(loss="gspo") == pytest.approx(1.0004)
    assert value(loss="gspo", clip_high=0.02) == pytest.approx(1.02)
    assert value(loss="cispo") == pytest.approx(1.25 * math.log(0.125))
    assert value(loss="cispo", clip_high=0.1) == pytest.approx(1.1 * math.log(0.125))
    with pytest.raises(ValueError, match="no such loss"):
        value(loss="ppo")
