"""The trigram channel: stored texts that share the most three-character windows with a mention.

An inverted index in SQLite: for each trigram and each block of 65,536 string ids, the ids that hold it, as offsets of
two bytes. Candidates are ranked by the Dice coefficient, 2|A∩B| / (|A| + |B|), over all of them.

SQLite's FTS5 has a trigram tokenizer, but no use here. Where it stores no positions and no text (and with them it
would be the largest part of an index), its BM25 is the same for every row, so that a LIMIT keeps the oldest rows and
not the best ones; and reading a row through it costs about 100 times what an array costs, which at 300,000 texts is
over a second a mention.

Trigrams that are in very many texts are left out of a look-up once the rarer ones have brought POSTINGS candidates.
How many trigrams a candidate shares is then estimated from its signature, 128 bits of which each trigram sets one, and
the best COMPARED are compared in full. In a small database nothing is left out, and nothing is estimated.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from grounding.text import dice, trigrams

BLOCK = 65_536  # string ids of a block; an offset must fit two bytes
COMMON = 1000  # texts from which a trigram's number of texts is noted: only then is it worth leaving out
POSTINGS = 6_000  # (trigram, text) pairs of common trigrams that a look-up reads, some 0.3 ms
RAREST = 20_000  # the same of the rarest trigram alone
COMPARED = 30  # candidates that are compared in full where trigrams were left out
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: its multiples are even over the upper bits (Knuth)
TABLES = """
CREATE TABLE posting (gram INTEGER, block INTEGER, members BLOB, PRIMARY KEY (gram, block)) WITHOUT ROWID;
CREATE TABLE block (id INTEGER PRIMARY KEY, grams BLOB, signatures BLOB);
CREATE TABLE common (gram INTEGER PRIMARY KEY, texts INTEGER);
"""


def write_trigrams(connection: sqlite3.Connection, blocks: Iterable[Sequence[str]]) -> None:
    """Fills the tables from folded texts in the order of their ids, BLOCK at a time."""
    for number, texts in enumerate(blocks):
        postings, grams_S, signatures_S2 = invert(texts)
        connection.executemany("INSERT INTO posting VALUES (?, ?, ?)", ((g, number, m) for g, m in postings))
        connection.execute("INSERT INTO block VALUES (?, ?, ?)", (number, grams_S.tobytes(), signatures_S2.tobytes()))
    connection.execute(
        "INSERT INTO common SELECT gram, sum(length(members)) / 2 AS texts FROM posting"
        " GROUP BY gram HAVING texts >= ?",
        (COMMON,),
    )


def invert(texts: Sequence[str]) -> tuple[Iterator[tuple[int, bytes]], np.ndarray, np.ndarray]:
    """(trigram's key, offsets of the texts that hold it) in the keys' order; and of each text its number of trigrams
    [S] and its signature [S, 2]."""
    lengths_S = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
    owner = np.repeat(np.arange(len(texts)), lengths_S)
    inside = owner[:-2] == owner[2:]  # a window may not reach into the next text
    windows = ((points[:-2] << 42) | (points[1:-1] << 21) | points[2:])[inside]
    keys_G, which = np.unique(windows, return_inverse=True)
    pairs = np.unique((which << 16) | owner[:-2][inside])  # sorted, and a trigram once a text
    members = (pairs & 0xFFFF).astype(np.uint16)
    ends_G = np.searchsorted(pairs >> 16, np.arange(len(keys_G)), side="right").tolist()
    postings = (
        (key, members[start:end].tobytes()) for key, start, end in zip(keys_G.tolist(), [0, *ends_G[:-1]], ends_G)
    )
    signatures_S2 = np.zeros((len(texts), 2), dtype=np.uint64)
    word_G, bit_G = signature_bit(keys_G)
    np.bitwise_or.at(signatures_S2, (members, word_G[pairs >> 16]), bit_G[pairs >> 16])
    return postings, np.bincount(members, minlength=len(texts)).astype(np.uint16), signatures_S2


def signature_bit(keys_G: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bit of a signature that each trigram sets: which of its two words, and the word with that bit alone."""
    place_G = (keys_G.astype(np.uint64) * _SPREAD) >> np.uint64(57)
    return (place_G >> np.uint64(6)).astype(np.int64), np.uint64(1) << (place_G & np.uint64(63))


def key_of(gram: str) -> int:
    """A trigram's code points, 21 bits each.

    >>> key_of("abc") == (97 << 42) | (98 << 21) | 99
    True
    """
    first, second, third = map(ord, gram)
    return (first << 42) | (second << 21) | third


class TrigramSearch:
    """Look-ups in the tables of an opened index."""

    def __init__(self, connection: sqlite3.Connection):
        self._connection = connection

    def nearest(self, grams: frozenset[str], k: int) -> list[tuple[int, str, float]]:
        """(string id, folded text, Dice coefficient) of the k texts that are likest to these trigrams, likest first."""
        keys = self._worth_reading(grams)
        marks = ",".join("?" * len(keys))
        postings = self._connection.execute(
            f"SELECT block, members FROM posting WHERE gram IN ({marks})", keys
        ).fetchall()
        if not postings:
            return []
        is_exact = len(keys) == len(grams)
        places = np.frombuffer(b"".join(members for _, members in postings), dtype=np.uint16)
        starts = np.array([block * BLOCK for block, _ in postings], dtype=np.uint32)
        ids, shared = self._count(places + np.repeat(starts, [len(members) // 2 for _, members in postings]))
        if not is_exact:
            shared = self._estimate(ids, grams)
        scores = 2 * shared / (len(grams) + self._grams_S[ids])
        wanted = k if is_exact else max(k, COMPARED)
        if len(ids) > wanted:  # the best, and all that equal the last of them, so that ties fall to the lower ids
            best = np.flatnonzero(scores >= np.partition(scores, -wanted)[-wanted])
            ids, scores = ids[best], scores[best]
        order = np.lexsort((ids, -scores))[:wanted]
        found = self._fetch(ids[order].tolist())
        if is_exact:
            return [(string_id, text, score) for (string_id, text), score in zip(found, scores[order].tolist())]
        compared = [(string_id, text, dice(grams, trigrams(text))) for string_id, text in found]
        return sorted(compared, key=lambda row: (-row[2], row[0]))[:k]

    def _worth_reading(self, grams: frozenset[str]) -> list[int]:
        """Keys, the rarest trigrams first, until the common ones among them exceed what a look-up may read.

        None where even the rarest is in several times as many texts: a short mention of a very large database, to
        which thousands of texts are equally like.
        """
        keys = sorted(map(key_of, grams), key=lambda key: (self._common.get(key, 0), key))
        total = 0
        for place, key in enumerate(keys):
            total += self._common.get(key, 0)
            if total > (POSTINGS if place else RAREST):
                return keys[:place]
        return keys

    def _count(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distinct ids, ascending, and how often each is there."""
        if len(self._grams_S) > 8 * len(ids):
            return np.unique(ids, return_counts=True)
        counts = np.bincount(ids)
        distinct = np.flatnonzero(counts)
        return distinct, counts[distinct]

    def _estimate(self, ids: np.ndarray, grams: frozenset[str]) -> np.ndarray:
        """How many trigrams each of these texts shares with `grams`, as their signatures have it."""
        mine_2 = np.zeros(2, dtype=np.uint64)
        np.bitwise_or.at(mine_2, *signature_bit(np.array([key_of(gram) for gram in grams])))
        # `take` without bounds checks reads scattered rows in less than half the time of an index in brackets.
        counts_C2 = np.bitwise_count(self._signatures_S2.take(ids, axis=0, mode="clip") & mine_2)
        return counts_C2[:, 0].astype(np.int64) + counts_C2[:, 1]

    def _fetch(self, ids: list[int]) -> list[tuple[int, str]]:
        marks = ",".join("?" * len(ids))
        rows = dict(self._connection.execute(f"SELECT id, folded FROM string WHERE id IN ({marks})", ids))
        return [(string_id, rows[string_id]) for string_id in ids]

    @cached_property
    def _common(self) -> dict[int, int]:
        return dict(self._connection.execute("SELECT gram, texts FROM common"))

    @cached_property
    def _grams_S(self) -> np.ndarray:
        """Number of trigrams of every text, by string id."""
        return np.frombuffer(self._joined("grams"), dtype=np.uint16)

    @cached_property
    def _signatures_S2(self) -> np.ndarray:
        return np.frombuffer(self._joined("signatures"), dtype=np.uint64).reshape(-1, 2)

    def _joined(self, column: str) -> bytes:
        return b"".join(blob for (blob,) in self._connection.execute(f"SELECT {column} FROM block ORDER BY id"))
