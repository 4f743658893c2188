"""Ranks of a DeepSpeed engine with parts of a batch take the steps of one process with all of it."""

import pytest
import torch

from tests.train.deepspeed.cases import LR, Case, Learner, batch, learn
from tests.train.test_update import LOSSES

pytestmark = [pytest.mark.engine, pytest.mark.deepspeed, pytest.mark.timeout(900)]

EMPTY = ((0, 1, 2, 3), ())
CASES = {
    "zero 1": Case(1),
    "zero 2": Case(2),
    "zero 3": Case(3),
    "zero 1, plain": Case(1, share=False, tied=False),
    "zero 2, untied, an empty rank": Case(2, tied=False, parts=EMPTY),
    "zero 3, plain, an empty rank": Case(3, share=False, parts=EMPTY),
    "zero 3, untied, a rank without a gradient": Case(3, tied=False, parts=((3,), (0, 1, 2))),
    "zero 2, checkpointing": Case(2, checkpointing=True),
    "zero 3, checkpointing": Case(3, checkpointing=True),
    "zero 1, adapters": Case(1, rank=4),
    "zero 2, adapters, an empty rank": Case(2, rank=4, parts=EMPTY),
    "zero 3, adapters": Case(3, rank=4),
    "zero 2, offloaded": Case(2, offload="optimizer"),
    "zero 3, offloaded": Case(3, offload="optimizer"),
    "zero 3, weights offloaded": Case(3, offload="parameters"),
}
FAMILIES = [{"loss": loss, "reduction": reduction} for loss, reduction in LOSSES.items() if loss != "grpo"]
FAMILIES += [{"reduction": "seq_mean", "kl_beta": 0.1}, {"loss": "distillation"},
             {"loss": "sdpo", "distill_over": "topk", "sdpo_symmetric": True}]


def check(run, case: Case) -> None:
    expected, weights = learn(None, case)
    found = run(learn, case)
    for step, whole in enumerate(expected):
        parts = [metrics[step] for metrics, _ in found]
        assert whole["grad_norm"] > 0
        for part in parts:
            assert part["grad_norm"] == pytest.approx(whole["grad_norm"], rel=1e-4)
            assert part["lr"] == whole["lr"]
            assert part["loss"] == pytest.approx(whole["loss"], rel=1e-4, abs=1e-6)
    for _, theirs in found:
        assert theirs.keys() == weights.keys()
        for name, weight in weights.items():
            torch.testing.assert_close(theirs[name], weight, rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_ranks_with_parts_of_a_batch_take_the_steps_of_one_process(run, case):
    check(run, case)


@pytest.mark.parametrize("options", FAMILIES, ids=lambda options: " ".join(map(str, options.values())))
def test_so_they_do_with_every_loss(run, options):
    check(run, Case(3, steps=1, train=options))


def masters(ranks, case: Case) -> tuple[str, torch.Tensor, torch.Tensor]:
    """dtype of the weights, and where the masters began and ended."""
    learner = Learner(case, ranks)
    before = torch.cat([value.flatten().clone() for value in learner.engine.state_dict()["masters"]])
    for _ in range(case.steps):
        learner.step([batch()[place] for place in case.parts[ranks.rank]])
    after = torch.cat([value.flatten() for value in learner.engine.state_dict()["masters"]])
    return str(learner.model.dtype), before, after


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_bfloat16_weights_are_trained_by_float32_masters(run, zero):
    wide = run(masters, Case(zero))
    for (dtype, before, after), (_, start, end) in zip(run(masters, Case(zero, dtype="bfloat16")), wide):
        assert dtype == "torch.bfloat16" and before.dtype == after.dtype == torch.float32
        assert torch.equal(before, before.bfloat16().float()), "they begin as the weights"
        assert not torch.equal(after, after.bfloat16().float()), "and keep what 16 bits would round away"
        step, other = after - before, end - start
        assert torch.nn.functional.cosine_similarity(step, other, dim=0) > 0.9
        assert step.norm().item() == pytest.approx(other.norm().item(), rel=0.1)
        assert step.abs().max() < 4 * LR  # of three steps, with decay
