"""What the columns of one invented table have to know of each other, and their names and descriptions."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from serl.data.minibird.invent import attributes
from serl.data.minibird.invent.naming import Namer
from serl.data.minibird.invent.vocabulary import Vocabulary
from serl.data.minibird.schema import Column, Role

SECOND_NAME = 0.5  # share of words with a synonym that are also called by it
DIRTY = 0.3  # share of columns with NULLs
QUALIFIED = 0.2  # share of measures and categories with a word before the noun: "annual fee"


@dataclass
class Draft:
    """What the columns of one table have to know of each other."""

    noun: str  # how a question calls a row
    person: bool
    rows: int
    vocabulary: Vocabulary
    namer: Namer
    prefix: str = ""  # stands before the name of every column
    said: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)  # in lower case

    @property
    def rng(self) -> random.Random:
        return self.vocabulary.rng

    def column(self, column: Column, spelled: str = "") -> Column:
        """The column with a physical name, made from `spelled` or its first spoken words, and a description."""
        name = self.namer.name(spelled or column.said[0], self.names, self.prefix)
        return replace(column, name=name.text, description=self._describe(column, name.opaque))

    def speak(self, said: Sequence[str]) -> tuple[str, ...] | None:
        """The words by which a column is called; None where the table has a column of such words already."""
        if said[0] in self.said:
            return None
        others = [words for words in said[1:] if words not in self.said and self.rng.random() < SECOND_NAME]
        self.said |= {said[0], *others}
        return (said[0], *others)

    def choose(self, entries: Sequence[str]) -> str:
        """One of the entries that suit the rows; the first word of an entry says whether it does."""
        suits = attributes.OF_PEOPLE | attributes.ONLY_OF_PEOPLE
        first = ((re.match(r"[a-z]+", entry).group(), entry) for entry in entries)
        return self.rng.choice([entry for word, entry in first if (
            word in suits if self.person else word not in attributes.ONLY_OF_PEOPLE)])

    def qualify(self, nouns: Sequence[str], qualifiers: Sequence[str]) -> Sequence[str]:
        """The synonyms as they are or, now and then, all with the same word before them."""
        if self.rng.random() >= QUALIFIED:
            return nouns
        qualifier = self.rng.choice(qualifiers)
        return [f"{qualifier} {noun}" for noun in nouns] + [nouns[0]]

    def nulls(self) -> float:
        return round(self.rng.uniform(0.04, 0.25), 2) if self.rng.random() < DIRTY else 0.0

    def _describe(self, column: Column, opaque: bool) -> str:
        """Every spoken word where the name shows none; elsewhere the last, as in the declared databases."""
        unit = f" in {column.unit}" if column.unit else ""
        if column.role is Role.DATE:
            return f"date on which it was {column.verb}"
        if column.role is Role.FLAG:
            return f"whether the {self.noun} is {column.yes}"
        if opaque:
            return " or ".join(column.said) + unit
        return f"{column.said[-1]} of the {self.noun}{unit}"
