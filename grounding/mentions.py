"""K_q: what a question and its evidence may be naming values by.

Quoted strings, back-ticked names, capitalized spans and numbers come first; then n-grams of one to three words that
neither start nor end in a stop word. Overlaps are wanted: retrieval takes the best match over all mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from grounding.text import STOPWORDS, fold

LONGEST_NGRAM = 3
_QUOTED = re.compile(
    r"\"([^\"]+)\"|“([^”]+)”|‘([^’]+)’|`([^`]+)`"
    r"|(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)"  # an apostrophe inside a word does not close the quotation
)
_TOKEN = re.compile(r"\w+(?:['’.&/\-]\w+)*|[^\w\s]")
_CONNECTORS = frozenset({"of", "the", "de", "la", "du", "van", "von", "&"})


@dataclass(frozen=True)
class Mention:
    text: str
    """As the question spells it."""
    folded: str
    """As it is compared; no two mentions of a question share it."""


def find_mentions(question: str, evidence: str, limit: int) -> tuple[Mention, ...]:
    """At most `limit` distinct mentions, the likeliest to name a value first.

    >>> [m.text for m in find_mentions("Who sang 'Hey Jude' in New York?", "", 6)]
    ['Hey Jude', 'New York', 'sang', 'Hey', 'Jude', 'New']
    """
    found: dict[str, Mention] = {}
    sources = [source for source in (question, evidence) if source]
    for finder in (_quoted, _capitalized, _numbers, _ngrams):
        for source in sources:
            for text in finder(source):
                folded = fold(text)
                if folded and folded not in found:
                    found[folded] = Mention(text, folded)
    return tuple(found.values())[:limit]


def _quoted(source: str) -> Iterator[str]:
    for groups in _QUOTED.findall(source):
        yield "".join(groups).strip("% ")  # evidence writes LIKE patterns as '%text%'


def _capitalized(source: str) -> Iterator[str]:
    span: list[str] = []
    joiners: list[str] = []  # connectors that belong to the span only if a capitalized word follows
    for token in (*_TOKEN.findall(source), "."):
        if token[0].isupper() and (span or token.casefold() not in STOPWORDS):
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
            ends_in_stopword = not STOPWORDS.isdisjoint((gram[0].casefold(), gram[-1].casefold()))
            if not ends_in_stopword and all(token[0].isalnum() for token in gram):
                yield " ".join(gram)
