"""Some updates of a tiny policy: by one process with all samples, or by ranks that have parts of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from serl import lora
from serl import model as models
from serl.config import Config, EngineConfig, HindsightConfig, LoraConfig, ModelConfig, TrainConfig
from serl.model import Snapshot
from serl.partition import whole_state
from serl.recompute import recompute_layers
from serl.train.deepspeed import DeepSpeedEngine
from serl.train.distill import distill
from serl.train.engine import TorchEngine, linear_decay
from serl.train.samples import Sample, add_reference, add_teacher
from serl.train.update import update
from tests.models import tiny_model, tiny_tokenizer
from tests.train.test_parallel import LAM, batch

LR = 1e-4


@dataclass(frozen=True)
class Case:
    """`parts` are the samples of each rank: 0 and 1 have hindsight, 2 has none, 3 has A = 0."""

    zero: int = 0
    parts: tuple[tuple[int, ...], ...] = ((0, 1, 3), (2,))
    tied: bool = True
    share: bool = True
    rank: int = 0  # of adapters
    dtype: str = "float32"
    offload: str = "none"
    checkpointing: bool = False
    steps: int = 3
    train: dict = field(default_factory=dict)

    @property
    def config(self) -> Config:
        # A micro-batch holds one sample or two: ranks have different numbers of them.
        return Config(train=TrainConfig(**{"micro_tokens": 24, **self.train}), hindsight=HindsightConfig(lambda0=LAM),
                      model=ModelConfig(shared_prefix=self.share))


class Learner:
    """A policy with its engine, and the models beside it: a teacher that follows it, the reference it began as."""

    def __init__(self, case: Case, ranks=None, start: Path | None = None, timeout_s: float = 60.0) -> None:
        """`start` is the folder of the policy to begin with."""
        self.case, self.tokenizer = case, tiny_tokenizer()
        adapters = LoraConfig(rank=case.rank)
        if start is not None:
            self.model, _ = models.load(str(start), case.dtype, adapters)
        else:
            self.model = tiny_model(len(self.tokenizer), tied=case.tied, dtype=getattr(torch, case.dtype))
            if case.rank:
                lora.add(self.model, adapters, "somewhere", seed=3)
        if case.checkpointing:
            recompute_layers(self.model)
        self.teacher, self.reference = Snapshot(self.model), Snapshot(self.model)
        arguments = (self.model, LR, 0.1, 0.5, linear_decay(10))
        if ranks is None:
            self.engine = TorchEngine(*arguments)
        else:
            options = EngineConfig("deepspeed", case.zero, case.offload, timeout_s)
            self.engine = DeepSpeedEngine(*arguments, options, ranks)
            for snapshot in (self.teacher, self.reference):
                self.engine.hold(snapshot.model)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    def step(self, samples: Sequence[Sample]) -> dict[str, float]:
        config = self.case.config
        if config.train.loss in ("distillation", "sdpo"):
            metrics, _ = distill(self.engine, self.teacher.model, samples, self.encode, config)
        else:
            samples, _ = add_teacher(self.teacher.model, samples, self.encode, LAM, config)
            if config.train.kl_beta:
                samples = add_reference(self.reference.model, samples, config)
            metrics, _ = update(self.engine, samples, LAM, config)
        self.teacher.blend(self.model, keep=0.5)
        return metrics

    def weights(self) -> dict[str, torch.Tensor]:
        return whole_state(self.model, True)


def learn(ranks, case: Case) -> tuple[list[dict[str, float]], dict[str, torch.Tensor]]:
    """Metrics of each step, and the weights in the end; without ranks, of one process."""
    learner = Learner(case, ranks)
    places = range(4) if ranks is None else case.parts[ranks.rank]
    found = [learner.step([batch()[place] for place in places]) for _ in range(case.steps)]
    return found, learner.weights()
