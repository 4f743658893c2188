"""The reward of a trajectory: the weighted sum of named terms, those of a preset and a user's own.

A failure of ours (`infrastructure`, or a gold that has no result) gives no reward at all: the trajectory is masked and
counted, never scored as 0.
"""

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from serl.agent.trajectory import Trajectory
from serl.config.reward import RewardConfig
from serl.data.example import Example
from serl.errors import InputError
from serl.reward.facts import Facts, Piece, judge
from serl.reward.presets import PRESETS, Term, Weighted
from serl.reward.process import Earned, Process, mean
from serl.sql.outcome import Outcome

TAKEN = ("mean", "std")  # what the metrics say of the total, as `reward/mean`


@dataclass(frozen=True)
class Reward:
    """Total, the terms before they were weighed, and execution correctness.

    `actions` are the totals with an action's own values in place of their means, of every action (R^{n,t} of
    `serl.train.advantages`); none where no term is about single actions.
    """

    total: float
    terms: dict[str, float]
    correct: bool
    actions: tuple[float, ...] = ()


@dataclass(frozen=True)
class Panel:
    """Terms by the name they are logged under."""

    terms: Mapping[str, Weighted]
    options: RewardConfig
    piece: Piece

    @classmethod
    def of(cls, options: RewardConfig, piece: Piece) -> "Panel":
        """The panel that a config asks for; `piece` is of the trajectories' tokenizer."""
        return cls(terms_of(options), options, piece)

    def score(self, trajectory: Trajectory, example: Example, gold: Outcome) -> Reward | None:
        """The reward of a trajectory, None where a failure of ours leaves nothing to judge."""
        if trajectory.infrastructure_failed or not gold.ran:
            return None
        outcome = trajectory.final_outcome
        correct = judge(outcome, gold, example.gold_sql)
        facts = Facts(trajectory, example, gold, outcome, correct, self.options, self.piece)
        earned = {name: term.values(facts) for name, (term, _) in self.terms.items() if isinstance(term, Process)}
        terms = {name: mean([each.value for each in earned[name]]) if name in earned else float(term(facts))
                 for name, (term, _) in self.terms.items()}
        for name, value in terms.items():
            if not math.isfinite(value):
                raise ValueError(f"reward term {name} is {value} for question {example.question_id}")
        actions = [terms | _own(earned, turn) for turn in range(len(trajectory.turns))] if earned else []
        return Reward(self.total(terms), terms, correct, tuple(map(self.total, actions)))

    def total(self, terms: Mapping[str, float]) -> float:
        """The weighted sum."""
        return sum(weight * terms[name] for name, (_, weight) in self.terms.items())


def _own(earned: Mapping[str, Sequence[Earned]], turn: int) -> dict[str, float]:
    """The terms that are about the action of a turn, as it alone earned them."""
    values = {name: [each.value for each in found if each.turn == turn] for name, found in earned.items()}
    return {name: mean(own) for name, own in values.items() if own}


def terms_of(options: RewardConfig) -> dict[str, Weighted]:
    """The preset's terms by the weights that the config gives them, and those that it names by `module.function`."""
    terms = dict(PRESETS[options.preset])
    for name, weight in options.terms.items():
        if "." not in name:
            terms[name] = terms[name]._replace(weight=weight)
            continue
        own = name.rpartition(".")[2]
        if own in terms or own in TAKEN:
            raise InputError(f"config: reward.terms has {name}, but {own} is the name of another "
                             f"{'term' if own in terms else 'metric'}; rename the function")
        terms[own] = Weighted(_imported(name), weight)
    return terms


def _imported(name: str) -> Term:
    module, _, function = name.rpartition(".")
    try:
        term = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        raise InputError(f"config: reward.terms has {name}, which cannot be imported ({error}); install it, or put its "
                         "folder on PYTHONPATH") from error
    if not callable(term):
        raise InputError(f"config: reward.terms has {name}, but {module} has no function {function}")
    return term
