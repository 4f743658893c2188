"""Imitating a teacher the slow way: one forward a token, its whole distribution as a list of Python floats."""

from math import exp, log

import torch

from serl.hindsight.context import make_hindsight, teacher_input
from serl.hindsight.facts import facts_of
from serl.hindsight.levels import ContextOptions

WAYS = {"full": {"loss": "distillation"}, "top 3": {"loss": "distillation", "distill_over": "topk", "distill_k": 3},
        "sdpo": {"loss": "sdpo"}, "sdpo top 3": {"loss": "sdpo", "distill_over": "topk", "distill_k": 3},
        "symmetric": {"loss": "sdpo", "sdpo_symmetric": True},
        "symmetric top 3": {"loss": "sdpo", "sdpo_symmetric": True, "distill_over": "topk", "distill_k": 3},
        "sampled": {"loss": "sdpo", "distill_over": "sampled"}}


def distribution(model, ids: list[int], temperature: float) -> list[float]:
    with torch.no_grad():
        logits = (model(torch.tensor([ids])).logits[0, -1] / temperature).tolist()
    top = max(logits)
    total = sum(exp(value - top) for value in logits)
    return [exp(value - top) / total for value in logits]


def kl(first, second):
    return sum(p * log(p / q) for p, q in zip(first, second) if p > 0)


def coarse(likely, *distributions):
    return [[*(p[v] for v in likely), 1 - sum(p[v] for v in likely)] for p in distributions]


def slow_token(way: str, student: list[float], teacher: list[float], token: int) -> float:
    options = WAYS[way]
    if way == "sampled":
        return log(student[token]) - log(teacher[token])
    if "top" in way:
        leader = teacher if options["loss"] == "distillation" else student
        likely = sorted(range(len(leader)), key=leader.__getitem__)[-3:]
        student, teacher = coarse(likely, student, teacher)
    if options["loss"] == "distillation":
        return kl(teacher, student)
    if "symmetric" in way:
        middle = [(p + q) / 2 for p, q in zip(student, teacher)]
        return (kl(student, middle) + kl(teacher, middle)) / 2
    return kl(student, teacher)


def slow(way, student, teacher, samples, encode, config) -> float:
    """Σ of the divergence over SQL tokens: each action of `made_trajectory` is its SQL within two tokens of tag."""
    total = 0.0
    for sample in samples:
        for turn in sample.trajectory.turns:
            hindsight = make_hindsight(facts_of(turn, sample.known), ContextOptions.of(config), encode)
            spliced, first = teacher_input(sample.trajectory, turn, hindsight)
            start, end = turn.action
            for offset in range(1, end - start - 1):
                ids = sample.trajectory.token_ids
                total += slow_token(way, distribution(student, ids[: start + offset], 0.8),
                                    distribution(teacher, spliced[: first + offset], 0.8), ids[start + offset])
    return total
