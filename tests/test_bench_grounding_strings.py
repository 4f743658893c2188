"""How the baselines of grounding's benchmark compare texts: MinHash against true sets, tables against brute force."""

import doctest
import random

import numpy as np
import pytest

from experiments.bench.grounding_baselines import bm25, bm25_lcs, cells, minhash, ngrams, porter
from experiments.bench.grounding_baselines import edit_distance as edits
from experiments.bench.grounding_baselines.bm25_lcs import longest_common_substrings
from experiments.bench.grounding_baselines.edit_distance import edit_distance, edit_similarity
from experiments.bench.grounding_baselines.minhash import PERMUTATIONS, Bands, choose_bands, jaccard, signatures
from experiments.bench.grounding_baselines.ngrams import shingles


def random_text(generator: random.Random, letters: str = "abcd", longest: int = 30) -> str:
    return "".join(generator.choice(letters) for _ in range(generator.randint(1, longest)))


def test_shingles_are_the_texts_trigrams():
    generator = random.Random(1)
    texts = [random_text(generator, "ab🎵é", 9) for _ in range(50)]
    grams, counts = shingles(texts)
    number = dict(zip([text[i : i + 3] for text in (each.ljust(3, "\0") for each in texts)
                       for i in range(len(text) - 2)], grams.tolist()))
    assert len(set(number.values())) == len(number), "different trigrams have different numbers"
    expected = [number[text[i : i + 3]] for text in (each.ljust(3, "\0") for each in texts)
                for i in range(len(text) - 2)]
    assert grams.tolist() == expected and counts.tolist() == [max(1, len(text) - 2) for text in texts]


def test_the_share_of_equal_minima_estimates_jaccard_without_bias_and_within_its_standard_error():
    generator = random.Random(2)
    letters = "abcdefghijkl"  # 1,728 trigrams: of few, the same permutations would decide about all pairs alike
    lefts = [random_text(generator, letters, 25) for _ in range(3000)]
    rights = [text[: len(text) * generator.randint(1, 9) // 9] + random_text(generator, letters, 12) for text in lefts]

    def grams(text: str) -> set[str]:
        text = text.ljust(3, "\0")
        return {text[i : i + 3] for i in range(len(text) - 2)}

    true = np.array([len(grams(a) & grams(b)) / len(grams(a) | grams(b)) for a, b in zip(lefts, rights)])
    estimate = (signatures(lefts) == signatures(rights)).mean(1)
    error = estimate - true
    standard_error = np.sqrt(true * (1 - true) / PERMUTATIONS)
    assert 0.2 < true.mean() < 0.5 and true.std() > 0.15, "the pairs are of many similarities"
    assert (error[(true == 0) | (true == 1)] == 0).all()
    between = (true > 0) & (true < 1)
    within = np.abs(error[between]) <= 2 * standard_error[between]
    assert 0.93 < within.mean() < 0.98  # a normal law has 95.4% within two standard errors
    assert (error[between] / standard_error[between]).std() == pytest.approx(1, abs=0.06)
    assert abs(error.mean()) < 0.005


def test_equal_sets_share_every_band_whatever_the_bands():
    generator = random.Random(3)
    texts = [random_text(generator, "abcdef", 12) for _ in range(300)]
    signatures_TP = signatures(texts)
    for threshold in (0.01, 0.5, 0.9):
        candidates = Bands.of(signatures_TP, threshold).candidates(signatures_TP)
        assert all(place in own for place, own in enumerate(candidates))


def test_candidates_are_the_texts_that_share_a_band():
    generator = random.Random(4)
    texts = [random_text(generator, "abc", 10) for _ in range(60)]
    signatures_TP = signatures(texts)
    for threshold in (0.01, 0.5):
        bands, rows = choose_bands(threshold)
        split = signatures_TP[:, : bands * rows].reshape(len(texts), bands, rows)
        shared = (split[:, None] == split[None, :]).all(-1).any(-1)
        found = Bands.of(signatures_TP, threshold).candidates(signatures_TP)
        assert [own.tolist() for own in found] == [np.flatnonzero(row).tolist() for row in shared]


def test_a_low_threshold_means_bands_of_one_row_and_a_high_one_long_bands():
    assert choose_bands(0.01) == (PERMUTATIONS, 1)
    bands, rows = choose_bands(0.9)
    assert rows > 10 and bands * rows <= PERMUTATIONS


def test_texts_are_hashed_the_same_in_any_company():
    texts = ["Stark's Park", "ab", "x", "Balmoor", "北京市"]
    together = signatures(texts)
    assert all((signatures([text])[0] == row).all() for text, row in zip(texts, together))
    assert jaccard(together, together[3]).tolist()[3] == 1.0


def test_edit_distance_is_levenshteins():
    def reference(left: str, right: str) -> int:
        row = list(range(len(right) + 1))
        for i, a in enumerate(left, 1):
            above, row = row, [i]
            for j, b in enumerate(right, 1):
                row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
        return row[-1]

    generator = random.Random(5)
    for _ in range(300):
        left, right = (random_text(generator, "abc", 90) for _ in range(2))
        assert edit_distance(left, right) == reference(left, right)
    assert edit_distance("abc", "") == 3 and edit_similarity("", "") == 1.0
    assert edit_similarity("kitten", "sitting") == pytest.approx(1 - 3 / 7)


def test_longest_common_substrings_are_those_of_brute_force():
    def reference(left: str, right: str) -> int:
        spans = ((i, j) for i in range(len(right)) for j in range(i, len(right) + 1))
        return max(j - i for i, j in spans if right[i:j] in left)

    generator = random.Random(6)
    for _ in range(30):
        text = random_text(generator, "ab c", 40)
        others = [random_text(generator, "ab c", 20) for _ in range(12)]
        assert longest_common_substrings(text, others).tolist() == [reference(text, other) for other in others]
    assert longest_common_substrings("a\0b", ["\0", "a", "ab"]).tolist() == [0, 1, 1]
    assert longest_common_substrings("a", []).tolist() == [] and longest_common_substrings("", ["a"]).tolist() == [0]


@pytest.mark.parametrize("module", [bm25, bm25_lcs, cells, edits, minhash, ngrams, porter], ids=lambda m: m.__name__)
def test_examples_in_docstrings_are_true(module):
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0
