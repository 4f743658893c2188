"""The trigram channel, against a plain computation of the Dice coefficient."""

import random
import sqlite3

import numpy as np
import pytest

from grounding import trigram
from grounding.text import dice, trigrams
from grounding.trigram import TABLES, TrigramSearch, invert, key_of, write_trigrams


def search_over(texts, block=trigram.BLOCK):
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES + "CREATE TABLE string (id INTEGER PRIMARY KEY, folded TEXT);")
    connection.executemany("INSERT INTO string VALUES (?, ?)", enumerate(texts))
    write_trigrams(connection, (texts[start : start + block] for start in range(0, len(texts), block)))
    return TrigramSearch(connection)


def by_hand(texts, mention, k):
    grams = trigrams(mention)
    scored = [(-dice(grams, trigrams(text)), number, text) for number, text in enumerate(texts)]
    return [(number, text, -score) for score, number, text in sorted(scored)[:k] if score]


def made_up(count, seed=0):
    chance = random.Random(seed)
    return ["".join(chance.choice("abcdé 北𝄞") for _ in range(chance.randrange(12))) for _ in range(count)]


def test_postings_hold_each_text_once_and_do_not_reach_across_texts():
    postings, grams, signatures = invert(["aaaa", "ab", "", "caaa"])
    assert dict(postings) == {
        key_of("aaa"): b"\x00\x00\x03\x00", key_of("caa"): b"\x03\x00",
    }  # fmt: skip
    assert grams.tolist() == [1, 0, 0, 2]
    assert np.bitwise_count(signatures).sum(axis=1).tolist() == [1, 0, 0, 2]
    assert (signatures[0] & signatures[3]).any()


def test_the_nearest_are_those_of_the_plain_computation():
    texts = made_up(400)
    search = search_over(texts)
    for mention in made_up(50, seed=1):
        assert search.nearest(trigrams(mention), 10) == by_hand(texts, mention, 10)


def test_several_blocks_are_one_index(monkeypatch):
    monkeypatch.setattr(trigram, "BLOCK", 64)
    texts = made_up(400)
    search = search_over(texts, block=64)
    assert all(search.nearest(trigrams(m), 5) == by_hand(texts, m, 5) for m in made_up(30, seed=2))


def test_common_trigrams_are_left_out_but_the_best_are_compared_in_full(monkeypatch):
    monkeypatch.setattr(trigram, "COMMON", 20)
    monkeypatch.setattr(trigram, "POSTINGS", 30)
    texts = [f"common ending {chr(97 + i // 26)}{chr(97 + i % 26)}q" for i in range(300)]
    search = search_over(texts)
    wanted = texts[137]
    assert len(search._worth_reading(trigrams(wanted))) < len(trigrams(wanted))
    assert search.nearest(trigrams(wanted), 3)[0] == (137, wanted, 1.0)


@pytest.mark.parametrize("grams", [set(), {"zzz"}])
def test_what_is_not_there_is_not_found(grams):
    assert search_over(["abc"]).nearest(frozenset(grams), 3) == []
