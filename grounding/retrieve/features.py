"""What speaks for a stored value being meant: one row of numbers a candidate cell, most of them from 0 to 1.

Of the text (its mention is the one it is most similar to)
    exact, trigram, dense    similarity by channel, 0 where the channel did not find it; similar: the greatest
    pairs                    Dice coefficient of letter pairs
    word … skipped           the ways in which it may abbreviate a mention (channels.ABBREVIATIONS)
    cased                    the question spells it just so
    covered                  share of its words that the question says
    inside                   its mention is a part of another that is stored just so
    behind, place            how far, and how many places, it is behind the likest text for the same words
    schema                   share of its mention's words that are names of the schema
    quoted … number          what its mention looks like
    length, short            of the text; exact_length, exact_short: of one that is exact
    number_like              it has no letters
    columns                  logarithm of how many columns hold it
Of the column
    column_said, table_said  share of the name (or of the column's description) that the question says
    question_name            cosine of the mentions' mean and "table column"
    primary, foreign, referred, code_column
Of the cell
    near_column, near_table  1 / distance in words from the mention to a word of the name
    mention_name             cosine of the mention and "table column"
    flag                     1: the yes or no that the question asks the column for, −1: the other
    count                    logarithm of the rows that hold it
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from grounding.index import Cell
from grounding.link import NEVER_TELLING
from grounding.mentions import Mention
from grounding.retrieve.channels import ABBREVIATIONS, Asked, Candidate
from grounding.retrieve.profile import Profile
from grounding.text import content_stems, dice, fold, holds_words, is_number_like, name_stems, stem, words

STRING = ("exact", "trigram", "dense", "pairs", "word", "initials", "prefix", "skipped", "similar", "cased", "covered",
          "inside", "behind", "place", "schema", "quoted", "capitalized", "number", "length", "exact_length", "short",
          "exact_short", "number_like", "columns")
COLUMN = ("column_said", "table_said", "question_name", "primary", "foreign", "referred", "code_column")
CELL = ("near_column", "near_table", "mention_name", "flag", "count")
FEATURES = STRING + COLUMN + CELL
GROUPS = {
    "likeness": ("exact", "trigram", "dense", "pairs", "similar", "cased", "covered"),
    "codes": ("word", "initials", "prefix", "skipped", "flag", "code_column", "short", "exact_short"),
    "rivals": ("inside", "behind", "place"),
    "mention": ("schema", "quoted", "capitalized", "number", "length", "exact_length", "number_like"),
    "names said": ("column_said", "table_said", "near_column", "near_table"),
    "names' vectors": ("question_name", "mention_name"),
    "keys": ("primary", "foreign", "referred"),
    "frequency": ("columns", "count"),
}


def feature_matrix(
    profile: Profile, asked: Asked, mentions: Sequence[Mention], candidates: dict[int, Candidate],
    cells: Sequence[tuple[int, Cell]],
) -> np.ndarray:
    """Features [cells, FEATURES] of each (string id, cell); candidates are numbered by `mentions`."""
    view = _View(profile, asked, mentions, candidates)
    holders: dict[int, int] = {}
    for string_id, _ in cells:
        holders[string_id] = holders.get(string_id, 0) + 1
    strings: dict[int, list[float]] = {}
    columns: dict[tuple[str, str], list[float]] = {}
    rows = []
    for string_id, cell in cells:
        place = (cell.table, cell.column)
        if string_id not in strings:
            strings[string_id] = [*view.string(string_id, cell), math.log(holders[string_id])]
        if place not in columns:
            columns[place] = view.column(place)
        rows.append(strings[string_id] + columns[place] + view.cell(string_id, cell, place))
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(FEATURES))


class _View:
    """What the rows of a question share."""

    def __init__(
        self, profile: Profile, asked: Asked, mentions: Sequence[Mention], candidates: dict[int, Candidate]
    ):
        self.profile, self.mentions, self.candidates = profile, mentions, candidates
        self.text = f"{asked.question} {asked.evidence}"
        self.words = [word.removesuffix("'s").removesuffix("’s") for word in words(self.text)]
        self.stems = [frozenset(content_stems(word)) | {stem(word)} for word in self.words]
        self.positions: dict[str, list[int]] = {}
        for position, stems in enumerate(self.stems):
            for each in stems:
                self.positions.setdefault(each, []).append(position)
        self.said = frozenset(self.positions)
        self.folded = [fold(word) for word in self.words]
        self.spans = [self._span(mention) for mention in mentions]
        self.about: dict[int, tuple[float, ...]] = {}  # by mention
        self.exact_mentions = {c.best["exact"][1] for c in candidates.values() if "exact" in c.best}
        self.mention_pairs = [_letter_pairs(mention.folded) for mention in mentions]
        self.mention_words = [content_stems(mention.folded) or (mention.folded,) for mention in mentions]
        self.rivals: dict[str, list[float]] = {}  # by word, the likenesses, ascending, of what mentions with it find
        for candidate in candidates.values():
            score, _, number = candidate.match
            for word in self.mention_words[number]:
                self.rivals.setdefault(word, []).append(score)
        for scores in self.rivals.values():
            scores.sort()
        self.question_C = self.mention_MC = None
        if profile.names_CD is not None and asked.vectors_MD is not None:
            self.mention_MC = asked.vectors_MD @ profile.names_CD.T
            # A vector of the question itself would cost as much time as those of all its mentions.
            mean_D = asked.vectors_MD.mean(0)
            self.question_C = profile.names_CD @ mean_D / np.linalg.norm(mean_D)

    def _span(self, mention: Mention) -> tuple[int, int] | None:
        """First place of the mention among the question's words, as (from, to)."""
        own = [fold(word) for word in words(mention.text)]
        for start in range(len(self.folded) - len(own) + 1):
            if own and self.folded[start : start + len(own)] == own:
                return start, start + len(own)
        return None

    def string(self, string_id: int, cell: Cell) -> list[float]:
        best = self.candidates[string_id].best
        score, _, number = self.candidates[string_id].match
        is_inside, *about_mention = self._about(number)
        stripped = cell.text.strip()
        value_stems = content_stems(cell.folded)
        is_exact = float("exact" in best)
        is_short = float(len(stripped) <= 2)
        length = math.log1p(len(cell.folded)) / 4
        cased = holds_words(self.text, stripped)
        return [
            is_exact,
            best.get("trigram", (0.0,))[0],
            best.get("dense", (0.0,))[0],
            self._pairs({number for _, number in best.values()}, cell.folded),
            *(float(way in self.candidates[string_id].abbreviates) for way in ABBREVIATIONS),
            score,
            float(cased),
            _share(value_stems, self.said),
            is_inside,
            *self._rivalry(score, number),
            *about_mention,
            length,
            is_exact * length,
            is_short,
            is_exact * is_short,
            float(is_number_like(stripped)),
        ]

    def _about(self, number: int) -> tuple[float, ...]:
        """Features inside, schema, quoted, capitalized and number: the same for all that this mention found."""
        if number not in self.about:
            mention = self.mentions[number]
            is_inside = any(  # a part of another mention that is stored just so
                other != number and f" {mention.folded} " in f" {self.mentions[other].folded} "
                for other in self.exact_mentions
            )
            schema = _share(content_stems(mention.folded), self.profile.schema_stems)
            kinds = (float(mention.kind == kind) for kind in ("quoted", "capitalized", "number"))
            self.about[number] = (float(is_inside), schema, *kinds)
        return self.about[number]

    def _pairs(self, numbers: Iterable[int], folded: str) -> float:
        """Dice coefficient of letter pairs, which a slip changes less than trigrams, to the likest of the mentions."""
        pairs = _letter_pairs(folded)
        return max(dice(self.mention_pairs[number], pairs) for number in numbers)

    def _rivalry(self, score: float, number: int) -> tuple[float, float]:
        """How far, and how many places (as a logarithm), the text is behind the likest one; at its best word."""
        rivals = [self.rivals[word] for word in self.mention_words[number]]
        behind = min(scores[-1] for scores in rivals) - score
        place = min(len(scores) - bisect_right(scores, score) for scores in rivals)
        return behind, math.log1p(place) / 4

    def column(self, place: tuple[str, str]) -> list[float]:
        table, name = place
        column = self.profile.columns[place]
        described = _share(content_stems(column.description), self.said)
        return [
            max(described, _share(name_stems(name) - NEVER_TELLING, self.said)),
            _share(name_stems(table), self.said),
            0.0 if self.question_C is None else float(self.question_C[self.profile.place[place]]),
            float(place in self.profile.primary),
            float(place in self.profile.foreign),
            float(place in self.profile.referred),
            float(place in self.profile.code_columns),
        ]

    def cell(self, string_id: int, cell: Cell, place: tuple[str, str]) -> list[float]:
        candidate = self.candidates[string_id]
        _, _, number = candidate.match
        span = self.spans[number]
        return [
            self._nearness(span, name_stems(cell.column) - NEVER_TELLING),
            self._nearness(span, name_stems(cell.table)),
            self._mention_name(number, place),
            candidate.flags.get(place, 0.0),
            math.log1p(cell.count) / 8,
        ]

    def _mention_name(self, number: int, place: tuple[str, str]) -> float:
        """Cosine of the mention and the column's name; 0 for one that has no vector."""
        is_known = self.mention_MC is not None and number < len(self.mention_MC)
        return float(self.mention_MC[number, self.profile.place[place]]) if is_known else 0.0

    def _nearness(self, span: tuple[int, int] | None, stems: frozenset[str]) -> float:
        """1 / distance in words from the mention to the nearest word of a name; 0 where none is said outside it."""
        if span is None:
            return 0.0
        gaps = [max(span[0] - position, position - span[1] + 1)
                for each in stems for position in self.positions.get(each, ())]
        return max((1 / gap for gap in gaps if gap > 0), default=0.0)


def _letter_pairs(text: str) -> frozenset[str]:
    return frozenset(text[i : i + 2] for i in range(len(text) - 1))


def _share(stems: Collection[str], said: frozenset[str]) -> float:
    return sum(each in said for each in stems) / len(stems) if stems else 0.0
