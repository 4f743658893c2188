"""K_q: what a question and its evidence may be naming values by.

Quoted strings, back-ticked names, capitalized spans and numbers come first; then n-grams of one to three words that
neither start nor end in a stop word. Overlaps are wanted: retrieval takes the best match over all mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from grounding.text import STOPWORDS, fold, well_formed

LONGEST_NGRAM = 3
LONGEST_MENTION = 500  # characters; stored texts are indexed by their first 200
_QUOTED = re.compile(
    # None of them runs over another opening sign: a row of these would be searched to its end again and again.
    r"\"([^\"]+)\"|“([^“”]+)”|‘([^‘’]+)’|`([^`]+)`"
    r"|(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)"  # an apostrophe inside a word does not close the quotation
)
_TOKEN = re.compile(r"\w+(?:['’.&/\-]\w+)*|[^\w\s]")
_CONNECTORS = frozenset({"of", "the", "de", "la", "du", "van", "von", "&"})
LONGEST_SPAN = 8
_NUMBER_WORDS = {
    word: str(number)
    for words in (
        "one two three four five six seven eight nine ten eleven twelve",
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth",
    )
    for number, word in enumerate(words.split(), start=1)
}


@dataclass(frozen=True)
class Mention:
    text: str
    """As the question spells it."""
    folded: str
    """As it is compared; no two mentions of a question share it."""
    kind: str = "words"
    """What it looks like: quoted, capitalized, number or words; the first of these that holds."""


def find_mentions(question: str, evidence: str, limit: int) -> tuple[Mention, ...]:
    """At most `limit` distinct mentions, the likeliest to name a value first.

    >>> [m.text for m in find_mentions("Who sang 'Hey Jude' in New York?", "", 6)]
    ['Hey Jude', 'New York', 'sang', 'Hey', 'Jude', 'New']
    """
    found: dict[str, Mention] = {}
    sources = [well_formed(source) for source in (question, evidence) if source]
    finders = {"quoted": _quoted, "capitalized": _capitalized, "number": _numbers, "words": _ngrams}
    for kind, finder in finders.items():
        for source in sources:
            for text in finder(source):
                folded = fold(text)
                if folded and folded not in found and len(folded) <= LONGEST_MENTION:
                    found[folded] = Mention(text, folded, kind)
    return tuple(found.values())[:limit]


def find_spans(question: str, evidence: str) -> tuple[Mention, ...]:
    """Every run of up to eight words as it is written, and number words as digits: what may be stored just so.

    They hold the names that `find_mentions` cannot tell, with stop words at their ends or in lower case, and are too
    many for anything but exact look-up.

    >>> [m.text for m in find_spans("Who is Dr. No?", "")]
    ['Who is', 'Who is Dr', 'Who is Dr. No', 'is Dr', 'is Dr. No', 'Dr', 'Dr. No']
    """
    found: dict[str, Mention] = {}
    for source in map(well_formed, (question, evidence)):
        tokens = [match for match in _TOKEN.finditer(source) if match[0][0].isalnum()]
        for first, token in enumerate(tokens):
            is_alone = not _is_stopword(token[0])
            for last in range(first + (not is_alone), min(first + LONGEST_SPAN, len(tokens))):
                span = source[token.start() : tokens[last].end()]
                kind = "capitalized" if token[0][0].isupper() and tokens[last][0][0].isupper() else "words"
                for text in dict.fromkeys((span, span.removesuffix("'s"))):
                    folded = fold(text)
                    if folded not in found and len(folded) <= LONGEST_MENTION:
                        found[folded] = Mention(text, folded, kind)
            if digits := _NUMBER_WORDS.get(token[0].casefold()):
                found.setdefault(digits, Mention(token[0], digits, "number"))
    return tuple(found.values())


def _quoted(source: str) -> Iterator[str]:
    for groups in _QUOTED.findall(source):
        yield "".join(groups).strip("% ")  # evidence writes LIKE patterns as '%text%'


def _capitalized(source: str) -> Iterator[str]:
    span: list[str] = []
    joiners: list[str] = []  # connectors that belong to the span only if a capitalized word follows
    for token in (*_TOKEN.findall(source), "."):
        if token[0].isupper() and (span or not _is_stopword(token)):
            span += [*joiners, token]
            joiners = []
        elif span and token in _CONNECTORS:
            joiners.append(token)
        elif span:
            yield " ".join(span)
            span, joiners = [], []


def _numbers(source: str) -> Iterator[str]:
    yield from (token for token in _TOKEN.findall(source) if token[0].isdigit())


def _ngrams(source: str) -> Iterator[str]:
    tokens = _TOKEN.findall(source)
    for size in range(1, LONGEST_NGRAM + 1):
        for start in range(len(tokens) - size + 1):
            gram = tokens[start : start + size]
            ends_in_stopword = _is_stopword(gram[0]) or _is_stopword(gram[-1])
            if not ends_in_stopword and all(token[0].isalnum() for token in gram):
                yield " ".join(gram)


def _is_stopword(token: str) -> bool:
    """US and IT are none."""
    return token.casefold() in STOPWORDS and not (len(token) > 1 and token.isupper())
