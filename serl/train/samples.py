"""What the trainer knows of each trajectory, token by token, and how the teacher's view is added.

All per-token tensors are aligned to `trajectory.token_ids`: entry i belongs to token i. Context tokens hold
NaN log-probs and weight 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from serl.agent.trajectory import Trajectory
from serl.config import Config
from serl.hindsight.context import make_hindsight, teacher_input
from serl.hindsight.weights import token_weights
from serl.reward.panel import Reward
from serl.train.scoring import Tail, score


@dataclass(frozen=True)
class Sample:
    """A scored trajectory. `reward` is None where the infrastructure failed."""

    trajectory: Trajectory
    reward: Reward | None
    advantage: float
    student: torch.Tensor = field(default_factory=lambda: torch.empty(0))  # old policy's log-probs [T]
    teacher: torch.Tensor = field(default_factory=lambda: torch.empty(0))  # teacher's log-probs [T]
    hindsight_mask: torch.Tensor = field(default_factory=lambda: torch.empty(0))  # m without finiteness [T]
    weight: torch.Tensor = field(default_factory=lambda: torch.empty(0))  # ω [T]
    reference: torch.Tensor | None = None  # log-probs of the KL reference [T]

    @property
    def first(self) -> int:
        """Index of the first sampled token: everything before it is the prompt."""
        return self.trajectory.turns[0].action[0]

    @property
    def tail(self) -> Tail:
        """What is scored. The prompt's last token counts as the row's own: its logits predict the first sampled one."""
        return Tail(self.trajectory.token_ids, self.first, self.first - 1)


def policy_logprobs(model, samples: Sequence[Sample], config: Config) -> list[torch.Tensor]:
    """Log-probs of every trajectory's sampled tokens under `model`; NaN elsewhere."""
    scores = score(model, [sample.tail for sample in samples], config.train.micro_tokens, config.rollout.temperature,
                   config.model.shared_prefix)
    out = []
    for sample, logp in zip(samples, scores):
        full = torch.full((len(sample.trajectory),), float("nan"))
        full[sample.first:] = logp
        full[~torch.tensor(sample.trajectory.loss_mask, dtype=torch.bool)] = float("nan")
        out.append(full)
    return out


def add_student(model, samples: Sequence[Sample], config: Config) -> list[Sample]:
    """Samples with the old policy's log-probs, weight 1 and no teacher yet."""
    logprobs = policy_logprobs(model, samples, config)
    return [replace(sample, student=logprob, teacher=torch.full_like(logprob, float("nan")),
                    hindsight_mask=torch.zeros(len(logprob), dtype=torch.bool),
                    weight=torch.ones(len(logprob)))
            for sample, logprob in zip(samples, logprobs)]


def add_reference(model, samples: Sequence[Sample], config: Config) -> list[Sample]:
    """Samples with the log-probs of the KL reference (the starting policy, never the teacher)."""
    logprobs = policy_logprobs(model, samples, config)
    return [replace(sample, reference=logprob) for sample, logprob in zip(samples, logprobs)]


def add_teacher(model, samples: Sequence[Sample], encode: Callable[[str], list[int]], lam: float, config: Config
                ) -> tuple[list[Sample], int]:
    """Samples with the teacher's log-probs and ω, and how many turns with SQL got no hindsight for want of room.

    At λ = 0 no teacher forward runs.
    """
    if lam == 0.0:
        return list(samples), 0
    branches: list[tuple[int, tuple[int, int], Tail]] = []
    skipped = 0
    for index, sample in enumerate(samples):
        for turn in sample.trajectory.turns if sample.advantage != 0.0 else ():
            if turn.outcome is None:
                continue
            hindsight = make_hindsight(turn.outcome, encode, config.hindsight.budget,
                                       config.agent.observation_rows, config.agent.observation_chars)
            if hindsight is None or turn.action[1] + len(hindsight.ids) > config.model.max_length:
                skipped += 1
                continue
            # Every branch of the group begins with the prompt up to where the first turn's hindsight goes.
            tail = Tail(*teacher_input(sample.trajectory, turn, hindsight), sample.trajectory.turns[0].splice_at)
            branches.append((index, turn.action, tail))
    scores = score(model, [tail for *_, tail in branches], config.train.micro_tokens, config.rollout.temperature,
                   config.model.shared_prefix)
    teacher = [sample.teacher.clone() for sample in samples]
    has_hindsight = [torch.zeros(len(sample.trajectory), dtype=torch.bool) for sample in samples]
    for (index, (start, end), _), logprobs in zip(branches, scores):
        teacher[index][start:end] = logprobs
        has_hindsight[index][start:end] = True
    return [_weighted(*row, lam, config) for row in zip(samples, teacher, has_hindsight)], skipped


def _weighted(sample: Sample, teacher: torch.Tensor, has_hindsight: torch.Tensor, lam: float, config: Config
              ) -> Sample:
    loss_mask = torch.tensor(sample.trajectory.loss_mask, dtype=torch.bool)
    action_mask = torch.tensor(sample.trajectory.action_mask, dtype=torch.bool)
    mask = loss_mask & action_mask & has_hindsight
    weight = token_weights(torch.full_like(sample.student, sample.advantage), sample.student, teacher, mask, lam,
                           config.hindsight.eps_low, config.hindsight.eps_high)
    return replace(sample, teacher=teacher, hindsight_mask=mask, weight=weight)
