"""Draws the words of one invented database: real ones, and pseudo-words that can only be copied."""

from __future__ import annotations

import random
from collections.abc import Sequence

# How many of a database's words are pseudo-words; one share is drawn for a database, a third on average.
STRANGE = (0.0, 0.1, 0.25, 0.45, 0.75)

_ONSETS = """b bl br c ch cl cr d dr f fl fr g gl gr h j k kl kr l m n p pl pr qu r s sk sl sn sp st str t th tr v vl
w y z""".split()
_VOWELS = "a a e e i i o o u u ai ea oo ou".split()
_CODAS = ["", "", "", "", "n", "r", "l", "m", "s"]
_ENDINGS = "n r l m k p t d b g nt rk lm nd ra lo mo na to va".split()


class Vocabulary:
    """No word comes twice, so that a word of a question points at one thing of the database."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.strange = rng.choice(STRANGE)
        self.used: set[str] = set()

    def take(self, *words: str) -> bool:
        """Marks the words as used; False, and nothing marked, where one of them already is."""
        if self.used & set(words):
            return False
        self.used |= set(words)
        return True

    def is_strange(self) -> bool:
        """Whether the next word is to be a pseudo-word."""
        return self.rng.random() < self.strange

    def pseudo(self) -> str:
        """A pronounceable word of two or three syllables that means nothing: "brivelant"."""
        while True:
            syllables = [self._syllable() for _ in range(self.rng.choice((1, 1, 1, 2)))]
            word = "".join((*syllables, self.rng.choice(_ONSETS), self.rng.choice("aeiou"), self.rng.choice(_ENDINGS)))
            if 5 <= len(word) <= 10 and self.take(word):
                return word

    def word(self, pool: Sequence[str]) -> str:
        """A word of the pool, or a pseudo-word by the database's share of them or where the pool is used up."""
        free = [word for word in pool if word not in self.used]
        if not free or self.is_strange():
            return self.pseudo()
        word = self.rng.choice(free)
        self.used.add(word)
        return word

    def some(self, words: Sequence[str], count: int) -> list[str]:
        """Up to `count` of the words, those that are not used yet."""
        free = [word for word in words if word.lower() not in self.used]
        chosen = self.rng.sample(free, min(count, len(free)))
        self.used |= {word.lower() for word in chosen}
        return chosen

    def _syllable(self) -> str:
        return self.rng.choice(_ONSETS) + self.rng.choice(_VOWELS) + self.rng.choice(_CODAS)
