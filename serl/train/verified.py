"""Warm-start traces in MTSQL-R1's order (`serl.agent.order`), from gold and a wrong query.

    right                  query gold,  pass: look gold,  pass: answer
    wrong, and it shows    query wrong, no_pass: query gold, pass: look gold, pass: answer
    wrong, but looks well  query wrong, pass: look wrong, no_pass: query gold, pass: look gold, pass: answer

Without a memory nobody looks, and every wrong query is refused by what it returned.
"""

from collections.abc import Sequence
from typing import NamedTuple

from serl.agent.dialects import Check, Kind

Verdict = tuple[Check, bool]


class Step(NamedTuple):
    """An action, with the verdicts in front of it."""

    kind: Kind
    sql: str
    verdicts: Sequence[Verdict] = ()


def verified(gold: str, wrong: str | None, shows: bool, memory: bool) -> list[Step]:
    """The steps of a trace; `shows` says whether the wrong query's answer looks wrong."""
    steps, said = [], []
    if wrong is not None:
        steps.append(Step(Kind.SQL, wrong))
        said = [(Check.EXECUTION, False)]
        if memory and not shows:
            steps.append(Step(Kind.RECALL, wrong, [(Check.EXECUTION, True)]))
            said = [(Check.MEMORY, False)]
    steps.append(Step(Kind.SQL, gold, said))
    said = [(Check.EXECUTION, True)]
    if memory:
        steps.append(Step(Kind.RECALL, gold, said))
        said = [(Check.MEMORY, True)]
    return [*steps, Step(Kind.FINAL, gold, said)]
