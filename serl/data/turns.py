"""Dialogues within a list of questions: which turns belong together, and what came before each."""

from __future__ import annotations

from collections.abc import Sequence

from serl.data.example import Example


def whole_dialogues(examples: Sequence[Example]) -> list[tuple[int, ...]]:
    """Places of the turns of each dialogue, and of each question that stands alone, in order.

    Turns of a dialogue follow each other in `examples`; where it begins again, it is another one.
    """
    units: list[list[int]] = []
    for place, example in enumerate(examples):
        last = examples[units[-1][-1]] if units else None
        if (last is not None and example.interaction is not None and example.interaction == last.interaction
                and example.turn > last.turn):
            units[-1].append(place)
        else:
            units.append([place])
    return list(map(tuple, units))


def earlier_turns(examples: Sequence[Example]) -> dict[str, tuple[Example, ...]]:
    """By question id, the turns of `examples` that come before each question in its dialogue."""
    return {examples[place].question_id: tuple(examples[each] for each in unit[:number])
            for unit in whole_dialogues(examples) for number, place in enumerate(unit)}
