"""What an invented category is called, its values, and the codes that may stand for them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from serl.data.minibird.invent import attributes
from serl.data.minibird.invent.draft import Draft
from serl.data.minibird.words import CITIES, COUNTRIES

THEMED = 0.6  # share of categories whose values belong to their name
PLACES = 0.1  # share of cities and countries


def category_words(draft: Draft) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, Any]] | None:
    """How a category is called, its values, and the options of its column that say how questions use them."""
    rng = draft.rng
    share = rng.random()
    if draft.vocabulary.is_strange() or share > THEMED + PLACES:
        nouns, values, options = _any_words(draft)
    elif share < PLACES:
        nouns, values, options = _places(draft)
    else:
        nouns, values, options = _themed(draft)
    said = draft.speak(draft.qualify(nouns, attributes.CATEGORY_QUALIFIERS)) if len(values) > 1 else None
    return said and (said, tuple(values), options)


def codes(values: Sequence[str], rng: random.Random) -> list[str]:
    """A code for each value: its beginning, or something that tells nothing of it."""
    letter = rng.choice("ABCDEGKLPRST")
    ways = [[value[:length].upper() for value in values] for length in (1, 2, 3)]
    ways += [[f"{letter}{at}" for at in range(1, len(values) + 1)],
             [f"{at:02d}" for at in range(1, len(values) + 1)],
             [first + letter for first in rng.sample("BCDFGHJKMNPQRTVWXZ", len(values))]]
    return rng.choice([way for way in ways if len(set(way)) == len(way)])


def _themed(draft: Draft) -> tuple[list[str], list[str], dict[str, Any]]:
    noun, words, phrase = (part.strip() for part in draft.choose(attributes.CATEGORIES).split("|"))
    values = draft.vocabulary.some(words.removeprefix("*").split(), draft.rng.randint(2, 7))
    return noun.split("/"), values, {"adjective": words.startswith("*"), "phrases": (phrase,) if phrase else ()}


def _places(draft: Draft) -> tuple[list[str], list[str], dict[str, Any]]:
    noun, places = draft.rng.choice((("city", CITIES), ("country", COUNTRIES)))
    values = draft.vocabulary.some(places, draft.rng.randint(5, 9))
    if draft.person:
        return [noun, f"home {noun}"], values, {"phrases": ("from {v}",)}
    return [noun], values, {"phrases": ("in {v}",)}


def _any_words(draft: Draft) -> tuple[list[str], list[str], dict[str, Any]]:
    """Values that the category's name gives no hint of."""
    vocabulary = draft.vocabulary
    noun = vocabulary.pseudo() if vocabulary.is_strange() else draft.rng.choice(attributes.PLAIN_CATEGORIES)
    adjective = draft.rng.random() < 0.5
    pool = attributes.ADJECTIVES if adjective else attributes.VALUES
    return [noun], [vocabulary.word(pool) for _ in range(draft.rng.randint(3, 7))], {"adjective": adjective}
