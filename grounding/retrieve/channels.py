"""Candidate values of a question: what each channel finds, and by which mention.

Each channel gives a similarity from 0 to 1: `exact` (equal after folding: 1), `trigram` (the Dice coefficient of
trigrams), `dense` (the cosine of sentence vectors) and `code`: a text that abbreviates a mention, `F` for female, or
that answers yes or no where the question names such a column, `Y` for `is_member`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from grounding.index import ValueIndex
from grounding.mentions import Mention
from grounding.retrieve.profile import NO, Profile
from grounding.text import content_stems, fold, name_stems, stem, trigrams, words

DENSE_NEIGHBOURS = 10  # a mention
LEAST_DICE = 0.4  # below, texts share no more than an ending or a common syllable
CODE_SCORE = 0.5  # similarity of a code to what it stands for: a guess, and below every threshold of confidence
CHANNELS = ("exact", "trigram", "dense", "code")
ABBREVIATIONS = ("word", "initials", "prefix", "skipped")
"""F for girls, NY for New York, CA for California, TX for Texas."""
_CODE_WORDS = {
    word: code
    for code, said in (("f", "female females woman women girl girls"), ("m", "male males man men boy boys"))
    for word in said.split()
}
_NEGATIONS = frozenset(("no", "not", "without", "never", "non", "neither", "nor"))
_UNTELLING = frozenset(("is", "has", "yn", "flag"))  # parts of a flag's name that do not say what it is of


@dataclass(frozen=True)
class Asked:
    """A question as retrieval takes it. Without an encoder there are no vectors."""

    question: str
    evidence: str
    mentions: tuple[Mention, ...]
    spans: tuple[Mention, ...]
    """Looked up just as they are written, beside the mentions."""
    vectors_MD: np.ndarray | None = None
    """Unit vectors [mentions, dimension]."""


@dataclass
class Candidate:
    """A stored text, and the most similar mention of each channel as (similarity, the mention's number)."""

    best: dict[str, tuple[float, int]] = field(default_factory=dict)
    abbreviates: set[str] = field(default_factory=set)
    """How it may stand for a mention, of ABBREVIATIONS."""
    flags: dict[tuple[str, str], float] = field(default_factory=dict)
    """By column that says yes or no and that the question names: 1 where the text is the answer asked for, else −1."""

    def offer(self, channel: str, similarity: float, mention: int) -> None:
        if similarity > self.best.get(channel, (0.0, 0))[0]:
            self.best[channel] = (similarity, mention)

    @property
    def match(self) -> tuple[float, str, int]:
        """(similarity, channel, mention) of the most similar; the earlier channel where two are."""
        channel = max(self.best, key=lambda name: (self.best[name][0], -CHANNELS.index(name)))
        return self.best[channel][0], channel, self.best[channel][1]

    @property
    def is_only_code(self) -> bool:
        return self.best.keys() == {"code"}


Candidates = dict[int, Candidate]
"""By string id."""


def find_candidates(index: ValueIndex, profile: Profile, asked: Asked) -> tuple[Candidates, tuple[Mention, ...]]:
    """Candidates, and the mentions that their numbers mean: the question's, then the spans that are stored."""
    found: Candidates = defaultdict(Candidate)
    folded = {mention.folded for mention in asked.mentions}
    abbreviations = _abbreviations(asked.mentions)
    flags = _named_flags(profile, asked.question)
    flagged = {text for texts in flags.values() for text in texts}
    stored = index.exact([*{*folded, *(span.folded for span in asked.spans), *abbreviations, *flagged}])
    spans = (span for span in asked.spans if span.folded in stored and span.folded not in folded)
    mentions = (*asked.mentions, *spans)
    if not mentions:
        return {}, ()
    for number, mention in enumerate(mentions):
        if mention.folded in stored:
            found[stored[mention.folded]].offer("exact", 1.0, number)
    _offer_trigrams(index, asked, found)
    if asked.vectors_MD is not None and index.dense_count:
        _offer_dense(index, asked.vectors_MD, found)
    for form in abbreviations.keys() & stored.keys():
        candidate = found[stored[form]]
        for way, number in abbreviations[form].items():
            candidate.offer("code", CODE_SCORE, number)
            candidate.abbreviates.add(way)
    is_negated = any(fold(word) in _NEGATIONS or word.endswith(("n't", "n’t")) for word in words(asked.question))
    for place, texts in flags.items():
        for text in texts:
            candidate = found[stored[text]]
            candidate.offer("code", CODE_SCORE, 0)
            candidate.flags[place] = 1.0 if (text in NO) == is_negated else -1.0
    return dict(found), mentions


def _offer_trigrams(index: ValueIndex, asked: Asked, found: Candidates) -> None:
    for number, mention in enumerate(asked.mentions):
        for string_id, _, similarity in index.trigram(trigrams(mention.folded)):
            if similarity >= LEAST_DICE:
                found[string_id].offer("trigram", similarity, number)


def _offer_dense(index: ValueIndex, vectors_MD: np.ndarray, found: Candidates) -> None:
    cosines_MK, ids_MK = index.dense(vectors_MD, DENSE_NEIGHBOURS)
    for number, (cosines, ids) in enumerate(zip(cosines_MK.tolist(), ids_MK.tolist())):
        for cosine, string_id in zip(cosines, ids):
            if string_id >= 0 and cosine > 0:  # an approximate index fills its rows with −1
                found[string_id].offer("dense", min(1.0, cosine), number)


def _named_flags(profile: Profile, question: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """The columns that say yes or no and of whose name the question says something."""
    said = set(content_stems(question))
    return {place: texts for place, texts in profile.flags.items()
            if said & ({stem(place[1]), *name_stems(place[1])} - _UNTELLING)}


def _abbreviations(mentions: Sequence[Mention]) -> dict[str, dict[str, int]]:
    """Short forms that may stand for a mention, each with the ways it may and the first mention it may stand for."""
    forms: dict[str, dict[str, int]] = {}
    for number, mention in enumerate(mentions):
        for way, form in _short_forms(mention):
            forms.setdefault(form, {}).setdefault(way, number)
    return forms


def _short_forms(mention: Mention) -> Iterator[tuple[str, str]]:
    spoken = mention.folded.split()
    if len(spoken) > 1:
        yield "initials", "".join(word[0] for word in spoken)
    elif len(word := spoken[0]) > 2 and word.isalpha():
        if word in _CODE_WORDS:
            yield "word", _CODE_WORDS[word]
        yield from (("prefix", word[:size]) for size in range(1, min(4, len(word))))
        if mention.kind == "capitalized":  # Texas is TX
            yield from (("skipped", word[0] + letter) for letter in dict.fromkeys(word[2:]))
