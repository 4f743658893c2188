"""On-policy distillation and SDPO: by hand, against loops, finite differences, and their policy-gradient form."""

from math import exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.train.losses import (
    distillation_loss,
    grpo_loss,
    sdpo_advantage,
    sdpo_loss,
    topk_distillation_loss,
    topk_sdpo_loss,
)
from serl.train.losses.divergence import with_tail

SEEDS = st.integers(0, 10_000)
NAN, INF = float("nan"), float("inf")


def logits(seed, tokens=3, vocabulary=6):
    generator = torch.Generator().manual_seed(seed)
    student, teacher = (2 * torch.randn(tokens, vocabulary, generator=generator, dtype=torch.float64) for _ in range(2))
    return student.requires_grad_(), teacher.requires_grad_()


def softmax(row):
    total = sum(exp(value) for value in row)
    return [exp(value) / total for value in row]


def kl(first, second):
    return sum(p * log(p / q) for p, q in zip(first, second) if p > 0)


def slow(form, student, teacher):
    if form == "forward":
        return kl(teacher, student)
    if form == "reverse":
        return kl(student, teacher)
    middle = [(p + q) / 2 for p, q in zip(student, teacher)]
    return (kl(teacher, middle) + kl(student, middle)) / 2


FORMS = {"forward": (distillation_loss, topk_distillation_loss, {}), "reverse": (sdpo_loss, topk_sdpo_loss, {}),
         "symmetric": (sdpo_loss, topk_sdpo_loss, {"symmetric": True})}
every_form = pytest.mark.parametrize("form", FORMS)
MASK = torch.tensor([True, False, True])


@every_form
@settings(max_examples=6)
@given(seed=SEEDS)
def test_full_vocabulary_agrees_with_the_loop_and_finite_differences(form, seed):
    loss_of, _, more = FORMS[form]
    student, teacher = logits(seed)
    loss, metrics = loss_of(student, teacher, MASK, 5.0, **more)
    rows = [slow(form, softmax(student[i].tolist()), softmax(teacher[i].tolist())) for i in (0, 2)]
    assert loss.item() == pytest.approx(sum(rows) / 5, rel=1e-9)
    assert next(iter(metrics.values())).item() == pytest.approx(sum(rows))
    assert torch.autograd.gradcheck(lambda x: loss_of(x, teacher.detach(), MASK, 5.0, **more)[0], (student,))
    loss.backward()
    assert teacher.grad is None


@every_form
@settings(max_examples=6)
@given(seed=SEEDS, k=st.integers(1, 5))
def test_top_k_agrees_with_the_loop_over_buckets_and_bounds_the_full_divergence_from_below(form, seed, k):
    loss_of, topk_of, more = FORMS[form]
    student, teacher = logits(seed)
    places = (teacher if form == "forward" else student).topk(k).indices
    short = [values.log_softmax(-1).gather(-1, places) for values in (student, teacher)]
    loss, _ = topk_of(*short, MASK, 5.0, **more)
    total = 0.0
    for i in (0, 2):
        buckets = [[*map(exp, values[i].tolist()), 1 - sum(map(exp, values[i].tolist()))] for values in short]
        total += slow(form, *buckets)
    assert loss.item() == pytest.approx(total / 5, rel=1e-7, abs=1e-12)
    assert loss.item() <= loss_of(student, teacher, MASK, 5.0, **more)[0].item() + 1e-12
    fixed = short[1].detach()
    assert torch.autograd.gradcheck(
        lambda x: topk_of(x.log_softmax(-1).gather(-1, places), fixed, MASK, 5.0, **more)[0], (student,))


@every_form
@settings(max_examples=20)
@given(seed=SEEDS)
def test_top_k_of_everything_but_one_token_is_the_full_divergence(form, seed):
    loss_of, topk_of, more = FORMS[form]
    student, teacher = logits(seed)
    places = torch.arange(5).expand(3, 5)
    short = [values.log_softmax(-1).gather(-1, places) for values in (student, teacher)]
    assert topk_of(*short, MASK, 1.0, **more)[0].item() == pytest.approx(
        loss_of(student, teacher, MASK, 1.0, **more)[0].item(), rel=1e-9)


