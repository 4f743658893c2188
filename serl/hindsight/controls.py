"""Controls: the same turns with hindsight that says nothing, or something else, or the opposite.

    empty      the frame alone                              what the mere frame does to the teacher
    shuffled   the hindsight of a turn of another question   what any such text does
    flipped    its own, with the verdict turned round        what a verdict does if it is wrong; `exec+verdict` only

A gap is evidence only if it beats them (DESIGN section 4).
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from serl.hindsight.context import Encode, Hindsight, empty_hindsight, make_hindsight
from serl.hindsight.facts import Facts
from serl.hindsight.levels import ContextOptions

EMPTY = "empty"
CONTROLS = (EMPTY, "shuffled", "flipped")


def controls(questions: Sequence[str], facts: Sequence[Facts], options: ContextOptions, encode: Encode, seed: int
             ) -> dict[str, list[Hindsight | None]]:
    """Hindsight of each control for turns with these `facts`, whose questions' ids are `questions`; all lists align.

    None: the turn has no such control, since it has no hindsight of its own to compare with, since the batch has no
    other question, or since the level tells no verdict of it. The same arguments give the same controls.
    """
    own = [make_hindsight(each, options, encode) for each in facts]
    empty = empty_hindsight(options, encode)
    return {"empty": [None if hindsight is None else empty for hindsight in own],
            "shuffled": _shuffled(questions, facts, own, seed),
            "flipped": [_flipped(each, options, encode) for each in facts]}


def _shuffled(questions: Sequence[str], facts: Sequence[Facts], own: Sequence[Hindsight | None], seed: int
              ) -> list[Hindsight | None]:
    """For each turn the hindsight of a random one of another question: of a solution's for a solution, if there is."""
    there = [place for place, hindsight in enumerate(own) if hindsight is not None]
    pools: dict[tuple[str, bool], list[int]] = {}
    chosen = []
    for place, (question, each) in enumerate(zip(questions, facts)):
        if own[place] is None:
            chosen.append(None)
            continue
        if (question, each.final) not in pools:
            others = [other for other in there if questions[other] != question]
            alike = [other for other in others if facts[other].final == each.final]
            pools[question, each.final] = alike or others
        pool = pools[question, each.final]
        chosen.append(own[Random(f"{seed}/{place}").choice(pool)] if pool else None)
    return chosen


def _flipped(facts: Facts, options: ContextOptions, encode: Encode) -> Hindsight | None:
    if options.level != "exec+verdict" or not facts.final or facts.correct is None:
        return None
    return make_hindsight(replace(facts, correct=not facts.correct), options, encode)
