"""`serl select fit`: learn the reward selector from a run's training rollouts, and say how far it can be believed.

Everything but the weights is out of fold (`serl.select.learn`): calibration, and what selection would have made of the
run's own groups. Questions that a policy was trained on are easier for it than others, so chances are too high by some
on new ones; the order of candidates is what selection needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from serl.config import Config
from serl.errors import InputError
from serl.evaluate.stats import Estimate, bootstrap_ratio
from serl.io import atomic_write_text
from serl.select import first, vote
from serl.select.learn import Calibration, Rollouts, calibration, held_out, learn
from serl.select.oracle import Marked
from serl.select.oracle import pick as pick_oracle
from serl.select.reward import FILE, LearntReward
from serl.select.rollouts import read_rollouts
from serl.view.calibration import calibration_picture


@dataclass(frozen=True)
class Fitted:
    """Learnt weights, and their figures on questions of other folds."""

    reward: LearntReward
    calibration: Calibration
    choices: dict[str, Estimate]  # share of groups in which what is chosen is right: first, vote, reward; oracle bounds
    questions: int
    groups: int
    candidates: int

    def to_json(self) -> dict[str, Any]:
        return {
            "questions": self.questions, "groups": self.groups, "candidates": self.candidates,
            "choices": {name: estimate.to_json() for name, estimate in self.choices.items()},
            "calibration": {**asdict(self.calibration), "bins": [asdict(each) for each in self.calibration.bins]},
        }

    @property
    def markdown(self) -> str:
        """What was learnt and how well it holds, as text with tables."""
        found = self.calibration
        choices = [f"| {name} | {100 * each.value:.1f} ({100 * each.low:.1f}–{100 * each.high:.1f}) |"
                   for name, each in self.choices.items()]
        bins = [f"| {each.low:.1f}–{each.high:.1f} | {each.right.n} | {each.chance:.3f} | {each.right.value:.3f} "
                f"({each.right.low:.3f}–{each.right.high:.3f}) |" for each in found.bins]
        weights = [f"| {name} | {weight:+.3f} |"
                   for name, weight in {**self.reward.weights, "(intercept)": self.reward.intercept}.items()]
        return "\n".join([
            f"Reward selector, learnt on {self.candidates} candidates with a result, in {self.groups} groups of "
            f"{self.questions} training questions. Weights are of all of them, all else is out of fold.", "",
            "| choice | groups in which it is right, % (95% interval over questions); oracle: upper bound |",
            "| --- | ---: |", *choices, "",
            f"Calibration error {found.error:.3f}, Brier score {found.brier:.4f} (one chance for all: "
            f"{found.base:.4f}), AUC {found.auc:.3f}", "",
            "| P(right) | candidates | mean P(right) | right (95% interval over questions) |",
            "| --- | ---: | ---: | ---: |", *bins, "",
            "| feature | weight |", "| --- | ---: |", *weights,
        ])


def fit_run(run: Path, config: Config, steps: Sequence[int]) -> Fitted:
    """The selector of a run's rollouts in these steps; InputError where they do not tell right from wrong."""
    groups = read_rollouts(run, config, steps)
    try:
        chances = held_out(groups)
        reward = learn(groups)
    except ValueError as error:
        raise InputError(f"{run}: the reward selector cannot be learnt on these rollouts ({error}); give more steps"
                         ) from error
    count = sum(candidate.answered for group in groups for candidate in group.candidates)
    fitted = Fitted(reward, calibration(groups, chances), _choices(groups, chances),
                    len({group.question_id for group in groups}), len(groups), count)
    about = {"run": str(run), "steps": [min(steps), max(steps)], **fitted.to_json()}
    return replace(fitted, reward=replace(reward, about=about))


def write_fitted(fitted: Fitted, folder: Path, title: str) -> list[Path]:
    """selector.json, selector.md and selector.png in a checkpoint's folder."""
    weights, text, picture = folder / FILE, folder / "selector.md", folder / "selector.png"
    fitted.reward.write(weights)
    atomic_write_text(text, f"{fitted.markdown}\n")
    calibration_picture(fitted.calibration, title, picture)
    return [weights, text, picture]


def _choices(groups: Sequence[Rollouts], chances: Sequence[Sequence[float | None]]) -> dict[str, Estimate]:
    """Whether the choice among each group's candidates is right; groups of one question stand and fall together."""
    right: dict[str, dict[str, list[bool]]] = {name: {} for name in ("first", "vote", "reward", "oracle")}
    for group, own in zip(groups, chances):
        best = max((chance for chance in own if chance is not None), default=None)
        chosen = {"first": first.pick(group.candidates), "vote": vote.pick(group.candidates),
                  "reward": None if best is None else own.index(best),
                  "oracle": pick_oracle([Marked(*each) for each in zip(group.candidates, group.correct)])}
        for name, index in chosen.items():
            right[name].setdefault(group.question_id, []).append(index is not None and group.correct[index])
    return {name: bootstrap_ratio([(sum(own), len(own)) for own in by_question.values()])
            for name, by_question in right.items()}
