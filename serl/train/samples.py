"""What the trainer knows of each trajectory, token by token, and how the teacher's view is added.

All per-token tensors are aligned to `trajectory.token_ids`: entry i belongs to token i. Context tokens hold
NaN log-probs and weight 1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from serl.agent.trajectory import Trajectory
from serl.config import Config, HindsightConfig
from serl.hindsight.branches import Branch, branches
from serl.hindsight.context import Encode, Hindsight, teacher_input
from serl.hindsight.credit.sources import parts_surprisal, surprisal
from serl.hindsight.facts import NOTHING, Known
from serl.hindsight.gaps import hindsight_only, teacher_student
from serl.hindsight.levels import ContextOptions
from serl.hindsight.masks import scope_mask
from serl.hindsight.weights import token_weights
from serl.reward.panel import Reward
from serl.train.scoring import Tail, score


@dataclass(frozen=True)
class Sample:
    """A scored trajectory. `reward` is None where the infrastructure failed."""

    trajectory: Trajectory
    reward: Reward | None
    advantage: float
    teacher: torch.Tensor  # teacher's log-probs [T]
    unaided: torch.Tensor  # teacher's log-probs without hindsight [T]; only for the gap `hindsight_only`
    hindsight_mask: torch.Tensor  # m without finiteness [T]
    weight: torch.Tensor  # ω [T]
    hindsights: tuple[Hindsight | None, ...]  # what the teacher read before each turn; None: it scored no such turn
    student: torch.Tensor | None = None  # old policy's log-probs [T]; None: nobody asked for them yet
    gap: torch.Tensor | None = None  # evidence Δ that ω was made of [T]; comes with `student`
    reference: torch.Tensor | None = None  # log-probs of the KL reference [T]
    known: Known = NOTHING  # what may be told to the teacher
    credit: torch.Tensor | None = None  # evidence, or what of it needs no log-probs of the student [T]
    # Turns whose teacher is the student itself, with its inputs: the update's own forward pass gives its log-probs.
    asked: tuple[tuple[Branch, Tail], ...] = ()
    steps: tuple[float, ...] | None = None  # advantages of its actions; None: they have that of the trajectory

    @classmethod
    def of(cls, trajectory: Trajectory, reward: Reward | None, advantage: float, known: Known = NOTHING,
           steps: tuple[float, ...] | None = None) -> "Sample":
        """A sample that no model has scored yet: weight 1, no hindsight."""
        size = len(trajectory)
        unscored = torch.full((size,), float("nan"))
        return cls(trajectory, reward, advantage, teacher=unscored, unaided=unscored,
                   hindsight_mask=torch.zeros(size, dtype=torch.bool), weight=torch.ones(size),
                   hindsights=(None,) * len(trajectory.turns), known=known, steps=steps)

    @property
    def correct(self) -> bool:
        return self.reward is not None and self.reward.correct

    @property
    def learns(self) -> bool:
        """Whether some action of it has an advantage other than 0."""
        return any(self.steps) if self.steps is not None else self.advantage != 0.0

    @property
    def advantages(self) -> torch.Tensor:
        """A at each token [T]; that of the trajectory where a token is of no action, which plays no part."""
        spread = torch.full((len(self.trajectory),), self.advantage)
        for turn, own in zip(self.trajectory.turns, self.steps or ()):
            spread[slice(*turn.action)] = own
        return spread

    @property
    def first(self) -> int:
        """Index of the first sampled token: everything before it is the prompt."""
        turns = self.trajectory.turns  # there is none where a deadline came before the first action's end
        return turns[0].action[0] if turns else len(self.trajectory)

    @property
    def tail(self) -> Tail:
        """What is scored: sampled tokens only. The prompt's last token is the row's own: its logits predict the first.

        Where a teacher's branches are asked for too, the prompt ends where the first of them may leave it.
        """
        shared = self.trajectory.turns[0].splice_at if self.asked else self.first - 1
        scored = [bool(sampled) for sampled in self.trajectory.loss_mask[self.first:]]
        return Tail(self.trajectory.token_ids, self.first, shared, scored)

    @property
    def evidence(self) -> torch.Tensor:
        """Δ where it counts, inside m [T]; NaN elsewhere, and everywhere while the student's log-probs are unknown."""
        nothing = torch.full_like(self.weight, float("nan"))
        return nothing if self.gap is None else torch.where(self.hindsight_mask, self.gap, nothing)

    @property
    def sampler(self) -> torch.Tensor:
        """The sampler's log-probs [T]: NaN for context tokens."""
        return torch.tensor([float("nan") if value is None else value for value in self.trajectory.sampler_logprobs])

    def answered(self, logps: Sequence[torch.Tensor], student: torch.Tensor) -> "Sample":
        """The sample with the log-probs [action] that it asked for; without hindsight, the teacher's are `student`."""
        teacher = self.teacher.clone()
        for (branch, _), logp in zip(self.asked, logps):
            teacher[slice(*branch.turn.action)] = logp.cpu()
        return replace(self, teacher=teacher, unaided=student, asked=())

    def aligned(self, logp: torch.Tensor) -> torch.Tensor:
        """Log-probs of the tail as [T]: NaN for context tokens."""
        loss_mask = torch.tensor(self.trajectory.loss_mask, dtype=torch.bool)
        full = torch.full((len(self.trajectory),), float("nan"))
        full[self.first:] = logp.detach().cpu()
        return full.masked_fill(~loss_mask, float("nan"))


