"""Batches that would do harm are not learned from, and are kept for study (`train.guards`).

    non_finite   the loss or the gradient norm is NaN or infinite
    kl           KL(π_old‖π) > kl_limit, or KL(π‖π_ref) > reference_limit          nats a token, k3 estimates
    length       (1/N) Σ_n |y_n| < length_floor                                    sampled tokens a trajectory
    entropy      Ĥ = −(1/Σ|y|) Σ_n Σ_i ln π(y_i | h, y_<i) < entropy_floor         nats a token
                 or Ĥ > Ĥ of the run's first step + entropy_rise

Ĥ costs nothing, as the sampler's log-probs are there: tokens were drawn from π, the policy at the sampling temperature,
so that −ln π(y) is an unbiased estimate of the entropy of the distribution that y was drawn from. Over some thousand
tokens its error is small. A trajectory without a score, since the infrastructure failed, counts for neither. Where
nothing else tells the divergence of an update (one a batch, no KL term), a jump of Ĥ in the next step does.

`skip`: gradients are computed, for the batch's log-probs, and thrown away; λ and teacher go on as after a batch without
signal. Length and entropy do not recover from a skipped update by themselves: `skips` of them in a row stop the run.
With several ranks all values are of the whole batch, so that every rank decides the same.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from serl.config import GuardsConfig
from serl.errors import WorkFailed
from serl.train.engine import TorchEngine
from serl.train.samples import Sample

Step = Callable[[TorchEngine, Mapping[str, float]], float]
"""Applies an update whose gradients are there and whose metrics are these; returns the gradient norm."""


class GuardStop(WorkFailed):
    """A guard stops the run."""


@dataclass(frozen=True)
class Alarm:
    """What is wrong with a batch, by which guard (an option of `train.guards`), and what is done: skip or stop."""

    guard: str
    reason: str
    action: str


def unguarded(engine: TorchEngine, metrics: Mapping[str, float]) -> float:
    """Apply the update whatever its metrics are."""
    return engine.step()


class Guards:
    """Looks at a step's batch before and at its update.

    State: updates skipped one after the other, and Ĥ of the first step.
    """

    def __init__(self, options: GuardsConfig, over_ranks: Callable[[float], float]) -> None:
        self.options, self.over_ranks = options, over_ranks
        self.alarm: Alarm | None = None
        self.skipped = 0
        self.first_entropy: float | None = None

    def look(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Before a step's updates: `rollout/entropy` and `rollout/length` of what was sampled."""
        self.alarm = None
        scored = [sample.trajectory for sample in samples if sample.reward is not None]
        surprise = -sum(logp for trajectory in scored for logp in trajectory.sampler_logprobs if logp is not None)
        surprise, tokens, count = map(self.over_ranks, (
            surprise, float(sum(trajectory.loss_tokens for trajectory in scored)), float(len(scored))))
        if not tokens:
            return {}
        length, entropy = tokens / count, surprise / tokens
        self._check("length", length < self.options.length_floor,
                    f"trajectories have {length:.3g} sampled tokens on average, length_floor is "
                    f"{self.options.length_floor:g}")
        self._check("entropy", entropy < self.options.entropy_floor,
                    f"the policy's entropy is {entropy:.3g} nats a token, entropy_floor is "
                    f"{self.options.entropy_floor:g}")
        self.first_entropy = entropy if self.first_entropy is None else self.first_entropy
        rise = entropy - self.first_entropy
        self._check("entropy", rise > self.options.entropy_rise,
                    f"the policy's entropy is {entropy:.3g} nats a token, {rise:.3g} more than in the first step, "
                    f"entropy_rise is {self.options.entropy_rise:g}: an update has broken it, go on from a checkpoint "
                    "before that one, at a lower train.lr")
        return {"rollout/entropy": entropy, "rollout/length": length}

    def step(self, engine: TorchEngine, metrics: Mapping[str, float]) -> float:
        """`engine.step()`, unless there is an alarm: then the weights stay as they are, and the norm counts as 0.

        `metrics` are those of the update, of the whole batch: `loss`, and, where the loss knows them, `kl/old`, `kl`.
        """
        options = self.options
        self._check("non_finite", not math.isfinite(metrics["loss"]), f"the loss is {metrics['loss']}")
        for name, limit in (("kl/old", options.kl_limit), ("kl", options.reference_limit)):
            value = metrics.get(name, 0.0)
            self._check("kl", value > limit, f"{name} is {value:.3g} nats a token, its limit is {limit:g}")
        if self.alarm is not None:
            return 0.0
        try:
            return engine.step()
        except FloatingPointError as error:
            self._check("non_finite", True, str(error))
            return 0.0

    def settle(self, metrics: dict[str, float], keep: Callable[[str], Path]) -> dict[str, float]:
        """After an update: its metrics with `guard/skipped`, without what is not finite.

        `keep(reason)` keeps the batch of one that was not applied. GuardStop, which names that file, ends the run.
        """
        if self.alarm is None:
            self.skipped = 0
            return metrics | {"guard/skipped": 0.0}
        alarm, path = self.alarm, keep(f"{self.alarm.guard}: {self.alarm.reason}")
        what = f"{alarm.reason}, so the update was not applied and its batch is in {path}"
        if alarm.action == "stop":
            raise GuardStop(f"{what}; --train.guards.{alarm.guard} skip leaves it out")
        if self.skipped + 1 >= self.options.skips:
            raise GuardStop(f"{what}, the last of {self.skipped + 1} in a row (train.guards.skips)")
        self.skipped += 1
        return {name: value for name, value in metrics.items() if math.isfinite(value)} | {"guard/skipped": 1.0}

    def _check(self, guard: str, wrong: bool, reason: str) -> None:
        """The first alarm of a batch stands, unless a later one stops the run."""
        action = getattr(self.options, guard)
        if wrong and action != "off" and (self.alarm is None or (self.alarm.action, action) == ("skip", "stop")):
            self.alarm = Alarm(guard, reason, action)
