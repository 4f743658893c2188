"""How a teacher learns: lessons as log-likelihood and unlikelihood, in the loop of `serl.train.sft`.

    L = −(1/Z) [ Σ_{w>0} w log p  +  Σ_{w<0} |w| log(1 − (1−δ) p) ],     Z = Σ |w|

p is the probability of the lesson's token at the sampling temperature, at which a teacher is asked too; w is +1 or −1,
times `teach.contrast` in a contrast and `teach.imitation` in other lessons. The second sum is unlikelihood (arXiv
1908.04319); δ keeps it, and its gradient, finite at p = 1. A step reads the lessons of `teach.questions` questions,
whose prompts are encoded once each.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import torch

from serl.config import Config, SftConfig
from serl.train.engine import TorchEngine
from serl.train.scoring import logprobs, micro_batches
from serl.train.sft import SftRun
from serl.train.teach.lessons import Lesson

DELTA = 1e-3


def lesson_loss(logp_N: torch.Tensor, weight_N: torch.Tensor) -> torch.Tensor:
    """Z·L over tokens behind one another, from their log-probs and weights w."""
    likely_N = weight_N.clamp(min=0) * logp_N
    unlikely_N = (-weight_N).clamp(min=0) * torch.log1p(-(1 - DELTA) * logp_N.exp())
    return -(likely_N + unlikely_N).sum()


def lesson_step(engine: TorchEngine, lessons: Sequence[Lesson], config: Config) -> dict[str, float]:
    """One optimizer step over a batch of lessons; returns its loss and gradient norm."""
    weights = [lesson.weights(config.teach) for lesson in lessons]
    total = sum(abs(weight) for own in weights for weight in own)
    engine.zero_grad()
    value = 0.0
    tails, share = [lesson.tail for lesson in lessons], config.model.shared_prefix
    for batch in micro_batches(tails, config.train.micro_tokens, share):
        found = logprobs(engine.model, [tails[i] for i in batch], config.rollout.temperature, share)
        logp_N = torch.cat([logp[torch.tensor(tails[i].mask, device=logp.device)] for i, logp in zip(batch, found)])
        weight_N = torch.tensor([weight for i in batch for weight in weights[i]], device=logp_N.device)
        loss = lesson_loss(logp_N, weight_N) / total
        engine.backward(loss)
        value += loss.item()
    norm = engine.step()
    return {"loss": value, "grad_norm": norm, "lr": engine.lr}


class LessonRun(SftRun):
    """Fine-tuning on lessons; all of those of a question are in one batch."""

    name = "teach"

    def __init__(self, model, lessons: Sequence[Lesson], config: Config) -> None:
        self._all = config
        super().__init__(model, sft_options(config), lambda epoch: lessons, config.seed)

    def _batches(self, epoch: int) -> list[list[Lesson]]:
        return question_batches(self.traces_of(epoch), self._all.teach.questions, self.seed + epoch)

    def _step(self, batch: Sequence[Lesson]) -> dict[str, float]:
        return lesson_step(self.engine, batch, self._all)


def sft_options(config: Config) -> SftConfig:
    """The options of `sft`, with the length and the rate of `teach`."""
    return replace(config.sft, epochs=config.teach.epochs, lr=config.teach.lr, max_steps=None)


def question_batches(lessons: Sequence[Lesson], questions: int, seed: int) -> list[list[Lesson]]:
    """The lessons of so many questions each, questions in seeded order."""
    by_question: dict[str, list[Lesson]] = {}
    for lesson in lessons:
        by_question.setdefault(lesson.question, []).append(lesson)
    order = list(by_question)
    Random(seed).shuffle(order)
    return [[lesson for question in order[start: start + questions] for lesson in by_question[question]]
            for start in range(0, len(order), questions)]
