"""Physical names of tables and columns, made from spoken words in the ways that people make them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from serl.data.minibird.invent.lexicon import SHORT

Style = Callable[[Sequence[str]], str]


def _titles(words: Sequence[str]) -> list[str]:
    return [word[:1].upper() + word[1:] for word in words]


# Weight and way of writing.
STYLES: tuple[tuple[int, Style], ...] = (
    (40, "_".join),  # start_date
    (14, lambda words: "".join(_titles(words))),  # StartDate
    (10, lambda words: words[0] + "".join(_titles(words[1:]))),  # startDate
    (12, "".join),  # startdate
    (12, lambda words: " ".join(_titles(words))),  # Start Date
    (2, " ".join),  # start date
    (5, lambda words: "_".join(words).upper()),  # START_DATE
    (5, lambda words: "_".join(_titles(words))),  # Start_Date
)
DEVIATING = 0.15  # share of names that are not in their database's style
REVERSED = 0.05  # share of names with the words the other way round: date_delivery
ABBREVIATING = (0.0, 0.1, 0.2, 0.4)  # shares of abbreviated names, one drawn for each database
_SKIPPED = frozenset({"of", "the"})


@dataclass(frozen=True)
class Name:
    text: str
    opaque: bool  # the spoken words are not to be seen in it, so documentation has to tell them


class Namer:
    """Names in the style of one database."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.style = self._any_style()
        self.abbreviating = rng.choice(ABBREVIATING)

    def name(
        self, said: str, taken: set[str], prefix: str = "", readable: bool = False, documented: bool = True,
    ) -> Name:
        """A name that differs from those in `taken` in more than case; it is added there in lower case.

        `readable`: every word stands in it whole. Not `documented`: it may be abbreviated, but has to tell by itself
        what it means.
        """
        words = [word for word in said.replace("-", " ").split() if word not in _SKIPPED]
        for attempt in range(20):
            style = self._any_style() if attempt or self.rng.random() < DEVIATING else self.style
            shortened = not readable and self.rng.random() < self.abbreviating
            parts = self._shorten(words, documented) if shortened else words
            if self.rng.random() < REVERSED:
                parts = parts[::-1]
            text = style(parts)
            glued = len(parts) > 1 and text == "".join(parts)
            text = prefix + text
            if not (glued and readable) and text.lower() not in taken:
                taken.add(text.lower())
                return Name(text, opaque=shortened or glued)
        numbered = (f"{'_'.join(words)}_{number}" for number in itertools.count(2))
        text = next(text for text in numbered if text not in taken)
        taken.add(text)
        return Name(text, opaque=False)

    @property
    def spaced(self) -> bool:
        """Whether names of two words need quotes."""
        return " " in self.style(("two", "words"))

    def _any_style(self) -> Style:
        weights, styles = zip(*STYLES)
        return self.rng.choices(styles, weights)[0]

    def _shorten(self, words: Sequence[str], documented: bool) -> list[str]:
        """Initials, or every word by itself: its usual short form, its consonants, or its first letters."""
        if documented and len(words) > 1 and self.rng.random() < 0.2:
            return ["".join(word[0] for word in words)]
        letters = self.rng.choice((4, 5)) if documented else 5
        consonants = self.rng.random() < 0.5
        return [short_form(word, 0 if consonants else letters) for word in words]


def short_form(word: str, letters: int) -> str:
    """The word as people abbreviate it: by its first `letters` or, if that is 0, its consonants. Short words stay.

    >>> [short_form(word, 0) for word in ("quantity", "harvest", "net")], short_form("harvest", 4)
    (['qty', 'hrvst', 'net'], 'harv')
    """
    if word in SHORT:
        return SHORT[word]
    short = word[:letters] if letters else word[0] + "".join(letter for letter in word[1:] if letter not in "aeiou")
    return short if 3 <= len(short) < len(word) - 1 else word