def add_student(model, samples: Sequence[Sample], lam: float, config: Config) -> list[Sample]:
    """Samples with the old policy's log-probs and ω, by a pass of its own (see `train.score_first`)."""
    return [weigh(sample, logp, lam, config.hindsight)
            for sample, logp in zip(samples, score_samples(model, samples, config))]


def add_reference(model, samples: Sequence[Sample], config: Config) -> list[Sample]:
    """Samples with the log-probs of the KL reference (the starting policy, never the teacher)."""
    return [replace(sample, reference=logp) for sample, logp in zip(samples, score_samples(model, samples, config))]


def add_teacher(model, samples: Sequence[Sample], encode: Encode, lam: float, config: Config
                ) -> tuple[list[Sample], int]:
    """Samples with the teacher's log-probs, and how many turns with SQL got no hindsight for want of room.

    At λ = 0 no teacher forward runs, and none runs for a trajectory with A = 0. The gap `hindsight_only` takes one more
    pass of the teacher, over whole trajectories without hindsight.
    """
    if lam == 0.0:
        return list(samples), 0
    made, tails, skipped = teacher_branches(samples, [i for i, sample in enumerate(samples) if sample.learns],
                                            encode, config)
    samples = _read(samples, made, config)
    if config.hindsight.teacher.mode == "live" and config.model.shared_prefix and not config.train.score_first:
        return _ask(samples, made, tails), skipped
    scores = score(model, tails, config.train.micro_tokens, config.rollout.temperature, config.model.shared_prefix)
    teacher = [sample.teacher.clone() for sample in samples]
    for branch, logp in zip(made, scores):
        teacher[branch.index][slice(*branch.turn.action)] = logp
    unaided = [sample.unaided for sample in samples]
    if config.hindsight.gap == "hindsight_only":
        hinted = sorted({branch.index for branch in made})
        for index, logp in zip(hinted, score_samples(model, [samples[index] for index in hinted], config)):
            unaided[index] = logp
    return [replace(sample, teacher=logp, unaided=plain)
            for sample, logp, plain in zip(samples, teacher, unaided)], skipped


def teacher_branches(samples: Sequence[Sample], chosen: Sequence[int], encode: Encode, config: Config
                     ) -> tuple[list[Branch], list[Tail], int]:
    """Every turn of the `chosen` samples that has hindsight, the teacher's input of each, and how many lacked room."""
    made, skipped = branches([(index, samples[index].trajectory, samples[index].known) for index in chosen],
                             ContextOptions.of(config), encode, config.model.max_length)
    # Every branch of a group begins with the prompt up to where the first turn's hindsight goes.
    tails = [Tail(*teacher_input(trajectory, branch.turn, branch.hindsight), trajectory.turns[0].splice_at)
             for branch in made for trajectory in [samples[branch.index].trajectory]]
    return made, tails, skipped


def _read(samples: Sequence[Sample], made: Iterable[Branch], config: Config) -> list[Sample]:
    """Samples with what the teacher reads before each turn, and the mask of the actions that this covers."""
    hindsights = [list(sample.hindsights) for sample in samples]
    covered = [torch.zeros(len(sample.trajectory), dtype=torch.bool) for sample in samples]
    for branch in made:
        hindsights[branch.index][branch.number] = branch.hindsight
        covered[branch.index][slice(*branch.turn.action)] = True
    return [replace(sample, hindsights=tuple(texts), hindsight_mask=mask & scope_mask(sample.trajectory,
                                                                                      config.hindsight.mask))
            for sample, texts, mask in zip(samples, hindsights, covered)]


def _ask(samples: Sequence[Sample], made: Iterable[Branch], tails: Iterable[Tail]) -> list[Sample]:
    """Samples that ask for their teacher's log-probs: the update's forward pass gives them, by the same weights."""
    asked: list[list[tuple[Branch, Tail]]] = [[] for _ in samples]
    for branch, tail in zip(made, tails):
        asked[branch.index].append((branch, tail))
    return [replace(sample, asked=tuple(own)) for sample, own in zip(samples, asked)]


def weigh(sample: Sample, student: torch.Tensor, lam: float, options: HindsightConfig) -> Sample:
    """The sample with the old policy's log-probs `student` [T] and the ω that follows from them."""
    gap = _evidence(sample, student, options)
    weight = token_weights(sample.advantages, gap, sample.hindsight_mask, lam, options)
    return replace(sample, student=student, gap=gap, weight=weight)


def _evidence(sample: Sample, student: torch.Tensor, options: HindsightConfig) -> torch.Tensor:
    """Δ [T] of the config's credit source; NaN: none."""
    known = torch.full_like(student, float("nan")) if sample.credit is None else sample.credit
    match options.source:
        case "teacher_gap":
            return (hindsight_only(sample.teacher, sample.unaided) if options.gap == "hindsight_only"
                    else teacher_student(student, sample.teacher))
        case "surprisal":
            return surprisal(student, sample.hindsight_mask, sample.correct)
        case "parts_surprisal":
            return parts_surprisal(student, known, sample.hindsight_mask, sample.correct)
        case _:  # known before the update (`serl.train.credit.evidence`), or there is none
            return known


def score_samples(model, samples: Sequence[Sample], config: Config) -> list[torch.Tensor]:
    """Log-probs [T] of every trajectory's sampled tokens under `model`."""
    scores = score(model, [sample.tail for sample in samples], config.train.micro_tokens, config.rollout.temperature,
                   config.model.shared_prefix)
    return [sample.aligned(logp) for sample, logp in zip(samples, scores)]
