"""A run that is cut anywhere goes on bit for bit, for every way of the teacher, of all weights and of adapters."""

import pytest
import torch

from serl import lora
from serl import model as models
from serl.config import Config, HindsightConfig, LoraConfig, ModelConfig, TeacherConfig, TrainConfig
from serl.hindsight.schedule import lambda_at
from serl.hindsight.teacher import Teacher
from serl.reward.panel import Reward
from serl.train import checkpoint
from serl.train.engine import TorchEngine, constant_with_warmup
from serl.train.samples import Sample, add_reference, add_teacher
from serl.train.update import update
from tests.models import tiny_model, tiny_tokenizer
from tests.train.made import made_trajectory

STEPS, CUT = 6, 3  # cut between two synchronizations
TEACHERS = {mode: TeacherConfig(mode, sync_every=2, decay=0.6) for mode in ("periodic", "ema", "frozen", "live")}


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def samples_of(step: int) -> list[Sample]:
    draw = torch.Generator().manual_seed(step)

    def ids(count: int) -> list[int]:
        return torch.randint(10, 200, (count,), generator=draw).tolist()

    return [Sample.of(made_trajectory([11, 12, 13], ids(5), ids(2), ids(4 + row)), Reward(1.0, {}, True), advantage)
            for row, advantage in enumerate((1.0, -0.5, -0.5))]


class Run:
    """What `Trainer` keeps of a run, around a tiny model."""

    def __init__(self, model, tokenizer, config: Config) -> None:
        self.model, self.tokenizer, self.config = model, tokenizer, config
        self.teacher = Teacher(model, config.hindsight.teacher)
        self.reference = models.Snapshot(model)
        self.engine = TorchEngine(model, 1e-3, 0.1, 1.0, constant_with_warmup(4))

    def go(self, steps: range) -> list[dict[str, float]]:
        rows = []
        for step in steps:
            lam = lambda_at(step, self.config.hindsight, STEPS)
            samples, _ = add_teacher(self.teacher.model, samples_of(step), self._encode, lam, self.config)
            samples = add_reference(self.reference.model, samples, self.config)
            metrics, samples = update(self.engine, samples, lam, self.config)
            self.teacher.after_update(self.model, step + 1)
            rows.append(metrics | {"lag": self.teacher.updates_behind,
                                   "weights": sum(sample.weight.sum().item() for sample in samples)})
        return rows

    def save(self, folder, step: int):
        state = {"engine": self.engine.state_dict(), "teacher": self.teacher.state_dict(),
                 "reference": self.reference.state_dict()}
        return checkpoint.save(folder, step, self.model, self.tokenizer, state, keep=1)

    def restore(self, state: dict) -> None:
        for name in ("engine", "teacher", "reference"):
            getattr(self, name).load_state_dict(state[name])

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("rank, dtype", [(0, "float32"), (4, "float32"), (0, "bfloat16"), (4, "bfloat16")])
@pytest.mark.parametrize("mode", TEACHERS)
def test_a_resumed_run_repeats_an_uninterrupted_one_bit_for_bit(mode, rank, dtype, tokenizer, tmp_path):
    config = Config(hindsight=HindsightConfig(teacher=TEACHERS[mode], decay_updates=8), train=TrainConfig(kl_beta=0.05),
                    model=ModelConfig(lora=LoraConfig(rank=rank)))
    checkpoint.save_model(tmp_path / "base", tiny_model(len(tokenizer)), tokenizer)

    def start(path) -> Run:
        return Run(*models.load(str(path), dtype, config.model.lora), config)

    whole = start(tmp_path / "base")
    expected = whole.go(range(STEPS))
    cut = start(tmp_path / "base")
    before = cut.go(range(CUT))
    folder = cut.save(tmp_path / "checkpoints", CUT)
    assert lora.is_adapter(folder) == (rank > 0)
    again = start(folder)
    again.restore(checkpoint.load_state(folder))
    assert before + again.go(range(CUT, STEPS)) == expected
    for one, other in ((whole.model, again.model), (whole.teacher.model, again.teacher.model),
                       (whole.reference.model, again.reference.model)):
        for name, value in one.state_dict().items():
            assert torch.equal(value, other.state_dict()[name]), name
    for one, other in zip(whole.engine.masters.parameters, again.engine.masters.parameters, strict=True):
        assert one.dtype == torch.float32 and torch.equal(one, other)
    lags = {"periodic": [1, 0, 1, 0, 1, 0], "live": [0] * 6, "frozen": [1, 2, 3, 4, 5, 6],
            "ema": [1.5 * (1 - 0.6 ** update) for update in range(1, 7)]}[mode]
    assert [row["lag"] for row in expected] == pytest.approx(lags)
    assert len({row["kl"] for row in expected}) == STEPS and expected[-1]["kl"] > 0, "the policy left its reference"


def test_a_live_teacher_follows_while_the_reference_stays(tokenizer):
    """`live` is the student itself; the KL reference never is, and never moves."""
    model = tiny_model(len(tokenizer))
    run = Run(model, tokenizer, Config(hindsight=HindsightConfig(teacher=TEACHERS["live"]),
                                       train=TrainConfig(kl_beta=0.05)))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    run.go(range(2))
    assert run.teacher.model is model and run.reference.model is not model
    for name, value in run.reference.model.state_dict().items():
        assert torch.equal(value, before[name])
    assert any(not torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_state_of_another_kind_of_run_is_not_taken_over(tokenizer):
    state = models.Snapshot(tiny_model(len(tokenizer))).state_dict()
    adapted = tiny_model(len(tokenizer))
    lora.add(adapted, LoraConfig(rank=2), "somewhere", 0)
    with pytest.raises(ValueError, match="for a snapshot of"):
        models.Snapshot(adapted).load_state_dict(state)
