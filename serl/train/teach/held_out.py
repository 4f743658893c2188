"""How a teacher does on the lessons of questions that it did not learn from.

    loss     as it is trained (`learning.py`): the epoch at which this is least is kept
    nats     −log p a token of each kind of lesson, level by level
    auc      does Δ = logp_T behind the hindsight − logp_S find the tokens in which a wrong action differs from the
             nearest right one? Beside two controls: behind the empty frame, where what it finds is not hindsight's
             doing, and the student's own −logp
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from serl.config import Config
from serl.hindsight.controls import EMPTY
from serl.hindsight.credit.auc import Auc, estimate
from serl.train.scoring import score
from serl.train.teach.learning import lesson_loss
from serl.train.teach.lessons import CONTRAST, Lesson

STUDENT = "student −logp"


@dataclass(frozen=True)
class Exam:
    """Figures of one epoch; `epoch` 0 is before the first."""

    epoch: int
    loss: float
    nats: dict[str, float]  # by "KIND LEVEL"
    auc: dict[str, Auc]  # by level, and of the student's −logp

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def line(self) -> str:
        """One line for the terminal."""
        auc = ", ".join(f"{level} {each.value:.3f}" for level, each in self.auc.items() if each.value is not None)
        nats = ", ".join(f"{name} {value:.3f}" for name, value in self.nats.items())
        return f"epoch {self.epoch}: loss {self.loss:.4f}; nats a token: {nats}; AUC of the gap: {auc}"


def examine(model, lessons: Sequence[Lesson], epoch: int, config: Config) -> Exam:
    """The figures of a model on held-out lessons, contrasts included."""
    scores = score(model, [lesson.tail for lesson in lessons], config.train.micro_tokens, config.rollout.temperature,
                   config.model.shared_prefix)
    loss = total = 0.0
    nats: dict[str, list[float]] = defaultdict(list)
    blame: dict[str, list[tuple[float, bool, str]]] = defaultdict(list)
    for lesson, logp in zip(lessons, scores):
        logp_N = logp[torch.tensor(lesson.tail.mask)].float()
        weight_N = torch.tensor(lesson.weights(config.teach))
        if is_learned(lesson, config):
            loss, total = loss + lesson_loss(logp_N, weight_N).item(), total + weight_N.abs().sum().item()
        if lesson.kind == CONTRAST:
            gaps = zip(lesson.signs, lesson.sampled, logp.tolist())
            asked = [(own, value, sign < 0) for sign, own, value in gaps if sign]
            blame[lesson.level] += [(own - value, wrong, lesson.question) for own, value, wrong in asked]
            if lesson.level == EMPTY:
                blame[STUDENT] += [(-own, wrong, lesson.question) for own, _, wrong in asked]
        else:
            nats[f"{lesson.kind} {lesson.level}"] += (-logp_N).tolist()
    return Exam(epoch, loss / total, {name: float(np.mean(values)) for name, values in nats.items()},
                {level: estimate(*zip(*rows), config.seed) for level, rows in blame.items()})


def is_learned(lesson: Lesson, config: Config) -> bool:
    """Whether a lesson has a weight in training; others are there to be examined."""
    if lesson.kind == CONTRAST:
        return config.teach.contrast > 0 and lesson.level in config.teach.levels
    return config.teach.imitation > 0
