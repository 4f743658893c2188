"""Hindsight of the final action that a teacher may be given in a test, by name: the levels, and each one's controls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from serl.config import Config
from serl.config.hindsight import LEVELS
from serl.data.example import Example
from serl.hindsight.context import Encode, Hindsight, empty_hindsight, make_hindsight
from serl.hindsight.controls import EMPTY, controls
from serl.hindsight.facts import facts_of
from serl.hindsight.levels import ContextOptions
from serl.sql.outcome import Outcome
from serl.train.samples import Sample


@dataclass(frozen=True)
class Case:
    """A sample, its question and gold's result."""

    sample: Sample
    example: Example
    gold: Outcome


@dataclass(frozen=True)
class Contexts:
    """`by_name` holds the hindsight of each case's final action, None where it has none. `controls` names the
    controls that each level has to beat; levels and controls are keys of `by_name`, and `empty` is one of them."""

    by_name: Mapping[str, Sequence[Hindsight | None]]
    controls: Mapping[str, tuple[str, ...]]


def make_contexts(cases: Sequence[Case], encode: Encode, config: Config, levels: Sequence[str] = LEVELS) -> Contexts:
    """The contexts of a batch of cases, all of which have turns. A level that tells nothing of any case is left out.

    All levels are made, gold's too: what they tell is measured here and reaches no update.
    """
    options = ContextOptions.of(config)
    questions = [case.example.question_id for case in cases]
    facts = [facts_of(case.sample.trajectory.turns[-1], case.sample.known) for case in cases]
    empty = empty_hindsight(options, encode)
    by_name: dict[str, Sequence[Hindsight | None]] = {EMPTY: [empty if each.tells else None for each in facts]}
    named: dict[str, tuple[str, ...]] = {}
    for level in levels:
        asked = replace(options, level=level, allow_gold=True)
        own = [make_hindsight(each, asked, encode) for each in facts]
        if not any(own):
            continue
        made = {f"{level} {name}": texts for name, texts in
                controls(questions, facts, asked, encode, config.seed).items() if name != EMPTY and any(texts)}
        by_name |= {level: own, **made}
        named[level] = (EMPTY, *made)
    return Contexts(by_name, named)
