"""Character 3-grams of many texts at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.bench.grounding_baselines.cells import code_points

N = 3
BITS = 21  # of a Unicode code point: three of them fit in 64 bits, so that a 3-gram's number is its identity


def shingles(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The 3-grams of all texts, one text after the other, as uint64 [grams]; and how many each has [texts].

    A text shorter than three characters is one 3-gram of its own, filled with NUL.

    >>> grams_G, counts_T = shingles(["abcd", "bcd", "x"])
    >>> counts_T.tolist(), (grams_G[1] == grams_G[2]).item()
    ([2, 1, 1], True)
    """
    if not texts:
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    texts = [text.ljust(N, "\0") for text in texts]
    lengths_T = np.array([len(text) for text in texts])
    points = code_points(texts).astype(np.uint64)
    windows = points[:-2] << np.uint64(2 * BITS) | points[1:-1] << np.uint64(BITS) | points[2:]
    within = np.ones(len(points), dtype=bool)
    ends_T = np.cumsum(lengths_T)
    within[ends_T - 1] = within[ends_T - 2] = False  # windows that would reach into the next text
    return windows[within[:-2]], lengths_T - N + 1
