"""16-bit weights with float32 masters: steps that bfloat16 would lose, worked out by hand, and a float32 twin."""

import copy

import pytest
import torch
from torch.func import functional_call

from serl.config import LoraConfig, TeacherConfig
from serl.hindsight.teacher import Teacher
from serl.lora import add
from serl.train.engine import TorchEngine, constant_with_warmup
from tests.models import tiny_model

IDS = torch.tensor([[5, 9, 30, 7, 12, 40], [5, 9, 31, 8, 2, 3]])


class One(torch.nn.Module):
    """A single weight w = 1."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(1, dtype=dtype))


def engine_of(model, lr: float, decay: float = 0.0, clip: float = 1e9) -> TorchEngine:
    return TorchEngine(model, lr, decay, clip, constant_with_warmup(0))


def test_small_steps_add_up():
    """A constant gradient moves AdamW by lr a step. Below 1, bfloat16 knows multiples of 1/256 = 0.00390625."""
    model = One(torch.bfloat16)
    engine = engine_of(model, 1e-3)
    seen = []
    for _ in range(8):
        engine.zero_grad()
        engine.backward(model.w.sum())
        engine.step()
        seen.append(model.w.item())
    # θ = 0.999, 0.998, ..., 0.992; each step alone is less than the half of 1/256 that would round away from 1
    assert seen == [k / 256 for k in (256, 255, 255, 255, 255, 254, 254, 254)]
    assert engine.masters.parameters[0].item() == pytest.approx(0.992, abs=1e-6)


def test_gradients_of_micro_batches_are_added_up_in_float32():
    """In bfloat16, 256 + 1 is 256."""
    model = One(torch.bfloat16)
    engine = engine_of(model, 1e-3)
    engine.zero_grad()
    for gradient in (256.0, 1.0, 1.0, 1.0):
        engine.backward((gradient * model.w).sum())
        assert model.w.grad is None, "its memory is free again"
    assert engine.step() == 259.0
    engine.zero_grad()
    engine.backward(model.w.sum())
    assert engine.step() == 1.0


@pytest.mark.parametrize("tied", [True, False])
def test_training_equals_a_float32_engine_whose_forward_is_rounded_bit_for_bit(tied):
    model = tiny_model(64, dtype=torch.bfloat16, tied=tied)
    wide = copy.deepcopy(model).float()

    class Rounded(torch.nn.Module):
        """The same weights in float32, rounded as they are used."""

        def __init__(self) -> None:
            super().__init__()
            self.wide = wide

        def forward(self, input_ids):
            return functional_call(model, {name: weight.bfloat16() for name, weight in wide.named_parameters()},
                                   (input_ids,), tie_weights=True)

    engines = engine_of(model, 1e-3, 0.1, 1.0), engine_of(Rounded(), 1e-3, 0.1, 1.0)
    for step in range(4):
        norms = []
        for engine in engines:
            engine.zero_grad()
            for ids in IDS.roll(step, 1).split(1):
                logits = engine.model(input_ids=ids).logits
                engine.backward(torch.nn.functional.cross_entropy(logits[0, :-1].float(), ids[0, 1:]))
            norms.append(engine.step())
        assert norms[0] == norms[1] > 0
        for master, (name, weight) in zip(engines[0].masters.parameters, wide.named_parameters(), strict=True):
            assert torch.equal(master, weight), name
            assert torch.equal(model.get_parameter(name), weight.bfloat16()), name


def test_float32_weights_and_adapters_are_their_own_masters():
    adapted = tiny_model(64, dtype=torch.bfloat16)
    add(adapted, LoraConfig(rank=2), "somewhere", seed=0)
    for name, weight in adapted.named_parameters():
        if ".lora_" in name:
            weight.data = weight.data.float()
    for model in (tiny_model(64), adapted):
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        engine = engine_of(model, 1e-3)
        assert all(own is weight for own, weight in zip(engine.masters.parameters, trained, strict=True))
        assert engine.state_dict()["masters"] == {}


def test_a_state_of_a_float32_run_is_not_taken_for_one_of_masters():
    engine = engine_of(One(torch.bfloat16), 1e-3)
    state = engine_of(One(torch.float32), 1e-3).state_dict()
    with pytest.raises(ValueError, match="a state of 0 master weights for a model with 1"):
        engine.load_state_dict(state)
    del state["masters"]  # as checkpoints of before there were masters
    engine_of(One(torch.float32), 1e-3).load_state_dict(state)


def test_a_teacher_that_is_a_mean_of_16_bit_weights_follows_in_float32():
    """θ_T ← 0.99 θ_T + 0.01 · 0: from 1 it falls by 1%, less than bfloat16 can tell soon after."""
    student = One(torch.bfloat16)
    teacher = Teacher(student, TeacherConfig("ema", decay=0.99))
    with torch.no_grad():
        student.w.zero_()
    expected = 1.0
    for update in range(1, 101):
        teacher.after_update(student, update)
        expected *= 0.99
    assert expected == pytest.approx(0.366, abs=1e-3)
    assert teacher.model.w.item() == pytest.approx(expected, rel=2**-8)
    again = Teacher(student, TeacherConfig("ema", decay=0.99))
    again.load_state_dict(teacher.state_dict())
    for each in (teacher, again):
        each.after_update(student, 101)
    assert torch.equal(teacher.model.w, again.model.w)
    assert torch.equal(teacher.state_dict()["weights"]["w"], again.state_dict()["weights"]["w"])
    assert again.state_dict()["weights"]["w"].item() == pytest.approx(0.99 * expected, rel=1e-6)
