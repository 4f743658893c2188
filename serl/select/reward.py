"""The light execution-grounded reward: the chance that a candidate is right, from what is known without gold.

    P(right | x) = σ(b + w·x)    x: the features of `serl.select.features`

The weights are learnt by logistic regression on a run's training rollouts (`serl select fit RUN`), where gold says
which were right, and kept with the checkpoint as `selector.json`. Candidates without a result are wrong by definition:
they are left out of the regression, and not chosen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serl.errors import InputError
from serl.io import atomic_write_text, read_json
from serl.select.candidate import Candidate
from serl.select.features import FEATURES, describe

FILE = "selector.json"  # in a checkpoint's folder


@dataclass(frozen=True)
class LearntReward:
    """Learnt weights by feature, and what is known of how they were learnt."""

    intercept: float
    weights: Mapping[str, float]
    about: Mapping[str, Any] = field(default_factory=dict)

    def chance(self, features: Sequence[float]) -> float:
        """P(right) of one candidate."""
        score = self.intercept + math.fsum(self.weights[name] * value for name, value in zip(FEATURES, features))
        return 1 / (1 + math.exp(-score)) if score >= 0 else math.exp(score) / (1 + math.exp(score))

    def chances(self, candidates: Sequence[Candidate]) -> list[float | None]:
        """P(right) of each candidate; None for those without a result."""
        return [None if features is None else self.chance(features) for features in describe(candidates)]

    def pick(self, candidates: Sequence[Candidate]) -> int | None:
        """Index of the candidate most likely right, the earliest of equal ones; None when none was answered."""
        chances = self.chances(candidates)
        answered = [index for index, chance in enumerate(chances) if chance is not None]
        return max(answered, key=lambda index: round(chances[index], 12), default=None)

    def write(self, path: Path) -> None:
        """Write the weights, with what they mean."""
        document = {"intercept": self.intercept, "weights": dict(self.weights), "features": FEATURES, **self.about}
        atomic_write_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> LearntReward:
        """The weights in `path`; InputError where there are none, or of other features than these."""
        if not path.is_file():
            raise InputError(f"{path}: no weights of the reward selector; `serl select fit RUN` learns them from a "
                             "run's training rollouts and keeps them with its newest checkpoint")
        document = read_json(path)
        try:
            weights = {name: float(document["weights"][name]) for name in FEATURES}
            intercept = float(document["intercept"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: these weights are not of this version's features ({error}); learn them anew by "
                             "`serl select fit RUN`") from error
        if not all(map(math.isfinite, (intercept, *weights.values()))):
            raise InputError(f"{path}: a weight is not finite; learn them anew by `serl select fit RUN`")
        about = {name: value for name, value in document.items() if name not in ("intercept", "weights", "features")}
        return cls(intercept, weights, about)
