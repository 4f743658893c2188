"""Imitating the teacher: value and gradients against slow float64 loops, masks, chunks, micro-batches, its update."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from serl.config import Config, HindsightConfig, TrainConfig
from serl.errors import InputError
from serl.hindsight.branches import Branch
from serl.hindsight.context import Hindsight
from serl.reward.panel import Reward
from serl.train import distill as module
from serl.train import states
from serl.train.distill import distill, micro_distill, pupils_of
from serl.train.engine import TorchEngine
from serl.train.samples import Sample
from serl.train.scoring import Tail
from tests.models import tiny_model, tiny_tokenizer
from tests.train.imitation import WAYS, slow
from tests.train.made import made_trajectory

PROMPT = [11, 12, 13, 14, 15]
ACTIONS = [([21, 22, 23, 24], [31, 32], [25, 26, 27]), ([41, 42, 43], [33], [44, 45, 46, 47, 48]),
           ([51, 52, 53, 54, 55, 56], [34, 35, 36], [57, 58, 59])]
every_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def encode(tokenizer):
    return lambda text: tokenizer.encode(text, add_special_tokens=False)


@pytest.fixture
def double(monkeypatch):
    """RMSNorm computes in float32 whatever the model's precision: for finite differences it must not."""
    from transformers.models.qwen3 import modeling_qwen3

    def forward(self, hidden):
        return self.weight * hidden * (hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()

    monkeypatch.setattr(modeling_qwen3.Qwen3RMSNorm, "forward", forward)


def models(tokenizer, dtype=torch.float64):
    return tiny_model(len(tokenizer), seed=0, dtype=dtype), tiny_model(len(tokenizer), seed=1, dtype=dtype)


def make_samples() -> list[Sample]:
    return [Sample.of(made_trajectory(PROMPT, *actions), Reward(0.0, {}, False), 0.0) for actions in ACTIONS]


def config_of(way: str = "full", mask: str = "action", share: bool = False, **train) -> Config:
    config = Config(train=TrainConfig(**WAYS[way], **train), hindsight=HindsightConfig(mask=mask))
    return replace(config, rollout=replace(config.rollout, temperature=0.8),
                   model=replace(config.model, shared_prefix=share))


def loss_of(student, teacher, samples, encode, config, total=7.0, size=3):
    pupils = list(pupils_of(samples, encode, config)[0].values())
    parts = [micro_distill(student, teacher, pupils[start: start + size], config, total)
             for start in range(0, len(pupils), size)]
    return sum(part[0] for part in parts), sum(part[1].item() for part in parts), [s for part in parts for s in part[2]]


def grads(student, loss) -> dict[str, torch.Tensor]:
    student.zero_grad()
    loss.backward()
    return {name: weight.grad.clone() for name, weight in student.named_parameters()}


@every_way
def test_value_agrees_with_a_forward_a_token_and_loops_over_the_vocabulary(way, tokenizer, encode):
    student, teacher = models(tokenizer)
    config, samples = config_of(way), make_samples()
    loss, divergence, _ = loss_of(student, teacher, samples, encode, config)
    expected = slow(way, student, teacher, samples, encode, config)
    assert divergence == pytest.approx(expected, rel=1e-5)
    if way != "sampled":  # whose value is no objective: its gradient is the policy gradient's
        assert loss.item() == pytest.approx(expected / 7, rel=1e-5)


@pytest.mark.usefixtures("double")
@every_way
def test_gradient_agrees_with_finite_differences_along_random_directions(way, tokenizer, encode):
    student, teacher = models(tokenizer)
    config, samples = config_of(way), make_samples()
    if way == "sampled":  # the advantage is held constant: the gradient is that of Σ A ln π of the sampled tokens
        fixed, _, scored = loss_of(student, teacher, samples, encode, config)
        advantage = [(sample.teacher - sample.student).double() for sample in scored]

    def value() -> float:
        with torch.no_grad():
            loss, _, now = loss_of(student, teacher, samples, encode, config)
        if way != "sampled":
            return loss.item()
        tails = [sample.tail for sample in samples]
        total = 0.0
        for sample, hidden, gain in zip(now, states.states(student, tails, share=False), advantage):
            logp = (student.lm_head(hidden) / 0.8).log_softmax(-1)
            sampled = torch.tensor(sample.trajectory.loss_mask, dtype=torch.bool)
            picked = logp.gather(-1, torch.tensor(sample.trajectory.token_ids)[sampled, None])[:, 0]
            total -= (gain[sampled] * picked).nansum().item() / 7
        return total

    found = grads(student, loss_of(student, teacher, samples, encode, config)[0])
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        direction = {name: torch.randn(grad.shape, generator=generator, dtype=grad.dtype)
                     for name, grad in found.items()}
        sides = []
        for step in (1e-5, -2e-5):
            with torch.no_grad():
                for name, weight in student.named_parameters():
                    weight += step * direction[name]
            sides.append(value())
        with torch.no_grad():
            for name, weight in student.named_parameters():
                weight += 1e-5 * direction[name]
        slope = sum((direction[name] * grad).sum().item() for name, grad in found.items())
        assert (sides[0] - sides[1]) / 2e-5 == pytest.approx(slope, rel=1e-4, abs=1e-7)


@every_way
def test_shared_prompts_chunks_and_micro_batches_change_nothing(way, tokenizer, encode, monkeypatch):
    student, teacher = models(tokenizer)
    loss, divergence, _ = loss_of(student, teacher, make_samples(), encode, config_of(way))
    plain = grads(student, loss)
    monkeypatch.setattr(module, "CHUNK", 2)
    for share, size in ((True, 3), (True, 1), (False, 2)):
        config, samples = config_of(way, share=share), make_samples()[::-1]
        other, apart, _ = loss_of(student, teacher, samples, encode, config, size=size)
        assert other.item() == pytest.approx(loss.item(), rel=1e-5) and apart == pytest.approx(divergence, rel=1e-5)
        for name, grad in grads(student, other).items():
            torch.testing.assert_close(grad, plain[name], rtol=1e-4, atol=1e-5 * plain[name].abs().max().item())
    assert all(weight.grad is None for weight in teacher.parameters())


def test_a_teacher_that_sees_what_the_student_sees_leaves_nothing_to_learn(tokenizer, encode, monkeypatch):
    student, _ = models(tokenizer)
    def plain_branches(samples, chosen, *_):
        made = [Branch(i, number, turn, Hindsight(())) for i in chosen
                for number, turn in enumerate(samples[i].trajectory.turns)]
        return made, [Tail(samples[each.index].trajectory.token_ids[: each.turn.action[1]], each.turn.action[0], 1)
                      for each in made], 0

    monkeypatch.setattr(module, "teacher_branches", plain_branches)
    for way in ("full", "sdpo", "symmetric"):
        loss, _, _ = loss_of(student, student, make_samples(), encode, config_of(way))
        assert abs(loss.item()) < 1e-12
        assert all(grad.abs().max() < 1e-10 for grad in grads(student, loss).values())


@pytest.mark.parametrize("mask", ["action", "final_only", "all"])
def test_only_tokens_in_the_mask_with_hindsight_are_imitated(mask, tokenizer, encode):
    student, teacher = models(tokenizer, torch.float32)
    samples = make_samples()
    samples[1].trajectory.turns[0].outcome = None  # no SQL ran: nothing to tell the teacher
    _, _, scored = loss_of(student, teacher, samples, encode, config_of(mask=mask))
    for number, sample in enumerate(scored):
        turns = [turn for turn in sample.trajectory.turns if turn.outcome is not None]
        inside = torch.zeros(len(sample.trajectory), dtype=torch.bool)
        for start, end in [turn.action if mask == "all" else turn.sql for turn in turns][mask == "final_only"
                                                                                        and number != 1:]:
            inside[start:end] = True
        assert torch.equal(sample.hindsight_mask, inside)
        assert torch.equal(sample.teacher.isfinite(), inside) and torch.equal(sample.student.isfinite(), inside)


class Largest(TorchDispatchMode):
    """The most rows that any tensor over the vocabulary had, but for the head's weights and their gradient."""

    def __init__(self, head: torch.nn.Linear) -> None:
        super().__init__()
        self.vocabulary, self.width, self.rows = head.out_features, head.in_features, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.shape[-1:] == (self.vocabulary,) and out.shape[0] != self.width:
            self.rows = max(self.rows, out.numel() // self.vocabulary)
        return out


@every_way
def test_no_more_than_a_chunk_of_distributions_ever_exists(way, tokenizer, encode, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 2)
    student, teacher = models(tokenizer, torch.float32)
    with Largest(student.lm_head) as largest:
        loss, _, scored = loss_of(student, teacher, make_samples(), encode, config_of(way))
        loss.backward()
    assert largest.rows == 2 < sum(sample.hindsight_mask.sum() for sample in scored)


def test_an_update_learns_from_every_scored_trajectory_whatever_its_reward(tokenizer, encode):
    student, teacher = models(tokenizer, torch.float32)
    engine = TorchEngine(student, 3e-3, 0.0, 1.0, lambda step: 1.0)
    samples = make_samples()
    samples[2] = replace(samples[2], reward=None)
    config, seen = config_of(), []
    for _ in range(12):
        metrics, after = distill(engine, teacher, samples, encode, config)
        seen.append(metrics["distill/divergence"])
    assert seen[-1] < 0.5 * seen[0]
    loss_tokens = sum(sample.trajectory.loss_tokens for sample in samples[:2])
    imitated = sum(sum(sample.trajectory.action_mask) for sample in samples[:2])
    assert metrics["distill/coverage"] == pytest.approx(imitated / loss_tokens)
    assert metrics["loss"] == pytest.approx(metrics["distill/divergence"] * imitated / loss_tokens, rel=1e-4)
    assert after[2] is samples[2], "what could not be scored is left alone"


def test_z_is_the_batchs_whatever_the_micro_batch(tokenizer, encode):
    norms = {}
    for reduction in ("token_mean", "seq_sum"):
        for micro_tokens in (1, 10_000):
            student, teacher = models(tokenizer, torch.float32)
            engine = TorchEngine(student, 0.0, 0.0, 1e9, lambda step: 1.0)
            config = config_of(reduction=reduction, micro_tokens=micro_tokens, share=True)
            norms[reduction, micro_tokens] = distill(engine, teacher, make_samples(), encode, config)[0]["grad_norm"]
    assert norms["token_mean", 1] == pytest.approx(norms["token_mean", 10_000], rel=1e-4)
    tokens = sum(sample.trajectory.loss_tokens for sample in make_samples())
    assert norms["seq_sum", 1] == pytest.approx(norms["token_mean", 1] * tokens / 3, rel=1e-4)


def test_a_batch_without_hindsight_leaves_the_weights_and_the_modes_alone(tokenizer, encode):
    student, _ = models(tokenizer, torch.float32)
    before = {name: weight.clone() for name, weight in student.named_parameters()}
    engine = TorchEngine(student, 1.0, 0.1, 1.0, lambda step: 1.0 / (1 + step))
    samples = make_samples()
    for sample in samples:
        for turn in sample.trajectory.turns:
            turn.outcome = None
    metrics, after = distill(engine, student, samples, encode, config_of())
    assert metrics["loss"] == metrics["grad_norm"] == metrics["distill/coverage"] == 0 and after == samples
    assert all(torch.equal(weight, before[name]) for name, weight in student.named_parameters())
    assert engine.lr == 1.0, "it was no step of the schedule either"


def test_dropout_plays_no_part_in_an_update(tokenizer, encode):
    student, teacher = models(tokenizer, torch.float32)
    config = config_of()

    def divergence() -> float:
        engine = TorchEngine(student, 0.0, 0.0, 1.0, lambda step: 1.0)
        return distill(engine, teacher, make_samples(), encode, config)[0]["distill/divergence"]

    without = divergence()
    for layer in student.model.layers:
        layer.self_attn.attention_dropout = 0.5
    assert divergence() == without > 0


def test_turns_without_room_for_hindsight_are_counted_and_left_out(tokenizer, encode):
    config, samples = config_of(), make_samples()

    def views(config: Config) -> tuple[list[int], int]:
        pupils, skipped = pupils_of(samples, encode, config)
        return sorted(len(tail.ids) for pupil in pupils.values() for _, tail in pupil.views), skipped

    lengths, none = views(config)
    kept, skipped = views(replace(config, model=replace(config.model, max_length=lengths[2])))
    assert none == 0
    assert (len(lengths), kept, skipped) == (6, [n for n in lengths if n <= lengths[2]], 6 - len(kept))
    assert skipped > 0


def test_a_model_that_changes_its_logits_after_the_head_is_refused(tokenizer):
    states.check(tiny_model(64))
    model = tiny_model(64)
    forward = model.forward

    def scaled(*args, **kwargs):
        out = forward(*args, **kwargs)
        out.logits = out.logits / 2
        return out

    model.forward = scaled
    with pytest.raises(InputError, match="train.loss distillation and sdpo need that"):
        states.check(model)
