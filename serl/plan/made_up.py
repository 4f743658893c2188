"""Trajectories with random tokens, and what a teacher reads of them: nothing but the prompt is shared by chance."""

import random
from collections.abc import Sequence

FRAME = 5  # tokens of a message's end, before which a teacher's hindsight stands


def trajectories(prompt: int, response: int, sampled: int, group: int, groups: int, vocabulary: int,
                 taught: bool = False) -> list:
    """Tails of groups of trajectories, of whose responses the last `sampled` tokens are scored.

    Their shared prompt ends where the first teacher's branch would leave it, if they are `taught`.
    """
    from serl.train.tail import Tail

    draw = random.Random(0)
    shared = max(1, prompt - (FRAME if taught else 1))
    tails = []
    for _ in range(groups):
        start = draw.choices(range(vocabulary), k=prompt)
        for _ in range(group):
            ids = [*start, *draw.choices(range(vocabulary), k=response)]
            tails.append(Tail(ids, prompt, shared, [False] * (response - sampled) + [True] * sampled))
    return tails


def branches(tail, turns: int, hindsight: int, vocabulary: int) -> Sequence:
    """What a teacher reads of one trajectory: a branch for each turn, with as many tokens of hindsight in it."""
    from serl.train.tail import Tail

    draw = random.Random(len(tail.ids))
    first, own, size = tail.first, len(tail.ids) - tail.first, sum(tail.mask) // turns
    made = []
    for turn in range(turns):
        state = first + own * turn // turns
        told = [*tail.ids[:state - FRAME], *draw.choices(range(vocabulary), k=hindsight),
                *tail.ids[state - FRAME: state]]
        made.append(Tail([*told, *tail.ids[state: state + size]], len(told), tail.shared))
    return made
