"""One random column of each sort; None where what was drawn does not go with the table's other columns."""

from __future__ import annotations

from dataclasses import replace

from serl.data.minibird import schema
from serl.data.minibird.invent import attributes, lexicon
from serl.data.minibird.invent.categories import category_words, codes
from serl.data.minibird.invent.draft import Draft
from serl.data.minibird.phrases import plural
from serl.data.minibird.schema import Column, Notion

# Lowest and highest number, and decimals.
SCALES: dict[str, tuple[tuple[float, float, int], ...]] = {
    "small": ((0, 10, 0), (1, 20, 0), (0, 10, 1), (1, 60, 0), (2, 30, 1)),
    "middle": ((1, 100, 0), (10, 100, 0), (5, 240, 0), (20, 400, 1), (1, 90, 1)),
    "age": ((1, 90, 0), (16, 80, 0), (1, 30, 0)),
    "large": ((100, 2000, 0), (50, 9000, 0), (500, 40000, 0), (1000, 90000, 0)),
    "money": ((5, 90, 2), (10, 900, 2), (100, 5000, 0), (1000, 80000, 0), (0, 40, 1)),
    "amount": ((1, 60, 0), (0, 300, 0), (5, 900, 0), (1, 90, 1)),
    "year": ((1850, 2015, 0), (1900, 2020, 0), (1960, 2020, 0)),
    "count": ((0, 12, 0), (1, 30, 0), (0, 90, 0), (10, 400, 0), (50, 9000, 0)),
}
ADDITIVE = ("money", "amount", "count")  # scales of quantities whose total means something
NOTION = 0.3  # share of numbers with a word that only evidence explains


def label(draft: Draft) -> Column:
    """A name for each row: of a person, a title, a number of a document, or coined words."""
    rng = draft.rng
    if draft.person:
        said, patterns = rng.choice(("name", "name", "full name", "name/full name")), ("{first} {last}",)
    elif rng.random() < 0.2:
        said = rng.choice(lexicon.CODE_LABELS)
        letters = rng.choices("ABCDEFGHJKLMNPRSTVWXZ", k=4)
        patterns = tuple(f"{rng.choice(letters)}{rng.choice(letters)}-{digits}"
                         for digits in rng.sample(range(100, 9999), 3 * draft.rows))
    else:
        said, patterns = rng.choice(lexicon.LABELS), tuple(rng.sample(lexicon.TITLES, 3))
    if draft.vocabulary.is_strange():
        coined = [draft.vocabulary.pseudo().title() for _ in range(12)]
        pools = ("first",) if draft.person else ("noun", "place", "last")
        patterns = tuple(f"{{{pool}}} {word}" for word in coined for pool in pools)
    words = draft.speak(said.split("/"))
    return draft.column(schema.label("", *patterns, said="/".join(words)),
                        f"{draft.noun} {words[0]}" if rng.random() < 0.2 else words[0])


def category(draft: Draft) -> Column | None:
    """Words, stored as the question says them or in another case."""
    if (found := category_words(draft)) is None:
        return None
    said, values, options = found
    stored = draft.rng.choice((str, str, str.upper, str.title))
    return draft.column(schema.category("", values, "/".join(said), stored, null=draft.nulls(), **options))


def code(draft: Draft) -> Column | None:
    """Codes that the documentation or only evidence explains."""
    if (found := category_words(draft)) is None:
        return None
    said, values, options = found
    words = dict(zip(codes(values, draft.rng), values, strict=True))
    return draft.column(schema.code("", words, "/".join(said), documented=draft.rng.random() < 0.6, **options))


def measure(draft: Draft) -> Column | None:
    rng = draft.rng
    comparison: list[str] = []
    if draft.vocabulary.is_strange():
        nouns, unit, scale = [draft.vocabulary.pseudo()], "", rng.choice(("small", "middle", "large", "amount"))
    else:
        synonyms, unit, scale, compared = (part.strip() for part in draft.choose(attributes.MEASURES).split("|"))
        nouns, comparison = synonyms.split("/"), compared.split()
    if (said := draft.speak(draft.qualify(nouns, attributes.MEASURE_QUALIFIERS))) is None:
        return None
    column = _scaled(scale, said, draft, unit=unit if rng.random() < 0.5 else "")
    if comparison and rng.random() < 0.6 and draft.vocabulary.take(*comparison):
        more, less, most, least = comparison
        column = replace(column, more=f"{more} than {{v}}", less=f"{less} than {{v}}", most=most, least=least)
    return draft.column(column)


def count(draft: Draft) -> Column | None:
    """How many things of some sort a row has: "with more than 5 wheels"."""
    thing = draft.vocabulary.word(attributes.COUNTABLES)
    things = plural(thing)
    said = draft.speak((f"number of {things}",))
    spelled = draft.rng.choice((things, things, f"{thing} count", f"num {things}", f"number {things}"))
    return said and draft.column(_scaled("count", said, draft, counted=things), spelled)


def mark(draft: Draft) -> Column | None:
    """A year, a floor or another number of which no mean is asked."""
    nouns, scale = draft.rng.choice(attributes.MARKS).split(" | ")
    said = draft.speak(nouns.split("/"))
    return said and draft.column(replace(_scaled(scale, said, draft), averaged=False, notion=None))


def date(draft: Draft) -> Column | None:
    rng = draft.rng
    if draft.vocabulary.is_strange():
        event = draft.vocabulary.pseudo().rstrip("aeiou")
        verb, nouns = f"{event}ed", f"{event} date"
    else:
        verb, nouns = draft.choose(attributes.DATES).split(" | ")
        if not draft.vocabulary.take(verb):
            return None
    if (said := draft.speak(nouns.split("/"))) is None:
        return None
    first = rng.randint(1950, 2014)
    column = schema.date("", first, min(first + rng.randint(5, 40), 2022), verb, "/".join(said), null=draft.nulls())
    return draft.column(column, rng.choice((said[0], said[0], verb, f"date {verb}")))


def flag(draft: Draft) -> Column | None:
    if draft.vocabulary.is_strange():
        yes = draft.vocabulary.pseudo()
        no = f"non-{yes}"
    else:
        yes, _, no = draft.choose(attributes.FLAGS).partition("/")
        no = no or f"un{yes}"
        if not draft.vocabulary.take(yes, no):
            return None
    if (said := draft.speak((yes,))) is None:
        return None
    spelled = draft.rng.choice((yes, yes, f"is {yes}", f"{yes} flag"))
    return draft.column(replace(schema.flag("", yes, no), said=said), spelled)


def _scaled(scale: str, said: tuple[str, ...], draft: Draft, unit: str = "", counted: str = "") -> Column:
    low, high, digits = draft.rng.choice(SCALES[scale])
    return replace(
        schema.number("", low, high, "/".join(said), digits=digits, unit=unit, counted=counted),
        summable=scale in ADDITIVE, null=draft.nulls(), notion=_notion(low, high, digits, draft))


def _notion(low: float, high: float, digits: int, draft: Draft) -> Notion | None:
    rng = draft.rng
    if rng.random() >= NOTION:
        return None
    operator = rng.choice((">", ">", ">=", "<", "<="))
    share = rng.uniform(0.5, 0.75) if operator.startswith(">") else rng.uniform(0.2, 0.4)
    threshold = float(f"{low + share * (high - low):.2g}")
    if not digits or threshold.is_integer():
        threshold = round(threshold)
    return Notion(draft.vocabulary.word(attributes.ADJECTIVES), operator, threshold)