@every_form
def test_k_tokens_that_hold_everything_leave_a_finite_loss_without_a_tail(form):
    _, topk_of, more = FORMS[form]
    student = torch.tensor([[0.25, 0.75]]).log().requires_grad_()
    teacher = torch.tensor([[0.5, 0.5]]).log()
    loss, _ = topk_of(student, teacher, torch.tensor([True]), 1.0, **more)
    assert loss.item() == pytest.approx(slow(form, [0.25, 0.75], [0.5, 0.5]), abs=1e-5)
    loss.backward()
    assert student.grad.isfinite().all()


@every_form
def test_rows_outside_the_mask_may_hold_anything_and_get_no_gradient(form):
    for loss_of in FORMS[form][:2]:
        student = torch.tensor([[-1.0, -2.0], [NAN, -INF]], requires_grad=True)
        teacher = torch.tensor([[-2.0, -1.0], [INF, NAN]])
        loss, _ = loss_of(student, teacher, torch.tensor([True, False]), 1.0, **FORMS[form][2])
        loss.backward()
        assert loss.isfinite() and student.grad.isfinite().all() and not student.grad[1].any()


@every_form
def test_a_token_that_neither_can_say_changes_nothing(form):
    loss_of, _, more = FORMS[form]
    student = torch.tensor([[0.3, -INF, -0.4]], requires_grad=True)
    teacher = torch.tensor([[-0.2, -INF, 0.1]])
    loss, _ = loss_of(student, teacher, torch.tensor([True]), 1.0, **more)
    short, _ = loss_of(student[:, ::2], teacher[:, ::2], torch.tensor([True]), 1.0, **more)
    loss.backward()
    assert loss.item() == pytest.approx(short.item()) and student.grad.isfinite().all()


@every_form
def test_micro_batches_add_up(form):
    loss_of, _, more = FORMS[form]
    student, teacher = logits(3)
    whole = loss_of(student, teacher, MASK, 5.0, **more)[0]
    parts = [loss_of(student[part], teacher[part], MASK[part], 5.0, **more)[0] for part in (slice(2), slice(2, 3))]
    assert whole.item() == pytest.approx(sum(part.item() for part in parts))


def test_distillation_by_hand():
    student = torch.tensor([[1.0, 3.0]]).log().requires_grad_()  # 1/4, 3/4 after the softmax
    teacher = torch.zeros(1, 2)  # 1/2, 1/2
    loss, _ = distillation_loss(student, teacher, torch.tensor([True]), 2.0)
    assert loss.item() == pytest.approx(0.5 * log(4 / 3) / 2)  # ½ ln 2 + ½ ln ⅔
    loss.backward()
    assert student.grad.tolist()[0] == pytest.approx([-0.125, 0.125])  # (S − T) / Z


def test_sdpo_by_hand():
    student = torch.tensor([[1.0, 3.0]]).log().requires_grad_()
    teacher = torch.zeros(1, 2)
    loss, _ = sdpo_loss(student, teacher, torch.tensor([True]), 1.0)
    divergence = 0.25 * log(0.5) + 0.75 * log(1.5)
    assert loss.item() == pytest.approx(divergence)
    loss.backward()
    assert student.grad.tolist()[0] == pytest.approx([0.25 * (log(0.5) - divergence), 0.75 * (log(1.5) - divergence)])


def test_with_tail_by_hand():
    assert with_tail(torch.tensor([[0.5, 0.2]]).log()).exp()[0].tolist() == pytest.approx([0.5, 0.2, 0.3])


@settings(max_examples=20)
@given(SEEDS)
def test_the_sampled_tokens_advantage_gives_sdpos_gradient_on_average(seed):
    student, teacher = logits(seed, tokens=1)
    mask = torch.tensor([True])
    (exact,) = torch.autograd.grad(sdpo_loss(student, teacher, mask, 1.0)[0], student)
    log_student, log_teacher = student.log_softmax(-1), teacher.log_softmax(-1)
    mean = torch.zeros_like(exact)
    for token in range(student.shape[1]):  # every token that could have been sampled, by its probability
        logp = log_student[:, token]
        advantage = sdpo_advantage(logp, log_teacher[:, token], mask)
        loss, _ = grpo_loss(logp, logp, advantage, mask, 1.0)
        (grad,) = torch.autograd.grad(loss, student, retain_graph=True)
        mean += logp.exp().item() * grad
    torch.testing.assert_close(mean, exact)


def test_the_sampled_tokens_advantage_by_hand():
    advantage = sdpo_advantage(torch.tensor([-2.0, NAN], requires_grad=True), torch.tensor([-0.5, INF]),
                               torch.tensor([True, False]))
    assert advantage.tolist() == [1.5, 0.0] and not advantage.requires_grad
