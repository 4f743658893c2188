"""English for parts of a question: plurals, articles, columns, and noun phrases along a join path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from serl.data.minibird.conditions import Condition, article
from serl.data.minibird.paths import Path

UNCHANGED = frozenset({"aircraft"})


def plural(noun: str) -> str:
    """The plural of a noun or of the head of a phrase.

    >>> plural("city"), plural("class"), plural("date of birth"), plural("finishing position")
    ('cities', 'classes', 'dates of birth', 'finishing positions')
    """
    if noun in UNCHANGED:
        return noun
    for preposition in (" of ", " in ", " per ", " above "):
        head, found, rest = noun.partition(preposition)
        if found:
            return plural(head) + found + rest
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


@dataclass(frozen=True)
class ColumnText:
    """A column in a question template: `{c}`, plural `{c.s}`, with article `{c.a}`, a date's `{d.verb}`."""

    noun: str
    verb: str = ""

    def __str__(self) -> str:
        return self.noun

    @property
    def s(self) -> str:
        return plural(self.noun)

    @property
    def a(self) -> str:
        return f"{article(self.noun)} {self.noun}"


@dataclass(frozen=True)
class NounPhrase:
    """The rows that a question is about, in words: "female patients with visits to the doctor Ben Hill".

    In a template `{T}` is the plural with every condition, `{T.one}` the singular, and a format spec
    names the conditions to tell: `{T:f}` only the one in slot f, `{T:-}` none.
    """

    path: Path
    nouns: tuple[str, ...]  # singular, one for each table of the path
    conditions: Mapping[str, Condition]  # by slot
    start: int = 0  # the first and, if not to the path's end, the last table that the phrase tells
    last: int | None = None
    singular: bool = False

    @property
    def one(self) -> NounPhrase:
        return replace(self, singular=True)

    @property
    def alone(self) -> NounPhrase:
        return replace(self, last=self.start)

    def beginning(self, start: int) -> NounPhrase:
        return replace(self, start=start)

    def __format__(self, spec: str) -> str:
        slots = spec.split() if spec else list(self.conditions)
        told = [self.conditions[slot] for slot in slots if slot != "-"]
        text = self._part(self.start, told)
        last = len(self.nouns) - 1 if self.last is None else self.last
        for at in range(self.start + 1, last + 1):
            join = self.path.joins[at - 1]
            and_ = "and " if not join.up and self._after([c for c in told if c.at == at - 1]) else ""
            text += f" {and_}{join.words} {self._part(at, told)}"
        return text

    def _part(self, at: int, told: list[Condition]) -> str:
        own = [condition for condition in told if condition.at == at]
        noun = self.nouns[at]
        proper = [condition for condition in own if condition.proper]
        if proper:
            return f"the {noun} {proper[0].text}"
        before = sorted((c for c in own if c.adjective), key=lambda c: not c.superlative)
        noun = noun if self.singular and at == self.start else plural(noun)
        return " ".join([*(c.text for c in before), noun, *self._after(own)])

    @staticmethod
    def _after(own: list[Condition]) -> list[str]:
        """What follows the noun: the filters, joined by "and", then a superlative."""
        filters = [c.text for c in own if not (c.adjective or c.superlative or c.proper)]
        filters.sort(key=lambda text: text.startswith("whose"))
        superlatives = [c.text for c in own if c.superlative and not c.adjective]
        return [*([" and ".join(filters)] if filters else []), *superlatives]
